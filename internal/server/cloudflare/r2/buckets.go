package r2

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/core/r2"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/deploy"
	"github.com/runlot/runlot/internal/server/cloudflare/wire"
)

// Buckets are the buckets of a node. What the caller may see of a failure is a *r2.Error or a fault. What writes returns when
// the change is durable.
type Buckets interface {
	// Receive takes a body in; checksums are computed beside md5.
	Receive(bucket string, body io.Reader, checksums ...string) (r2.Body, error)
	// Put has the body from now on, whatever comes of it.
	Put(ctx context.Context, bucket string, p *r2.Put) (*r2.Info, error)
	// Open returns an object, or nil. The caller closes it.
	Open(ctx context.Context, bucket, key string) (r2.Object, error)
	Delete(ctx context.Context, bucket string, keys []string) error
	List(ctx context.Context, bucket string, q *r2.Query) (*r2.Page, error)
	// Names are the buckets that were used or made.
	Names(ctx context.Context) ([]string, error)
	// Created is when a bucket was first used or made; zero where that is not known.
	Created(ctx context.Context, bucket string) (time.Time, error)
	Make(ctx context.Context, bucket string) error
	// Drop deletes a bucket without objects.
	Drop(ctx context.Context, bucket string) error
	// Totals counts objects, and the bytes of their bodies.
	Totals(ctx context.Context, bucket string) (objects, bytes int64, err error)
	// AddRule sets the id and the time of the rule.
	Rules(ctx context.Context, bucket string) ([]r2.Rule, error)
	AddRule(ctx context.Context, bucket string, r *r2.Rule) error
	DeleteRule(ctx context.Context, bucket, id string) (bool, error)
}

// Queues finds queues by their ids, for a token that opens them.
type Queues interface {
	// Find is where the queue with an id is.
	Find(c *wire.Call, id string) (database, name string, err error)
	// ID is the id of a queue, and Shown how it is called.
	ID(database, name string) string
	Shown(c *wire.Call, database, name string) (string, error)
}

// Events keeps what was done; deploy.Store is one.
type Events interface {
	AddEvent(ctx context.Context, e *deploy.Event, keep int) error
}

// Options are what the calls stand on; all fields are required.
type Options struct {
	Buckets Buckets
	Queues  Queues
	// Running are the manifests of the versions that run.
	Running func() []*app.Manifest
	Events  Events
	Log     *slog.Logger
}

// Service answers the calls.
type Service struct{ o Options }

// objectPath is the path of an object, whose key may hold anything.
var objectPath = regexp.MustCompile(`^(` + wire.Prefix + `/accounts/[^/]+/r2/buckets/[^/]+/objects/)(.+)$`)

// Register adds the calls to a router.
func Register(r *wire.Router, o Options) *Service {
	s := &Service{o: o}
	const all = wire.Account + "/r2/buckets"
	const one = all + "/{bucket}"
	const object = one + "/objects/{key}"
	const rules = wire.Account + "/event_notifications/r2/{bucket}/configuration"
	r.Handle("GET "+all, access.Read, s.list)
	r.Handle("POST "+all, access.Deploy, s.create)
	r.Handle("GET "+one, access.Read, s.get)
	r.Handle("DELETE "+one, access.Deploy, s.remove)
	r.Handle("GET "+one+"/objects", access.Read, s.objects)
	r.OpenEnd(objectPath)
	r.Handle("GET "+object, access.Read, s.object)
	r.HandleLarge("PUT "+object, access.Deploy, queue.R2ObjectBytes+1, s.put)
	r.Handle("DELETE "+object, access.Deploy, s.deleteObject)
	r.Handle("GET "+rules, access.Read, s.rules)
	r.Handle("GET "+rules+"/queues/{queue}", access.Read, s.queueRules)
	r.Handle("PUT "+rules+"/queues/{queue}", access.Deploy, s.addRules)
	r.Handle("DELETE "+rules+"/queues/{queue}", access.Deploy, s.deleteRules)
	return s
}

