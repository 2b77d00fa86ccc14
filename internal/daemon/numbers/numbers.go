// Package numbers wires the series of a database: from its broker's store, its dispatchers and what its queues hold to the
// recorder that keeps them.
package numbers

import (
	"context"
	"time"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/backlog"
	"github.com/runlot/runlot/internal/engine/broker/metered"
	"github.com/runlot/runlot/internal/engine/broker/operate"
	"github.com/runlot/runlot/internal/engine/dispatch"
	"github.com/runlot/runlot/internal/engine/series"
)

// Meter has a store's commits counted by a recorder.
type Meter struct{ Recorder *series.Recorder }

var _ metered.Meter = Meter{}

// Tally implements metered.Meter.
func (m Meter) Tally(queueName string) metered.Tally { return m.Recorder.Tally(queueName) }

// Appended implements metered.Meter.
func (m Meter) Appended(messages int, took time.Duration) { m.Recorder.Sends.Commit(messages, took) }

// Applied implements metered.Meter.
func (m Meter) Applied(messages int, took time.Duration) { m.Recorder.Settles.Commit(messages, took) }

// Batches counts the batches of one queue on their way to the next recorder.
type Batches struct {
	Tally *series.Tally
	Next  dispatch.Recorder
}

// Batch implements dispatch.Recorder.
func (b Batches) Batch(r *dispatch.Record) {
	b.Tally.Batch(&series.Batch{
		Outcome: r.Outcome, Duration: r.Duration, Delivered: r.Delivered, Acked: r.Acked, Retried: r.Retried, Redelivered: r.Redelivered,
		Dead: r.Dead, Dropped: r.Dropped,
	})
	b.Next.Batch(r)
}

// Broker is what is asked of a broker.
type Broker interface {
	// Depths is what the queues hold, from memory alone; nil until it is known.
	Depths() []backlog.Depth
	// Overview says the same of one queue, from the database.
	Overview(ctx context.Context, queueName string) (operate.Overview, error)
}

// Calls are the handler calls of a queue: the most that ran at a time since they were asked for last, and how many may.
type Calls struct{ Most, Allowed int }

// Looks looks at the queues of one database.
type Looks struct {
	// Broker is what serves the database now; nil while nothing does.
	Broker func() Broker
	// Calls are those of the queues that are consumed here.
	Calls func() map[string]Calls

	// counted holds what was read in the database of the queues of which memory does not know all.
	counted map[string]counted
}

type counted struct {
	at      time.Time
	delayed int64
	oldest  time.Time
}

// Gauges is a series.Source. It is called by one goroutine at a time.
func (l *Looks) Gauges(ctx context.Context) (map[string]series.Gauges, bool) {
	calls := l.Calls()
	b := l.Broker()
	if b == nil {
		return nil, false
	}
	depths := b.Depths()
	if depths == nil {
		return nil, false
	}
	now := time.Now()
	known := make(map[string]counted, len(l.counted))
	left := queue.SeriesDelayedQueues
	gauges := make(map[string]series.Gauges, len(depths))
	for i := range depths {
		d := &depths[i]
		if !d.Whole {
			c, ok := l.counted[d.Queue]
			if (!ok || now.Sub(c.at) >= queue.SeriesDelayedEvery) && left > 0 {
				left--
				c = count(ctx, b, d.Queue, now)
			}
			known[d.Queue] = c
			d.Delayed = max(d.Delayed, min(c.delayed, d.Count-d.InFlight))
			if d.Oldest.IsZero() {
				d.Oldest = c.oldest
			}
		}
		g := series.Gauges{
			Visible: d.Count - d.InFlight - d.Delayed, Delayed: d.Delayed, InFlight: d.InFlight, LaneBytes: d.Bytes,
			Running: calls[d.Queue].Most, Allowed: calls[d.Queue].Allowed,
		}
		if !d.Oldest.IsZero() {
			g.Oldest = max(0, now.Sub(d.Oldest))
		}
		gauges[d.Queue] = g
	}
	l.counted = known
	return gauges, true
}

// count reads a queue in the database. What cannot be read counts as nothing until the next look.
func count(ctx context.Context, b Broker, queueName string, now time.Time) counted {
	c := counted{at: now}
	if v, err := b.Overview(ctx, queueName); err == nil {
		c.delayed, c.oldest = max(v.Delayed, 0), v.Oldest
	}
	return c
}
