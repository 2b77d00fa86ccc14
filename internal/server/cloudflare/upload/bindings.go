package upload

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/engine/deploy"
)

// The types of binding that there are here.
const (
	typeText       = "plain_text"
	typeJSON       = "json"
	typeQueue      = "queue"
	typeD1         = "d1"
	typeHyperdrive = "hyperdrive"
	typeKV         = "kv_namespace"
	typeR2         = "r2_bucket"
	typeObject     = "durable_object_namespace"
	typeSecret     = "secret_text"
	typeInherit    = "inherit"
)

// binding is one of an upload.
type binding struct {
	Type  string          `json:"type"`
	Name  string          `json:"name"`
	Text  *string         `json:"text"`
	JSON  json.RawMessage `json:"json"`
	Queue string          `json:"queue_name"`
	Delay *float64        `json:"delivery_delay"`
	ID    string          `json:"id"`
	// Namespace is of KV, Bucket of R2; Class, and Script when it is another one's, of Durable Objects.
	Namespace string `json:"namespace_id"`
	Bucket    string `json:"bucket_name"`
	Class     string `json:"class_name"`
	Script    string `json:"script_name"`
}

// Bindings are those of a version in Cloudflare's shape.
func Bindings(m *app.Manifest) []map[string]any {
	list := []map[string]any{}
	for i := range m.Producers {
		b := map[string]any{"type": typeQueue, "name": m.Producers[i].Binding, "queue_name": m.Producers[i].Queue}
		if delay := m.Producers[i].DeliveryDelay; delay != nil {
			b["delivery_delay"] = int64(*delay / time.Second)
		}
		list = append(list, b)
	}
	for i := range m.D1Databases {
		list = append(list, map[string]any{"type": typeD1, "name": m.D1Databases[i].Binding, "id": m.D1Databases[i].Identity()})
	}
	for i := range m.KVNamespaces {
		list = append(list, map[string]any{"type": typeKV, "name": m.KVNamespaces[i].Binding, "namespace_id": m.KVNamespaces[i].Namespace})
	}
	for i := range m.R2Buckets {
		list = append(list, map[string]any{"type": typeR2, "name": m.R2Buckets[i].Binding, "bucket_name": m.R2Buckets[i].Bucket})
	}
	if m.DurableObjects != nil {
		for _, b := range m.DurableObjects.Bindings {
			list = append(list, map[string]any{"type": typeObject, "name": b.Binding, "class_name": b.Class})
		}
	}
	if m.DatabaseBinding != "" {
		list = append(list, map[string]any{"type": typeHyperdrive, "name": m.DatabaseBinding, "id": m.Database})
	}
	for _, name := range slices.Sorted(maps.Keys(m.Vars)) {
		var text string
		if m.Vars[name][0] == '"' && json.Unmarshal(m.Vars[name], &text) == nil {
			list = append(list, map[string]any{"type": typeText, "name": name, "text": text})
		} else {
			list = append(list, map[string]any{"type": typeJSON, "name": name, "json": m.Vars[name]})
		}
	}
	return list
}

// SecretBindings are secrets in the same shape, without their values.
func SecretBindings(secrets []deploy.Secret) []map[string]any {
	list := make([]map[string]any, len(secrets))
	for i := range secrets {
		list[i] = map[string]any{"type": typeSecret, "name": secrets[i].Name}
	}
	return list
}

// declaration is what an upload declares, in the form of a wrangler file, so that the rules of those hold for it.
type declaration struct {
	Name       string                     `json:"name"`
	Main       string                     `json:"main"`
	Date       string                     `json:"compatibility_date,omitempty"`
	Flags      []string                   `json:"compatibility_flags,omitempty"`
	Vars       map[string]json.RawMessage `json:"vars,omitempty"`
	D1         []map[string]string        `json:"d1_databases,omitempty"`
	KV         []map[string]string        `json:"kv_namespaces,omitempty"`
	R2         []map[string]string        `json:"r2_buckets,omitempty"`
	Hyperdrive []map[string]string        `json:"hyperdrive,omitempty"`
	Queues     struct {
		Producers []map[string]any `json:"producers,omitempty"`
	} `json:"queues"`

	database string
	// secrets are those that change; nil deletes one.
	secrets map[string]*string
	objects []app.ObjectBinding
}

