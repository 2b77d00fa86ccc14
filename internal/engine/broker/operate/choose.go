package operate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/backlog"
	"github.com/runlot/runlot/internal/engine/broker/store"
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
	return o.delete(ctx, queueName, ids, func(id queue.ID, h *store.Head) bool { return places[id] == h.Seq })
}

// Delete deletes messages of a queue, in one transaction. Fault: Limit (CodeTooManyIDs).
func (o *Operator) Delete(ctx context.Context, queueName string, ids []queue.ID) (Chosen, error) {
	return o.delete(ctx, queueName, ids, nil)
}

func (o *Operator) delete(ctx context.Context, queueName string, ids []queue.ID, meant func(id queue.ID, h *store.Head) bool) (Chosen, error) {
	return o.choose(ctx, queueName, ids, meant, func(q *backlog.Queue, held []store.Head, c *Chosen) error {
		var change store.Change
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
	})
}

// RetryNow makes delayed messages of a queue visible, in one transaction. Their attempts stay. Fault: Limit
// (CodeTooManyIDs).
func (o *Operator) RetryNow(ctx context.Context, queueName string, ids []queue.ID) (Chosen, error) {
	return o.choose(ctx, queueName, ids, nil, func(q *backlog.Queue, held []store.Head, c *Chosen) error {
		now := time.Now().UnixMilli()
		at := max(now, q.DueFloor())
		var change store.Change
		for i := range held {
			h := &held[i]
			if h.VisibleAt <= now {
				c.Unchanged = append(c.Unchanged, o.id(h))
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
	})
}

// choose holds messages, of those found the ones that are meant, and has something done to them; done ends the hold.
func (o *Operator) choose(ctx context.Context, queueName string, ids []queue.ID, meant func(id queue.ID, h *store.Head) bool, done func(q *backlog.Queue, held []store.Head, c *Chosen) error) (Chosen, error) {
	var c Chosen
	q, err := o.o.Book.Named(queueName)
	if err != nil {
		return c, err
	}
	if ids, err = few(ids); err != nil {
		return c, err
	}
	unlock, err := o.o.Owner.LockSettles(ctx)
	if err != nil {
		return c, err
	}
	defer unlock()
	heads, err := o.find(ctx, q, ids)
	if err != nil {
		return c, err
	}
	if meant != nil {
		heads = slices.DeleteFunc(heads, func(h store.Head) bool { return !meant(o.id(&h), &h) })
	}
	found := o.ids(heads)
	c.Missing = without(ids, found)
	held := q.Hold(heads, time.Now())
	c.InFlight = without(found, o.ids(held))
	if err := done(q, held, &c); err != nil {
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

func (o *Operator) ids(heads []store.Head) []queue.ID {
	list := make([]queue.ID, len(heads))
	for i := range heads {
		list[i] = o.id(&heads[i])
	}
	return list
}

// without returns the IDs that are not among others, in their order; nil when there are none.
func without(ids, others []queue.ID) []queue.ID {
	among := make(map[queue.ID]struct{}, len(others))
	for _, id := range others {
		among[id] = struct{}{}
	}
	var left []queue.ID
	for _, id := range ids {
		if _, ok := among[id]; !ok {
			left = append(left, id)
		}
	}
	return left
}
