package broker

import (
	"container/heap"
	"math"
	"sync"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
)

// readList holds the windows that want to be read, in turn.
type readList struct {
	kick chan struct{}

	mu      sync.Mutex
	windows []*window
}

func (l *readList) add(w *window) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.windows = append(l.windows, w)
	poke(l.kick)
}

func (l *readList) take() *window {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.windows) == 0 {
		return nil
	}
	w := l.windows[0]
	l.windows[0] = nil
	l.windows = l.windows[1:]
	return w
}

// readLoop is one of the goroutines that fill windows from the store.
func (b *Broker) readLoop() {
	for {
		w := b.readers.take()
		if w == nil {
			select {
			case <-b.readers.kick:
				continue
			case <-b.work.Done():
				return
			}
		}
		w.q.refill(w)
	}
}

// refill reads what the window wants, once each side. No other reader has the window in hand.
func (q *backlog) refill(w *window) {
	q.mu.Lock()
	if q.win != w {
		// The lane was closed, and may have been opened again with another window.
		q.mu.Unlock()
		return
	}
	ready, due := w.wantsReady(q.newest), w.wantsDue(time.Now())
	q.mu.Unlock()
	if ready {
		ready = q.refillReady(w)
	}
	if due {
		due = q.refillDue(w)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.win != w {
		return
	}
	w.busy = false
	if ready || due {
		w.retry = backoff{}
	}
	q.pump(time.Now())
}

// refillReady reads the ready side once; false when that failed.
func (q *backlog) refillReady(w *window) bool {
	q.mu.Lock()
	w.beginReady(q.newest)
	after, upTo, limit, bytes, generation := w.cursor, w.readTo, w.askedRows, w.askedBytes, w.generation
	q.mu.Unlock()
	rows, err := q.b.store.ReadReady(q.b.work, q.id, after, upTo, limit, bytes)
	q.mu.Lock()
	defer q.mu.Unlock()
	if err != nil || w.generation != generation {
		w.forgetTail()
	} else {
		w.endReady(rows, q.newest, q.leasedSeqs(w))
	}
	return q.endRead(w, err)
}

// endOfTime is a time in milliseconds that no message reaches and that every store can say: the end of the year 9999.
const endOfTime = 253_402_300_799_999

// refillDue reads the due side once; false when that failed.
func (q *backlog) refillDue(w *window) bool {
	q.mu.Lock()
	w.readingDue = true
	after, generation := w.horizon, w.generation
	limit, bytes := w.ask(w.dueRoom())
	q.mu.Unlock()
	rows, err := q.b.store.ReadDue(q.b.work, q.id, after, endOfTime,
		limit, bytes)
	q.mu.Lock()
	defer q.mu.Unlock()
	if err == nil && w.generation == generation {
		w.endDue(rows, q.newest, q.leasedSeqs(nil))
	}
	w.forgetDueTail()
	return q.endRead(w, err)
}

// endRead sees to the next try after a failure.
func (q *backlog) endRead(w *window, err error) bool {
	if err == nil {
		return true
	}
	pause := w.retry.step()
	w.retryAt = time.Now().Add(pause)
	if q.b.work.Err() == nil {
		q.b.log.Warn("cannot read waiting messages; trying again", "queue", q.name, "error", fault.Detail(err), "after", pause)
	}
	return false
}

// leasedSeqs is the set of messages that are under lease of a window other than w, which may be nil. A read of the ready
// side can return only those: it goes on where its own window stopped. A read of the due side can return any, when the
// horizon came nearer under the lease, or when a retry is committed and not told yet.
func (q *backlog) leasedSeqs(w *window) map[int64]struct{} {
	var seqs map[int64]struct{}
	for batch, l := range q.leases {
		if l.win == w {
			continue
		}
		if seqs == nil {
			seqs = make(map[int64]struct{}, q.leased)
		}
		for i := range batch.Messages {
			seqs[batch.Messages[i].Seq] = struct{}{}
		}
	}
	return seqs
}

// wakeUp is a backlog's entry in the wheel: when to look at it again.
type wakeUp struct {
	at    time.Time
	place int
}

// wheel is the one timer of the broker: it keeps for every queue the next time at which something can be due, and costs
// nothing for a queue that only waits for events.
type wheel struct {
	kick chan struct{}

	mu sync.Mutex
	by wakeHeap
}

// set makes sure that q is looked at by at. An earlier look that is planned already stays and plans again.
func (w *wheel) set(q *backlog, at time.Time) {
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
		poke(w.kick)
	}
}

// take returns a queue whose time has come, or the time until the next.
func (w *wheel) take(now time.Time) (*backlog, time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.by) == 0 {
		return nil, math.MaxInt64
	}
	if pause := w.by[0].wake.at.Sub(now); pause > 0 {
		return nil, pause
	}
	q, ok := heap.Pop(&w.by).(*backlog)
	if !ok {
		return nil, 0
	}
	return q, 0
}

// wheelLoop looks at queues when their time has come.
func (b *Broker) wheelLoop() {
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
		case <-b.work.Done():
			return
		}
	}
}

// wakeHeap orders backlogs by wake.at, for container/heap.
type wakeHeap []*backlog

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
	if q, ok := x.(*backlog); ok {
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
