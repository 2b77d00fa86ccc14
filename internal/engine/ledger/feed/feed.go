// Package feed hands what happens to those who follow it live, without ever waiting for one of them.
package feed

import (
	"context"
	"sync"
)

// Feed hands every item to its subscriptions. Nobody may write to what an item refers to once it was published.
type Feed[T any] struct {
	// Most is how many items wait for one subscription; past it its oldest go, and are counted. Above 0.
	Most int

	mu   sync.Mutex
	subs map[*Subscription[T]]struct{}
}

// Subscription is a view of a feed from the moment at which it was made.
type Subscription[T any] struct {
	feed  *Feed[T]
	wants func(T) bool

	mu     sync.Mutex
	items  []T
	missed int
	// change has room for one signal that items has grown.
	change chan struct{}
}

// Subscribe begins to follow the items that wants lets through; nil is for all. It is called on the way of whoever
// publishes. Whoever subscribes closes the subscription.
func (f *Feed[T]) Subscribe(wants func(T) bool) *Subscription[T] {
	s := &Subscription[T]{feed: f, wants: wants, change: make(chan struct{}, 1)}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.subs == nil {
		f.subs = map[*Subscription[T]]struct{}{}
	}
	f.subs[s] = struct{}{}
	return s
}

// Publish hands an item to every subscription that wants it. It never waits for a reader.
func (f *Feed[T]) Publish(item T) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for s := range f.subs {
		if s.wants == nil || s.wants(item) {
			s.put(item, f.Most)
		}
	}
}

func (s *Subscription[T]) put(item T, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.items) >= most {
		s.items = s.items[1:]
		s.missed++
	}
	s.items = append(s.items, item)
	select {
	case s.change <- struct{}{}:
	default:
	}
}

// Next waits for the next item and returns it with the number of items that were missed before it, because the reader was
// too slow. It fails only when ctx ends.
func (s *Subscription[T]) Next(ctx context.Context) (item T, missed int, err error) {
	for {
		s.mu.Lock()
		if len(s.items) > 0 {
			item, missed = s.items[0], s.missed
			s.items, s.missed = s.items[1:], 0
			s.mu.Unlock()
			return item, missed, nil
		}
		s.mu.Unlock()
		select {
		case <-s.change:
		case <-ctx.Done():
			return item, 0, ctx.Err()
		}
	}
}

// Close ends the subscription. What it holds can still be read. Calling it twice is fine.
func (s *Subscription[T]) Close() {
	s.feed.mu.Lock()
	defer s.feed.mu.Unlock()
	delete(s.feed.subs, s)
}
