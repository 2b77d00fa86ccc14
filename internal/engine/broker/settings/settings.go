// Package settings keeps what an operator and a consumer say of a queue as a whole: whether it is delivered, how long its
// messages stay, and how long they wait before their first delivery. A setting is written before it takes effect.
package settings

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/backlog"
	"github.com/runlot/runlot/internal/engine/broker/pace"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// Owner is the broker whose queues they are.
type Owner interface {
	// LockSettles waits until no settlement is between the store and the lanes, and keeps others away until unlock. It fails
	// when ctx ends and when the broker does not run.
	LockSettles(ctx context.Context) (unlock func(), err error)
	// Work ends with the broker, and Over is why nothing more can be written after an error; nil while it can.
	Work() context.Context
	Over(err error) error
}

// Options are what a Keeper is made of. Every field is required.
type Options struct {
	Owner Owner
	Store store.Store
	Book  *backlog.Book
}

// Keeper changes and tells the settings of the queues of one broker. Its methods may be called from several goroutines. All
// of them fail with kind NotFound (queue.CodeQueueNotFound) for a queue that does not exist, and those that change
// something with kind Unavailable while the broker does not run.
type Keeper struct{ o Options }

// New makes a keeper.
func New(o Options) *Keeper { return &Keeper{o} }

// Settings are those of one queue.
type Settings struct {
	Name    string
	Created time.Time
	// PausedAt is since when the queue is paused; zero when it is not.
	PausedAt time.Time
	// Retention is how long messages stay unsettled; Overridden says that an operator set it.
	Retention  time.Duration
	Overridden bool
	// DeliveryDelay is the delay of messages that are sent without one.
	DeliveryDelay time.Duration
	// Pull is the consumer over HTTP that an operator gave the queue; nil when none did.
	Pull *Pull
	// Purging says that what a purge took is still being deleted.
	Purging bool
}

// Settings returns those of a queue. It reads nothing from the database.
func (k *Keeper) Settings(queueName string) (Settings, error) {
	q, err := k.o.Book.Named(queueName)
	if err != nil {
		return Settings{}, err
	}
	kept := q.Settings()
	s := Settings{
		Name: q.Name, Created: q.Created, Retention: q.Retention(), Overridden: kept.RetentionOverride > 0,
		DeliveryDelay: time.Duration(kept.DeliveryDelay) * time.Millisecond, Purging: kept.PurgedBelow > 0,
	}
	if kept.PausedAt > 0 {
		s.PausedAt = time.UnixMilli(kept.PausedAt)
	}
	if kept.Pull.Since > 0 {
		s.Pull = &Pull{
			Since: time.UnixMilli(kept.Pull.Since), BatchSize: kept.Pull.BatchSize, MaxRetries: kept.Pull.MaxRetries,
			Visibility: time.Duration(kept.Pull.Visibility) * time.Millisecond, RetryDelay: time.Duration(kept.Pull.RetryDelay) * time.Millisecond,
			DeadLetterQueue: kept.Pull.DeadLetterQueue,
		}
	}
	return s, nil
}

// Pull is a consumer over HTTP.
type Pull struct {
	// Since is when it was made; SetPull gives it.
	Since time.Time
	// BatchSize and Visibility are for calls that name none.
	BatchSize  int
	Visibility time.Duration
	// MaxRetries and RetryDelay are those of queue.Consumer, and so is DeadLetterQueue.
	MaxRetries      int
	RetryDelay      time.Duration
	DeadLetterQueue string
}

// SetPull gives a queue a consumer over HTTP, in place of the one that it has, or takes that away: nil. The caller has
// checked the values.
func (k *Keeper) SetPull(ctx context.Context, queueName string, p *Pull) error {
	return k.configure(ctx, queueName, func(s *store.Settings) {
		if p == nil {
			s.Pull = store.Pull{}
			return
		}
		s.Pull = store.Pull{
			Since: cmp.Or(s.Pull.Since, time.Now().UnixMilli()), BatchSize: p.BatchSize, MaxRetries: p.MaxRetries,
			Visibility: p.Visibility.Milliseconds(), RetryDelay: p.RetryDelay.Milliseconds(), DeadLetterQueue: p.DeadLetterQueue,
		}
	})
}

// PausedAt is since when a queue is paused; zero when it is not.
func (k *Keeper) PausedAt(queueName string) (time.Time, error) {
	s, err := k.Settings(queueName)
	return s.PausedAt, err
}

