// Package subscriptions wires event subscriptions: what is stored of them, the notes of dead letters in each database, and the
// queues of a node that are told.
package subscriptions

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/runlot/runlot/internal/adapter/postgres/control"
	store "github.com/runlot/runlot/internal/adapter/postgres/control/subscriptions"
	"github.com/runlot/runlot/internal/adapter/postgres/deaths"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/daemon/outsiders"
	"github.com/runlot/runlot/internal/daemon/witness"
	"github.com/runlot/runlot/internal/engine/deploy"
	"github.com/runlot/runlot/internal/engine/dispatch"
	"github.com/runlot/runlot/internal/engine/subscribe"
	"github.com/runlot/runlot/internal/server/cloudflare/queues"
)

// Node is what events need of a node.
type Node interface {
	outsiders.Node
	// DatabaseURL is how a database is reached.
	DatabaseURL(ctx context.Context, database string) (string, error)
}

// New returns an engine over the records of celld and the databases of a node. close is for after its end.
func New(records *control.Store, n Node, account string, log *slog.Logger) (engine *subscribe.Engine, closeAll func()) {
	notes := &notes{node: n, open: map[string]*deaths.Store{}}
	return subscribe.New(subscribe.Options{
		Store: store.New(records.Pool()), Deaths: notes, Queues: targets{n}, Account: account,
		QueueID: func(p subscribe.Place) string { return queues.ID(p.Database, p.Queue) }, Log: log,
	}), notes.close
}

// targets implements subscribe.Queues.
type targets struct{ Node }

// Exists implements subscribe.Queues.
func (t targets) Exists(ctx context.Context, p subscribe.Place) error {
	db, err := t.Database(ctx, p.Database)
	if err == nil {
		_, err = db.Broker.PausedAt(p.Queue)
	}
	return err
}

// Gone implements subscribe.Queues.
func (t targets) Gone(ctx context.Context, p subscribe.Place) bool {
	db, err := t.Database(ctx, p.Database)
	if err != nil {
		return false
	}
	_, err = db.Broker.PausedAt(p.Queue)
	return fault.KindOf(err) == fault.NotFound
}

// Send implements subscribe.Queues.
func (t targets) Send(ctx context.Context, p subscribe.Place, drafts []queue.Draft) error {
	return outsiders.Send(ctx, t, p.Database, p.Queue, drafts)
}

// notes implements subscribe.Deaths.
type notes struct {
	node Node

	mu   sync.Mutex
	open map[string]*deaths.Store // by database; guarded by mu
}

func (n *notes) of(database string) (*deaths.Store, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s := n.open[database]; s != nil {
		return s, nil
	}
	if n.open == nil {
		return nil, errors.New("the notes of dead letters are closed")
	}
	s, err := deaths.New(context.Background(), func(ctx context.Context) (string, error) { return n.node.DatabaseURL(ctx, database) })
	if err == nil {
		n.open[database] = s
	}
	return s, err
}

func (n *notes) close() {
	n.mu.Lock()
	open := n.open
	n.open = nil
	n.mu.Unlock()
	for _, s := range open {
		s.Close()
	}
}

// Watch implements subscribe.Deaths.
func (n *notes) Watch(ctx context.Context, database string, names []string) error {
	s, err := n.of(database)
	if err != nil {
		return err
	}
	return s.Watch(ctx, names)
}

// Deaths implements subscribe.Deaths.
func (n *notes) Deaths(ctx context.Context, database string, limit int) ([]subscribe.Death, error) {
	s, err := n.of(database)
	if err != nil {
		return nil, err
	}
	return s.Deaths(ctx, limit)
}

// Forget implements subscribe.Deaths.
func (n *notes) Forget(ctx context.Context, database string, numbers []int64) error {
	s, err := n.of(database)
	if err != nil {
		return err
	}
	return s.Forget(ctx, numbers)
}

// Waker is what is told that something may have been raised.
type Waker interface{ Wake() }

// Records is a store of versions that wakes who sends the events of what it stores.
type Records struct {
	deploy.Store
	Waker
}

// AddVersion implements deploy.Store.
func (r Records) AddVersion(ctx context.Context, v *deploy.Version, keep int) error {
	defer r.Wake()
	return r.Store.AddVersion(ctx, v, keep)
}

// SetLive implements deploy.Store.
func (r Records) SetLive(ctx context.Context, d *deploy.Deployment, was string) error {
	defer r.Wake()
	return r.Store.SetLive(ctx, d, was)
}

// DeleteApp implements deploy.Store.
func (r Records) DeleteApp(ctx context.Context, name string) error {
	defer r.Wake()
	return r.Store.DeleteApp(ctx, name)
}

// AddEvent implements deploy.Store. A subscription goes with its queue, and that is looked at when one is deleted.
func (r Records) AddEvent(ctx context.Context, e *deploy.Event, keep int) error {
	if e.Kind == deploy.EventQueueDeleted {
		defer r.Wake()
	}
	return r.Store.AddEvent(ctx, e, keep)
}

// Facts are told of batches, and wake who sends the events of dead letters. Of a pulled message nobody tells.
type Facts struct {
	witness.Facts

	mu   sync.Mutex
	wake func() // nil before there is anybody; guarded by mu
}

// Tell has facts wake w from now on.
func (f *Facts) Tell(w Waker) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wake = w.Wake
}

// Batch implements witness.Facts.
func (f *Facts) Batch(database, deadLetterQueue string, r *dispatch.Record) {
	f.Facts.Batch(database, deadLetterQueue, r)
	if r.Dead == 0 {
		return
	}
	f.mu.Lock()
	wake := f.wake
	f.mu.Unlock()
	if wake != nil {
		wake()
	}
}
