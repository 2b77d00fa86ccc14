package kv

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/sync/semaphore"

	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/kv"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/deploy"
	"github.com/runlot/runlot/internal/server/cloudflare/wire"
)

// Namespaces are the KV namespaces of a node, by identity. What the caller may see of a failure is a *kv.Error or kv.ErrFull.
// What writes returns when the change is on the disk.
type Namespaces interface {
	// Get returns the entry of a key, or nil. A value of more than most bytes is left out; its size is returned.
	Get(ctx context.Context, identity, key string, most int) (entry *kv.Entry, size int, err error)
	// GetMany returns the entries of those keys that are there; values of more than most bytes together are refused.
	GetMany(ctx context.Context, identity string, keys []string, most int) (map[string]*kv.Entry, error)
	// PutMany and DeleteMany change all or nothing.
	PutMany(ctx context.Context, identity string, entries []*kv.Entry) error
	DeleteMany(ctx context.Context, identity string, keys []string) error
	List(ctx context.Context, identity string, q kv.Query) (*kv.Page, error)
	// Identities are those of the namespaces that were used, as far as their files tell.
	Identities() ([]string, error)
	// Title is the title that a namespace was given; "" for none. SetTitle gives one, and makes the namespace.
	Title(ctx context.Context, identity string) (string, error)
	SetTitle(ctx context.Context, identity, title string) error
	// Drop deletes a namespace with its keys.
	Drop(ctx context.Context, identity string) error
}

// Events keeps what was done; deploy.Store is one.
type Events interface {
	AddEvent(ctx context.Context, e *deploy.Event, keep int) error
}

// Options are what the calls stand on; all fields are required.
type Options struct {
	Namespaces Namespaces
	// Running are the manifests of the versions that run.
	Running func() []*app.Manifest
	Events  Events
	Log     *slog.Logger
}

type service struct {
	o Options
	// room bounds the bytes of values in memory.
	room *semaphore.Weighted
	// titling is held while a title is given, so that no two namespaces get the same.
	titling sync.Mutex
}

// Register adds the calls to a router.
func Register(r *wire.Router, o Options) {
	s := &service{o: o, room: semaphore.NewWeighted(queue.KVOperatorBytes)}
	const all = wire.Account + "/storage/kv/namespaces"
	const one = all + "/{namespace}"
	r.Handle("GET "+all, access.Read, s.list)
	r.Handle("POST "+all, access.Deploy, s.create)
	r.Handle("GET "+one, access.Read, s.get)
	r.Handle("PUT "+one, access.Deploy, s.rename)
	r.Handle("DELETE "+one, access.Deploy, s.remove)
	r.Handle("GET "+one+"/keys", access.Read, s.keys)
	r.Handle("GET "+one+"/values/{key}", access.Read, s.value)
	r.HandleLarge("PUT "+one+"/values/{key}", access.Deploy, queue.KVValueBytes+queue.MaxAPIBody, s.put)
	r.Handle("DELETE "+one+"/values/{key}", access.Deploy, s.deleteKey)
	r.Handle("GET "+one+"/metadata/{key}", access.Read, s.metadata)
	r.HandleLarge("PUT "+one+"/bulk", access.Deploy, queue.KVBulkWriteBytes, s.putMany)
	r.HandleLarge("DELETE "+one+"/bulk", access.Deploy, queue.KVBulkWriteBytes, s.deleteMany)
	r.HandleLarge("POST "+one+"/bulk/delete", access.Deploy, queue.KVBulkWriteBytes, s.deleteMany)
	r.Handle("POST "+one+"/bulk/get", access.Read, s.getMany)
}

// namespace is one that there is.
type namespace struct {
	identity, title string
	// bindings are those of running versions, as APP.BINDING; app is the first of the apps.
	bindings []string
	app      string
}

func (n *namespace) wire() map[string]any {
	return map[string]any{"id": n.identity, "title": n.title, "supports_url_encoding": true}
}

// namespaces are those that a token may see: those of its app, or all. Without a title, a namespace is called by its id.
func (s *service) namespaces(ctx context.Context, t *access.Token) ([]*namespace, error) {
	var list []*namespace
	known := map[string]*namespace{}
	add := func(identity string) *namespace {
		if known[identity] == nil {
			known[identity] = &namespace{identity: identity}
			list = append(list, known[identity])
		}
		return known[identity]
	}
	for _, m := range s.o.Running() {
		if t.App != "" && t.App != m.Name {
			continue
		}
		for i := range m.KVNamespaces {
			n := add(m.KVNamespaces[i].Namespace)
			n.app = cmp.Or(n.app, m.Name)
			n.bindings = append(n.bindings, m.Name+"."+m.KVNamespaces[i].Binding)
		}
	}
	if t.App == "" {
		others, err := s.o.Namespaces.Identities()
		if err != nil {
			return nil, err
		}
		for _, identity := range others {
			add(identity)
		}
	}
	for _, n := range list {
		title, err := s.o.Namespaces.Title(ctx, n.identity)
		if err != nil {
			return nil, err
		}
		n.title = cmp.Or(title, n.identity)
	}
	slices.SortFunc(list, func(a, b *namespace) int {
		return cmp.Or(cmp.Compare(a.title, b.title), cmp.Compare(a.identity, b.identity))
	})
	return list, nil
}

