package backlog

import (
	"time"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// Mark returns the marks of the queue when there is reason to record them: the ready side moved. The time of the due side
// moves with the clock, and is worth no write of its own. Nothing may be between the store and the queue.
func (q *Queue) Mark(now time.Time) (store.Mark, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	ready, due := q.marks(now)
	if ready <= q.savedReady && !q.dueMoved {
		return store.Mark{}, false
	}
	q.savedReady, q.dueMoved = ready, false
	q.dueFloor = max(q.dueFloor, due)
	return store.Mark{Queue: q.ID, ReadyMark: ready, DueMark: due}, true
}

// marks returns where reading has to begin so that nothing unsettled is missed. mu is held.
func (q *Queue) marks(now time.Time) (ready, due int64) {
	if q.win == nil {
		return q.readyMark, q.dueMark
	}
	ready, due = q.win.Marks(now)
	for batch, l := range q.leases {
		for i := range batch.Messages {
			switch {
			case l.Expired(i):
			case l.visibleAt != nil && l.visibleAt[i] > 0:
				due = min(due, l.visibleAt[i])
			default:
				ready = min(ready, batch.Messages[i].Seq)
			}
		}
	}
	return ready, due
}

// Expirable returns the range in which messages may have outlived their retention, after < Seq < before; false while there
// is no reason to look, and while the queue is being purged.
func (q *Queue) Expirable(now time.Time) (after, before int64, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	before = min(store.SeqAt(now.Add(-q.retention)), q.newest+1)
	if q.purge != nil || q.count <= 0 || now.Before(q.nextExpiry) || before <= q.expired+1 {
		return 0, 0, false
	}
	return q.expired, before, true
}

// Expire tells the queue what the store deleted of the messages before a Seq. With more, there may be others behind the
// last of them; else the range is done. No settlement may be under way, so that each leased message is either settled or
// known to be under lease.
func (q *Queue) Expire(gone []store.Expired, before int64, more bool, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.expired = before - 1
	q.nextExpiry = now.Add(queue.ExpireEvery)
	if len(gone) == 0 {
		return
	}
	if more {
		q.expired = gone[len(gone)-1].Seq
		q.nextExpiry = time.Time{}
	}
	q.forget(gone)
}

// forget takes messages out of the books that the store deleted: all up to the last of them. mu is held.
func (q *Queue) forget(gone []store.Expired) {
	q.count -= int64(len(gone))
	for _, e := range gone {
		q.bytes -= int64(e.Bytes)
	}
	q.idle = idleAge{}
	last := gone[len(gone)-1].Seq
	q.lose(last)
	if q.win != nil {
		q.win.Expire(last)
		q.pump(time.Now())
	}
}

// Retention is how long messages of the queue stay unsettled.
func (q *Queue) Retention() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.retention
}
