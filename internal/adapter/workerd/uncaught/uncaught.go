// Package uncaught brings two sides of the same error together: who has to answer with an error of a fetch handler, and
// who learns where it was thrown.
package uncaught

import (
	"sync"

	"github.com/runlot/runlot/internal/engine/dispatch"
)

// most is how many errors are kept for an answer that waits for one.
const most = 64

// Errors are the newest errors of a process's fetch handlers. Equal errors of requests at the same time may be taken for
// one another.
type Errors struct {
	mu   sync.Mutex
	last [most]*dispatch.Exception // a ring
	next int
	more chan struct{} // closed and replaced when one is added
}

// New returns an empty set.
func New() *Errors { return &Errors{more: make(chan struct{})} }

// Add takes an error in; the oldest is forgotten when there are too many.
func (u *Errors) Add(e *dispatch.Exception) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.last[u.next] = e
	u.next = (u.next + 1) % most
	close(u.more)
	u.more = make(chan struct{})
}

// Take returns and forgets the newest error of this name and message, or what is closed when there is another.
func (u *Errors) Take(name, message string) (*dispatch.Exception, <-chan struct{}) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for i := range u.last {
		at := (u.next - 1 - i + 2*most) % most
		if e := u.last[at]; e != nil && e.Name == name && e.Message == message {
			u.last[at] = nil
			return e, nil
		}
	}
	return nil, u.more
}