// Change is what changes of the settings of a queue; nil leaves a setting as it is.
type Change struct {
	Paused *bool
	// Retention and DeliveryDelay are described at OverrideRetention and at Settings.
	Retention     *time.Duration
	DeliveryDelay *time.Duration
}

// Change changes settings of a queue, all in one write or none. Fault: Invalid (queue.CodeMetadataInvalid) for what is
// outside the ranges of core/queue.
func (k *Keeper) Change(ctx context.Context, queueName string, c Change) error {
	if r := c.Retention; r != nil && *r != 0 && (*r < queue.MinRetention || *r > queue.MaxRetention) {
		return fault.New(fault.Invalid, queue.CodeMetadataInvalid, "a retention of %s is outside %s to %s", *r, queue.MinRetention, queue.MaxRetention)
	}
	if d := c.DeliveryDelay; d != nil && (*d < 0 || *d > queue.MaxDelay) {
		return fault.New(fault.Invalid, queue.CodeMetadataInvalid, "a delivery delay of %s is outside 0 to %s", *d, queue.MaxDelay)
	}
	return k.configure(ctx, queueName, func(s *store.Settings) {
		if c.Paused != nil && *c.Paused {
			s.PausedAt = cmp.Or(s.PausedAt, time.Now().UnixMilli())
		} else if c.Paused != nil {
			s.PausedAt = 0
		}
		if c.Retention != nil {
			s.RetentionOverride = c.Retention.Milliseconds()
		}
		if c.DeliveryDelay != nil {
			s.DeliveryDelay = c.DeliveryDelay.Milliseconds()
		}
	})
}

// Pause stops the delivery of a queue, from its commit on and for every later owner, until Resume: no lane gives a batch of
// it. What is in flight is finished and settled, and sends are accepted. It works for a queue without a consumer, and
// again for a paused one.
func (k *Keeper) Pause(ctx context.Context, queueName string) error {
	return k.Change(ctx, queueName, Change{Paused: new(true)})
}

// Resume takes a Pause back.
func (k *Keeper) Resume(ctx context.Context, queueName string) error {
	return k.Change(ctx, queueName, Change{Paused: new(false)})
}

// SetRetention sets how long messages of a queue are kept unsettled, as its consumer declares it, brought into the range of
// core/queue. Until it is called for the first time, a queue keeps them for the default; from then on also without its
// consumer.
func (k *Keeper) SetRetention(ctx context.Context, queueName string, retention time.Duration) error {
	milli := min(max(retention, queue.MinRetention), queue.MaxRetention).Milliseconds()
	if milli == queue.DefaultRetention.Milliseconds() {
		milli = 0 // what a queue has that was never told: nothing to write for most queues at every start
	}
	return k.configure(ctx, queueName, func(s *store.Settings) { s.Retention = milli })
}

// OverrideRetention sets how long messages of a queue are kept unsettled, whatever its consumer declares, for messages that
// wait already too; 0 gives the consumer its say again. Fault: Invalid for what is outside the range of core/queue.
func (k *Keeper) OverrideRetention(ctx context.Context, queueName string, retention time.Duration) error {
	return k.Change(ctx, queueName, Change{Retention: &retention})
}

// configure changes the settings of a queue, if the change is one. They are written before they take effect.
func (k *Keeper) configure(ctx context.Context, queueName string, change func(s *store.Settings)) error {
	q, err := k.o.Book.Named(queueName)
	if err != nil {
		return err
	}
	unlock, err := k.o.Owner.LockSettles(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := q.Gone(); err != nil {
		return err
	}
	settings := q.Settings()
	change(&settings)
	if settings == q.Settings() {
		return nil
	}
	if err := k.write(q, settings); err != nil {
		return err
	}
	q.Configured(&settings)
	return nil
}

// StorePurge writes the Seq below which every message of a queue was purged; 0 is none. The lock of the settlements is
// held, and whoever holds it tells the queue.
func (k *Keeper) StorePurge(q *backlog.Queue, below int64) error {
	settings := q.Settings()
	settings.PurgedBelow = below
	return k.write(q, settings)
}

func (k *Keeper) write(q *backlog.Queue, settings store.Settings) error {
	err := pace.Insist(k.o.Owner.Work(), k.o.Owner.Over, func(ctx context.Context) error { return k.o.Store.Configure(ctx, q.ID, settings) })
	if err != nil {
		return fmt.Errorf("store the settings of queue %s: %w", q.Name, err)
	}
	return nil
}