// declare makes a declaration of the metadata. base is the version that it comes after, nil for the first, and secrets are
// those of the script.
func declare(name string, about *metadata, base *app.Manifest, secrets []deploy.Secret) (*declaration, error) {
	if about.Assets != nil {
		return nil, missing("static assets")
	}
	d := &declaration{
		Name: name, Main: about.main(), Date: about.Date, Flags: about.Flags, Vars: map[string]json.RawMessage{}, secrets: map[string]*string{},
		database: app.DefaultDatabase,
	}
	kept := SecretBindings(secrets)
	if base != nil {
		kept = append(kept, Bindings(base)...)
		if base.Database != "" {
			d.database = base.Database
		}
	}
	given := map[string]bool{}
	for i := range about.Bindings {
		b := &about.Bindings[i]
		given[b.Name] = true
		if b.Type == typeInherit {
			if err := d.inherit(b.Name, kept); err != nil {
				return nil, err
			}
			continue
		}
		if err := d.add(b); err != nil {
			return nil, err
		}
	}
	if about.onlySecrets() {
		for i := range secrets {
			if !given[secrets[i].Name] {
				d.secrets[secrets[i].Name] = nil
			}
		}
	}
	for _, b := range kept {
		kind, _ := b["type"].(string)
		if named, _ := b["name"].(string); slices.Contains(about.Keep, kind) && !given[named] {
			if err := d.inherit(named, kept); err != nil {
				return nil, err
			}
		}
	}
	return d, nil
}

// inherit takes a binding from the version before. A secret is not of a version: it stays also without being asked to.
func (d *declaration) inherit(name string, kept []map[string]any) error {
	at := slices.IndexFunc(kept, func(b map[string]any) bool { return b["name"] == name })
	if at < 0 {
		return fault.New(fault.Invalid, "binding_unknown", "the binding %s is to stay as it is, and the script has none of the name", name)
	}
	text, err := json.Marshal(kept[at])
	if err != nil {
		return err
	}
	var b binding
	if err := json.Unmarshal(text, &b); err != nil {
		return err
	}
	return d.add(&b)
}

func (d *declaration) add(b *binding) error {
	switch b.Type {
	case typeText, typeSecret:
		if b.Text == nil {
			return nil // a secret that stays as it is
		}
		if b.Type == typeSecret {
			d.secrets[b.Name] = b.Text
			return nil
		}
		text, err := json.Marshal(*b.Text)
		if err != nil {
			return err
		}
		d.Vars[b.Name] = text
	case typeJSON:
		d.Vars[b.Name] = b.JSON
	case typeQueue:
		p := map[string]any{"binding": b.Name, "queue": strings.TrimPrefix(b.Queue, d.database+"/")}
		if b.Delay != nil {
			p["delivery_delay"] = *b.Delay
		}
		d.Queues.Producers = append(d.Queues.Producers, p)
	case typeD1:
		d.D1 = append(d.D1, map[string]string{"binding": b.Name, "database_id": b.ID})
	case typeKV:
		d.KV = append(d.KV, map[string]string{"binding": b.Name, "id": b.Namespace})
	case typeR2:
		d.R2 = append(d.R2, map[string]string{"binding": b.Name, "bucket_name": b.Bucket})
	case typeObject:
		if b.Script != "" && b.Script != d.Name {
			return missing("a class of Durable Objects of another script, which " + b.Name + " has,")
		}
		d.objects = append(d.objects, app.ObjectBinding{Binding: b.Name, Class: b.Class})
	case typeHyperdrive:
		d.database = b.ID
		d.Hyperdrive = append(d.Hyperdrive, map[string]string{"binding": b.Name, "id": b.ID})
	default:
		return missing("a binding of the type " + b.Type + ", which " + b.Name + " has,")
	}
	return nil
}

func missing(what string) error {
	return fault.New(fault.Invalid, "binding_unsupported", "%s is not in this release", what).
		WithHint("there are queues, D1, KV, R2, Durable Objects, crons, vars, secrets and one Hyperdrive binding")
}
