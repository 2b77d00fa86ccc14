// Package order keeps things in the order of a number that changes, so that the first is always at hand.
package order

import "container/heap"

// Entry is what a Heap holds.
type Entry interface {
	comparable
	// Key is what the heap is ordered by, the lowest first. While the entry is in a heap, a change is told to it with Fix.
	Key() int64
	// Place is where the heap keeps its index: -1 while the entry is in none. Nobody else writes to it but to set it to -1
	// before the entry comes into a heap for the first time.
	Place() *int
}

// Heap holds entries, each at most once. The zero value is empty.
type Heap[T Entry] struct{ list list[T] }

// Len is the number of entries.
func (h *Heap[T]) Len() int { return len(h.list) }

// Push adds an entry, and tells whether it is the first now.
func (h *Heap[T]) Push(e T) bool {
	heap.Push(&h.list, e)
	return *e.Place() == 0
}

// Fix puts an entry where its changed key belongs, and tells whether it is the first now.
func (h *Heap[T]) Fix(e T) bool {
	heap.Fix(&h.list, *e.Place())
	return *e.Place() == 0
}

// Remove takes an entry out, if it is in.
func (h *Heap[T]) Remove(e T) {
	if at := *e.Place(); at >= 0 {
		heap.Remove(&h.list, at)
	}
}

// First is the entry with the lowest key; false when there is none.
func (h *Heap[T]) First() (first T, ok bool) {
	if len(h.list) == 0 {
		return first, false
	}
	return h.list[0], true
}

// list implements heap.Interface.
type list[T Entry] []T

func (l *list[T]) Len() int           { return len(*l) }
func (l *list[T]) Less(i, j int) bool { return (*l)[i].Key() < (*l)[j].Key() }

func (l *list[T]) Swap(i, j int) {
	s := *l
	s[i], s[j] = s[j], s[i]
	*s[i].Place(), *s[j].Place() = i, j
}

func (l *list[T]) Push(x any) {
	if e, ok := x.(T); ok {
		*e.Place() = len(*l)
		*l = append(*l, e)
	}
}

func (l *list[T]) Pop() any {
	var none T
	s := *l
	last := len(s) - 1
	e := s[last]
	s[last] = none
	*l = s[:last]
	*e.Place() = -1
	return e
}
