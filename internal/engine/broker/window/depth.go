package window

import "time"

// Delayed counts the messages in memory that are not visible yet; whole says that there are no others in the store.
func (w *Window) Delayed(now time.Time) (n int64, whole bool) {
	w.Ripen(now)
	n = int64(len(w.due))
	for i := range w.suspects {
		if w.suspects[i].VisibleAt > now.UnixMilli() {
			n++
		}
	}
	return n, w.horizon == never
}

// Bytes is the memory of the messages.
func (w *Window) Bytes() int { return w.readyBytes + w.dueBytes + w.tailBytes }
