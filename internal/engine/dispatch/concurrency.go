package dispatch

import (
	"time"

	"github.com/runlot/runlot/internal/core/queue"
)

// concurrency is the rule that decides how many handler calls of one queue may run at a time; docs/concurrency.md has it
// in words, with the reasons. A declared number is fixed. Automatic concurrency adds one when the queue has work for one
// more, halves on a setback and falls back to one when the queue is idle.
type concurrency struct {
	limit     int
	automatic bool
	// near: the last call took so much of the handler time that more calls beside it could push it over.
	near bool
}

func newConcurrency(declared int) concurrency {
	if declared > 0 {
		return concurrency{limit: min(declared, queue.MaxConcurrency)}
	}
	return concurrency{limit: 1, automatic: true}
}

// succeeded is told of a call that ran without a setback and how long it took, how many calls were running, itself
// included, and how many messages are ready. A limit of which not even half is used does not grow: more of it would
// change nothing now, and would let a burst loose later that nothing has tried.
func (c *concurrency) succeeded(took time.Duration, running int, ready int64, consumer *queue.Consumer) {
	c.near = took > consumer.HandlerTime/queue.GrowHandlerTimePart
	if !c.near && 2*running > c.limit && ready >= int64(consumer.BatchSize) {
		c.grow()
	}
}

// waited is told that every allowed call has been busy for a time since the limit was last looked at, and reports
// whether it grew. Without it a queue of slow handlers would learn about its backlog only when one of them ends.
func (c *concurrency) waited(busy time.Duration, ready int64, consumer *queue.Consumer) bool {
	full := ready >= int64(consumer.BatchSize) && busy >= queue.GrowEvery
	partial := ready > 0 && busy >= max(queue.GrowEvery, consumer.BatchTimeout)
	return (full || partial) && !c.near && c.grow()
}

// setback halves the limit. The caller tells it once for all calls that were running together.
func (c *concurrency) setback() {
	if c.automatic {
		c.limit = max(1, c.limit/2)
	}
}

// idle is told that nothing runs and nothing waits.
func (c *concurrency) idle() {
	if c.automatic {
		c.limit = 1
	}
	c.near = false
}

func (c *concurrency) grow() bool {
	if !c.automatic || c.limit >= queue.MaxConcurrency {
		return false
	}
	c.limit++
	return true
}
