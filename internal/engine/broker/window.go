package broker

import (
	"cmp"
	"slices"
	"time"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// window is the part of a queue that is in memory while a lane is open. It has two sides.
//
// The ready side holds messages that were never delayed, in order of Seq. Everything of that kind up to cursor has been
// taken in; what lies behind it, up to the newest message that the broker knows, is in the store only. While the two
// meet, the window is caught up and takes commits directly.
//
// The due side holds the delayed and the retried ones, in order of (VisibleAt, Seq), complete up to horizon; what lies
// beyond is in the store only. Nothing beyond can become visible before the horizon does, so nobody has to look earlier.
//
// A read of either side overlaps with commits. What commits while it runs is remembered (tail, dueTail) and merged when
// it ends. Window has no lock: the backlog's guards it.
type window struct {
	q      *backlog
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

	// generation changes when something happened that makes the result of a read under way worthless.
	generation int

	waiters []*waiter
	// busy: the window is in the readers' list or in a reader's hands.
	busy bool
	// retryAt is when to read again after a failure.
	retryAt time.Time
	retry   backoff
}

// share is the bytes that one lane may hold, so that all together stay within StoreLaneBytes. A quarter is for the due side.
func (w *window) share() int {
	return min(w.bounds.LaneBytes, w.bounds.StoreLaneBytes/max(1, w.lanes()))
}

// room is what the ready side can still take; none when either is 0 or less.
func (w *window) room() (rows, bytes int) {
	share := w.share()
	return w.bounds.LaneRows - w.ready.len(), share - share/4 - w.readyBytes
}

func (w *window) full() bool {
	rows, bytes := w.room()
	return rows <= 0 || bytes <= 0
}

func (w *window) dueRows() int { return len(w.due) + w.mature.len() + len(w.suspects) }

// dueRoom is what the due side can still take.
func (w *window) dueRoom() (rows, bytes int) {
	return w.bounds.DueRows - w.dueRows(), w.share()/4 - w.dueBytes
}

func (w *window) pushReady(r *store.Row) {
	w.ready.push(r)
	w.readyBytes += rowSize(r)
}

// commitReady takes a message in that was committed behind newest, the newest message known before it.
func (w *window) commitReady(r *store.Row, newest int64) {
	switch {
	case w.reading:
		w.remember(r)
	case w.cursor < newest || w.full():
	default:
		w.pushReady(r)
		w.cursor = r.Seq
	}
}

// remember keeps a message that was committed while the ready side catches up, as far as there is room.
func (w *window) remember(r *store.Row) {
	rows, bytes := w.room()
	if w.tailCut || len(w.tail) >= rows-w.askedRows || w.tailBytes >= bytes-2*w.askedBytes {
		w.tailCut = true
		return
	}
	w.tail = append(w.tail, *r)
	w.tailBytes += rowSize(r)
}

// wantsReady reports whether to read the ready side: there is more in the store, and room, and either half of the window
// is used up or somebody waits.
func (w *window) wantsReady(newest int64) bool {
	if w.cursor >= newest || w.full() {
		return false
	}
	rows, bytes := w.room()
	share := w.share()
	return len(w.waiters) > 0 || 2*rows >= w.bounds.LaneRows && 2*bytes >= share-share/4
}

// beginReady sets the bounds of the next read of the ready side: after cursor, up to readTo, askedRows and askedBytes.
// A quarter of the room is left for what is committed meanwhile.
func (w *window) beginReady(newest int64) {
	if !w.reading {
		w.reading, w.readTo = true, newest
	}
	rows, bytes := w.room()
	w.askedRows, w.askedBytes = w.ask(rows-rows/4, bytes-bytes/4)
}

// ask returns the bounds of a read for which there is room: half of the bytes are for bodies, half for the overhead.
func (w *window) ask(rows, bytes int) (askRows, askBytes int) {
	askRows = max(1, min(w.bounds.ReadRows, rows, bytes/2/queue.RowOverhead))
	askBytes = max(1, min(w.bounds.ReadBytes, bytes/2))
	return askRows, askBytes
}

// endReady merges the result of a read of the ready side, but for messages in skip. newest is the newest message known
// now. When the read stopped just short of readTo, the next one goes on with what was remembered.
func (w *window) endReady(rows []store.Row, newest int64, skip map[int64]struct{}) {
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
			w.forgetTail()
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
	w.forgetTail()
}

// forgetTail ends the catching up of the ready side; what was remembered is left to later reads.
func (w *window) forgetTail() {
	w.reading = false
	w.tail, w.tailBytes, w.tailCut = nil, 0, false
	w.askedRows, w.askedBytes = 0, 0
}

// addDue takes a message in that was committed with a time to be visible at.
func (w *window) addDue(r *store.Row) {
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

func (w *window) pushDue(r *store.Row) {
	w.dueBytes += rowSize(r)
	if r.Losses >= queue.LossesBeforeAlone {
		w.suspects.push(r)
	} else {
		w.due.push(r)
	}
}

// ripen moves what has become visible from due to mature.
func (w *window) ripen(now time.Time) {
	for limit := now.UnixMilli(); len(w.due) > 0 && w.due[0].VisibleAt <= limit; {
		row := w.due.pop()
		w.mature.push(&row)
	}
}

// evict keeps the due side within its bounds: what is visible last leaves the memory and the horizon comes nearer. It
// makes room for more than one message, so that the sorting pays, and keeps at least one, so that the queue moves on.
func (w *window) evict() {
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
		w.generation++
	}
}

func (w *window) clearDue() {
	w.mature.set(nil)
	clear(w.due)
	clear(w.suspects)
	w.due, w.suspects, w.dueBytes = w.due[:0], w.suspects[:0], 0
}

// wantsDue reports whether to read the due side: something beyond the horizon can be visible, and half the room is free.
func (w *window) wantsDue(now time.Time) bool {
	if w.readingDue || w.horizon.VisibleAt > now.UnixMilli() {
		return false
	}
	rows, bytes := w.dueRoom()
	return 2*rows >= w.bounds.DueRows && 2*bytes >= w.share()/4
}

// endDue merges the result of a read of the due side. Messages in skip are left out: they are about to be added by the
// one who committed them. newest is the newest message known; one beyond it is about to be added too.
func (w *window) endDue(rows []store.Row, newest int64, skip map[int64]struct{}) {
	if w.dueTailCut {
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
		if !merged && !skipped && rows[i].Seq <= newest {
			w.pushDue(&rows[i])
		}
	}
	w.horizon = horizon
	w.evict()
}

func (w *window) forgetDueTail() {
	w.readingDue = false
	w.dueTail, w.dueTailCut = nil, false
}

// visible counts the messages that can go into one batch, in memory and visible; suspects are not among them.
func (w *window) visible() int { return w.ready.len() + w.mature.len() }

// since is when a message became visible, in milliseconds.
func since(r *store.Row) int64 {
	if r.VisibleAt > 0 {
		return r.VisibleAt
	}
	return r.Seq >> store.SeqBits
}

// suspect returns whether a message that has to be delivered alone is visible, and since when.
func (w *window) suspect(now time.Time) (at int64, ok bool) {
	if len(w.suspects) == 0 || w.suspects[0].VisibleAt > now.UnixMilli() {
		return 0, false
	}
	return w.suspects[0].VisibleAt, true
}

// oldest returns the side that holds the message that has been visible longest; nil when there is none.
func (w *window) oldest() *fifo {
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

// popTo appends the oldest visible messages to l, at most n.
func (w *window) popTo(l *lease, database uint64, n int) {
	for range n {
		side := w.oldest()
		if side == nil {
			return
		}
		row := side.front()
		l.add(database, row)
		if side == &w.ready {
			w.readyBytes -= rowSize(row)
		} else {
			w.dueBytes -= rowSize(row)
		}
		side.pop()
	}
}

// popSuspect appends the first suspect to l.
func (w *window) popSuspect(l *lease, database uint64) {
	row := w.suspects.pop()
	w.dueBytes -= rowSize(&row)
	l.add(database, &row)
}

// putBack takes messages in again whose lease ended undecided.
func (w *window) putBack(rows []store.Row) {
	back := w.ready.len()
	for i := range rows {
		if rows[i].VisibleAt > 0 {
			w.addDue(&rows[i])
		} else {
			w.pushReady(&rows[i])
		}
	}
	if w.ready.len() > back {
		slices.SortFunc(w.ready.all(), func(a, b store.Row) int { return cmp.Compare(a.Seq, b.Seq) })
	}
}

// expire drops every message up to seq: the store deleted them.
func (w *window) expire(seq int64) {
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
	w.generation++
}

// nextVisible returns when the next delayed message can become visible, in memory or beyond the horizon, if that is
// before wakeAt.
func (w *window) nextVisible(now, wakeAt time.Time) time.Time {
	for _, h := range []dueHeap{w.due, w.suspects} {
		if len(h) > 0 {
			wakeAt = earlier(wakeAt, time.UnixMilli(h[0].VisibleAt))
		}
	}
	if w.horizon != never && now.UnixMilli() < w.horizon.VisibleAt {
		wakeAt = earlier(wakeAt, time.UnixMilli(w.horizon.VisibleAt))
	}
	return wakeAt
}

// dueMark returns a time below which no delayed message is in the window or beyond its horizon.
func (w *window) dueMark() int64 {
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
