// Package removal ends queues: from one commit on a queue is gone for everybody, with all that it held.
package removal

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/backlog"
	"github.com/runlot/runlot/internal/engine/broker/pace"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// Owner is the broker whose queues they are.
type Owner interface {
	// LockAll waits until nothing is between the store and the lanes, and keeps settlements and new messages away until
	// unlock. It fails when ctx ends and when the broker does not run.
	LockAll(ctx context.Context) (unlock func(), err error)
	// Count adds to the operations of the day what was committed: chunks written and deleted.
	Count(written, deleted int64)
	// Work ends with the broker, and Over is why nothing more can be written after an error; nil while it can.
	Work() context.Context
	Over(err error) error
}

// Options are what a Remover is made of. Every field is required.
type Options struct {
	Owner Owner
	Store store.Store
	Book  *backlog.Book
	// Rows is the most rows of the inbox of one step, ScrapRows the most messages of one step of Scrap.
	Rows, ScrapRows int
}

// Remover ends queues of one broker. Its methods may be called from several goroutines.
type Remover struct {
	o Options

	mu sync.Mutex
	// ending are the names of the queues that are about to end; guarded by mu.
	ending map[string]struct{}
}

// New makes a remover.
func New(o Options) *Remover { return &Remover{o: o, ending: map[string]struct{}{}} }

// Declarable refuses names of queues that are about to end. Fault: Unavailable.
func (r *Remover) Declarable(names []string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range names {
		if _, ending := r.ending[name]; ending {
			return fault.New(fault.Unavailable, queue.CodeOverloaded, "the queue %s is being deleted", name).WithHint("try again shortly")
		}
	}
	return nil
}

// begin finds a queue that is to end. Until end is called, nobody else may end it, and none is declared under its name.
func (r *Remover) begin(name string) (q *backlog.Queue, end func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ending := r.ending[name]; ending {
		return nil, nil, fault.New(fault.Conflict, store.CodeQueueBusy, "the queue %s is being deleted already", name)
	}
	if q, err = r.o.Book.Named(name); err != nil {
		return nil, nil, err
	}
	r.ending[name] = struct{}{}
	return q, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.ending, name)
	}, nil
}

// RemoveQueue ends a queue: its messages, those that SQL enqueued included, are deleted, and it returns how many there were.
// A send that was answered before is among them, and each that comes later is refused with NotFound; what was under lease is
// gone, and its settlement changes nothing. The end is one commit: with an error the queue is as it was but for a part of
// what SQL had enqueued, and where that error is the end of the broker, it is not known. forget, which may be nil, is called
// behind it, before another queue can be made under the name.
//
// Faults: NotFound (queue.CodeQueueNotFound); Conflict (store.CodeQueueBusy) while a transaction that enqueued for the queue
// does not end, for queue.RemoveTime; Unavailable while the broker does not run.
func (r *Remover) RemoveQueue(ctx context.Context, name string, forget func()) (store.Count, error) {
	q, end, err := r.begin(name)
	if err != nil {
		return store.Count{}, err
	}
	defer end()
	gone, err := r.clearInbox(ctx, q)
	if err != nil {
		return store.Count{}, fmt.Errorf("delete queue %s: %w", name, err)
	}
	patience, cancel := context.WithTimeout(ctx, queue.RemoveTime)
	defer cancel()
	var wait pace.Backoff
	for {
		last, err := r.remove(ctx, q)
		if err == nil {
			gone.Messages += last.Messages
			gone.Bytes += last.Bytes
			break
		}
		if f := fault.From(err); f.Code != store.CodeQueueBusy || wait.Wait(patience) != nil {
			return store.Count{}, fmt.Errorf("delete queue %s: %w", name, err)
		}
	}
	if forget != nil {
		forget()
	}
	return gone, nil
}

// inboxStep is the number of rows of the inbox after which others have their turn.
const inboxStep = 10_000

// clearInbox deletes what SQL enqueued in bulk, so that little is left for the commit that everybody waits for.
func (r *Remover) clearInbox(ctx context.Context, q *backlog.Queue) (gone store.Count, err error) {
	after := int64(0)
	for done := false; !done; {
		unlock, err := r.o.Owner.LockAll(ctx)
		if err != nil {
			return gone, err
		}
		for looked := 0; looked < inboxStep && !done; looked += r.o.Rows {
			var c store.Cleared
			err = r.insist(func(ctx context.Context) (err error) {
				c, err = r.o.Store.ClearInbox(ctx, q.ID, after, r.o.Rows)
				return err
			})
			if err != nil {
				break
			}
			gone.Messages += c.Messages
			gone.Bytes += c.Bytes
			after, done = c.Last, c.Done
		}
		unlock()
		if err != nil {
			return gone, err
		}
	}
	return gone, nil
}

// remove makes the one commit.
func (r *Remover) remove(ctx context.Context, q *backlog.Queue) (gone store.Count, err error) {
	unlock, err := r.o.Owner.LockAll(ctx)
	if err != nil {
		return gone, err
	}
	defer unlock()
	err = r.insist(func(ctx context.Context) (err error) {
		gone, err = r.o.Store.Remove(ctx, q.ID)
		return err
	})
	if err != nil {
		return gone, err
	}
	held := r.o.Book.Removed(q, time.Now())
	gone.Messages += held.Messages
	gone.Bytes += held.Bytes
	r.o.Owner.Count(0, 1) // as a purge, it is one operation, however much it deletes
	return gone, nil
}

// Scrap takes one step of deleting what queues that ended have left in the store, and reports whether there may be more.
func (r *Remover) Scrap(ctx context.Context) (more bool, err error) {
	return r.o.Store.Scrap(ctx, r.o.ScrapRows)
}

func (r *Remover) insist(write func(ctx context.Context) error) error {
	return pace.Insist(r.o.Owner.Work(), r.o.Owner.Over, write)
}
