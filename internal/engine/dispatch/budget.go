package dispatch

import (
	"slices"
	"sync"
	"time"

	"github.com/runlot/runlot/internal/core/queue"
)

// Budget bounds the bytes of all batches between lease and commit, over every dispatcher that shares it. Requests are
// granted in the order in which they came, so a queue with large or many batches cannot keep the others waiting for ever.
type Budget struct {
	mu      sync.Mutex
	total   int64
	left    int64
	waiting []*claim
}

// NewBudget returns a budget of so many bytes, usually queue.DispatchBytes.
func NewBudget(bytes int64) *Budget { return &Budget{total: bytes, left: bytes} }

// claim is a request for a part of a budget. granted is closed when it holds its part.
type claim struct {
	budget  *Budget
	bytes   int64
	granted chan struct{}
}

// request asks for bytes, at most the whole budget. The claim has to be released, also when it was never granted.
func (b *Budget) request(bytes int64) *claim {
	c := &claim{budget: b, bytes: min(bytes, b.total), granted: make(chan struct{})}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = append(b.waiting, c)
	b.grant()
	return c
}

func (c *claim) release() {
	b := c.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.waiting, c); i >= 0 {
		b.waiting = slices.Delete(b.waiting, i, i+1)
	} else {
		b.left += c.bytes
	}
	b.grant()
}

// grant serves the waiting claims in order until one does not fit.
func (b *Budget) grant() {
	for len(b.waiting) > 0 && b.waiting[0].bytes <= b.left {
		c := b.waiting[0]
		b.waiting = slices.Delete(b.waiting, 0, 1)
		b.left -= c.bytes
		close(c.granted)
	}
}

// batchBytes is what a batch costs of a budget.
func batchBytes(batch *queue.Batch) int64 {
	bytes := 0
	for i := range batch.Messages {
		bytes += len(batch.Messages[i].Body)
	}
	return int64(max(bytes, queue.DispatchMinBytes))
}

// Isolation lets the suspects of one app (messages for which queue.Message.Alone holds) into its process one after the
// other. Every dispatcher of the app shares it: two suspects in one process would be blamed for each other's crash.
type Isolation struct{ turn chan struct{} }

// NewIsolation returns the isolation of one app.
func NewIsolation() *Isolation { return &Isolation{turn: make(chan struct{}, 1)} }

// enter waits for the turn and returns how to give it back; calling that twice is fine. It fails when stop closes first.
func (i *Isolation) enter(stop <-chan struct{}) (leave func(), ok bool) {
	select {
	case i.turn <- struct{}{}:
		return sync.OnceFunc(func() { <-i.turn }), true
	case <-stop:
		return nil, false
	}
}

// leaveAfter gives the turn back when the suspect has run for queue.AloneTime, so that one slow handler does not hold up
// every other suspect of the app. The timer has to be stopped.
func leaveAfter(leave func()) *time.Timer { return time.AfterFunc(queue.AloneTime, leave) }
