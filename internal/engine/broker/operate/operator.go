package operate

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/backlog"
	"github.com/runlot/runlot/internal/engine/broker/look"
	"github.com/runlot/runlot/internal/engine/broker/pace"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// Owner is the broker whose queues are operated on.
type Owner interface {
	// LockSettles waits until no settlement is between the store and the lanes, and keeps others away until unlock. It fails
	// when ctx ends and when the broker does not run.
	LockSettles(ctx context.Context) (unlock func(), err error)
	// LockAll does the same for settlements and for new messages.
	LockAll(ctx context.Context) (unlock func(), err error)
	// Assign returns the first of n Seqs in a row. LockAll is held.
	Assign(n int) (int64, error)
	// LastSeq is the highest Seq that was assigned. LockAll is held.
	LastSeq() int64
	// Refusal is why the broker takes no more work; nil while it does.
	Refusal() error
	// Work ends with the broker, and what is over then is said by Over.
	Work() context.Context
	// Count adds to the operations of the day what was committed: chunks written and deleted.
	Count(written, deleted int64)
	// Over is why nothing more can be written after an error; nil while it can.
	Over(err error) error
}

// Options are what an Operator is made of. Every field but Expired is required.
type Options struct {
	Owner Owner
	Store store.Store
	Book  *backlog.Book
	Log   *slog.Logger
	// Rows is the most messages of one step, ExpireRows that of one step of deleting what outlived its retention.
	Rows       int
	ExpireRows int
	// Expired, when it is not nil, is told how many messages of a queue outlived their retention, after each step.
	Expired func(queueName string, n int)
}

// Operator carries out the verbs of an operator on the queues of one broker. Its methods may be called from several
// goroutines. All of them fail with kind NotFound (queue.CodeQueueNotFound) for a queue that does not exist, and with
// kind Unavailable while the broker does not run.
type Operator struct {
	o Options
	// look shows messages.
	look *look.Looker

	mu sync.Mutex
	// purging counts the calls of Purge by queue; the sweeper leaves their queues alone. mu guards it.
	purging map[int32]int
}

// New makes an operator.
func New(o Options) *Operator {
	return &Operator{o: o, look: look.New(o.Store, o.Book), purging: map[int32]int{}}
}

// Codes of the faults of an operator's calls.
const (
	// CodeCursor and CodeMessageNotFound are those of package look.
	CodeCursor          = look.CodeCursor
	CodeMessageNotFound = look.CodeMessageNotFound
	// CodeTooManyIDs: one call names more than queue.OperateIDs messages.
	CodeTooManyIDs = "too_many_ids"
	// CodeNoSource: it is not known where a message came from, so that a redrive has to name its target.
	CodeNoSource = "redrive_no_source"
	// CodeOntoItself: a redrive would move messages to where they are.
	CodeOntoItself = "redrive_onto_itself"
	// CodeTargetForbidden: a redrive would move messages to where RedriveOptions.May does not let them go.
	CodeTargetForbidden = "redrive_target_forbidden"
)

// commit carries a change out, again and again while the store does not answer. With an error nothing was changed, or the
// broker is over.
func (o *Operator) commit(change *store.Change) error {
	return o.insist(func(ctx context.Context) error { return o.o.Store.Apply(ctx, change) })
}

// insist calls write until the store answers.
func (o *Operator) insist(write func(ctx context.Context) error) error {
	var wait pace.Backoff
	for {
		err := write(o.o.Owner.Work())
		switch {
		case err == nil:
			return nil
		case o.o.Owner.Over(err) != nil:
			return o.o.Owner.Over(err)
		case fault.KindOf(err) != fault.Unavailable:
			return err
		}
		if err := wait.Wait(o.o.Owner.Work()); err != nil {
			return err
		}
	}
}

// steps calls step until there is no more to do, again after a pause when the store does not answer a read. It ends with
// ctx or with the broker, between two steps.
func (o *Operator) steps(ctx context.Context, step func() (more bool, err error)) error {
	var wait pace.Backoff
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		more, err := step()
		switch {
		case err == nil && !more:
			return nil
		case err == nil:
			wait = pace.Backoff{}
			continue
		case o.o.Owner.Over(err) != nil:
			return o.o.Owner.Over(err)
		case ctx.Err() != nil || fault.KindOf(err) != fault.Unavailable:
			return err
		}
		if err := wait.Wait(ctx); err != nil {
			return err
		}
	}
}

// Pause stops the delivery of a queue, from its commit on and for every later owner, until Resume: no lane gives a batch of
// it. What is in flight is finished and settled, and sends are accepted. It works for a queue without a consumer, and
// again for a paused one.
func (o *Operator) Pause(ctx context.Context, queueName string) error {
	return o.configure(ctx, queueName, func(s *store.Settings) {
		s.PausedAt = cmp.Or(s.PausedAt, time.Now().UnixMilli())
	})
}

// Resume takes a Pause back.
func (o *Operator) Resume(ctx context.Context, queueName string) error {
	return o.configure(ctx, queueName, func(s *store.Settings) { s.PausedAt = 0 })
}

// PausedAt is since when a queue is paused; zero when it is not.
func (o *Operator) PausedAt(queueName string) (time.Time, error) {
	q, err := o.o.Book.Named(queueName)
	if err != nil {
		return time.Time{}, err
	}
	if at := q.Settings().PausedAt; at > 0 {
		return time.UnixMilli(at), nil
	}
	return time.Time{}, nil
}

// SetRetention sets how long messages of a queue are kept unsettled, as its consumer declares it, brought into the range of
// core/queue. Until it is called for the first time, a queue keeps them for the default; from then on also without its
// consumer.
func (o *Operator) SetRetention(ctx context.Context, queueName string, retention time.Duration) error {
	milli := min(max(retention, queue.MinRetention), queue.MaxRetention).Milliseconds()
	if milli == queue.DefaultRetention.Milliseconds() {
		milli = 0 // what a queue has that was never told: nothing to write for most queues at every start
	}
	return o.configure(ctx, queueName, func(s *store.Settings) { s.Retention = milli })
}

// OverrideRetention sets how long messages of a queue are kept unsettled, whatever its consumer declares, for messages that
// wait already too; 0 gives the consumer its say again. Fault: Invalid for what is outside the range of core/queue.
func (o *Operator) OverrideRetention(ctx context.Context, queueName string, retention time.Duration) error {
	if retention != 0 && (retention < queue.MinRetention || retention > queue.MaxRetention) {
		return fault.New(fault.Invalid, queue.CodeMetadataInvalid, "a retention of %s is outside %s to %s",
			retention, queue.MinRetention, queue.MaxRetention)
	}
	return o.configure(ctx, queueName, func(s *store.Settings) { s.RetentionOverride = retention.Milliseconds() })
}

// configure changes the settings of a queue, if the change is one. They are written before they take effect.
func (o *Operator) configure(ctx context.Context, queueName string, change func(s *store.Settings)) error {
	q, err := o.o.Book.Named(queueName)
	if err != nil {
		return err
	}
	unlock, err := o.o.Owner.LockSettles(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	settings := q.Settings()
	change(&settings)
	if settings == q.Settings() {
		return nil
	}
	if err := o.store(q, settings); err != nil {
		return err
	}
	q.Configured(&settings)
	return nil
}

func (o *Operator) store(q *backlog.Queue, settings store.Settings) error {
	err := o.insist(func(ctx context.Context) error { return o.o.Store.Configure(ctx, q.ID, settings) })
	if err != nil {
		return fmt.Errorf("store the settings of queue %s: %w", q.Name, err)
	}
	return nil
}
