// Package r2 wires the R2 buckets of a node: their files in the state folder, or an S3 store, the door through which workers
// reach them, and the queues that are told of what happens in them.
package r2

import (
	"context"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"time"

	"github.com/runlot/runlot/internal/adapter/s3"
	"github.com/runlot/runlot/internal/adapter/sqlite/r2"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	core "github.com/runlot/runlot/internal/core/r2"
	server "github.com/runlot/runlot/internal/server/r2"
)

// Folder is the folder of the buckets in the state folder.
const Folder = "r2"

// scratch is the folder below it for bodies on their way to an S3 store.
const scratch = "bodies"

// Buckets are the R2 buckets of a node. Their rules, and the events that wait, are in the state folder in any case.
type Buckets struct {
	server.Buckets
	files  *r2.Buckets
	store  *s3.Buckets // nil where objects are in the state folder too
	door   *server.Door
	teller *teller
}

// New returns the buckets in a state folder, or with their objects in an S3 store unless that is nil. Nothing is made before the
// first use. send takes the events that rules ask for; log takes what workers must not see.
func New(state string, at *Store, send Send, log *slog.Logger) *Buckets {
	t := newTeller(send, log)
	t.buckets = r2.New(filepath.Join(state, Folder), func(string) { t.Wake() }, log)
	b := &Buckets{Buckets: t.buckets, files: t.buckets, teller: t}
	if at != nil {
		store, err := s3.New(s3.Options{
			Place: at.place, Credentials: at.keys, Scratch: filepath.Join(state, Folder, scratch), Journal: t.buckets, Doubtful: t.Wake, Log: log,
		})
		if err != nil {
			panic("r2: an address that was read is one: " + err.Error())
		}
		b.Buckets, b.store, t.store = store, store, store
	}
	b.door = server.NewDoor(b.Buckets, log)
	return b
}

// Check finds out whether the buckets can be used. A store that does not answer is only logged: it may come back.
func (b *Buckets) Check(ctx context.Context, log *slog.Logger) error {
	if b.store == nil {
		return nil
	}
	err := b.store.Check(ctx)
	if fault.KindOf(err) == fault.Unavailable {
		log.Warn("R2 buckets cannot be used for now", "error", fault.Detail(err))
		return nil
	}
	return err
}

// Tell sends what an earlier process left to be sent. It does not wait for that.
func (b *Buckets) Tell() { b.teller.Wake() }

// Close ends the sending of events and closes every bucket. Twice is fine.
func (b *Buckets) Close() {
	b.teller.Close()
	b.files.Close()
	if b.store != nil {
		b.store.Close()
	}
}

// Names are the buckets that were used or made.
func (b *Buckets) Names(ctx context.Context) ([]string, error) {
	names, err := b.files.Names()
	if err != nil || b.store == nil {
		return names, err
	}
	more, err := b.store.Names(ctx)
	names = append(names, more...)
	slices.Sort(names)
	return slices.Compact(names), err
}

// Created is when a bucket was first used or made on this node; zero where that is not known.
func (b *Buckets) Created(ctx context.Context, bucket string) (time.Time, error) {
	return b.files.Created(ctx, bucket)
}

// Make makes a bucket; one that is there stays as it is.
func (b *Buckets) Make(ctx context.Context, bucket string) error { return b.files.Make(ctx, bucket) }

// Totals counts the objects of a bucket and the bytes of their bodies.
func (b *Buckets) Totals(ctx context.Context, bucket string) (objects, bytes int64, err error) {
	if b.store != nil {
		return b.store.Totals(ctx, bucket)
	}
	return b.files.Totals(ctx, bucket)
}

// Drop deletes a bucket without objects, whose events have all been told.
func (b *Buckets) Drop(ctx context.Context, bucket string) error {
	if b.store != nil {
		page, err := b.store.List(ctx, bucket, &core.Query{Limit: 1})
		if err != nil {
			return err
		}
		if len(page.Objects) > 0 {
			return core.NotEmpty()
		}
	}
	return b.files.Drop(ctx, bucket)
}

// Rules are those of a bucket.
func (b *Buckets) Rules(ctx context.Context, bucket string) ([]Rule, error) {
	return b.files.Rules(ctx, bucket)
}

// AddRule adds a rule, and gives it an id and the time.
func (b *Buckets) AddRule(ctx context.Context, bucket string, r *Rule) error {
	return b.files.AddRule(ctx, bucket, r)
}

// DeleteRule deletes a rule and reports whether it was there.
func (b *Buckets) DeleteRule(ctx context.Context, bucket, id string) (bool, error) {
	return b.files.DeleteRule(ctx, bucket, id)
}

// Handler returns what serves a worker process's calls: those of its R2 bindings itself, all others through next, which may
// be nil.
func (b *Buckets) Handler(m *app.Manifest, next http.Handler) http.Handler {
	if len(m.R2Buckets) == 0 {
		return next
	}
	if next == nil {
		next = http.NotFoundHandler()
	}
	own := b.door.Handler(m)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(server.Header) != "" {
			own.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}
