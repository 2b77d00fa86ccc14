package window

import (
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// room is what the ready side can still take; none when either is 0 or less.
func (w *Window) room() (rows, bytes int) {
	share := w.share()
	return w.bounds.LaneRows - w.ready.len(), share - share/4 - w.readyBytes
}

// Full reports whether the ready side takes no more.
func (w *Window) Full() bool {
	rows, bytes := w.room()
	return rows <= 0 || bytes <= 0
}

func (w *Window) pushReady(r *store.Row) {
	w.ready.push(r)
	w.readyBytes += rowSize(r)
}

func (w *Window) commitReady(r *store.Row, newest int64) {
	switch {
	case w.reading:
		w.remember(r)
	case w.cursor < newest || w.Full():
	default:
		w.pushReady(r)
		w.cursor = r.Seq
	}
}

// remember keeps a message that was committed while the ready side catches up, as far as there is room.
func (w *Window) remember(r *store.Row) {
	rows, bytes := w.room()
	if w.tailCut || len(w.tail) >= rows-w.askedRows || w.tailBytes >= bytes-2*w.askedBytes {
		w.tailCut = true
		return
	}
	w.tail = append(w.tail, *r)
	w.tailBytes += rowSize(r)
}

// Behind reports whether the store has messages for the ready side that the window has not taken in: newest is the
// newest message known.
func (w *Window) Behind(newest int64) bool { return w.cursor < newest }

// WantsReady reports whether to read the ready side: there is more in the store, and room, and either half of the window
// is used up or somebody waits.
func (w *Window) WantsReady(newest int64, waiting bool) bool {
	if !w.Behind(newest) || w.Full() {
		return false
	}
	rows, bytes := w.room()
	share := w.share()
	return waiting || 2*rows >= w.bounds.LaneRows && 2*bytes >= share-share/4
}

// ReadyRead is a read of the ready side: the messages behind After, up to UpTo, within the bounds of ReadReady.
type ReadyRead struct {
	After, UpTo int64
	Rows, Bytes int
	generation  int
}

// BeginReady returns the next read of the ready side, which ends with EndReady or CancelReady. A quarter of the room is
// left for what is committed meanwhile.
func (w *Window) BeginReady(newest int64) ReadyRead {
	if !w.reading {
		w.reading, w.readTo = true, newest
	}
	rows, bytes := w.room()
	w.askedRows, w.askedBytes = w.ask(rows-rows/4, bytes-bytes/4)
	return ReadyRead{After: w.cursor, UpTo: w.readTo, Rows: w.askedRows, Bytes: w.askedBytes, generation: w.generation}
}

// EndReady merges the result of a read of the ready side, but for messages in skip. newest is the newest message known
// now. When the read stopped just short of readTo, the next one goes on with what was remembered.
func (w *Window) EndReady(read ReadyRead, rows []store.Row, newest int64, skip map[int64]struct{}) {
	if w.generation != read.generation {
		w.CancelReady()
		return
	}
	for i := range rows {
		if _, ok := skip[rows[i].Seq]; !ok {
			w.pushReady(&rows[i])
		}
		w.cursor = rows[i].Seq
	}
	if len(rows) == 0 {
		w.cursor = w.readTo
	}
	if w.cursor < w.readTo {
		if len(rows) >= w.askedRows || w.tailCut {
			w.CancelReady()
		}
		return
	}
	for i := range w.tail {
		w.pushReady(&w.tail[i])
		w.cursor = w.tail[i].Seq
	}
	if !w.tailCut {
		w.cursor = newest
	}
	w.CancelReady()
}

// CancelReady ends the catching up of the ready side; what was remembered is left to later reads.
func (w *Window) CancelReady() {
	w.reading = false
	w.tail, w.tailBytes, w.tailCut = nil, 0, false
	w.askedRows, w.askedBytes = 0, 0
}
