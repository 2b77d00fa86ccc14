package backlog

import (
	"context"
	"sync"
	"time"

	"github.com/runlot/runlot/internal/core/order"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/store"
	"github.com/runlot/runlot/internal/engine/broker/wheel"
)

// Queue is what the broker knows of one queue.
type Queue struct {
	ID   int32
	Name string
	// Created is when it was declared.
	Created time.Time
	book    *Book

	// mu guards everything below. It is never held over a call to the store.
	mu      sync.Mutex
	removed bool // set when the queue ended
	// count and bytes are exact once the count at the start is done; until then they count from it.
	count, bytes int64
	// newest is the highest Seq that a committed message of this queue may have, as far as the lanes were told.
	newest int64
	// readyMark and dueMark are the last ones recorded, or found when the last lane closed.
	readyMark, dueMark int64
	// dueFloor is the highest DueMark ever handed to the store: no message may be written with a lower VisibleAt.
	dueFloor int64
	// savedReady is the ReadyMark recorded last; dueMoved says that delayed messages were settled since.
	savedReady int64
	dueMoved   bool

	// settings are what the store keeps for the queue, retention what follows from them.
	settings  store.Settings
	retention time.Duration
	// purge is how far the deletion of what was purged has come; nil when there is nothing to delete.
	purge *Purge
	// held are the messages that an operator's call is about to change; heldReady and heldDue are the marks from before.
	held               map[int64]struct{}
	heldReady, heldDue int64
	// expired is a Seq up to which nothing is left that could expire; nextExpiry is when to look again.
	expired    int64
	nextExpiry time.Time

	// lanes is the number of open lanes. win is nil while there is none: then the queue costs no memory.
	lanes int
	win   *openWindow
	// leases are the batches that are not settled yet, leased the number of their messages.
	leases map[*queue.Batch]*Lease
	leased int
	// ages are the leases in order of their oldest message.
	ages order.Heap[*Lease]
	// idle is the age that was read last while no lane was open.
	idle idleAge

	// wake is the place in the wheel. The wheel's lock guards it.
	wake *wheel.Entry[*Queue]
}

// idleAge is the oldest message of a queue without a lane, as read at a time.
type idleAge struct {
	oldest time.Time
	readAt time.Time
}

func newQueue(b *Book, info *store.QueueInfo) *Queue {
	q := &Queue{
		book: b, ID: info.ID, Name: info.Name, Created: time.UnixMilli(info.Created),
		newest:    b.nextSeq - 1,
		readyMark: info.ReadyMark, dueMark: info.DueMark, dueFloor: info.DueMark, savedReady: info.ReadyMark,
		settings: info.Settings, retention: info.Kept(),
		leases: map[*queue.Batch]*Lease{},
	}
	q.wake = wheel.NewEntry(q)
	if info.PurgedBelow > 0 {
		// Nobody knows how far the deletion came.
		q.purge = &Purge{Below: info.PurgedBelow}
	}
	return q
}

// Publish tells the queue of messages that were committed, in order of Seq. Whoever committed them has let nobody else
// commit new messages since.
func (q *Queue) Publish(rows []store.Row, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.count == 0 && q.book.exact.Load() {
		// The queue was empty, so nothing older can expire.
		q.expired = max(q.expired, rows[0].Seq-1)
	}
	for i := range rows {
		r := &rows[i]
		q.count++
		q.bytes += int64(len(r.Body))
		if q.win != nil {
			q.win.Commit(r, q.newest)
		} else {
			q.publishIdle(r)
		}
		q.newest = max(q.newest, r.Seq)
	}
	q.pump(now)
}

// publishIdle notes a message of a queue without a lane.
func (q *Queue) publishIdle(r *store.Row) {
	if r.VisibleAt > 0 {
		q.dueMark = min(q.dueMark, r.VisibleAt)
	} else if q.idle.oldest.IsZero() {
		q.idle.readAt = time.Time{}
	}
}

