package series

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/runlot/runlot/internal/core/queue"
)

// Tally is the counters of one queue, from the start of the process on. Any goroutine may add to them: an addition costs
// no lock.
type Tally struct {
	sent, sentBytes, arrived, left                        atomic.Int64
	delivered, acked, retried, redelivered, dead, dropped atomic.Int64
	expired                                               atomic.Int64
	batches                                               [len(Outcomes)]atomic.Int64
	handler                                               timer
}

// Sent counts messages that were sent, and the bytes of their bodies.
func (t *Tally) Sent(messages, bytes int) {
	t.sent.Add(int64(messages))
	t.sentBytes.Add(int64(bytes))
}

// Arrived counts messages that came from another queue.
func (t *Tally) Arrived(messages int) { t.arrived.Add(int64(messages)) }

// Left counts messages that are gone.
func (t *Tally) Left(messages int) { t.left.Add(int64(messages)) }

// Expired counts messages that outlived their retention.
func (t *Tally) Expired(messages int) { t.expired.Add(int64(messages)) }

// Batch is how a batch ended.
type Batch struct {
	Outcome  queue.Outcome
	Duration time.Duration
	// Delivered is its size; the rest count its messages by what became of them.
	Delivered, Acked, Retried, Redelivered, Dead, Dropped int
}

// Batch counts a batch that ended.
func (t *Tally) Batch(b *Batch) {
	t.delivered.Add(int64(b.Delivered))
	t.acked.Add(int64(b.Acked))
	t.retried.Add(int64(b.Retried))
	t.redelivered.Add(int64(b.Redelivered))
	t.dead.Add(int64(b.Dead))
	t.dropped.Add(int64(b.Dropped))
	if i := slices.Index(Outcomes[:], b.Outcome); i >= 0 {
		t.batches[i].Add(1)
	}
	t.handler.observe(b.Duration)
}

// Counts reads the counters. They are read one by one: what is added meanwhile may be in some and not yet in others.
func (t *Tally) Counts() Counts {
	c := Counts{
		Sent: t.sent.Load(), SentBytes: t.sentBytes.Load(), Arrived: t.arrived.Load(), Left: t.left.Load(),
		Delivered: t.delivered.Load(), Acked: t.acked.Load(), Retried: t.retried.Load(), Redelivered: t.redelivered.Load(),
		Dead: t.dead.Load(), Dropped: t.dropped.Load(), Expired: t.expired.Load(),
	}
	for i := range t.batches {
		c.Batches[i] = t.batches[i].Load()
	}
	c.Handler, c.HandlerTime = t.handler.read()
	return c
}
