package rules

import (
	"strings"

	"github.com/runlot/runlot/internal/config/source"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/r2"
)

// KV reads the declarations of KV namespaces of one dialect.
type KV struct {
	// Key is the key of the namespace's identity.
	Key string
	// Keys are keys that only this dialect has; Entry reads them.
	Keys  []string
	Entry func(entry source.Value)
	// Unnamed is the identity for a binding that names none; nil says that it has to.
	Unnamed func(binding string) string
}

// Read reads the list of namespaces. An entry without a usable binding or identity is left out: it has been reported.
func (k *KV) Read(v source.Value, names Names, m *app.Manifest) {
	for _, entry := range v.Items() {
		if !entry.IsObject() {
			continue
		}
		entry.Allow(append([]string{bindingKey, k.Key}, k.Keys...)...)
		n := app.KVNamespace{Binding: names.Binding(entry, "CACHE")}
		n.Namespace, _ = entry.Get(k.Key).Text()
		if !entry.Get(k.Key).Exists() {
			if k.Unnamed == nil {
				entry.Refusef("add "+entry.Line(k.Key, `"my-cache"`), "`%s`, the namespace's name, is missing", k.Key)
			} else if n.Binding != "" {
				n.Namespace = k.Unnamed(n.Binding)
			}
		}
		if k.Entry != nil {
			k.Entry(entry)
		}
		if n.Binding != "" && n.Namespace != "" {
			m.KVNamespaces = append(m.KVNamespaces, n)
		}
	}
}

// R2 reads the declarations of R2 buckets of one dialect.
type R2 struct {
	// Key is the key of the bucket's name.
	Key string
	// Keys are keys that only this dialect has; Entry reads them.
	Keys  []string
	Entry func(entry source.Value)
	// Unnamed is the name for a binding that names no bucket; nil says that it has to.
	Unnamed func(binding string) string
}

// Read reads the list of buckets. An entry without a usable binding or name is left out: it has been reported.
func (r *R2) Read(v source.Value, names Names, m *app.Manifest) {
	for _, entry := range v.Items() {
		if !entry.IsObject() {
			continue
		}
		entry.Allow(append([]string{bindingKey, r.Key}, r.Keys...)...)
		b := app.R2Bucket{Binding: names.Binding(entry, "BUCKET")}
		name := entry.Get(r.Key)
		if text, ok := name.Text(); ok {
			if b.Bucket = text; !r2.ValidBucket(text) {
				hint := nameHint(text)
				if len(text) < 3 {
					hint = `write it like "my-` + strings.ToLower(text) + `"`
				}
				name.Refusef(hint, "%s is not a name: %s", source.Quote(text), r2.BucketRule)
			}
		}
		if !name.Exists() {
			if r.Unnamed == nil {
				entry.Refusef("add "+entry.Line(r.Key, `"my-bucket"`), "`%s`, the bucket's name, is missing", r.Key)
			} else if b.Binding != "" {
				b.Bucket = r.Unnamed(b.Binding)
			}
		}
		if r.Entry != nil {
			r.Entry(entry)
		}
		if b.Binding != "" && b.Bucket != "" {
			m.R2Buckets = append(m.R2Buckets, b)
		}
	}
}

// Provisioned is the name that wrangler gives what an app binds without naming it.
func Provisioned(appName, binding string) string {
	return appName + "-" + strings.ReplaceAll(strings.ToLower(binding), "_", "-")
}
