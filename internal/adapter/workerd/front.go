package workerd

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/dispatch"
)

// mostUncaught is how many errors of fetch handlers are kept for an answer that waits for one.
const mostUncaught = 64

// thrown names an error of a fetch handler, as the front and the tail both see it.
type thrown struct {
	Name    string `json:"name"`
	Message string `json:"message"`
}

// uncaught brings the front, which has to answer with an error, and the tail, which knows its place, together. Equal
// errors of requests at the same time may be taken for one another.
type uncaught struct {
	mu   sync.Mutex
	last [mostUncaught]*dispatch.Exception // a ring
	next int
	more chan struct{} // closed and replaced when one is added
}

func newUncaught() *uncaught { return &uncaught{more: make(chan struct{})} }

// add takes an error from the tail.
func (u *uncaught) add(e *dispatch.Exception) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.last[u.next] = e
	u.next = (u.next + 1) % mostUncaught
	close(u.more)
	u.more = make(chan struct{})
}

// take returns and forgets the newest error of this name and message, or what is closed when there is another.
func (u *uncaught) take(what thrown) (*dispatch.Exception, <-chan struct{}) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for i := range u.last {
		at := (u.next - 1 - i + 2*mostUncaught) % mostUncaught
		if e := u.last[at]; e != nil && e.Name == what.Name && e.Message == what.Message {
			u.last[at] = nil
			return e, nil
		}
	}
	return nil, u.more
}

// serveUncaught answers the front with an error as it is shown to the person who develops the worker.
func (p *Process) serveUncaught(w http.ResponseWriter, r *http.Request) {
	var what thrown
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, queue.MaxTailBody)).Decode(&what); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	what.Message = p.failures.Explain(what.Message)
	patience := time.NewTimer(queue.ExceptionWait)
	defer patience.Stop()
	for {
		e, more := p.uncaught.take(what)
		if e != nil {
			_, _ = io.WriteString(w, e.Name+": "+e.Message+"\n"+e.Stack)
			return
		}
		select {
		case <-more:
			continue
		case <-patience.C:
		case <-r.Context().Done():
		}
		_, _ = io.WriteString(w, what.Name+": "+what.Message)
		return
	}
}

// serveRequest takes one request from the front.
func (p *Process) serveRequest(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Method       string `json:"method"`
		Path         string `json:"path"`
		Status       int    `json:"status"`
		Milliseconds int64  `json:"milliseconds"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, queue.MaxTailBody)).Decode(&request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if p.spec.Log != nil {
		p.spec.Log(Line{
			Time: time.Now(), Level: levelDebug, Event: eventFetch,
			Text: fmt.Sprintf("%s %s %d %d ms", request.Method, request.Path, request.Status, request.Milliseconds),
		})
	}
}
