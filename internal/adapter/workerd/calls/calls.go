// Package calls knows the invocations of a process's handlers, under way and recent, so that what the tail tells of one
// finds it.
package calls

import (
	"strconv"
	"sync"

	"github.com/runlot/runlot/internal/adapter/workerd/envelope"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/dispatch"
)

// Call is an invocation of a handler by this process.
type Call struct {
	// Delivery is the ID of a delivery, "" for a scheduled run.
	Delivery string
	// Exception takes the first thing that the invocation threw, or nil when its trace holds none. Buffered, sent to once.
	Exception chan *dispatch.Exception

	// marks are how the tail may name it.
	marks []string
	once  sync.Once
}

// Report gives the invocation its exception, the first time only.
func (c *Call) Report(exception *dispatch.Exception) {
	c.once.Do(func() { c.Exception <- exception })
}

// Calls finds the invocation that a tail event belongs to. It holds what is under way and the last queue.RecentDeliveries
// marks.
type Calls struct {
	mu     sync.Mutex
	active map[string]*Call
	recent map[string]*Call
	// order holds the marks of recent, oldest first, as a ring.
	order [queue.RecentDeliveries]string
	next  int
}

// New returns Calls without any.
func New() *Calls { return &Calls{active: map[string]*Call{}, recent: map[string]*Call{}} }

// MessageMark is how the tail names a delivery: its first message and that message's attempt.
func MessageMark(m *queue.Message) string {
	return m.ID.String() + " " + strconv.Itoa(envelope.Attempts(m))
}

// CronMark is how the tail names a scheduled run.
func CronMark(cron string, at int64) string { return cron + " " + strconv.FormatInt(at, 10) }

// Begin registers an invocation.
func (c *Calls) Begin(marks []string, delivery string) *Call {
	entry := &Call{marks: marks, Delivery: delivery, Exception: make(chan *dispatch.Exception, 1)}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, mark := range marks {
		c.active[mark] = entry
	}
	return entry
}

// End moves an invocation to the recent ones.
func (c *Calls) End(entry *Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, mark := range entry.marks {
		if c.active[mark] == entry {
			delete(c.active, mark)
		}
		delete(c.recent, c.order[c.next])
		c.order[c.next] = mark
		c.recent[mark] = entry
		c.next = (c.next + 1) % len(c.order)
	}
}

// Find returns the invocation with this mark, or nil.
func (c *Calls) Find(mark string) *Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	if entry := c.active[mark]; entry != nil {
		return entry
	}
	return c.recent[mark]
}

// ReportAll gives every delivery under way the same exception: that of a worker without a queue handler, which never ran
// and so never named its delivery.
func (c *Calls) ReportAll(exception *dispatch.Exception) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, entry := range c.active {
		if entry.Delivery != "" {
			entry.Report(exception)
		}
	}
}
