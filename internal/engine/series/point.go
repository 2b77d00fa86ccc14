package series

import (
	"time"

	"github.com/runlot/runlot/internal/core/queue"
)

// Outcomes are those that a batch may have, in the order of Counts.Batches.
var Outcomes = [...]queue.Outcome{queue.OK, queue.Failed, queue.TimedOut, queue.Lost, queue.Errored}

// Counts are what happened in a queue.
type Counts struct {
	// Sent counts the messages that were sent, those of SQL among them, and SentBytes the bytes of their bodies. Arrived
	// counts those that came from another queue: dead letters, or what was redriven.
	Sent, SentBytes, Arrived int64
	// Left counts the messages that are gone from the queue, for whatever reason.
	Left int64
	// The rest is what batches did, counted as their settlement commits. Delivered is what handlers were given; Retried
	// spent a retry, Redelivered did not.
	Delivered, Acked, Retried, Redelivered, Dead, Dropped int64
	// Expired counts messages that outlived their retention.
	Expired int64
	// Batches counts them by outcome.
	Batches [len(Outcomes)]int64
	// Handler counts the times of handler calls, HandlerTime is their sum.
	Handler     Histogram
	HandlerTime time.Duration
}

// fields are the plain numbers of the counts.
func (c *Counts) fields() [12]*int64 {
	return [...]*int64{
		&c.Sent, &c.SentBytes, &c.Arrived, &c.Left, &c.Delivered, &c.Acked, &c.Retried, &c.Redelivered, &c.Dead, &c.Dropped,
		&c.Expired, (*int64)(&c.HandlerTime),
	}
}

// combine applies add to each number of c and of o.
func (c *Counts) combine(o *Counts, sign int64) {
	mine, theirs := c.fields(), o.fields()
	for i := range mine {
		*mine[i] += sign * *theirs[i]
	}
	for i := range c.Batches {
		c.Batches[i] += sign * o.Batches[i]
	}
	for i := range c.Handler {
		c.Handler[i] += sign * o.Handler[i]
	}
}

// Add adds what was counted elsewhere, or at another time.
func (c *Counts) Add(o *Counts) { c.combine(o, 1) }

// Since is what was counted after an earlier reading of the same counters.
func (c *Counts) Since(earlier *Counts) Counts {
	now := *c
	now.combine(earlier, -1)
	return now
}

// Ended is how many batches ended, Failed how many of them not well.
func (c *Counts) Ended() (ended, failed int64) {
	for _, n := range c.Batches {
		ended += n
	}
	return ended, ended - c.Batches[0]
}

// Gauges are how a queue is at a moment.
type Gauges struct {
	// Visible, Delayed and InFlight count its messages. Of more than queue.DelayedCounted delayed messages, some may count as
	// visible.
	Visible, Delayed, InFlight int64
	// Oldest is the age of the oldest message that is visible or in flight.
	Oldest time.Duration
	// Running is how many handler calls run, Allowed how many may; both are 0 where no app of this node consumes the queue.
	Running, Allowed int
	// LaneBytes is what the queue holds in memory.
	LaneBytes int64
}

// raise makes each gauge the higher of two.
func (g *Gauges) raise(o *Gauges) {
	g.Visible, g.Delayed, g.InFlight = max(g.Visible, o.Visible), max(g.Delayed, o.Delayed), max(g.InFlight, o.InFlight)
	g.Oldest = max(g.Oldest, o.Oldest)
	g.Running, g.Allowed = max(g.Running, o.Running), max(g.Allowed, o.Allowed)
	g.LaneBytes = max(g.LaneBytes, o.LaneBytes)
}

// Point is a queue in a span of time: what happened, and the highest of each gauge.
type Point struct {
	// Start is when the span begins.
	Start time.Time
	Counts
	Gauges
}

// merge adds a point of another time to this one.
func (p *Point) merge(o *Point) {
	p.Add(&o.Counts)
	p.raise(&o.Gauges)
}

// idle reports whether nothing happened and nothing is there.
func (p *Point) idle() bool {
	return p.Counts == Counts{} && p.Visible == 0 && p.Delayed == 0 && p.InFlight == 0 && p.Running == 0
}
