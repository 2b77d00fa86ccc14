// Package starts keeps what is started when it is first needed: one start for each name, for which everybody else who needs
// it waits, while all that has started already can be looked up.
package starts

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
)

// Why Get returns without the outcome of a start.
var (
	// ErrClosed: nothing starts any more.
	ErrClosed = errors.New("starts: closed")
	// ErrGaveUp: the caller's context ended while another caller's start was under way.
	ErrGaveUp = errors.New("starts: gave up waiting for a start")
)

// Group is a set of started things by name. Its methods may be called from several goroutines, and only Get and Close wait.
type Group[T any] struct {
	mu       sync.Mutex
	started  map[string]T         // guarded by mu
	starting map[string]*start[T] // guarded by mu
	running  sync.WaitGroup       // the starts; added to under mu, before closed is set
	closed   bool                 // guarded by mu
}

// start is one that is under way.
type start[T any] struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when the rest is set
	value  T
	err    error
	// left says that the caller who began it went away, so that the failure says nothing to others.
	left bool
}

// New returns a group in which nothing has started.
func New[T any]() *Group[T] {
	return &Group[T]{started: map[string]T{}, starting: map[string]*start[T]{}}
}

// Get returns what was started under a name, or else starts it. While another caller does that, Get waits for it, and fails
// as it does; when that caller goes away first, Get begins anew. The context of begin ends with ctx or with Close. Errors:
// those of begin, ErrClosed, and ErrGaveUp with that of ctx.
func (g *Group[T]) Get(ctx context.Context, name string, begin func(context.Context) (T, error)) (T, error) {
	var none T
	for {
		g.mu.Lock()
		if v, ok := g.started[name]; ok {
			g.mu.Unlock()
			return v, nil
		}
		if g.closed {
			g.mu.Unlock()
			return none, ErrClosed
		}
		s := g.starting[name]
		if s == nil {
			beginCtx, cancel := context.WithCancel(ctx) //nolint:gosec // G118: end calls it, or Close
			s = &start[T]{cancel: cancel, done: make(chan struct{})}
			g.starting[name] = s
			g.running.Add(1)
			g.mu.Unlock()
			s.value, s.err = begin(beginCtx)
			s.left = s.err != nil && ctx.Err() != nil
			g.end(name, s)
			return s.value, s.err
		}
		g.mu.Unlock()
		select {
		case <-ctx.Done():
			return none, fmt.Errorf("%w: %w", ErrGaveUp, ctx.Err())
		case <-s.done:
			if s.err == nil || !s.left {
				return s.value, s.err
			}
		}
	}
}

// end makes a start known that has come to its end.
func (g *Group[T]) end(name string, s *start[T]) {
	defer g.running.Done()
	s.cancel()
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.starting, name)
	if s.err == nil {
		g.started[name] = s.value
	}
	close(s.done)
}

// Find returns what has started under a name.
func (g *Group[T]) Find(name string) (T, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	v, ok := g.started[name]
	return v, ok
}

// All is a copy of what has started, by name.
func (g *Group[T]) All() map[string]T {
	g.mu.Lock()
	defer g.mu.Unlock()
	return maps.Clone(g.started)
}

// Close lets nothing start any more, ends the starts that are under way, waits for them, and returns all that has started,
// which is the caller's to stop. Twice is fine.
func (g *Group[T]) Close() map[string]T {
	g.mu.Lock()
	g.closed = true
	for _, s := range g.starting {
		s.cancel()
	}
	g.mu.Unlock()
	g.running.Wait()
	return g.All()
}