// bucket is one that there is.
type bucket struct {
	name string
	// bindings are those of running versions, as APP.BINDING; app is the first of the apps.
	bindings []string
	app      string
}

// buckets are those that a token may see: those of its app, or all.
func (s *Service) buckets(ctx context.Context, t *access.Token) ([]*bucket, error) {
	var list []*bucket
	known := map[string]*bucket{}
	add := func(name string) *bucket {
		if known[name] == nil {
			known[name] = &bucket{name: name}
			list = append(list, known[name])
		}
		return known[name]
	}
	for _, m := range s.o.Running() {
		if t.App != "" && t.App != m.Name {
			continue
		}
		for i := range m.R2Buckets {
			b := add(m.R2Buckets[i].Bucket)
			b.app = cmp.Or(b.app, m.Name)
			b.bindings = append(b.bindings, m.Name+"."+m.R2Buckets[i].Binding)
		}
	}
	if t.App == "" {
		names, err := s.o.Buckets.Names(ctx)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			add(name)
		}
	}
	slices.SortFunc(list, func(a, b *bucket) int { return cmp.Compare(a.name, b.name) })
	return list, nil
}

// find finds the bucket of a call.
func (s *Service) find(c *wire.Call) (*bucket, error) {
	if err := onlyHere(c); err != nil {
		return nil, err
	}
	return s.named(c, c.PathValue("bucket"))
}

func (s *Service) named(c *wire.Call, name string) (*bucket, error) {
	list, err := s.buckets(c.Context(), c.Token)
	if err != nil {
		return nil, err
	}
	if at := slices.IndexFunc(list, func(b *bucket) bool { return b.name == name }); at >= 0 {
		return list[at], nil
	}
	return nil, fault.New(fault.NotFound, wire.CodeR2Unknown, "there is no R2 bucket %s", name).
		WithHint("create it with `wrangler r2 bucket create %s`, or deploy a script that binds it", name)
}

// onlyHere refuses what asks for another place or kind of storage than the one that there is.
func onlyHere(c *wire.Call) error {
	if where := c.Header.Get("Cf-R2-Jurisdiction"); where != "" && where != "default" {
		return refusef("there are no jurisdictions: what is stored is on this server, or in the S3 that it was given")
	}
	if class := c.Header.Get("Cf-R2-Storage-Class"); class != "" && class != storageClass {
		return refusef("there is no storage class %s: it is %s", class, storageClass)
	}
	return nil
}

// storageClass is the only one.
const storageClass = "Standard"

func (s *Service) wire(ctx context.Context, b *bucket) (map[string]any, error) {
	at, err := s.o.Buckets.Created(ctx, b.name)
	about := map[string]any{"name": b.name, "storage_class": storageClass, "jurisdiction": "default"}
	if !at.IsZero() {
		about["creation_date"] = wire.Stamp(at)
	}
	return about, err
}

// list answers with buckets by name: those that hold name_contains, behind start_after or a cursor, at most per_page.
func (s *Service) list(w http.ResponseWriter, c *wire.Call) error {
	if err := onlyHere(c); err != nil {
		return err
	}
	list, err := s.buckets(c.Context(), c.Token)
	if err != nil {
		return err
	}
	q := c.URL.Query()
	after := cmp.Or(q.Get("cursor"), q.Get("start_after"))
	if q.Get("direction") == "desc" {
		slices.Reverse(list)
	}
	behind := func(name string) bool {
		return after == "" || cmp.Compare(name, after) > 0 != (q.Get("direction") == "desc") && name != after
	}
	list = slices.DeleteFunc(list, func(b *bucket) bool { return !strings.Contains(b.name, q.Get("name_contains")) || !behind(b.name) })
	place := wire.After{}
	if n, err := strconv.Atoi(q.Get("per_page")); err == nil && n > 0 && n < len(list) {
		list = list[:n]
		place.Cursor = list[n-1].name
	}
	out := make([]map[string]any, len(list))
	for i, b := range list {
		if out[i], err = s.wire(c.Context(), b); err != nil {
			return err
		}
	}
	place.Count = len(out)
	wire.Stretch(w, map[string]any{"buckets": out}, place)
	return nil
}

