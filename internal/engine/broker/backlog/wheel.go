package backlog

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/runlot/runlot/internal/core/order"
	"github.com/runlot/runlot/internal/engine/broker/pace"
)

// wakeUp is a queue's entry in the wheel: when to look at it again.
type wakeUp struct {
	q     *Queue
	at    time.Time
	place int
}

// Key and Place implement order.Entry.
func (w *wakeUp) Key() int64  { return w.at.UnixNano() }
func (w *wakeUp) Place() *int { return &w.place }

// wheel is the one timer of a book: it keeps for every queue the next time at which something can be due, and costs
// nothing for a queue that only waits for events.
type wheel struct {
	kick pace.Kick

	mu sync.Mutex
	by order.Heap[*wakeUp]
}

// set makes sure that q is looked at by at. An earlier look that is planned already stays and plans again.
func (w *wheel) set(q *Queue, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	first := false
	switch {
	case q.wake.place < 0:
		q.wake.at = at
		first = w.by.Push(&q.wake)
	case at.Before(q.wake.at):
		q.wake.at = at
		first = w.by.Fix(&q.wake)
	}
	if first {
		w.kick.Poke()
	}
}

// take returns a queue whose time has come, or the time until the next.
func (w *wheel) take(now time.Time) (*Queue, time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	next, ok := w.by.First()
	if !ok {
		return nil, math.MaxInt64
	}
	if pause := next.at.Sub(now); pause > 0 {
		return nil, pause
	}
	w.by.Remove(next)
	return next.q, 0
}

// WakeLoop looks at queues when their time has come, until ctx ends. One goroutine runs it.
func (b *Book) WakeLoop(ctx context.Context) {
	timer := time.NewTimer(math.MaxInt64)
	defer timer.Stop()
	for {
		now := time.Now()
		q, pause := b.wheel.take(now)
		if q != nil {
			q.mu.Lock()
			q.pump(now)
			q.mu.Unlock()
			continue
		}
		timer.Reset(pause)
		select {
		case <-timer.C:
		case <-b.wheel.kick:
		case <-ctx.Done():
			return
		}
	}
}