// DueFloor is the lowest VisibleAt, in milliseconds, that may be written for a delayed message.
func (q *Queue) DueFloor() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.dueFloor
}

// Settled ends a lease whose decisions were committed. It takes the retries and moves of the settlement off the front of
// those of its group, and appends the rows of the moves, as they are in their new queues, to moved.
func (q *Queue) Settled(l *Lease, decisions []queue.Decision, retries []store.Retry, moves []store.Move, moved *[]store.Row, now time.Time) ([]store.Retry, []store.Move) {
	q.mu.Lock()
	defer q.mu.Unlock()
	w := q.win
	q.end(l)
	if w != nil && w != l.win {
		// The window was opened while this was settled: a read under way may have seen the messages as they were.
		w.Invalidate()
	}
	for i := range decisions {
		if l.Expired(i) {
			continue
		}
		if l.visibleAt != nil && l.visibleAt[i] > 0 {
			q.dueMoved = true
			if w != nil {
				w.Settled(store.Due{VisibleAt: l.visibleAt[i], Seq: decisions[i].Seq})
			}
		}
		switch decisions[i].Verdict {
		case queue.Retry:
			row := l.row(q.ID, i)
			row.Failures, row.Losses, row.VisibleAt = retries[0].Failures, retries[0].Losses, retries[0].VisibleAt
			if w != nil {
				w.AddDue(&row)
			} else {
				q.publishIdle(&row)
			}
			retries = retries[1:]
			continue
		case queue.DeadLetter:
			to := moves[0].To
			row := l.row(to.Queue, i)
			row.Origin = l.batch.Messages[i].ID.Seq()
			row.Seq, row.Failures, row.Losses, row.VisibleAt = to.Seq, 0, 0, 0
			*moved = append(*moved, row)
			moves = moves[1:]
		case queue.Ack, queue.Drop:
		}
		q.count--
		q.bytes -= int64(len(l.batch.Messages[i].Body))
	}
	q.pump(now)
	return retries, moves
}

// metrics is the backlog as far as memory knows it. mu is held.
func (q *Queue) metrics(now time.Time) queue.Metrics {
	m := queue.Metrics{Count: max(q.count, 0), Bytes: max(q.bytes, 0)}
	if q.win == nil {
		m.Oldest = q.idle.oldest
		return m
	}
	oldest := q.win.OldestSent(now)
	if l, ok := q.ages.First(); ok && (oldest == 0 || l.oldest < oldest) {
		oldest = l.oldest
	}
	if oldest > 0 {
		m.Oldest = time.UnixMilli(oldest)
	}
	return m
}

// Metrics returns the backlog of the queue. Until SetExact, it holds what was told since the start. The age of a queue
// without a lane is read from the store, unless it was read less than maxAge ago; it is left out when the store does not
// answer.
func (q *Queue) Metrics(ctx context.Context, maxAge time.Duration) queue.Metrics {
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
	oldest, ok := q.readOldest(ctx, after, newest, due, now)
	q.mu.Lock()
	defer q.mu.Unlock()
	if ok {
		q.idle.oldest = oldest
	}
	return q.metrics(now)
}

// readOldest looks into the store for the message that has been visible longest.
func (q *Queue) readOldest(ctx context.Context, after, newest int64, due store.Due, now time.Time) (time.Time, bool) {
	ready, err := q.book.reader.ReadReady(ctx, q.ID, after, newest, 1, 1)
	if err != nil {
		return time.Time{}, false
	}
	delayed, err := q.book.reader.ReadDue(ctx, q.ID, due, now.UnixMilli(), 1, 1)
	if err != nil {
		return time.Time{}, false
	}
	var oldest time.Time
	for _, r := range append(ready, delayed...) {
		oldest = earlier(oldest, time.UnixMilli(r.SentAt))
	}
	return oldest, true
}
