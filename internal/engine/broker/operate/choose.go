package operate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/backlog"
	"github.com/runlot/runlot/internal/engine/broker/look"
	"github.com/runlot/runlot/internal/engine/broker/store"
	"github.com/runlot/runlot/internal/engine/broker/undo"
)

// Chosen is what became of messages that were named one by one.
type Chosen struct {
	// Done counts those that were deleted, or are visible from now on.
	Done int
	// InFlight are those under lease: nothing happened to them.
	InFlight []queue.ID
	// Unchanged are those that were visible already, when they should become so.
	Unchanged []queue.ID
	// Missing are those that the queue does not hold.
	Missing []queue.ID
}

// Receipt names a message as it was delivered: with the Seq that it had in its queue then.
type Receipt struct {
	ID  queue.ID
	Seq int64
}

// Acknowledge deletes messages whose delivery is over without having been settled, in one transaction. A message that left
// the queue meanwhile, also one that came back, counts as missing. Fault: Limit (CodeTooManyIDs).
func (o *Operator) Acknowledge(ctx context.Context, queueName string, receipts []Receipt) (Chosen, error) {
	ids, places := make([]queue.ID, len(receipts)), make(map[queue.ID]int64, len(receipts))
	for i, r := range receipts {
		ids[i], places[r.ID] = r.ID, r.Seq
	}
	var back []queue.ID
	c, err := o.chooseIn(ctx, queueName, ids, func(heads []store.Head) []store.Head {
		return slices.DeleteFunc(heads, func(h store.Head) bool {
			id := o.look.ID(&h)
			if places[id] == h.Seq {
				return false
			}
			back = append(back, id)
			return true
		})
	}, o.deleteHeld(""))
	if err == nil {
		c.Missing = append(c.Missing, back...)
	}
	return c, err
}

// Delete deletes messages of a queue, in one transaction. Action is the name under which it can be undone; "" is not. Fault:
// Limit (CodeTooManyIDs).
func (o *Operator) Delete(ctx context.Context, queueName string, ids []queue.ID, action string) (Chosen, error) {
	return o.chooseIn(ctx, queueName, ids, everyOne, o.deleteHeld(action))
}

// RetryNow makes delayed messages of a queue visible, in one transaction. Their attempts stay. Action is that
// of Delete. Fault: Limit (CodeTooManyIDs).
func (o *Operator) RetryNow(ctx context.Context, queueName string, ids []queue.ID, action string) (Chosen, error) {
	return o.chooseIn(ctx, queueName, ids, everyOne, o.retryHeld(action))
}

// verb does something to messages that are held, and ends the hold.
type verb func(q *backlog.Queue, held []store.Head, c *Chosen) error

func (o *Operator) deleteHeld(action string) verb {
	return func(q *backlog.Queue, held []store.Head, c *Chosen) error {
		return o.deleteNoted(q, held, c, undo.Note(action))
	}
}

func (o *Operator) deleteNoted(q *backlog.Queue, held []store.Head, c *Chosen, note *store.Note) error {
	change := store.Change{Note: note}
	var gone store.Count
	var deleted int64
	for i := range held {
		change.Delete = append(change.Delete, store.Key{Queue: q.ID, Seq: held[i].Seq})
		gone.Messages++
		gone.Bytes += int64(held[i].Bytes)
		deleted += queue.Operations(held[i].Bytes)
	}
	if len(held) > 0 {
		if err := o.commit(&change); err != nil {
			q.Unchanged()
			return err
		}
	}
	c.Done = len(held)
	q.Removed(gone)
	o.o.Owner.Count(0, deleted)
	return nil
}

func (o *Operator) retryHeld(action string) verb {
	return func(q *backlog.Queue, held []store.Head, c *Chosen) error {
		return o.retryNoted(q, held, c, undo.Note(action))
	}
}

func (o *Operator) retryNoted(q *backlog.Queue, held []store.Head, c *Chosen, note *store.Note) error {
	now := time.Now().UnixMilli()
	at := max(now, q.DueFloor())
	change := store.Change{Note: note}
	for i := range held {
		h := &held[i]
		if h.VisibleAt <= now {
			c.Unchanged = append(c.Unchanged, o.look.ID(h))
			continue
		}
		change.Retry = append(change.Retry, store.Retry{
			Key: store.Key{Queue: q.ID, Seq: h.Seq}, Failures: h.Failures, Losses: h.Losses, VisibleAt: at,
		})
	}
	if len(change.Retry) == 0 {
		q.Unchanged()
		return nil
	}
	if err := o.commit(&change); err != nil {
		q.Unchanged()
		return err
	}
	c.Done = len(change.Retry)
	q.Rescheduled(at)
	return nil
}

// everyOne keeps all messages that were found.
func everyOne(heads []store.Head) []store.Head { return heads }

func (o *Operator) chooseIn(ctx context.Context, queueName string, ids []queue.ID, keep func([]store.Head) []store.Head, do verb) (Chosen, error) {
	q, err := o.o.Book.Named(queueName)
	if err != nil {
		return Chosen{}, err
	}
	if ids, err = few(ids); err != nil {
		return Chosen{}, err
	}
	return o.choose(ctx, q, ids, keep, do)
}

// choose holds those of the messages that keep returns, and has something done to them.
func (o *Operator) choose(ctx context.Context, q *backlog.Queue, ids []queue.ID, keep func([]store.Head) []store.Head, do verb) (Chosen, error) {
	var c Chosen
	unlock, err := o.o.Owner.LockSettles(ctx)
	if err != nil {
		return c, err
	}
	defer unlock()
	if err := q.Gone(); err != nil {
		return c, err
	}
	heads, err := o.look.Find(ctx, q, ids)
	if err != nil {
		return c, err
	}
	c.Missing = look.Without(ids, o.look.IDs(heads))
	heads = keep(heads)
	held := q.Hold(heads, time.Now())
	c.InFlight = look.Without(o.look.IDs(heads), o.look.IDs(held))
	if err := do(q, held, &c); err != nil {
		return Chosen{}, fmt.Errorf("change messages of queue %s: %w", q.Name, err)
	}
	return c, nil
}

// few refuses more IDs than one call may name, and returns them without those that come twice.
func few(ids []queue.ID) ([]queue.ID, error) {
	if len(ids) > queue.OperateIDs {
		return nil, fault.New(fault.Limit, CodeTooManyIDs, "%d messages are named at once; the most is %d", len(ids), queue.OperateIDs)
	}
	seen := make(map[queue.ID]struct{}, len(ids))
	list := make([]queue.ID, 0, len(ids))
	for _, id := range ids {
		if _, ok := seen[id]; !ok {
			seen[id] = struct{}{}
			list = append(list, id)
		}
	}
	return list, nil
}
