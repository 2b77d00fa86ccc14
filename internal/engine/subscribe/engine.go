package subscribe

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

// Options are what an Engine is made of; all fields are required.
type Options struct {
	Store  Store
	Deaths Deaths
	Queues Queues
	// Account is the id of the one account, QueueID that of a queue, as Cloudflare's API here gives them.
	Account string
	QueueID func(Place) string
	Log     *slog.Logger
}

// Engine keeps subscriptions and sends their events. Its methods may be called from several goroutines.
type Engine struct {
	o    Options
	wake chan struct{}
	stop context.CancelFunc
	done sync.WaitGroup

	// changing is full while a subscription is being changed, so that what is watched follows what is stored.
	changing chan struct{}

	mu      sync.Mutex
	watched map[string]bool // the databases that were told to watch queues by this engine; guarded by mu
	looked  bool            // the databases in use were looked at once; guarded by mu
}

// New returns an engine that sends nothing yet.
func New(o Options) *Engine {
	return &Engine{o: o, wake: make(chan struct{}, 1), changing: make(chan struct{}, 1), watched: map[string]bool{}}
}

// Start sends what waits, and what is raised from now on, until Stop.
func (e *Engine) Start() {
	ctx, stop := context.WithCancel(context.Background())
	e.stop = stop
	e.done.Go(func() { e.run(ctx) })
	e.Wake()
}

// Stop ends the sending, in the middle of what it does. What was not sent is sent after the next start. Twice is fine.
func (e *Engine) Stop() {
	if e.stop != nil {
		e.stop()
	}
	e.done.Wait()
}

// Wake says that something may have been raised. It never waits.
func (e *Engine) Wake() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// List returns all subscriptions, in the order in which they were made.
func (e *Engine) List(ctx context.Context) ([]Subscription, error) {
	return e.o.Store.Subscriptions(ctx)
}

// Get returns one. Fault: NotFound (CodeUnknown).
func (e *Engine) Get(ctx context.Context, id string) (*Subscription, error) {
	all, err := e.List(ctx)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].ID == id {
			return &all[i], nil
		}
	}
	return nil, Unknown(id)
}

// Create stores a subscription and fills in its ID and its times. Without a name it has that of its queue and its source. What
// happens from now on is told. Faults: Invalid, NotFound (queue.CodeQueueNotFound), Limit (CodeCount), Unavailable.
func (e *Engine) Create(ctx context.Context, s *Subscription) error {
	if s.Name == "" {
		s.Name = s.Target.Queue + " " + s.Source.Type
	}
	s.Created = time.Now().UTC().Truncate(time.Microsecond)
	s.Modified = s.Created
	return e.change(ctx, s, func() error { return e.o.Store.AddSubscription(ctx, s, queue.Subscriptions) })
}

// Update replaces the name, the events, the queue and whether it is enabled. While it is not, nothing is kept for it, but for
// what waits already. Faults: those of Create, and CodeUnknown.
func (e *Engine) Update(ctx context.Context, s *Subscription) error {
	s.Modified = time.Now().UTC().Truncate(time.Microsecond)
	return e.change(ctx, s, func() error { return e.o.Store.ChangeSubscription(ctx, s) })
}

// Delete forgets a subscription, with what was to be sent. Fault: NotFound (CodeUnknown).
func (e *Engine) Delete(ctx context.Context, id string) error {
	done, err := e.turn(ctx)
	if err != nil {
		return err
	}
	defer done()
	if err := e.o.Store.DeleteSubscription(ctx, id); err != nil {
		return err
	}
	e.Wake() // what nobody asks about any more is not watched any more
	return nil
}

func (e *Engine) change(ctx context.Context, s *Subscription, store func() error) error {
	s.Events = slices.Compact(slices.Sorted(slices.Values(s.Events)))
	if err := s.check(); err != nil {
		return err
	}
	if err := e.o.Queues.Exists(ctx, s.Target); err != nil {
		return err
	}
	done, err := e.turn(ctx)
	if err != nil {
		return err
	}
	defer done()
	if s.Enabled && s.Source.Type == Letters {
		if err := e.o.Queues.Exists(ctx, s.Source.Queue); err != nil {
			return err
		}
		// Before it is stored: what dies behind the answer leaves a note.
		all, err := e.List(ctx)
		if err != nil {
			return err
		}
		if err := e.watch(ctx, s.Source.Queue.Database, append(all, *s)); err != nil {
			return err
		}
	}
	if err := store(); err != nil {
		return err
	}
	e.Wake()
	return nil
}

// turn waits until no other subscription is being changed.
func (e *Engine) turn(ctx context.Context) (done func(), err error) {
	select {
	case e.changing <- struct{}{}:
		return func() { <-e.changing }, nil
	case <-ctx.Done():
		return nil, fault.New(fault.Unavailable, queue.CodeOverloaded, "another subscription is being changed").WithCause(ctx.Err())
	}
}

// sources are the queues of a database whose dead letters somebody asks for, each once.
func sources(database string, all []Subscription) []string {
	names := []string{}
	for i := range all {
		if s := &all[i]; s.Enabled && s.Source.Type == Letters && s.Source.Queue.Database == database {
			names = append(names, s.Source.Queue.Queue)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// watch has a database note what the subscriptions ask for. The caller has the turn.
func (e *Engine) watch(ctx context.Context, database string, all []Subscription) error {
	names := sources(database, all)
	if err := e.o.Deaths.Watch(ctx, database, names); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.watched[database] = len(names) > 0
	return nil
}
