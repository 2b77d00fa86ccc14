package operate

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/backlog"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// Unknown stands for a number that is not known, or not worth finding out.
const Unknown = -1

// overviewAge is how old the age of a queue without a lane may be in an overview.
const overviewAge = time.Second

// Overview is how a queue is doing.
type Overview struct {
	Name string
	// Unsettled counts the messages, Bytes those of their bodies; Unknown until the messages that were there at the start
	// are counted.
	Unsettled, Bytes int64
	// Visible, Delayed and InFlight are the parts of Unsettled. Visible and Delayed are Unknown where Unsettled is, and
	// where more than queue.DelayedCounted messages are delayed.
	Visible, Delayed, InFlight int64
	// Oldest is the send time of the oldest message that is visible or in flight; zero when there is none.
	Oldest time.Time
	// PausedAt is since when the queue is paused; zero when it is not.
	PausedAt time.Time
	// Retention is how long messages stay unsettled; Overridden says that an operator set it.
	Retention  time.Duration
	Overridden bool
}

// Queues are the names of all queues, in order.
func (o *Operator) Queues() []string {
	queues := o.o.Book.All()
	names := make([]string, len(queues))
	for i, q := range queues {
		names[i] = q.Name
	}
	slices.Sort(names)
	return names
}

// Overview says how a queue is doing. It reads at most queue.DelayedCounted delayed messages, without their bodies, and
// only where there may be some.
func (o *Operator) Overview(ctx context.Context, queueName string) (Overview, error) {
	q, err := o.o.Book.Named(queueName)
	if err != nil {
		return Overview{}, err
	}
	m, settings := q.Metrics(ctx, overviewAge), q.Settings()
	v := Overview{
		Name: q.Name, Unsettled: m.Count, Bytes: m.Bytes, InFlight: int64(len(q.InFlight())), Visible: Unknown, Delayed: Unknown,
		Oldest: m.Oldest, Retention: q.Retention(), Overridden: settings.RetentionOverride > 0,
	}
	if settings.PausedAt > 0 {
		v.PausedAt = time.UnixMilli(settings.PausedAt)
	}
	if !o.o.Book.Exact() {
		v.Unsettled, v.Bytes = Unknown, Unknown
		return v, nil
	}
	waiting := max(v.Unsettled-v.InFlight, 0)
	if v.Delayed = 0; waiting > 0 {
		if v.Delayed, err = o.delayed(ctx, q); err != nil {
			return Overview{}, fmt.Errorf("count the delayed messages of queue %s: %w", q.Name, err)
		}
	}
	if v.Delayed != Unknown {
		v.Delayed = min(v.Delayed, waiting)
		v.Visible = waiting - v.Delayed
	}
	return v, nil
}

// delayed counts the messages that are not visible yet; Unknown for more than queue.DelayedCounted.
func (o *Operator) delayed(ctx context.Context, q *backlog.Queue) (n int64, err error) {
	unlock, err := o.look.Lock(ctx)
	if err != nil {
		return 0, err
	}
	defer unlock()
	now := time.Now()
	floor := q.Standing(now).Floor
	at := store.Due{VisibleAt: now.UnixMilli(), Seq: math.MaxInt64}
	for {
		heads, err := o.o.Store.ListDue(ctx, q.ID, at, backlog.EndOfTime, queue.PeekRows)
		if err != nil {
			return 0, err
		}
		for i := range heads {
			if heads[i].Seq >= floor {
				n++
			}
		}
		switch {
		case n > queue.DelayedCounted:
			return Unknown, nil
		case len(heads) < queue.PeekRows:
			return n, nil
		}
		at = heads[len(heads)-1].Due()
	}
}
