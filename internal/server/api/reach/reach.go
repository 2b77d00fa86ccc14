// Package reach finds the queues that a call is about, for tokens that may reach them, and records what was done to them.
package reach

import (
	"context"
	"log/slog"

	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/broker"
	"github.com/runlot/runlot/internal/engine/broker/store"
	"github.com/runlot/runlot/internal/engine/deploy"
	"github.com/runlot/runlot/internal/engine/ledger"
	"github.com/runlot/runlot/internal/engine/series"
	"github.com/runlot/runlot/internal/server/api/endpoint"
)

// Queues is what the API asks of the queues.
type Queues interface {
	// Databases are the names of the databases in use, in order.
	Databases() []string
	// Database is what serves a database now. Faults: NotFound (queue.CodeQueueNotFound), Unavailable.
	Database(ctx context.Context, name string) (Database, error)
	// Series are the numbers of the queues of a database, also while nothing serves it; nil for a database that no app uses.
	Series(database string) *series.Recorder
	// Manifests are those of the versions that run, by name of the app.
	Manifests() []*app.Manifest
}

// Remover deletes queues.
type Remover interface {
	// RemoveQueue deletes a queue that nobody uses, with all that it holds, and returns what that was. Faults: NotFound
	// (queue.CodeQueueNotFound); Conflict, naming who uses it; Unavailable.
	RemoveQueue(ctx context.Context, database, queueName string) (store.Count, error)
}

// Database is the queues of a database and the records of their batches.
type Database struct {
	Broker  *broker.Broker
	Records *ledger.Ledger
}

// Events keeps what was done.
type Events interface {
	AddEvent(ctx context.Context, e *deploy.Event, keep int) error
}

// Path is the input of a call about one queue.
type Path struct {
	Database string `path:"database" maxLength:"63"`
	Queue    string `path:"queue" maxLength:"63"`
}

// Reach is the way of calls to queues.
type Reach struct {
	Queues  Queues
	Remover Remover
	// Events is nil where no events are kept.
	Events Events
	Log    *slog.Logger
}

// Open returns the database of a queue, if the caller's token opens the queue.
func (r *Reach) Open(ctx context.Context, p *Path) (Database, error) {
	if !r.Opens(endpoint.Caller(ctx), p.Database, p.Queue) {
		return Database{}, Forbidden(ctx, "the queue "+p.Queue+" of database "+p.Database)
	}
	return r.Queues.Database(ctx, p.Database)
}

// Opens reports whether a token opens a queue: one for one app opens those that the app's live version names.
func (r *Reach) Opens(t *access.Token, database, queueName string) bool {
	return t.Opens(r.Queues.Manifests(), database, queueName)
}

// Forbidden is the fault of a call whose token is for an app that does not name what it is about.
func Forbidden(ctx context.Context, what string) error {
	t := endpoint.Caller(ctx)
	return fault.New(fault.Invalid, access.CodeForbidden, "the token %q is for the app %s, whose live version does not name %s", t.Name, t.App, what).
		WithHint("use another token, or ask an admin for one")
}

// Changed records what was done to a queue. It belongs to the app that the token is for, or else to the one that drains
// the queue or leaves its dead letters there.
func (r *Reach) Changed(ctx context.Context, p *Path, kind string, detail map[string]string) {
	r.Record(ctx, endpoint.Author(ctx), endpoint.Caller(ctx).App, p, kind, detail)
}

// Record is Changed for an author, with a token for an app or, for "", for all.
func (r *Reach) Record(ctx context.Context, author, appName string, p *Path, kind string, detail map[string]string) {
	if r.Events == nil {
		return
	}
	e := deploy.QueueEvent(kind, appName, author, p.Database, p.Queue, detail, r.Queues.Manifests())
	if err := r.Events.AddEvent(context.WithoutCancel(ctx), e, queue.KeptEvents); err != nil {
		r.Log.Error("an event was not recorded", "kind", kind, "queue", p.Queue, "error", fault.Detail(err))
	}
}

// OpenQueue is Open for a queue that has to exist.
func (r *Reach) OpenQueue(ctx context.Context, p *Path) (Database, error) {
	db, err := r.Open(ctx, p)
	if err == nil {
		_, err = db.Broker.PausedAt(p.Queue)
	}
	return db, err
}
