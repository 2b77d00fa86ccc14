package workerd

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/runlot/runlot/internal/core/queue"
)

// thrown names an error of a fetch handler, as the front and the tail both see it.
type thrown struct {
	Name    string `json:"name"`
	Message string `json:"message"`
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
		e, more := p.uncaught.Take(what.Name, what.Message)
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