func (s *Service) get(w http.ResponseWriter, c *wire.Call) error {
	b, err := s.find(c)
	if err != nil {
		return err
	}
	about, err := s.wire(c.Context(), b)
	if err == nil {
		wire.Answer(w, about)
	}
	return err
}

// create makes a bucket that no app binds yet.
func (s *Service) create(w http.ResponseWriter, c *wire.Call) error {
	in, err := wire.Body[struct {
		Name  string `json:"name"`
		Class string `json:"storageClass"`
	}](c)
	if err != nil {
		return err
	}
	if err := errors.Join(onlyHere(c), whole(c)); err != nil {
		return err
	}
	if in.Class != "" && in.Class != storageClass {
		return refusef("there is no storage class %s: it is %s", in.Class, storageClass)
	}
	if !r2.ValidBucket(in.Name) {
		return fault.New(fault.Invalid, wire.CodeR2Name, "%q is no name of a bucket: %s", in.Name, r2.BucketRule)
	}
	if _, err := s.named(c, in.Name); err == nil {
		return fault.New(fault.Conflict, wire.CodeR2Exists, "there is an R2 bucket %s already", in.Name).WithHint("`wrangler r2 bucket list` lists them")
	}
	if err := s.o.Buckets.Make(wire.Finished(c), in.Name); err != nil {
		return failed(err)
	}
	b := &bucket{name: in.Name}
	s.note(c, "r2.created", b)
	about, err := s.wire(c.Context(), b)
	if err == nil {
		wire.Answer(w, about)
	}
	return err
}

// remove deletes a bucket that has no objects and that no running version binds: it would come back with the next write.
func (s *Service) remove(w http.ResponseWriter, c *wire.Call) error {
	b, err := s.find(c)
	if err != nil {
		return err
	}
	if err := whole(c); err != nil {
		return err
	}
	if len(b.bindings) > 0 {
		return fault.New(fault.Conflict, "r2_bound", "the R2 bucket %s is bound by %s", b.name, b.bindings[0]).
			WithHint("deploy the script without the binding first")
	}
	if err := s.o.Buckets.Drop(wire.Finished(c), b.name); err != nil {
		return failed(err)
	}
	s.note(c, "r2.deleted", b)
	wire.Answer(w, struct{}{})
	return nil
}

// Totals counts what is in a bucket, for a token that may see it.
func (s *Service) Totals(c *wire.Call, name string) (objects, bytes int64, err error) {
	b, err := s.named(c, name)
	if err != nil {
		return 0, 0, err
	}
	objects, bytes, err = s.o.Buckets.Totals(c.Context(), b.name)
	return objects, bytes, failed(err)
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
func (s *Service) note(c *wire.Call, kind string, b *bucket) {
	e := &deploy.Event{At: time.Now().UTC().Truncate(time.Microsecond), Kind: kind, App: b.app, Author: c.Token.Name, Detail: map[string]string{"name": b.name}}
	if err := s.o.Events.AddEvent(wire.Finished(c), e, queue.KeptEvents); err != nil {
		s.o.Log.Error("an event was not recorded", "kind", kind, "bucket", b.name, "error", fault.Detail(err))
	}
}

func refusef(format string, args ...any) error {
	return fault.New(fault.Invalid, "r2_refused", format, args...)
}

// failed says what a caller may see of an error.
func failed(err error) error {
	e, ok := errors.AsType[*r2.Error](err)
	if !ok {
		return err
	}
	kind := fault.Invalid
	switch {
	case e.Status == http.StatusNotFound:
		kind = fault.NotFound
	case e.Status >= http.StatusInternalServerError:
		kind = fault.Unavailable
	}
	return fault.New(kind, strconv.Itoa(e.Code), "%s", e.Text).WithCause(err)
}
