package workerd

import (
	"fmt"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"

	"github.com/runlot/runlot/internal/engine/dispatch"
)

// enter counts a call or request in, so that Drain waits for it, and refuses it with dispatch.ErrGone when the process
// has ended or drains.
func (p *Process) enter() error {
	if p.inFlight.Enter() {
		return nil
	}
	return fmt.Errorf("%w: %s", dispatch.ErrGone, p.why("the process is being stopped"))
}

// RoundTrip sends a request to the fetch handler and implements http.RoundTripper. The request is in flight until the
// body of its response is closed. The error is dispatch.ErrGone when the process has ended or drains and has seen nothing
// of the request, whose body is then unread but closed; dispatch.ErrLost when the process broke the request off.
//
// workerd closes a kept connection on which a worker left a body unread. A request that finds its connection closed is
// sent again by net/http when its method may be repeated; every other gets a connection of its own.
func (p *Process) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := p.enter(); err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, err
	}
	var connected atomic.Bool
	traced := httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	client := p.fresh
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		client = p.public
	}
	response, err := client.Transport.RoundTrip(r.WithContext(traced))
	if err == nil {
		response.Body = p.inFlight.Body(response.Body)
		return response, nil
	}
	p.inFlight.Leave()
	switch {
	case r.Context().Err() != nil:
		return nil, r.Context().Err()
	case connected.Load():
		return nil, fmt.Errorf("%w: %w", dispatch.ErrLost, err)
	}
	return nil, fmt.Errorf("%w: %w", dispatch.ErrGone, err)
}
