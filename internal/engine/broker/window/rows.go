package window

import (
	"math"
	"slices"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// rowSize is what a message in memory is counted with.
func rowSize(r *store.Row) int { return len(r.Body) + queue.RowOverhead }

// never is behind every place in the order of delayed messages.
var never = store.Due{VisibleAt: math.MaxInt64, Seq: math.MaxInt64}

// keepRows is the capacity that an empty list of messages keeps; a larger one goes back to the collector, so that what a
// queue needed once does not stay with it.
const keepRows = 1024

// fifo is a queue of messages in memory.
type fifo struct {
	rows []store.Row
	head int
}

func (f *fifo) len() int { return len(f.rows) - f.head }

// front is the oldest message; it stays valid until the next push or pop.
func (f *fifo) front() *store.Row { return &f.rows[f.head] }

func (f *fifo) push(r *store.Row) {
	if len(f.rows) == cap(f.rows) && f.head > len(f.rows)/2 {
		f.set(f.rows[f.head:])
	}
	f.rows = append(f.rows, *r)
}

// pop drops the oldest message.
func (f *fifo) pop() {
	f.rows[f.head] = store.Row{}
	f.head++
	if f.head == len(f.rows) {
		f.rows, f.head = f.rows[:0], 0
		if cap(f.rows) > keepRows {
			f.rows = nil
		}
	}
}

// set replaces the content by rows, which may be a part of the old one.
func (f *fifo) set(rows []store.Row) {
	had := len(f.rows)
	f.rows = append(f.rows[:0], rows...)
	if had > len(f.rows) {
		clear(f.rows[len(f.rows):had])
	}
	f.head = 0
}

// all is the content, oldest first; it stays valid until the next push or pop.
func (f *fifo) all() []store.Row { return f.rows[f.head:] }

// dueHeap orders messages by the time at which they become visible. It does not box them, as container/heap would.
type dueHeap []store.Row

func (h *dueHeap) push(r *store.Row) {
	rows := append(*h, *r)
	*h = rows
	for i := len(rows) - 1; i > 0; {
		parent := (i - 1) / 2
		if !rows[i].Due().Before(rows[parent].Due()) {
			break
		}
		rows[i], rows[parent] = rows[parent], rows[i]
		i = parent
	}
}

func (h *dueHeap) pop() store.Row {
	rows := *h
	top := rows[0]
	last := len(rows) - 1
	rows[0], rows[last] = rows[last], store.Row{}
	rows = rows[:last]
	*h = rows
	if last == 0 && cap(rows) > keepRows {
		*h = nil
	}
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if rows[child].Due().Before(rows[least].Due()) {
				least = child
			}
		}
		if least == i {
			return top
		}
		rows[i], rows[least] = rows[least], rows[i]
		i = least
	}
}

// sort puts the whole heap in order; a sorted slice is a heap too.
func (h *dueHeap) sort() {
	slices.SortFunc(*h, func(a, b store.Row) int {
		if a.Due().Before(b.Due()) {
			return -1
		}
		return 1
	})
}
