package binding

import (
	"sync"

	"github.com/runlot/runlot/internal/core/queue"
)

// Gate counts the producer calls under way, so that no queue has more than queue.MaxProducerCalls at a time, whichever
// worker processes they come from. Calls of metrics are counted apart, with the same bound: they answer while sends wait.
type Gate struct {
	mu    sync.Mutex
	calls map[place]int
}

// place is what is counted: a queue, and what is called.
type place struct {
	database, queue string
	kind            kind
}

type kind uint8

const (
	send kind = iota
	metrics
)

// NewGate returns a gate that nothing has entered.
func NewGate() *Gate { return &Gate{calls: map[place]int{}} }

// enter counts a call until leave, which is called once. It reports false when there are too many.
func (g *Gate) enter(p place) (leave func(), ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.calls[p] >= queue.MaxProducerCalls {
		return nil, false
	}
	g.calls[p]++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.calls[p]--; g.calls[p] == 0 {
			delete(g.calls, p)
		}
	}, true
}
