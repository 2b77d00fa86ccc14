package window

import "github.com/runlot/runlot/internal/engine/broker/store"

// Abandon makes the results of the reads under way worthless, and forgets what was remembered to be merged with them: it is
// left to later reads.
func (w *Window) Abandon() {
	w.Invalidate()
	w.CancelReady()
	w.CancelDue()
}

// Gap notes that messages were committed behind the newest one that are in the store only.
func (w *Window) Gap() {
	if w.reading {
		w.tailCut = true
	}
}

// Purge drops every message below a Seq, and takes none of them in any more.
func (w *Window) Purge(below int64) {
	w.floor = max(w.floor, below)
	w.Expire(below - 1)
	w.Abandon()
}

// Withdraw drops messages from the memory; reads under way are abandoned. Where reading has to begin stays as it is: who
// withdraws messages and leaves them in the store reads again from the marks.
func (w *Window) Withdraw(seqs map[int64]struct{}) {
	w.Abandon()
	kept := func(rows []store.Row, drop func(r *store.Row)) []store.Row {
		left := make([]store.Row, 0, len(rows))
		for i := range rows {
			if _, ok := seqs[rows[i].Seq]; ok {
				drop(&rows[i])
			} else {
				left = append(left, rows[i])
			}
		}
		return left
	}
	w.ready.set(kept(w.ready.all(), func(r *store.Row) { w.readyBytes -= rowSize(r) }))
	fromDue := func(r *store.Row) { w.dueBytes -= rowSize(r) }
	w.mature.set(kept(w.mature.all(), fromDue))
	for _, h := range []*dueHeap{&w.due, &w.suspects} {
		*h = kept(*h, fromDue)
		h.sort()
	}
}
