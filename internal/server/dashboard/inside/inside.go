// Package inside carries calls to a handler in the same program, as a network would: the answer can be read while it is
// written.
package inside

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// Transport implements http.RoundTripper.
type Transport struct{ Handler http.Handler }

// errBroken is what a handler left behind that panicked.
var errBroken = errors.New("the handler ended in the middle of its answer")

// RoundTrip implements http.RoundTripper. The handler runs until it returns, in a goroutine of its own that Close of the
// answer's body waits for; it sees the end of the request's context as one over a network does.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	reader, writer := io.Pipe()
	a := &answer{pipe: writer, header: http.Header{}, head: make(chan struct{}), done: make(chan struct{})}
	asked := r.Clone(r.Context())
	asked.RequestURI, asked.RemoteAddr = r.URL.RequestURI(), "inside"
	if asked.Body == nil {
		asked.Body = http.NoBody
	}
	go a.run(t.Handler, asked)
	<-a.head
	return &http.Response{
		StatusCode: a.status, Status: http.StatusText(a.status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: a.sent, Request: r,
		Body: &body{reader, a.done}, ContentLength: -1,
	}, nil
}

// answer implements http.ResponseWriter.
type answer struct {
	pipe   *io.PipeWriter
	header http.Header
	once   sync.Once
	head   chan struct{} // closed when status and sent are set
	status int
	sent   http.Header
	done   chan struct{}
}

func (a *answer) run(h http.Handler, r *http.Request) {
	defer close(a.done)
	err := errBroken
	defer func() {
		if recover() != nil {
			a.WriteHeader(http.StatusInternalServerError)
		}
		_ = r.Body.Close()
		_ = a.pipe.CloseWithError(err)
	}()
	h.ServeHTTP(a, r)
	a.WriteHeader(http.StatusOK)
	err = nil
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) {
	a.once.Do(func() {
		a.status, a.sent = status, a.header.Clone()
		close(a.head)
	})
}

func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.pipe.Write(p)
}

// Flush implements http.Flusher: what was written has been read already.
func (a *answer) Flush() { a.WriteHeader(http.StatusOK) }

// SetReadDeadline does nothing: a request's body is in memory.
func (*answer) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing: the reader ends with its own context.
func (*answer) SetWriteDeadline(time.Time) error { return nil }

type body struct {
	*io.PipeReader

	done chan struct{}
}

func (b *body) Close() error {
	err := b.PipeReader.Close()
	<-b.done
	return err
}
