package broker

import (
	"context"
	"sync"
	"time"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// backlog is what the broker knows of one queue.
type backlog struct {
	b    *Broker
	id   int32
	name string

	// mu guards everything below. It is never held over a call to the store.
	mu sync.Mutex
	// count and bytes are exact once the count at the start is done; until then they count from it.
	count, bytes int64
	// newest is the highest Seq that a committed message of this queue may have, as far as the lanes were told.
	newest int64
	// readyMark and dueMark are the last ones recorded, or found when the last lane closed.
	readyMark, dueMark int64
	// dueFloorMark is the highest DueMark ever handed to the store: no message may be written with a lower VisibleAt.
	dueFloorMark int64
	// savedReady is the ReadyMark recorded last; dueMoved says that delayed messages were settled since.
	savedReady int64
	dueMoved   bool

	retention time.Duration
	// expired is a Seq up to which nothing is left that could expire; nextExpiry is when to look again.
	expired    int64
	nextExpiry time.Time

	// open is the number of open lanes. win is nil while there is none: then the queue costs no memory.
	open int
	win  *window
	// leases are the batches that are not settled yet, leased the number of their messages.
	leases map[*queue.Batch]*lease
	leased int
	// idle is the age that was read last while no lane was open.
	idle idleAge

	// wake is the place in the wheel. The wheel's lock guards it.
	wake wakeUp
}

// idleAge is the oldest message of a queue without a lane, as read at a time.
type idleAge struct {
	oldest time.Time
	readAt time.Time
}

// sendMetricsAge is how old the age of a queue without a lane may be in the answer to a send.
const sendMetricsAge = time.Second

func newBacklog(b *Broker, info *store.QueueInfo) *backlog {
	return &backlog{
		b: b, id: info.ID, name: info.Name,
		newest:    b.own.NextSeq - 1,
		readyMark: info.ReadyMark, dueMark: info.DueMark, dueFloorMark: info.DueMark, savedReady: info.ReadyMark,
		retention: queue.DefaultRetention,
		leases:    map[*queue.Batch]*lease{},
		wake:      wakeUp{place: -1},
	}
}

// publish tells the queue of messages that were committed, in order of Seq. The gate of whoever committed them is held.
func (q *backlog) publish(rows []store.Row, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.count == 0 && q.b.exact.Load() {
		// The queue was empty, so nothing older can expire.
		q.expired = max(q.expired, rows[0].Seq-1)
	}
	for i := range rows {
		r := &rows[i]
		q.count++
		q.bytes += int64(len(r.Body))
		switch {
		case q.win == nil:
			q.publishIdle(r)
		case r.VisibleAt > 0:
			q.win.addDue(r)
			// A window that had caught up still has: there is nothing to read between.
			if !q.win.reading && q.win.cursor == q.newest {
				q.win.cursor = r.Seq
			}
		default:
			q.win.commitReady(r, q.newest)
		}
		q.newest = max(q.newest, r.Seq)
	}
	q.pump(now)
}

// publishIdle notes a message of a queue without a lane.
func (q *backlog) publishIdle(r *store.Row) {
	if r.VisibleAt > 0 {
		q.dueMark = min(q.dueMark, r.VisibleAt)
	} else if q.idle.oldest.IsZero() {
		q.idle.readAt = time.Time{}
	}
}

// dueFloor is the lowest VisibleAt that may be written for a delayed message.
func (q *backlog) dueFloor() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.dueFloorMark
}

// pump serves waiting calls of Next as far as it can and sees to what has to happen next. mu is held.
func (q *backlog) pump(now time.Time) {
	w := q.win
	if w == nil {
		return
	}
	w.ripen(now)
	var wakeAt time.Time
	for len(w.waiters) > 0 {
		l, deadline := q.serve(w.waiters[0], now)
		if l == nil {
			wakeAt = deadline
			break
		}
		w.waiters[0].batch <- &l.batch
		w.waiters[0] = nil
		w.waiters = w.waiters[1:]
	}
	if !w.busy && (w.wantsReady(q.newest) || w.wantsDue(now)) {
		if now.Before(w.retryAt) {
			wakeAt = earlier(wakeAt, w.retryAt)
		} else {
			w.busy = true
			q.b.readers.add(w)
		}
	}
	if len(w.waiters) > 0 {
		wakeAt = w.nextVisible(now, wakeAt)
	}
	if !wakeAt.IsZero() {
		q.b.wheel.set(q, wakeAt)
	}
}

