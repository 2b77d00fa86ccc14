package backlog

import (
	"container/heap"
	"context"
	"math"
	"sync"
	"time"

	"github.com/runlot/runlot/internal/engine/broker/pace"
)

// wakeUp is a queue's entry in the wheel: when to look at it again.
type wakeUp struct {
	at    time.Time
	place int
}

// wheel is the one timer of a book: it keeps for every queue the next time at which something can be due, and costs
// nothing for a queue that only waits for events.
type wheel struct {
	kick pace.Kick

	mu sync.Mutex
	by wakeHeap
}

// set makes sure that q is looked at by at. An earlier look that is planned already stays and plans again.
func (w *wheel) set(q *Queue, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case q.wake.place < 0:
		q.wake.at = at
		heap.Push(&w.by, q)
	case at.Before(q.wake.at):
		q.wake.at = at
		heap.Fix(&w.by, q.wake.place)
	default:
		return
	}
	if q.wake.place == 0 {
		w.kick.Poke()
	}
}

// take returns a queue whose time has come, or the time until the next.
func (w *wheel) take(now time.Time) (*Queue, time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.by) == 0 {
		return nil, math.MaxInt64
	}
	if pause := w.by[0].wake.at.Sub(now); pause > 0 {
		return nil, pause
	}
	q, ok := heap.Pop(&w.by).(*Queue)
	if !ok {
		return nil, 0
	}
	return q, 0
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

// wakeHeap orders queues by wake.at, for container/heap.
type wakeHeap []*Queue

// Len implements heap.Interface.
func (h *wakeHeap) Len() int { return len(*h) }

// Less implements heap.Interface.
func (h *wakeHeap) Less(i, j int) bool { return (*h)[i].wake.at.Before((*h)[j].wake.at) }

// Swap implements heap.Interface.
func (h *wakeHeap) Swap(i, j int) {
	list := *h
	list[i], list[j] = list[j], list[i]
	list[i].wake.place, list[j].wake.place = i, j
}

// Push implements heap.Interface.
func (h *wakeHeap) Push(x any) {
	if q, ok := x.(*Queue); ok {
		q.wake.place = len(*h)
		*h = append(*h, q)
	}
}

// Pop implements heap.Interface.
func (h *wakeHeap) Pop() any {
	old := *h
	last := len(old) - 1
	q := old[last]
	old[last] = nil
	*h = old[:last]
	q.wake.place = -1
	return q
}
