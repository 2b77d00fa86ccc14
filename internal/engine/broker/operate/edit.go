package operate

import (
	"context"
	"fmt"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// CodeInFlight is for a message that should be replaced is being delivered.
const CodeInFlight = "message_in_flight"

// Edit is what a redrive of one message puts in its stead.
type Edit struct {
	ID     queue.ID
	Format queue.Format
	Body   []byte
	// To and May are those of RedriveOptions.
	To  string
	May func(queueName string) bool
}

// RedriveEdited redrives one message with another body, in one transaction: the message is gone, and in the target is a new
// one with an ID and a send time of its own. It keeps where the first one came from and why it had failed. Faults: those of
// Redrive; NotFound (CodeMessageNotFound); Conflict (CodeInFlight).
func (o *Operator) RedriveEdited(ctx context.Context, queueName string, e *Edit) (queue.ID, error) {
	q, err := o.o.Book.Named(queueName)
	if err != nil {
		return queue.ID{}, err
	}
	d := redrive{o: o, q: q, may: e.May}
	if d.to, err = o.target(q, e.To, e.May); err != nil {
		return queue.ID{}, err
	}
	unlock, err := o.o.Owner.LockAll(ctx)
	if err != nil {
		return queue.ID{}, err
	}
	defer unlock()
	if err := d.there(); err != nil {
		return queue.ID{}, err
	}
	heads, err := o.look.Find(ctx, q, []queue.ID{e.ID})
	if err == nil && len(heads) == 0 {
		err = fault.New(fault.NotFound, CodeMessageNotFound, "queue %q has no message %s", q.Name, e.ID)
	}
	if err == nil {
		err = d.checkSources(heads)
	}
	if err != nil {
		return queue.ID{}, err
	}
	h := &heads[0]
	to := d.target(h)
	seq, err := o.o.Owner.Assign(1)
	if err != nil {
		return queue.ID{}, err
	}
	held := q.Hold(heads, time.Now())
	if len(held) == 0 {
		q.Unchanged()
		return queue.ID{}, fault.New(fault.Conflict, CodeInFlight, "message %s is being delivered", e.ID).WithHint("wait until it is back")
	}
	row := store.Row{Queue: to.ID, Seq: seq, Format: e.Format, SentAt: time.Now().UnixMilli(), Body: e.Body}
	old := store.Key{Queue: q.ID, Seq: h.Seq}
	if err := o.insist(func(ctx context.Context) error { return o.o.Store.Replace(ctx, old, &row) }); err != nil {
		q.Unchanged()
		return queue.ID{}, fmt.Errorf("replace a message of queue %s: %w", q.Name, err)
	}
	to.Arrived(seq, seq, store.Count{Messages: 1, Bytes: int64(len(e.Body))})
	q.Removed(store.Count{Messages: 1, Bytes: int64(h.Bytes)})
	o.o.Owner.Count(queue.Operations(len(e.Body)), 0)
	return queue.NewID(o.o.Book.Database(), seq), nil
}