// find finds the namespace of a call.
func (s *service) find(c *wire.Call) (*namespace, error) {
	list, err := s.namespaces(c.Context(), c.Token)
	if err != nil {
		return nil, err
	}
	given := c.PathValue("namespace")
	if at := slices.IndexFunc(list, func(n *namespace) bool { return n.identity == given }); at >= 0 {
		return list[at], nil
	}
	return nil, fault.New(fault.NotFound, wire.CodeKVUnknown, "there is no KV namespace with the id %s", given).
		WithHint("`wrangler kv namespace list` lists them")
}

func (s *service) list(w http.ResponseWriter, c *wire.Call) error {
	list, err := s.namespaces(c.Context(), c.Token)
	if err != nil {
		return err
	}
	q := c.URL.Query()
	if q.Get("order") == "id" {
		slices.SortFunc(list, func(a, b *namespace) int { return cmp.Compare(a.identity, b.identity) })
	}
	if q.Get("direction") == "desc" {
		slices.Reverse(list)
	}
	out := make([]map[string]any, len(list))
	for i := range list {
		out[i] = list[i].wire()
	}
	wire.List(w, c, out)
	return nil
}

func (s *service) get(w http.ResponseWriter, c *wire.Call) error {
	n, err := s.find(c)
	if err == nil {
		wire.Answer(w, n.wire())
	}
	return err
}

// create makes a namespace that no app binds yet.
func (s *service) create(w http.ResponseWriter, c *wire.Call) error {
	n := &namespace{}
	var id [16]byte
	_, _ = rand.Read(id[:]) // it never fails
	n.identity = hex.EncodeToString(id[:])
	if err := s.name(c, n); err != nil {
		return err
	}
	s.note(c, "kv.created", n)
	wire.Answer(w, n.wire())
	return nil
}

func (s *service) rename(w http.ResponseWriter, c *wire.Call) error {
	n, err := s.find(c)
	if err != nil {
		return err
	}
	if err := s.name(c, n); err != nil {
		return err
	}
	s.note(c, "kv.renamed", n)
	wire.Answer(w, n.wire())
	return nil
}

// name gives a namespace the title that a call names, which no other has.
func (s *service) name(c *wire.Call, n *namespace) error {
	in, err := wire.Body[struct{ Title string }](c)
	if err != nil {
		return err
	}
	if err := whole(c); err != nil {
		return err
	}
	if in.Title == "" || len(in.Title) > queue.KVTitleBytes || !utf8.ValidString(in.Title) {
		return refusef("the title of a KV namespace has 1 to %d bytes of UTF-8", queue.KVTitleBytes)
	}
	s.titling.Lock()
	defer s.titling.Unlock()
	list, err := s.namespaces(c.Context(), c.Token)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(list, func(o *namespace) bool {
		return o.identity != n.identity && (o.title == in.Title || o.identity == in.Title)
	}) {
		return fault.New(fault.Conflict, wire.CodeKVExists, "there is a KV namespace with the title %q already", in.Title).
			WithHint("`wrangler kv namespace list` lists them")
	}
	n.title = in.Title
	return failed(s.o.Namespaces.SetTitle(wire.Finished(c), n.identity, in.Title))
}

// remove deletes a namespace that no running version binds: it would come back with the next write.
func (s *service) remove(w http.ResponseWriter, c *wire.Call) error {
	n, err := s.find(c)
	if err != nil {
		return err
	}
	if err := whole(c); err != nil {
		return err
	}
	if len(n.bindings) > 0 {
		return fault.New(fault.Conflict, "kv_bound", "the KV namespace %s is bound by %s", n.title, n.bindings[0]).
			WithHint("deploy the script without the binding first")
	}
	if err := s.o.Namespaces.Drop(wire.Finished(c), n.identity); err != nil {
		return failed(err)
	}
	s.note(c, "kv.deleted", n)
	wire.Answer(w, nil)
	return nil
}

// whole refuses a token that is for one app.
func whole(c *wire.Call) error {
	if c.Token.App == "" {
		return nil
	}
	return fault.New(fault.Invalid, access.CodeForbidden, "the token %q is for the app %s only", c.Token.Name, c.Token.App).
		WithHint("use a token for the whole instance")
}

// note records what was done.
func (s *service) note(c *wire.Call, kind string, n *namespace) {
	e := &deploy.Event{
		At: time.Now().UTC().Truncate(time.Microsecond), Kind: kind, App: n.app, Author: c.Token.Name,
		Detail: map[string]string{"name": n.title, "id": n.identity},
	}
	if err := s.o.Events.AddEvent(wire.Finished(c), e, queue.KeptEvents); err != nil {
		s.o.Log.Error("an event was not recorded", "kind", kind, "namespace", n.identity, "error", fault.Detail(err))
	}
}

func refusef(format string, args ...any) error {
	return fault.New(fault.Invalid, "kv_refused", format, args...)
}

// failed says what a caller may see of an error.
func failed(err error) error {
	if e, ok := errors.AsType[*kv.Error](err); ok {
		return fault.New(fault.Invalid, "kv_refused", "%s", e.Text).WithCause(err)
	}
	if errors.Is(err, kv.ErrFull) {
		return fault.New(fault.Unavailable, "disk_full", "the disk of the server is full").WithCause(err)
	}
	return err
}
