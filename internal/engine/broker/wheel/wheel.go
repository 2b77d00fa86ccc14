// Package wheel is one timer for many things, each of which is looked at by its own time. It costs nothing for a thing that
// only waits for events.
package wheel

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/runlot/runlot/internal/core/order"
	"github.com/runlot/runlot/internal/engine/broker/pace"
)

// Entry is the place of a thing in a wheel: when to look at it again. The wheel's lock guards it.
type Entry[T any] struct {
	item  T
	at    time.Time
	place int
}

// NewEntry returns an entry that is in no wheel.
func NewEntry[T any](item T) *Entry[T] { return &Entry[T]{item: item, place: -1} }

// Key implements order.Entry.
func (e *Entry[T]) Key() int64 { return e.at.UnixNano() }

// Place implements order.Entry.
func (e *Entry[T]) Place() *int { return &e.place }

// Wheel keeps for each entry the next time at which there may be something to do.
type Wheel[T any] struct {
	kick pace.Kick

	mu sync.Mutex
	by order.Heap[*Entry[T]]
}

// New returns a wheel without entries.
func New[T any]() *Wheel[T] { return &Wheel[T]{kick: make(pace.Kick, 1)} }

// Set makes sure that a thing is looked at by at. An earlier look that is planned already stays and plans again.
func (w *Wheel[T]) Set(e *Entry[T], at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	first := false
	switch {
	case e.place < 0:
		e.at = at
		first = w.by.Push(e)
	case at.Before(e.at):
		e.at = at
		first = w.by.Fix(e)
	}
	if first {
		w.kick.Poke()
	}
}

// take takes out an entry whose time has come, or returns the time until the next.
func (w *Wheel[T]) take(now time.Time) (*Entry[T], time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	next, ok := w.by.First()
	if !ok {
		return nil, math.MaxInt64
	}
	if pause := next.at.Sub(now); pause > 0 {
		return nil, pause
	}
	w.by.Remove(next)
	return next, 0
}

// Run calls look for things when their time has come, until ctx ends. One goroutine runs it.
func (w *Wheel[T]) Run(ctx context.Context, look func(item T, now time.Time)) {
	timer := time.NewTimer(math.MaxInt64)
	defer timer.Stop()
	for {
		now := time.Now()
		e, pause := w.take(now)
		if e != nil {
			look(e.item, now)
			continue
		}
		timer.Reset(pause)
		select {
		case <-timer.C:
		case <-w.kick:
		case <-ctx.Done():
			return
		}
	}
}
