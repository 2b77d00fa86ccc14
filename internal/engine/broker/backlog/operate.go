package backlog

import (
	"cmp"
	"slices"
	"time"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// paused reports whether no batch may be handed out. mu is held.
func (q *Queue) paused() bool { return q.settings.PausedAt > 0 }

// Settings returns what was configured last.
func (q *Queue) Settings() store.Settings {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.settings
}

// DeliveryDelay is the delay of messages that are sent without one; nil is none.
func (q *Queue) DeliveryDelay() *time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.settings.DeliveryDelay == 0 {
		return nil
	}
	return new(time.Duration(q.settings.DeliveryDelay) * time.Millisecond)
}

// Configured takes over what was stored, but for a purge, which Purge and PurgeDone take over. No other change of the
// settings may be under way.
func (q *Queue) Configured(s *store.Settings) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.settings = *s
	if r := s.Kept(); r != q.retention {
		q.retention = r
		q.nextExpiry = time.Time{}
	}
	q.pump(time.Now())
}

// Purge is how far the deletion of the messages below a Seq has come: the ready ones up to a Seq, the delayed ones up to a
// place.
type Purge struct {
	Below int64
	Ready int64
	Due   store.Due
}

// Purge makes every message below a Seq count as gone: none is delivered any more, and none that is under lease is changed
// by its settlement. The store still has them. Nothing may be between the store and the queue.
func (q *Queue) Purge(below int64, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	ready, due := q.marks(now)
	p := Purge{Below: below, Ready: ready - 1, Due: store.Due{VisibleAt: due}}
	if old := q.purge; old != nil {
		p.Ready = min(p.Ready, old.Ready)
		if old.Due.Before(p.Due) {
			p.Due = old.Due
		}
	}
	q.purge = &p
	q.settings.PurgedBelow = below
	q.newest = max(q.newest, below-1)
	q.lose(below - 1)
	if q.win == nil {
		q.readyMark = max(q.readyMark, below)
		q.idle = idleAge{}
		return
	}
	q.win.Purge(below)
	q.pump(now)
}

// Purging returns the state of the deletion; false when there is nothing to delete.
func (q *Queue) Purging() (Purge, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.purge == nil {
		return Purge{}, false
	}
	return *q.purge, true
}

// Purged tells the queue what was deleted, and how far the deletion has come.
func (q *Queue) Purged(p Purge, gone store.Count) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.purge = &p
	q.count -= gone.Messages
	q.bytes -= gone.Bytes
}

// PurgeDone tells the queue that everything below the Seq was deleted.
func (q *Queue) PurgeDone() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.purge = nil
	q.settings.PurgedBelow = 0
}

// lose marks what is under lease up to a Seq as gone. mu is held.
func (q *Queue) lose(last int64) {
	for batch, l := range q.leases {
		for i := range batch.Messages {
			if batch.Messages[i].Seq > last {
				continue
			}
			if l.gone == nil {
				l.gone = make([]bool, len(batch.Messages))
			}
			l.gone[i] = true
		}
	}
}

// Standing is where an operator's look at the queue begins.
type Standing struct {
	// Ready is a Seq below which no message with VisibleAt 0 is left, Due a time below which no other is, and Floor a Seq
	// below which every message was purged.
	Ready, Due, Floor int64
}

// Standing returns where to begin to look now.
func (q *Queue) Standing(now time.Time) Standing {
	q.mu.Lock()
	defer q.mu.Unlock()
	var s Standing
	s.Ready, s.Due = q.marks(now)
	if q.purge != nil {
		s.Floor = q.purge.Below
	}
	return s
}

// Flight is a message under lease: its Seq, that under which it was first accepted, since when it is, how many messages are in
// the same batch, and who has it; nil when that is not told yet.
type Flight struct {
	Seq, Accepted int64
	Since         time.Time
	Batch         int
	Holder        *queue.Holder
}

// InFlight returns the messages under lease, in order of Seq, without those that the store deleted meanwhile.
func (q *Queue) InFlight() []Flight {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := make([]Flight, 0, q.leased)
	for batch, l := range q.leases {
		for i := range batch.Messages {
			if !l.Expired(i) {
				list = append(list, Flight{
					Seq: batch.Messages[i].Seq, Accepted: batch.Messages[i].ID.Seq(), Since: l.since, Batch: len(batch.Messages), Holder: l.holder,
				})
			}
		}
	}
	slices.SortFunc(list, func(a, b Flight) int { return cmp.Compare(a.Seq, b.Seq) })
	return list
}

// Hold keeps messages from being leased until Removed, Rescheduled or Unchanged, and returns those that it holds: all but
// those under lease. No settlement may be under way, and no other hold.
func (q *Queue) Hold(heads []store.Head, now time.Time) (held []store.Head) {
	q.mu.Lock()
	defer q.mu.Unlock()
	leased := make(map[int64]struct{}, q.leased)
	for batch := range q.leases {
		for i := range batch.Messages {
			leased[batch.Messages[i].Seq] = struct{}{}
		}
	}
	q.heldReady, q.heldDue = q.marks(now)
	q.held = make(map[int64]struct{}, len(heads))
	for i := range heads {
		if _, ok := leased[heads[i].Seq]; !ok {
			held = append(held, heads[i])
			q.held[heads[i].Seq] = struct{}{}
		}
	}
	if q.win != nil {
		q.win.Withdraw(q.held)
	}
	return held
}

// Removed ends the hold of messages that are no longer in the queue.
func (q *Queue) Removed(gone store.Count) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.held = nil
	q.count -= gone.Messages
	q.bytes -= gone.Bytes
	q.idle = idleAge{}
	q.dueMoved = true
	if q.win != nil {
		// A read that began under the hold has seen them.
		q.win.Abandon()
		q.pump(time.Now())
	}
}

// Rescheduled ends the hold of messages that are visible at a time from now on, in milliseconds.
func (q *Queue) Rescheduled(at int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.readAgain(at)
}

// Unchanged ends the hold of messages to which nothing happened.
func (q *Queue) Unchanged() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.readAgain(q.heldDue)
}

// readAgain has what was held read again from the store. mu is held.
func (q *Queue) readAgain(at int64) {
	q.held = nil
	q.idle = idleAge{}
	ready, due := q.marks(time.Now())
	ready, due = min(ready, q.heldReady), min(due, q.heldDue, at)
	if q.win == nil {
		q.readyMark, q.dueMark = ready, due
		return
	}
	q.reopen(ready, due)
}

// Arrived tells the queue of messages with VisibleAt 0 that were committed with Seqs from first to last, and whose bodies
// are in the store alone. Whoever committed them has let nobody else commit new messages since.
func (q *Queue) Arrived(first, last int64, came store.Count) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.count == 0 && q.book.exact.Load() {
		q.expired = max(q.expired, first-1)
	}
	q.count += came.Messages
	q.bytes += came.Bytes
	q.newest = max(q.newest, last)
	if q.win == nil {
		q.idle = idleAge{}
		return
	}
	q.win.Gap()
	q.pump(time.Now())
}
