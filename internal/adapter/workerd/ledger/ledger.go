// Package ledger holds the invocations of handlers of one process, so that what the tail tells of one finds it.
package ledger

import (
	"sync"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/dispatch"
)

// Call is an invocation of a handler, under way or recent.
type Call struct {
	// Delivery is the ID of a delivery, "" for a scheduled run.
	Delivery string

	// marks are how the tail may name it.
	marks []string
	// exception is buffered and sent to once, which reported says.
	exception chan *dispatch.Exception
	reported  bool
}

// Exception takes the first thing that the invocation threw, once, or nil when its trace holds none.
func (c *Call) Exception() <-chan *dispatch.Exception { return c.exception }

// Ledger finds the invocation that a tail event belongs to. It holds what is under way and the last
// queue.RecentDeliveries marks.
type Ledger struct {
	mu     sync.Mutex
	active map[string]*Call
	recent map[string]*Call
	// order holds the marks of recent, oldest first, as a ring.
	order [queue.RecentDeliveries]string
	next  int
}

// New returns an empty ledger.
func New() *Ledger {
	return &Ledger{active: map[string]*Call{}, recent: map[string]*Call{}}
}

// Begin registers an invocation that the tail may name by any of these marks.
func (l *Ledger) Begin(marks []string, delivery string) *Call {
	entry := &Call{Delivery: delivery, marks: marks, exception: make(chan *dispatch.Exception, 1)}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, mark := range marks {
		l.active[mark] = entry
	}
	return entry
}

// End moves an invocation to the recent ones.
func (l *Ledger) End(entry *Call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, mark := range entry.marks {
		if l.active[mark] == entry {
			delete(l.active, mark)
		}
		delete(l.recent, l.order[l.next])
		l.order[l.next] = mark
		l.recent[mark] = entry
		l.next = (l.next + 1) % len(l.order)
	}
}

// Find returns the invocation with this mark, or nil.
func (l *Ledger) Find(mark string) *Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	if entry := l.active[mark]; entry != nil {
		return entry
	}
	return l.recent[mark]
}

// Report gives an invocation its exception, the first time only.
func (l *Ledger) Report(entry *Call, exception *dispatch.Exception) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !entry.reported {
		entry.reported = true
		entry.exception <- exception
	}
}

// ReportAll gives every delivery under way the same exception: that of a worker without a queue handler, which never ran
// and so never named its delivery.
func (l *Ledger) ReportAll(exception *dispatch.Exception) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, entry := range l.active {
		if entry.Delivery != "" && !entry.reported {
			entry.reported = true
			entry.exception <- exception
		}
	}
}
