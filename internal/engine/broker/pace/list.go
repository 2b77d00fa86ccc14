package pace

import "sync"

// List holds what waits for the one goroutine that commits it, oldest first. Kick is poked with each addition.
type List[T any] struct {
	Kick Kick

	mu     sync.Mutex
	list   []T
	closed error
}

// Add puts one at the end, or fails with the reason for which the list is closed.
func (l *List[T]) Add(one T) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed != nil {
		return l.closed
	}
	l.list = append(l.list, one)
	l.Kick.Poke()
	return nil
}

// Take moves the oldest to group: the first, and those behind it until fits, which is called for each in turn, is false.
func (l *List[T]) Take(group []T, fits func(T) bool) []T {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, one := range l.list {
		if !fits(one) && n > 0 {
			break
		}
		n++
	}
	group = append(group, l.list[:n]...)
	rest := copy(l.list, l.list[n:])
	clear(l.list[rest:])
	l.list = l.list[:rest]
	return group
}

// Empty reports whether nothing waits.
func (l *List[T]) Empty() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.list) == 0
}

// Reopen lets the list take more.
func (l *List[T]) Reopen() { l.Close(nil) }

// Close refuses what comes from now on, for a reason; what waits stays.
func (l *List[T]) Close(reason error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = reason
}

// Refusal is why the list takes nothing; nil while it does.
func (l *List[T]) Refusal() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}
