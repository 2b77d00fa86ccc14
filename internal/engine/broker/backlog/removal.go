package backlog

import (
	"math"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// missing is the fault for a queue that does not exist, or not any more.
func missing(name string) error {
	return fault.New(fault.NotFound, queue.CodeQueueNotFound, "there is no queue %q", name).
		WithHint("declare it as a producer or consumer and deploy")
}

// Removed makes a queue one that was, and returns what it held. What it had under lease is changed by no settlement, and its
// lanes give no batch any more. Nothing may be between the store and the queue.
func (b *Book) Removed(q *Queue, now time.Time) store.Count {
	b.mu.Lock()
	delete(b.byName, q.Name)
	delete(b.byID, q.ID)
	b.removed[q.ID] = struct{}{}
	b.mu.Unlock()
	q.mu.Lock()
	q.removed = true
	held := store.Count{Messages: max(q.count, 0), Bytes: max(q.bytes, 0)}
	if q.win != nil {
		for _, wt := range q.win.waiters {
			close(wt.batch)
		}
		q.win.waiters = nil
	}
	q.mu.Unlock()
	q.Purge(math.MaxInt64, now)
	return held
}

// Gone is nil while the queue is there, and then says that there is none of its name. Fault: NotFound.
func (q *Queue) Gone() error {
	q.mu.Lock()
	removed := q.removed
	if q.mu.Unlock(); removed {
		return missing(q.Name)
	}
	return nil
}
