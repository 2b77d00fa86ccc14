package watch

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/runlot/runlot/internal/core/queue"
)

// gatherer collects changes until it has been quiet for a while: one save is often several events, and one checkout
// many files. It holds each path once, so the watched set bounds it.
type gatherer struct {
	// wake holds a token when something was added since run last looked.
	wake chan struct{}

	mu          sync.Mutex
	paths       map[string]bool
	first, last time.Time
}

func newGatherer() *gatherer {
	return &gatherer{wake: make(chan struct{}, 1), paths: map[string]bool{}}
}

// add notes a change and never waits.
func (g *gatherer) add(path string) {
	g.mu.Lock()
	g.last = time.Now()
	if len(g.paths) == 0 {
		g.first = g.last
	}
	g.paths[path] = true
	g.mu.Unlock()
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// take moves what is collected into offer when it has been quiet for long enough; else it says how long to wait.
func (g *gatherer) take(offer map[string]bool) (wait time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.paths) == 0 {
		return 0
	}
	due := g.last.Add(queue.WatchQuiet)
	if latest := g.first.Add(queue.WatchWait); latest.Before(due) {
		due = latest
	}
	if wait = time.Until(due); wait <= 0 {
		maps.Copy(offer, g.paths)
		clear(g.paths)
	}
	return wait
}

// run gives the collected changes out until ctx ends.
func (g *gatherer) run(ctx context.Context, out chan<- []string) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	offer := map[string]bool{}
	for {
		if wait := g.take(offer); wait > 0 {
			timer.Reset(wait)
		}
		var ready chan<- []string
		if len(offer) > 0 {
			ready = out
		}
		select {
		case <-ctx.Done():
			return
		case <-g.wake:
		case <-timer.C:
		case ready <- slices.Sorted(maps.Keys(offer)):
			clear(offer)
		}
	}
}
