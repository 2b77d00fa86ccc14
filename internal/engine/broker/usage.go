package broker

import (
	"time"

	"github.com/runlot/runlot/internal/engine/broker/backlog"
	"github.com/runlot/runlot/internal/engine/broker/usage"
)

// SetDailyOperations changes the most operations of a day that sends may use up; 0 is no cap.
func (b *Broker) SetDailyOperations(n int64) { b.guard.SetDailyOperations(n) }

// Operations is what the database's queues have used of today, in UTC.
func (b *Broker) Operations() usage.Count { return b.guard.Today() }

// Days are what the database's queues have used of each day that is kept, today's first, and the daily cap; 0 is none.
func (b *Broker) Days() (days []usage.Day, dailyCap int64) { return b.guard.Days() }

// cost is the operations of calls and the bytes that they take up.
func cost(calls []*call) (operations int64, bytes int) {
	for _, c := range calls {
		operations += c.operations
		bytes += c.size
	}
	return operations, bytes
}

// Depths returns what the queues hold now, from memory alone; nil until Counted.
func (b *Broker) Depths() []backlog.Depth { return b.book.Depths(time.Now()) }
