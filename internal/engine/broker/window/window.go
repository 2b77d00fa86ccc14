// Package window is the part of one queue that is in memory: bounded in messages and bytes, fed by commits and by reads
// from the store, emptied by deliveries. It is a data structure alone, without a lock, a clock or a call to the store.
package window

import (
	"cmp"
	"slices"
	"time"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// Bounds are described at the constants of core/queue that have the same names.
type Bounds struct {
	LaneRows       int
	LaneBytes      int
	StoreLaneBytes int
	DueRows        int
	ReadRows       int
	ReadBytes      int
}

// Window is the part of a queue that is in memory while a lane is open. It has two sides.
//
// The ready side holds messages that were never delayed, in order of Seq. Everything of that kind up to cursor has been
// taken in; what lies behind it, up to the newest message that the broker knows, is in the store only. While the two
// meet, the window is caught up and takes commits directly.
//
// The due side holds the delayed and the retried ones, in order of (VisibleAt, Seq), complete up to horizon; what lies
// beyond is in the store only. Nothing beyond can become visible before the horizon does, so nobody has to look earlier.
//
// A read of either side overlaps with commits. What commits while it runs is remembered (tail, dueTail) and merged when
// it ends. A Window has no lock: that of its queue guards it.
type Window struct {
	bounds *Bounds
	// lanes is the number of open lanes to share the memory with.
	lanes func() int

	ready      fifo
	readyBytes int
	cursor     int64
	// reading: the ready side is being read up to readTo. tail is what was committed behind readTo since, without a gap up
	// to where tailCut was set.
	reading               bool
	readTo                int64
	askedRows, askedBytes int
	tail                  []store.Row
	tailBytes             int
	tailCut               bool

	// due is not visible yet, mature is; suspects, visible or not, have to be delivered alone.
	due      dueHeap
	mature   fifo
	suspects dueHeap
	// dueBytes counts all three.
	dueBytes int
	horizon  store.Due
	// readingDue: a read of the due side is under way. dueTail is what was committed beyond the horizon since; dueTailCut
	// says that some of it was not kept.
	readingDue bool
	dueTail    []store.Row
	dueTailCut bool

	// floor is a Seq below which every message was purged, although the store may still have it.
	floor int64

	// generation changes when something happened that makes the result of a read under way worthless.
	generation int
}

// New makes an empty window that has to be filled from a queue's marks on. It shares the memory with the windows of as
// many queues as lanes returns, its own among them.
func New(bounds *Bounds, lanes func() int, readyMark, dueMark int64) *Window {
	return &Window{bounds: bounds, lanes: lanes, cursor: readyMark - 1, horizon: store.Due{VisibleAt: dueMark}}
}

// share is the bytes that one lane may hold, so that all together stay within StoreLaneBytes. A quarter is for the due side.
func (w *Window) share() int {
	return min(w.bounds.LaneBytes, w.bounds.StoreLaneBytes/max(1, w.lanes()))
}

// Commit takes a message in that was committed behind newest, the newest message known before it.
func (w *Window) Commit(r *store.Row, newest int64) {
	if r.VisibleAt == 0 {
		w.commitReady(r, newest)
		return
	}
	w.AddDue(r)
	// A window that had caught up still has: there is nothing to read between.
	if !w.reading && w.cursor == newest {
		w.cursor = r.Seq
	}
}

// ask returns the bounds of a read for which there is room: half of the bytes are for bodies, half for the overhead.
func (w *Window) ask(rows, bytes int) (askRows, askBytes int) {
	askRows = max(1, min(w.bounds.ReadRows, rows, bytes/2/queue.RowOverhead))
	askBytes = max(1, min(w.bounds.ReadBytes, bytes/2))
	return askRows, askBytes
}

// Invalidate makes the results of the reads under way worthless: they may have seen messages as they no longer are.
func (w *Window) Invalidate() { w.generation++ }

// Visible counts the messages that can go into one batch, in memory and visible; suspects are not among them.
func (w *Window) Visible() int { return w.ready.len() + w.mature.len() }

// since is when a message became visible, in milliseconds.
func since(r *store.Row) int64 {
	if r.VisibleAt > 0 {
		return r.VisibleAt
	}
	return r.Seq >> store.SeqBits
}

// VisibleSince is when the oldest of the visible messages became visible, in milliseconds. There has to be one.
func (w *Window) VisibleSince() int64 { return since(w.oldest().front()) }

// oldest returns the side that holds the message that has been visible longest; nil when there is none.
func (w *Window) oldest() *fifo {
	switch {
	case w.ready.len() == 0 && w.mature.len() == 0:
		return nil
	case w.ready.len() == 0:
		return &w.mature
	case w.mature.len() == 0, since(w.ready.front()) <= since(w.mature.front()):
		return &w.ready
	default:
		return &w.mature
	}
}

// Take hands up to n of the oldest visible messages to take and drops them. A row is valid during the call alone.
func (w *Window) Take(n int, take func(*store.Row)) {
	for range n {
		side := w.oldest()
		if side == nil {
			return
		}
		row := side.front()
		take(row)
		if side == &w.ready {
			w.readyBytes -= rowSize(row)
		} else {
			w.dueBytes -= rowSize(row)
		}
		side.pop()
	}
}

// PutBack takes messages in again whose lease ended undecided.
func (w *Window) PutBack(rows []store.Row) {
	back := w.ready.len()
	for i := range rows {
		if rows[i].VisibleAt > 0 {
			w.AddDue(&rows[i])
		} else {
			w.pushReady(&rows[i])
		}
	}
	if w.ready.len() > back {
		slices.SortFunc(w.ready.all(), func(a, b store.Row) int { return cmp.Compare(a.Seq, b.Seq) })
	}
}

// Expire drops every message up to seq: the store deleted them.
func (w *Window) Expire(seq int64) {
	for w.ready.len() > 0 && w.ready.front().Seq <= seq {
		w.readyBytes -= rowSize(w.ready.front())
		w.ready.pop()
	}
	all := slices.Concat(w.mature.all(), w.due, w.suspects)
	w.clearDue()
	for i := range all {
		if all[i].Seq > seq {
			w.pushDue(&all[i])
		}
	}
	w.cursor = max(w.cursor, seq)
	w.Invalidate()
}

// NextVisible returns when the next delayed message can become visible, in memory or beyond the horizon; false when none
// can.
func (w *Window) NextVisible(now time.Time) (at time.Time, ok bool) {
	next := never.VisibleAt
	for _, h := range []dueHeap{w.due, w.suspects} {
		if len(h) > 0 {
			next = min(next, h[0].VisibleAt)
		}
	}
	if now.UnixMilli() < w.horizon.VisibleAt {
		next = min(next, w.horizon.VisibleAt)
	}
	return time.UnixMilli(next), next != never.VisibleAt
}

// OldestSent is the send time, in milliseconds, of the message that has waited longest of those that are in memory and
// may be delivered; 0 when there is none.
func (w *Window) OldestSent(now time.Time) int64 {
	var oldest int64
	note := func(r *store.Row) {
		if oldest == 0 || r.SentAt < oldest {
			oldest = r.SentAt
		}
	}
	for _, f := range []*fifo{&w.ready, &w.mature} {
		if f.len() > 0 {
			note(f.front())
		}
	}
	for _, h := range []dueHeap{w.due, w.suspects} {
		if len(h) > 0 && h[0].VisibleAt <= now.UnixMilli() {
			note(&h[0])
		}
	}
	return oldest
}

// Deliverable counts the messages in memory that may be delivered now, suspects included, and those that may not yet.
// All is false when the store may have more that could be delivered; newest is the newest message known.
func (w *Window) Deliverable(now time.Time, newest int64) (ready, delayed int64, all bool) {
	w.Ripen(now)
	limit := now.UnixMilli()
	ready = int64(w.Visible())
	for i := range w.suspects {
		if w.suspects[i].VisibleAt <= limit {
			ready++
		}
	}
	return ready, int64(w.dueRows()+w.ready.len()) - ready, !w.Behind(newest) && w.horizon.VisibleAt > limit
}

// Marks returns where reading would have to begin to find again what is in the window or was not taken in yet: a Seq for
// the ready side, and for the due side a time, which is not after now.
func (w *Window) Marks(now time.Time) (ready, due int64) {
	ready, due = w.cursor+1, min(w.dueMark(), now.UnixMilli())
	if w.ready.len() > 0 {
		ready = min(ready, w.ready.front().Seq)
	}
	return ready, due
}
