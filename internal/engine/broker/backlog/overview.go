package backlog

import "time"

// Exact reports whether the counts of the queues are exact: the messages that were there at the start are in them.
func (b *Book) Exact() bool { return b.exact.Load() }

// Retention is how long messages of the queue stay unsettled.
func (q *Queue) Retention() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.retention
}
