package broker

import (
	"context"
	"slices"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// Lane is a consumer's access to one queue: its supply of batches. A queue has as many as consumers ask for, one window
// of messages for all of them, and none while no lane is open: an unconsumed queue costs neither memory nor reads.
type Lane struct {
	q *backlog
	// closed is why Next fails. The backlog's lock guards it.
	closed error
}

// waiter is a call of Next that waits for its batch.
type waiter struct {
	lane *Lane
	size int
	wait time.Duration
	// firstSeen is when the waiter first saw messages ready.
	firstSeen time.Time
	// batch gets the batch, or nil when the lane closes.
	batch chan *queue.Batch
}

// lease is a batch that is not settled yet.
type lease struct {
	batch queue.Batch
	lane  *Lane
	// win is the window that the messages came from.
	win *window
	// visibleAt holds the VisibleAt of the messages; nil when all of them have 0.
	visibleAt []int64
	// oldest is the lowest send time, in milliseconds.
	oldest int64
	// settling is set from Settle to the commit: the lease no longer ends by itself.
	settling bool
	// gone says which messages the store deleted under the lease; nil when there is none.
	gone []bool
}

// message makes what a handler sees of a row.
func message(database uint64, r *store.Row) queue.Message {
	accepted := r.Seq
	if r.Origin != 0 {
		accepted = r.Origin
	}
	return queue.Message{
		Seq: r.Seq, ID: queue.NewID(database, accepted), Format: r.Format, Body: r.Body,
		SentAt: time.UnixMilli(r.SentAt), Failures: int(r.Failures), Losses: int(r.Losses),
	}
}

func (l *lease) add(database uint64, r *store.Row) {
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

// row is the row of message i as it was when it was leased.
func (l *lease) row(queueID int32, i int) store.Row {
	m := &l.batch.Messages[i]
	r := store.Row{
		Queue: queueID, Seq: m.Seq, Format: m.Format, Failures: int16(m.Failures), Losses: int16(m.Losses),
		SentAt: m.SentAt.UnixMilli(), Body: m.Body,
	}
	if accepted := m.ID.Seq(); accepted != m.Seq {
		r.Origin = accepted
	}
	if l.visibleAt != nil {
		r.VisibleAt = l.visibleAt[i]
	}
	return r
}

func (l *lease) expired(i int) bool { return l.gone != nil && l.gone[i] }

// Lane opens a lane of a queue. The caller closes it.
func (b *Broker) Lane(queueName string) (*Lane, error) {
	q, err := b.named(queueName)
	if err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := b.settles.refusal(); err != nil {
		return nil, err
	}
	q.open++
	if q.open == 1 {
		b.lanes.Add(1)
		q.win = &window{
			q: q, bounds: &b.bounds, lanes: func() int { return int(b.lanes.Load()) },
			cursor: q.readyMark - 1, horizon: store.Due{VisibleAt: q.dueMark},
		}
		q.pump(time.Now())
	}
	return &Lane{q: q}, nil
}

// Close fails the lane's calls of Next and ends the leases of its batches that nobody has settled yet: their messages
// can be delivered again at once, without having spent a retry. Settlements under way are carried out. Twice is fine.
func (l *Lane) Close() {
	q := l.q
	q.mu.Lock()
	defer q.mu.Unlock()
	if l.closed == nil {
		q.closeLane(l, fault.New(fault.Unavailable, queue.CodeOverloaded, "the lane of queue %q is closed", q.name))
	}
}

func (q *backlog) closeLane(l *Lane, reason error) {
	l.closed = reason
	w := q.win
	w.waiters = slices.DeleteFunc(w.waiters, func(wt *waiter) bool {
		if wt.lane == l {
			close(wt.batch)
		}
		return wt.lane == l
	})
	var back []store.Row
	for batch, ls := range q.leases {
		if ls.lane != l || ls.settling {
			continue
		}
		for i := range batch.Messages {
			if !ls.expired(i) {
				back = append(back, ls.row(q.id, i))
			}
		}
		q.end(ls)
	}
	w.putBack(back)
	q.open--
	if q.open > 0 {
		q.pump(time.Now())
		return
	}
	q.readyMark, q.dueMark = q.marks(time.Now())
	q.dueFloorMark = max(q.dueFloorMark, q.dueMark)
	q.win = nil
	q.idle = idleAge{}
	q.b.lanes.Add(-1)
}

// end takes a lease out of the books.
func (q *backlog) end(ls *lease) {
	delete(q.leases, &ls.batch)
	q.leased -= len(ls.batch.Messages)
}

// marks returns where reading has to begin so that nothing unsettled is missed. mu is held.
func (q *backlog) marks(now time.Time) (ready, due int64) {
	w := q.win
	if w == nil {
		return q.readyMark, q.dueMark
	}
	ready, due = w.cursor+1, min(w.dueMark(), now.UnixMilli())
	if w.ready.len() > 0 {
		ready = min(ready, w.ready.front().Seq)
	}
	for batch, ls := range q.leases {
		for i := range batch.Messages {
			switch {
			case ls.expired(i):
			case ls.visibleAt != nil && ls.visibleAt[i] > 0:
				due = min(due, ls.visibleAt[i])
			default:
				ready = min(ready, batch.Messages[i].Seq)
			}
		}
	}
	return ready, due
}

// closeLanes closes every lane; settlements under way stay.
func (b *Broker) closeLanes(reason error) {
	for _, q := range b.all() {
		q.mu.Lock()
		if w := q.win; w != nil {
			for _, wt := range w.waiters {
				wt.lane.closed = reason
				close(wt.batch)
			}
			w.waiters = nil
		}
		q.mu.Unlock()
	}
}

// Next waits until size messages are ready, or at least one has been ready for wait, and leases them to the caller, the
// one that has been visible longest first. A message that has to be alone comes alone; so does a batch smaller than size
// when the memory bound holds no more. Several calls may wait; they are served in turn. It fails only when ctx ends or
// the lane or the broker closes. Who gets a batch settles it.
func (l *Lane) Next(ctx context.Context, size int, wait time.Duration) (*queue.Batch, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	q := l.q
	wt := &waiter{lane: l, size: max(size, 1), wait: wait, batch: make(chan *queue.Batch, 1)}
	q.mu.Lock()
	if err := l.refusal(); err != nil {
		q.mu.Unlock()
		return nil, err
	}
	q.win.waiters = append(q.win.waiters, wt)
	q.pump(time.Now())
	q.mu.Unlock()
	select {
	case batch := <-wt.batch:
		return l.got(batch)
	case <-ctx.Done():
	}
	if q.leave(wt) {
		return nil, context.Cause(ctx)
	}
	return l.got(<-wt.batch)
}

// refusal is why the lane gives no batch. The backlog's lock is held.
func (l *Lane) refusal() error {
	if l.closed != nil {
		return l.closed
	}
	return l.q.b.settles.refusal()
}

func (l *Lane) got(batch *queue.Batch) (*queue.Batch, error) {
	if batch != nil {
		return batch, nil
	}
	l.q.mu.Lock()
	defer l.q.mu.Unlock()
	return nil, l.refusal()
}

// leave takes a call of Next out of the line; false when it has been served meanwhile.
func (q *backlog) leave(wt *waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.win == nil {
		return false
	}
	i := slices.Index(q.win.waiters, wt)
	if i < 0 {
		return false
	}
	q.win.waiters = slices.Delete(q.win.waiters, i, i+1)
	q.pump(time.Now())
	return true
}

// Ready is the number of messages that could be delivered now, as far as it is known: exact while the lane holds all of
// them, else what is neither leased nor known to be delayed.
func (l *Lane) Ready() int64 {
	q := l.q
	q.mu.Lock()
	defer q.mu.Unlock()
	w := q.win
	if w == nil {
		return 0
	}
	now := time.Now()
	w.ripen(now)
	ready := int64(w.visible())
	for i := range w.suspects {
		if w.suspects[i].VisibleAt <= now.UnixMilli() {
			ready++
		}
	}
	if w.cursor < q.newest || w.horizon.VisibleAt <= now.UnixMilli() {
		delayed := int64(w.dueRows()+w.ready.len()) - ready
		ready = max(ready, q.count-int64(q.leased)-max(delayed, 0))
	}
	return ready
}
