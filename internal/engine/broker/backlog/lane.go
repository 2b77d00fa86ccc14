package backlog

import (
	"context"
	"slices"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/pace"
	"github.com/runlot/runlot/internal/engine/broker/store"
	"github.com/runlot/runlot/internal/engine/broker/window"
)

// Lane is a supply of batches from one queue. A queue has as many as consumers ask for, one window of messages for all of
// them, and none while no lane is open: an unconsumed queue costs neither memory nor reads.
type Lane struct {
	q *Queue
	// closed is why Next fails. The queue's lock guards it.
	closed error
}

// waiter is a call of Next that waits for its batch.
type waiter struct {
	lane *Lane
	size int
	wait time.Duration
	// poll: it gets no batch rather than to wait, once it is known that there is none.
	poll bool
	// firstSeen is when the waiter first saw messages ready.
	firstSeen time.Time
	// batch gets the batch, or nil when the lane closes, and for a poll that finds none.
	batch chan *queue.Batch
}

// openWindow is the window of a queue with an open lane, with those who wait for its messages and what fills it.
type openWindow struct {
	*window.Window
	q       *Queue
	waiters []*waiter
	// busy: the window is in the list of reads or in a reader's hands.
	busy bool
	// retryAt is when to read again after a failure.
	retryAt time.Time
	retry   pace.Backoff
}

// Lane opens a lane of the queue. The caller closes it. It fails with the refusal of the book.
func (q *Queue) Lane() (*Lane, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.removed {
		return nil, missing(q.Name)
	}
	if err := q.book.refusal(); err != nil {
		return nil, err
	}
	q.lanes++
	if q.lanes == 1 {
		q.book.lanes.Add(1)
		q.open()
		q.pump(time.Now())
	}
	return &Lane{q: q}, nil
}

// open makes an empty window that is filled from the marks on. mu is held.
func (q *Queue) open() {
	b := q.book
	w := window.New(&b.bounds, func() int { return int(b.lanes.Load()) }, q.readyMark, q.dueMark)
	if q.purge != nil {
		w.Purge(q.purge.Below)
	}
	q.win = &openWindow{q: q, Window: w}
}

// reopen has everything read again from places on, marks or before them. mu is held and a lane is open.
func (q *Queue) reopen(ready, due int64) {
	q.readyMark, q.dueMark = ready, due
	q.dueFloor = max(q.dueFloor, due)
	waiters := q.win.waiters
	q.open()
	q.win.waiters = waiters
	q.pump(time.Now())
}

// Close fails the lane's calls of Next and ends the leases of its batches that nobody has settled yet: their messages
// can be delivered again at once, without having spent a retry. Settlements under way are carried out. Twice is fine.
func (l *Lane) Close() {
	q := l.q
	q.mu.Lock()
	defer q.mu.Unlock()
	if l.closed == nil {
		q.closeLane(l, fault.New(fault.Unavailable, queue.CodeOverloaded, "the lane of queue %q is closed", q.Name))
	}
}

func (q *Queue) closeLane(l *Lane, reason error) {
	l.closed = reason
	w := q.win
	w.waiters = slices.DeleteFunc(w.waiters, func(wt *waiter) bool {
		if wt.lane == l {
			close(wt.batch)
		}
		return wt.lane == l
	})
	var back []store.Row
	again := false
	ready, due := q.marks(time.Now())
	for batch, ls := range q.leases {
		if ls.lane != l || ls.settling {
			continue
		}
		if ls.win != w {
			// The window in its place may or may not have passed these messages.
			again = true
			q.end(ls)
			continue
		}
		for i := range batch.Messages {
			if !ls.Expired(i) {
				back = append(back, ls.row(q.ID, i))
			}
		}
		q.end(ls)
	}
	w.PutBack(back)
	q.lanes--
	if q.lanes > 0 && again {
		q.reopen(ready, due)
		return
	}
	if q.lanes > 0 {
		q.pump(time.Now())
		return
	}
	if !again {
		ready, due = q.marks(time.Now())
	}
	q.readyMark, q.dueMark = ready, due
	q.dueFloor = max(q.dueFloor, q.dueMark)
	q.win = nil
	q.idle = idleAge{}
	q.book.lanes.Add(-1)
}

// Next waits until size messages are ready, or at least one has been ready for wait, and leases them to the caller, the
// one that has been visible longest first. A message that has to be alone comes alone; so does a batch smaller than size
// when the memory bound holds no more. Several calls may wait; they are served in turn. It fails only when ctx ends or
// the lane or the broker closes. Who gets a batch settles it.
func (l *Lane) Next(ctx context.Context, size int, wait time.Duration) (*queue.Batch, error) {
	return l.wait(ctx, &waiter{size: size, wait: wait})
}

// wait puts a call in the line.
func (l *Lane) wait(ctx context.Context, wt *waiter) (*queue.Batch, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	q := l.q
	wt.lane, wt.size, wt.batch = l, max(wt.size, 1), make(chan *queue.Batch, 1)
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

// refusal is why the lane gives no batch. The queue's lock is held.
func (l *Lane) refusal() error {
	switch {
	case l.closed != nil:
		return l.closed
	case l.q.removed:
		return missing(l.q.Name)
	}
	return l.q.book.refusal()
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
func (q *Queue) leave(wt *waiter) bool {
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
	if q.win == nil {
		return 0
	}
	ready, delayed, all := q.win.Deliverable(time.Now(), q.newest)
	if !all {
		ready = max(ready, q.count-int64(q.leased)-max(delayed, 0))
	}
	return ready
}
