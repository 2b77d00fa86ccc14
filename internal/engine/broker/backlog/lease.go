package backlog

import (
	"time"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// Lease is a batch that is not settled yet. The lock of its queue guards it.
type Lease struct {
	batch queue.Batch
	lane  *Lane
	// win is the window that the messages came from.
	win *openWindow
	// since is when it began, and holder who has it; nil until Held.
	since  time.Time
	holder *queue.Holder
	// visibleAt holds the VisibleAt of the messages; nil when all of them have 0.
	visibleAt []int64
	// oldest is the lowest send time, in milliseconds.
	oldest int64
	// place is that in Queue.ages.
	place int
	// settling is set from Claim to Settled: the lease no longer ends by itself.
	settling bool
	// gone says which messages the store deleted under the lease; nil when there is none.
	gone []bool
}

// Key implements order.Entry.
func (l *Lease) Key() int64 { return l.oldest }

// Place implements order.Entry.
func (l *Lease) Place() *int { return &l.place }

// message makes what a handler sees of a row.
func message(database uint64, r *store.Row) queue.Message {
	accepted := r.Seq
	if r.Origin != 0 {
		accepted = r.Origin
	}
	return queue.Message{
		Seq: r.Seq, ID: queue.NewID(database, accepted), Format: r.Format, Body: r.Body,
		SentAt: time.UnixMilli(r.SentAt), Failures: int(r.Failures), Losses: int(r.Losses), Trace: r.Trace,
	}
}

func (l *Lease) add(database uint64, r *store.Row) {
	n := len(l.batch.Messages)
	if r.VisibleAt > 0 && l.visibleAt == nil {
		l.visibleAt = make([]int64, n, cap(l.batch.Messages))
	}
	if l.visibleAt != nil {
		l.visibleAt = append(l.visibleAt, r.VisibleAt)
	}
	l.batch.Messages = append(l.batch.Messages, message(database, r))
	if n == 0 || r.SentAt < l.oldest {
		l.oldest = r.SentAt
	}
}

// row is the row of message i as it was when it was leased, in a queue.
func (l *Lease) row(queueID int32, i int) store.Row {
	m := &l.batch.Messages[i]
	r := store.Row{
		Queue: queueID, Seq: m.Seq, Format: m.Format, Failures: int16(m.Failures), Losses: int16(m.Losses),
		SentAt: m.SentAt.UnixMilli(), Body: m.Body, Trace: m.Trace,
	}
	if accepted := m.ID.Seq(); accepted != m.Seq {
		r.Origin = accepted
	}
	if l.visibleAt != nil {
		r.VisibleAt = l.visibleAt[i]
	}
	return r
}

// Expired reports whether the store deleted message i under the lease. Between Claim and Settled only Queue.Expire changes
// the answer, so it needs no lock of whoever keeps that away.
func (l *Lease) Expired(i int) bool { return l.gone != nil && l.gone[i] }

// Size is the bytes of the body of message i.
func (l *Lease) Size(i int) int { return len(l.batch.Messages[i].Body) }

// lease takes n messages, or one suspect, out of the window for a call. mu is held.
func (q *Queue) lease(wt *waiter, n int, suspect bool, now time.Time) *Lease {
	l := &Lease{win: q.win, lane: wt.lane, since: now}
	l.batch.Queue = q.Name
	l.batch.Messages = make([]queue.Message, 0, n)
	if suspect {
		row := q.win.TakeSuspect()
		l.add(q.book.database, &row)
	} else {
		q.win.Take(n, func(r *store.Row) { l.add(q.book.database, r) })
	}
	q.begin(l)
	l.batch.Metrics = q.metrics(now)
	return l
}

// Claim hands the lease of a batch to submit, and nil when it is over or was claimed before. When submit returns true, the
// lease ends with Settled and no longer with its lane. Submit runs under the lock of the queue, so that the lane cannot
// close in between; it must not call back.
func (q *Queue) Claim(batch *queue.Batch, submit func(*Lease) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.leases[batch]
	if l != nil && l.settling {
		l = nil
	}
	if submit(l) {
		l.settling = true
	}
}

// Held tells who has a batch. One that is over stays over.
func (q *Queue) Held(batch *queue.Batch, holder *queue.Holder) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if l := q.leases[batch]; l != nil {
		l.holder = holder
	}
}

// begin takes a lease into the books. mu is held.
func (q *Queue) begin(l *Lease) {
	l.place = -1
	q.leases[&l.batch] = l
	q.leased += len(l.batch.Messages)
	q.ages.Push(l)
}

// end takes a lease out of the books. mu is held.
func (q *Queue) end(l *Lease) {
	delete(q.leases, &l.batch)
	q.ages.Remove(l)
	q.leased -= len(l.batch.Messages)
}
