package backlog

import (
	"context"
	"maps"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/span"
	"github.com/runlot/runlot/internal/engine/broker/pace"
)

// FillLoop fills windows from the store until ctx ends. Up to queue.LaneReaders goroutines run it.
func (b *Book) FillLoop(ctx context.Context) {
	var w []*openWindow
	for {
		w = b.readers.Take(w[:0], func(*openWindow) bool { return false })
		if len(w) == 0 {
			select {
			case <-b.readers.Kick:
				continue
			case <-ctx.Done():
				return
			}
		}
		w[0].q.refill(ctx, w[0])
	}
}

// refill reads what the window wants, once each side. No other reader has the window in hand.
func (q *Queue) refill(ctx context.Context, w *openWindow) {
	q.mu.Lock()
	if q.win != w {
		// The lane was closed, and may have been opened again with another window.
		q.mu.Unlock()
		return
	}
	ready, due := w.WantsReady(q.newest, len(w.waiters) > 0), w.WantsDue(time.Now())
	q.mu.Unlock()
	if ready {
		ready = q.refillReady(ctx, w)
	}
	if due {
		due = q.refillDue(ctx, w)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.win != w {
		return
	}
	w.busy = false
	if ready || due {
		w.retry = pace.Backoff{}
	}
	q.pump(time.Now())
}

// refillReady reads the ready side once; false when that failed.
func (q *Queue) refillReady(ctx context.Context, w *openWindow) bool {
	q.mu.Lock()
	read := w.BeginReady(q.newest)
	q.mu.Unlock()
	rows, err := q.book.reader.ReadReady(ctx, q.ID, read.After, read.UpTo, read.Rows, read.Bytes)
	q.mu.Lock()
	defer q.mu.Unlock()
	if err != nil {
		w.CancelReady()
	} else {
		w.EndReady(read, rows, q.newest, q.leasedSeqs(w))
	}
	return q.endRead(ctx, w, err)
}

// EndOfTime is a time in milliseconds that no message reaches and that every store can say: the end of the year 9999.
const EndOfTime = 253_402_300_799_999

// refillDue reads the due side once; false when that failed.
func (q *Queue) refillDue(ctx context.Context, w *openWindow) bool {
	q.mu.Lock()
	read := w.BeginDue()
	q.mu.Unlock()
	rows, err := q.book.reader.ReadDue(ctx, q.ID, read.After, EndOfTime, read.Rows, read.Bytes)
	q.mu.Lock()
	defer q.mu.Unlock()
	if err != nil {
		w.CancelDue()
	} else {
		w.EndDue(read, rows, q.newest, q.leasedSeqs(nil))
	}
	return q.endRead(ctx, w, err)
}

// endRead sees to the next try after a failure.
func (q *Queue) endRead(ctx context.Context, w *openWindow, err error) bool {
	if err == nil {
		return true
	}
	pause := w.retry.Step()
	w.retryAt = time.Now().Add(pause)
	if ctx.Err() == nil {
		q.book.log.Warn("cannot read waiting messages; trying again", "queue", q.Name, "error", fault.Detail(err), "after", span.Text(pause))
	}
	return false
}

// leasedSeqs is the set of messages that an operator's call holds or that are under lease of a window other than w, which
// may be nil. A read of the ready
// side can return only those: it goes on where its own window stopped. A read of the due side can return any, when the
// horizon came nearer under the lease, or when a retry is committed and not told yet.
func (q *Queue) leasedSeqs(w *openWindow) map[int64]struct{} {
	seqs := maps.Clone(q.held)
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
