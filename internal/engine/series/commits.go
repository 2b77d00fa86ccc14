package series

import (
	"sync/atomic"
	"time"
)

// Sizes are the upper bounds of the buckets of the sizes of group commits, in messages. One more bucket takes what is larger.
var Sizes = [...]int64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000}

// Commits counts group commits of one kind.
type Commits struct {
	sizes    [len(Sizes) + 1]atomic.Int64
	messages atomic.Int64
	times    timer
}

// Committed are the group commits of one kind so far.
type Committed struct {
	// Sizes counts them by messages, Messages is the sum.
	Sizes    [len(Sizes) + 1]int64
	Messages int64
	// Times counts them by how long they took, Time is the sum.
	Times Histogram
	Time  time.Duration
}

// Commit counts a group that was committed.
func (c *Commits) Commit(messages int, took time.Duration) {
	i := 0
	for i < len(Sizes) && int64(messages) > Sizes[i] {
		i++
	}
	c.sizes[i].Add(1)
	c.messages.Add(int64(messages))
	c.times.observe(took)
}

// Read reads the counters.
func (c *Commits) Read() Committed {
	r := Committed{Messages: c.messages.Load()}
	for i := range c.sizes {
		r.Sizes[i] = c.sizes[i].Load()
	}
	r.Times, r.Time = c.times.read()
	return r
}
