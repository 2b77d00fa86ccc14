package operate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/backlog"
)

// Left says when a deletion is left to Sweep that need not wait for the next round.
func (o *Operator) Left() <-chan struct{} { return o.left }

// Sweep takes one step in every queue in which something has to be deleted that nobody waits for: what outlived its
// retention, and what is left of a purge. It returns the pause until the next round.
func (o *Operator) Sweep() time.Duration {
	ctx := o.o.Owner.Work()
	pause := queue.ExpireEvery
	if err := o.undo.Sweep(); err != nil && o.o.Owner.Refusal() == nil {
		o.o.Log.Warn("cannot delete what can be undone no more", "error", fault.Detail(err))
	}
	queues := o.o.Book.All()
	slices.SortFunc(queues, func(x, y *backlog.Queue) int { return int(x.ID - y.ID) })
	for _, q := range queues {
		purging, err := o.sweepPurge(ctx, q)
		if err != nil && o.o.Owner.Refusal() == nil {
			o.o.Log.Warn("cannot delete what was purged", "queue", q.Name, "error", fault.Detail(err))
		}
		expired, expiring, err := o.expire(ctx, q)
		if expired > 0 {
			o.o.Log.Info("messages outlived their retention", "queue", q.Name, "messages", expired)
			if o.o.Expired != nil {
				o.o.Expired(q.Name, expired)
			}
		}
		if err != nil && o.o.Owner.Refusal() == nil {
			o.o.Log.Warn("cannot delete what outlived its retention", "queue", q.Name, "error", fault.Detail(err))
		}
		if purging || expiring {
			pause = queue.ExpirePause
		}
	}
	return pause
}

// sweepPurge goes on with a purge for which no call waits, and reports whether there may be more to delete.
func (o *Operator) sweepPurge(ctx context.Context, q *backlog.Queue) (more bool, err error) {
	if _, ok := q.Purging(); !ok {
		return false, nil
	}
	o.mu.Lock()
	called := o.purging[q.ID] > 0
	o.mu.Unlock()
	if called {
		return false, nil
	}
	_, more, err = o.purgeStep(ctx, q)
	return more, err
}

// expire deletes up to ExpireRows messages of q that outlived their retention, and reports whether there are more. No
// settlement is under way meanwhile: each leased message is then either settled or known to be under lease.
func (o *Operator) expire(ctx context.Context, q *backlog.Queue) (n int, more bool, err error) {
	unlock, err := o.o.Owner.LockSettles(ctx)
	if err != nil {
		return 0, false, err
	}
	defer unlock()
	now := time.Now()
	after, before, ok := q.Expirable(now)
	if !ok {
		return 0, false, nil
	}
	gone, err := o.o.Store.Expire(ctx, q.ID, after, before, o.o.ExpireRows)
	if err != nil {
		return 0, false, fmt.Errorf("expire messages: %w", err)
	}
	more = len(gone) >= o.o.ExpireRows
	q.Expire(gone, before, more, now)
	var deleted int64
	for i := range gone {
		deleted += queue.Operations(gone[i].Bytes)
	}
	o.o.Owner.Count(0, deleted)
	return len(gone), more, nil
}