// earlier returns the earlier of two times, of which the first may be zero: none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// serve leases a batch for a waiting call when one is ready. When the call has to wait for time to pass, it returns until
// when; zero when only an event can help.
func (q *backlog) serve(wt *waiter, now time.Time) (l *lease, deadline time.Time) {
	w := q.win
	suspectSince, suspect := w.suspect(now)
	n := w.visible()
	if n == 0 {
		wt.firstSeen = time.Time{}
		if !suspect {
			return nil, time.Time{}
		}
		return q.lease(wt, 1, true, now), time.Time{}
	}
	head := since(w.oldest().front())
	if suspect && suspectSince < head {
		return q.lease(wt, 1, true, now), time.Time{}
	}
	if wt.firstSeen.IsZero() {
		wt.firstSeen = now
	}
	ready := n >= wt.size
	if !ready {
		// The clock may have been set back since the message was accepted: then the wait counts from when it was seen.
		deadline = earlier(time.UnixMilli(head), wt.firstSeen).Add(wt.wait)
		more := w.cursor < q.newest
		// While there is more in the store, a read fills the batch, unless the window is full or the store does not answer.
		ready = more && w.full() || !deadline.After(now) && (!more || now.Before(w.retryAt))
	}
	switch {
	case ready:
		return q.lease(wt, min(n, wt.size), false, now), time.Time{}
	case suspect:
		// Rather than to wait for the batch to fill.
		return q.lease(wt, 1, true, now), time.Time{}
	case !deadline.After(now):
		// The end of the read that holds it up wakes it.
		return nil, time.Time{}
	default:
		return nil, deadline
	}
}

// lease takes n messages, or one suspect, out of the window for a call.
func (q *backlog) lease(wt *waiter, n int, suspect bool, now time.Time) *lease {
	l := &lease{win: q.win, lane: wt.lane}
	l.batch.Queue = q.name
	l.batch.Messages = make([]queue.Message, 0, n)
	if suspect {
		q.win.popSuspect(l, q.b.own.Store)
	} else {
		q.win.popTo(l, q.b.own.Store, n)
	}
	q.leases[&l.batch] = l
	q.leased += len(l.batch.Messages)
	l.batch.Metrics = q.metrics(now)
	return l
}

// metrics is the backlog as far as memory knows it. mu is held.
func (q *backlog) metrics(now time.Time) queue.Metrics {
	m := queue.Metrics{Count: max(q.count, 0), Bytes: max(q.bytes, 0)}
	if q.win == nil {
		m.Oldest = q.idle.oldest
		return m
	}
	var oldest int64
	note := func(sent int64) {
		if oldest == 0 || sent < oldest {
			oldest = sent
		}
	}
	for _, l := range q.leases {
		note(l.oldest)
	}
	w := q.win
	if w.ready.len() > 0 {
		note(w.ready.front().SentAt)
	}
	if w.mature.len() > 0 {
		note(w.mature.front().SentAt)
	}
	for _, h := range []dueHeap{w.due, w.suspects} {
		if len(h) > 0 && h[0].VisibleAt <= now.UnixMilli() {
			note(h[0].SentAt)
		}
	}
	if oldest > 0 {
		m.Oldest = time.UnixMilli(oldest)
	}
	return m
}

// Metrics is the backlog of a queue. Until the count at the start is done, it holds what was sent and settled since. For
// a queue without a lane the age is read from the store; it is left out when the store does not answer.
func (b *Broker) Metrics(ctx context.Context, queueName string) (queue.Metrics, error) {
	q, err := b.named(queueName)
	if err != nil {
		return queue.Metrics{}, err
	}
	return b.metrics(ctx, q, 0), nil
}

// metrics returns the backlog of q; the age of a queue without a lane may be maxAge old.
func (b *Broker) metrics(ctx context.Context, q *backlog, maxAge time.Duration) queue.Metrics {
	now := time.Now()
	q.mu.Lock()
	stale := q.win == nil && (q.idle.readAt.IsZero() || now.Sub(q.idle.readAt) > maxAge)
	after, newest, due := q.readyMark-1, q.newest, store.Due{VisibleAt: q.dueMark}
	if !stale {
		defer q.mu.Unlock()
		return q.metrics(now)
	}
	q.idle.readAt = now
	q.mu.Unlock()
	oldest, ok := b.readOldest(ctx, q, after, newest, due, now)
	q.mu.Lock()
	defer q.mu.Unlock()
	if ok {
		q.idle.oldest = oldest
	}
	return q.metrics(now)
}

// readOldest looks into the store for the message of q that has been visible longest.
func (b *Broker) readOldest(ctx context.Context, q *backlog, after, newest int64, due store.Due, now time.Time) (time.Time, bool) {
	ready, err := b.store.ReadReady(ctx, q.id, after, newest, 1, 1)
	if err != nil {
		return time.Time{}, false
	}
	delayed, err := b.store.ReadDue(ctx, q.id, due, now.UnixMilli(), 1, 1)
	if err != nil {
		return time.Time{}, false
	}
	var oldest time.Time
	for _, r := range append(ready, delayed...) {
		oldest = earlier(oldest, time.UnixMilli(r.SentAt))
	}
	return oldest, true
}
