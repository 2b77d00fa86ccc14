package window

import (
	"time"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

func (w *Window) dueRows() int { return len(w.due) + w.mature.len() + len(w.suspects) }

// dueRoom is what the due side can still take.
func (w *Window) dueRoom() (rows, bytes int) {
	return w.bounds.DueRows - w.dueRows(), w.share()/4 - w.dueBytes
}

// AddDue takes a message in that was committed with a time to be visible at.
func (w *Window) AddDue(r *store.Row) {
	switch {
	case !w.horizon.Before(r.Due()):
		w.pushDue(r)
		w.evict()
	case !w.readingDue:
	case len(w.dueTail) < w.bounds.DueRows:
		w.dueTail = append(w.dueTail, *r)
	default:
		w.dueTailCut = true
	}
}

func (w *Window) pushDue(r *store.Row) {
	w.dueBytes += rowSize(r)
	if r.Losses >= queue.LossesBeforeAlone {
		w.suspects.push(r)
	} else {
		w.due.push(r)
	}
}

// Ripen moves what has become visible from due to mature.
func (w *Window) Ripen(now time.Time) {
	for limit := now.UnixMilli(); len(w.due) > 0 && w.due[0].VisibleAt <= limit; {
		row := w.due.pop()
		w.mature.push(&row)
	}
}

// evict keeps the due side within its bounds: what is visible last leaves the memory and the horizon comes nearer. It
// makes room for more than one message, so that the sorting pays, and keeps at least one, so that the queue moves on.
func (w *Window) evict() {
	if rows, bytes := w.dueRoom(); rows >= 0 && bytes >= 0 {
		return
	}
	all := make(dueHeap, 0, w.dueRows())
	all = append(append(append(all, w.mature.all()...), w.due...), w.suspects...)
	all.sort()
	keep := len(all)
	for rows, bytes := w.dueRoom(); keep > 1 && (rows < w.bounds.DueRows/8 || bytes < w.share()/32); rows++ {
		keep--
		bytes += rowSize(&all[keep])
	}
	w.clearDue()
	for i := range all[:keep] {
		w.pushDue(&all[i])
	}
	if keep < len(all) {
		w.horizon = all[keep-1].Due()
		w.Invalidate()
	}
}

func (w *Window) clearDue() {
	w.mature.set(nil)
	clear(w.due)
	clear(w.suspects)
	w.due, w.suspects, w.dueBytes = w.due[:0], w.suspects[:0], 0
}

// WantsDue reports whether to read the due side: something beyond the horizon can be visible, and half the room is free.
func (w *Window) WantsDue(now time.Time) bool {
	if w.readingDue || w.horizon.VisibleAt > now.UnixMilli() {
		return false
	}
	rows, bytes := w.dueRoom()
	return 2*rows >= w.bounds.DueRows && 2*bytes >= w.share()/4
}

// DueRead is a read of the due side: the messages that come after After, within the bounds of ReadDue.
type DueRead struct {
	After       store.Due
	Rows, Bytes int
	generation  int
}

// BeginDue returns the next read of the due side, which ends with EndDue or CancelDue.
func (w *Window) BeginDue() DueRead {
	w.readingDue = true
	rows, bytes := w.ask(w.dueRoom())
	return DueRead{After: w.horizon, Rows: rows, Bytes: bytes, generation: w.generation}
}

// EndDue merges the result of a read of the due side. Messages in skip are left out: they are about to be added by the
// one who committed them. newest is the newest message known; one beyond it is about to be added too.
func (w *Window) EndDue(read DueRead, rows []store.Row, newest int64, skip map[int64]struct{}) {
	defer w.CancelDue()
	if w.dueTailCut || w.generation != read.generation {
		return
	}
	horizon := never
	if len(rows) > 0 {
		horizon = rows[len(rows)-1].Due()
	}
	var tail map[int64]struct{}
	if len(w.dueTail) > 0 {
		tail = make(map[int64]struct{}, len(w.dueTail))
	}
	for i := range w.dueTail {
		if r := &w.dueTail[i]; !horizon.Before(r.Due()) {
			tail[r.Seq] = struct{}{}
			w.pushDue(r)
		}
	}
	for i := range rows {
		_, merged := tail[rows[i].Seq]
		_, skipped := skip[rows[i].Seq]
		if !merged && !skipped && rows[i].Seq <= newest && rows[i].Seq >= w.floor {
			w.pushDue(&rows[i])
		}
	}
	w.horizon = horizon
	w.evict()
}

// CancelDue ends a read of the due side whose result, if there is one, is not merged.
func (w *Window) CancelDue() {
	w.readingDue = false
	w.dueTail, w.dueTailCut = nil, false
}

// Settled notes that a delayed message was settled at its place. When that lies beyond the horizon, which came nearer
// while the message was leased, a read under way may have seen it as it was.
func (w *Window) Settled(at store.Due) {
	if w.readingDue && w.horizon.Before(at) {
		w.Invalidate()
	}
}

// Suspect returns whether a message that has to be delivered alone is visible, and since when.
func (w *Window) Suspect(now time.Time) (at int64, ok bool) {
	if len(w.suspects) == 0 || w.suspects[0].VisibleAt > now.UnixMilli() {
		return 0, false
	}
	return w.suspects[0].VisibleAt, true
}

// TakeSuspect removes the first suspect and returns it. There has to be one.
func (w *Window) TakeSuspect() store.Row {
	row := w.suspects.pop()
	w.dueBytes -= rowSize(&row)
	return row
}

// dueMark returns a time below which no delayed message is in the window or beyond its horizon.
func (w *Window) dueMark() int64 {
	mark := w.horizon.VisibleAt
	if len(w.due) > 0 {
		mark = min(mark, w.due[0].VisibleAt)
	}
	for i := range w.mature.all() {
		mark = min(mark, w.mature.all()[i].VisibleAt)
	}
	if len(w.suspects) > 0 {
		mark = min(mark, w.suspects[0].VisibleAt)
	}
	return mark
}
