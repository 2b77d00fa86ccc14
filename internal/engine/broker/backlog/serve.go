package backlog

import "time"

// pump serves waiting calls of Next as far as it can and sees to what has to happen next. mu is held.
func (q *Queue) pump(now time.Time) {
	w := q.win
	if w == nil {
		return
	}
	w.Ripen(now)
	var wakeAt time.Time
	for len(w.waiters) > 0 && !q.paused() {
		wt := w.waiters[0]
		l, deadline := q.serve(wt, now)
		if l == nil && (!wt.poll || !q.none(now)) {
			wakeAt = deadline
			break
		}
		if l != nil {
			wt.batch <- &l.batch
		} else {
			wt.batch <- nil
		}
		w.waiters[0] = nil
		w.waiters = w.waiters[1:]
	}
	waiting := len(w.waiters) > 0 && !q.paused()
	if !w.busy && (w.WantsReady(q.newest, waiting) || w.WantsDue(now)) {
		if now.Before(w.retryAt) {
			wakeAt = earlier(wakeAt, w.retryAt)
		} else {
			w.busy = true
			_ = q.book.readers.Add(w) // it is never closed
		}
	}
	if waiting {
		if at, ok := w.NextVisible(now); ok {
			wakeAt = earlier(wakeAt, at)
		}
	}
	if !wakeAt.IsZero() {
		q.book.wheel.Set(q.wake, wakeAt)
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
func (q *Queue) serve(wt *waiter, now time.Time) (l *Lease, deadline time.Time) {
	w := q.win
	suspectSince, suspect := w.Suspect(now)
	n := w.Visible()
	if n == 0 {
		wt.firstSeen = time.Time{}
		if !suspect {
			return nil, time.Time{}
		}
		return q.lease(wt, 1, true, now), time.Time{}
	}
	head := w.VisibleSince()
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
		more := w.Behind(q.newest)
		// While there is more in the store, a read fills the batch, unless the window is full or the store does not answer.
		ready = more && w.Full() || !deadline.After(now) && (!more || now.Before(w.retryAt))
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
