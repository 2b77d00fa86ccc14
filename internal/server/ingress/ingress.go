package ingress

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"sync"
	"sync/atomic"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/dispatch"
)

// Process is what requests are handed to. It fails with dispatch.ErrGone when it has ended, or is ending, and has seen
// nothing of the request.
type Process interface{ http.RoundTripper }

// Ingress is the door of one app. While no process serves, requests wait for one, for at most queue.StartTime.
type Ingress struct {
	log    *slog.Logger
	server *http.Server
	// own are the paths that do not go to the app.
	own map[string]http.Handler
	// stopping is done when no process will come any more.
	stopping context.Context //nolint:containedctx // the lifetime of the door; no caller's context
	stop     context.CancelFunc

	proxy *httputil.ReverseProxy
	// requests counts those that came, active those under way; last is when one ended last, in nanoseconds since 1970.
	requests, active, last atomic.Int64
	// answers counts by the first digit of the status.
	answers [6]atomic.Int64

	mu      sync.Mutex
	process Process       // nil while none serves; guarded by mu
	changed chan struct{} // closed and replaced whenever process changes; guarded by mu
	wake    func()        // called for the next request while the app rests; guarded by mu
}

// errNobody is a request that no process came for.
var errNobody = errors.New("no worker process serves")

// New returns a door behind which nothing serves yet.
func New(log *slog.Logger) *Ingress {
	i := &Ingress{log: log, own: map[string]http.Handler{}, changed: make(chan struct{})}
	i.stopping, i.stop = context.WithCancel(context.Background())
	i.proxy = &httputil.ReverseProxy{
		Rewrite: rewrite, Transport: i, ErrorHandler: i.failed, ModifyResponse: i.answered, BufferPool: buffers{}, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	i.server = NewServer(i, log)
	return i
}

// NewServer is an HTTP server with the bounds of a public door; its listener is to be one of Bound.
func NewServer(handler http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		ReadHeaderTimeout: queue.PublicHeaderTime, MaxHeaderBytes: queue.PublicHeaderBytes, IdleTimeout: queue.PublicIdle,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug), Handler: handler,
	}
}

// ServeHTTP implements http.Handler.
func (i *Ingress) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if own := i.own[r.URL.Path]; own != nil {
		own.ServeHTTP(w, r)
		return
	}
	i.requests.Add(1)
	i.active.Add(1)
	defer func() {
		i.last.Store(time.Now().UnixNano())
		i.active.Add(-1)
	}()
	// A worker may answer while the request still comes in.
	_ = http.NewResponseController(w).EnableFullDuplex() // only HTTP/1 has it to be enabled
	w.Header()["Content-Type"] = nil                     // what the worker does not name is not guessed
	i.proxy.ServeHTTP(w, r)
}

// Activity is how many requests came since the start, how many are under way, and when the last one ended; the zero time
// when none did.
func (i *Ingress) Activity() (requests, active int64, last time.Time) {
	if at := i.last.Load(); at > 0 {
		last = time.Unix(0, at)
	}
	return i.requests.Load(), i.active.Load(), last
}

// Answers counts what was answered by the first digit of the status; place 0 is not used. A request whose client went away
// before has no answer.
func (i *Ingress) Answers() (list [6]int64) {
	for digit := range i.answers {
		list[digit] = i.answers[digit].Load()
	}
	return list
}

// answered counts an answer of the worker.
func (i *Ingress) answered(r *http.Response) error {
	i.count(r.StatusCode)
	return nil
}

func (i *Ingress) count(status int) {
	const digit = 100
	if class := status / digit; class > 0 && class < len(i.answers) {
		i.answers[class].Add(1)
	}
}

// refuse answers in place of the worker.
func (i *Ingress) refuse(w http.ResponseWriter, text string, status int) {
	i.count(status)
	http.Error(w, text, status)
}

// Handle takes the requests for a path away from the app. It has to be called before Serve.
func (i *Ingress) Handle(path string, handler http.Handler) { i.own[path] = handler }

// Serve takes requests from the listener, which it closes, until Stop: from at most queue.PublicConnections connections at a
// time.
func (i *Ingress) Serve(listener net.Listener) { i.serve(bound(listener, queue.PublicConnections)) }

func (i *Ingress) serve(listener net.Listener) {
	if err := i.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		i.log.Error("the public address is not served any more", "error", err)
	}
}

// Stop takes no more requests and lets those in progress finish until ctx ends, when it breaks them off. Those that wait
// for a process are answered at once.
func (i *Ingress) Stop(ctx context.Context) {
	i.stop()
	if i.server.Shutdown(ctx) != nil {
		_ = i.server.Close()
	}
}

// Set makes requests go to process from now on; nil makes them wait for the next one. Those under way stay where they are.
func (i *Ingress) Set(process Process) { i.set(process, nil) }

// Rest is Set(nil) for an app whose process is away because nothing happens: the next request that has to wait calls wake.
func (i *Ingress) Rest(wake func()) { i.set(nil, wake) }

func (i *Ingress) set(process Process, wake func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.process, i.wake = process, wake
	close(i.changed)
	i.changed = make(chan struct{})
}

// RoundTrip implements http.RoundTripper over the process that serves. A request that came to one that was gone waits
// for the next one.
func (i *Ingress) RoundTrip(r *http.Request) (*http.Response, error) {
	patience, cancel := context.WithTimeoutCause(r.Context(), queue.StartTime, errNobody)
	defer cancel()
	if r.Body != nil {
		r = r.WithContext(r.Context())
		// The body is the client's, and is sent once: a process that has not seen it must not close it for the next one.
		r.Body = io.NopCloser(r.Body)
	}
	for {
		i.mu.Lock()
		process, changed, wake := i.process, i.changed, i.wake
		i.wake = nil
		i.mu.Unlock()
		if wake != nil {
			wake()
		}
		if process != nil {
			response, err := process.RoundTrip(r)
			if !errors.Is(err, dispatch.ErrGone) {
				return response, err
			}
		}
		select {
		case <-changed:
		case <-patience.Done():
			return nil, context.Cause(patience)
		case <-i.stopping.Done():
			return nil, errNobody
		}
	}
}

// rewrite leaves the request as the client wrote it, but for the connection that it comes on.
func rewrite(r *httputil.ProxyRequest) {
	r.Out.URL.Scheme, r.Out.URL.Host, r.Out.URL.RawQuery = "http", "worker", r.In.URL.RawQuery
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if values, ok := r.In.Header[name]; ok {
			r.Out.Header[name] = values
		}
	}
}

// failed answers a request that has no response.
func (i *Ingress) failed(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		return // nobody waits for it
	}
	// What is left of the request's body is not read: the client must not send another request behind it.
	w.Header().Set("Connection", "close")
	i.log.Debug("a request got no answer from the worker", "path", r.URL.Path, "error", fault.Detail(err))
	if errors.Is(err, errNobody) {
		i.refuse(w, "the app is not running", http.StatusServiceUnavailable)
		return
	}
	i.refuse(w, "the app's process ended before it answered", http.StatusBadGateway)
}

// buffers are those of the bodies on their way.
type buffers struct{}

const bufferBytes = 32 << 10

var pool sync.Pool

func (buffers) Get() []byte {
	if b, ok := pool.Get().(*[bufferBytes]byte); ok {
		return b[:]
	}
	return make([]byte, bufferBytes)
}

func (buffers) Put(b []byte) { pool.Put((*[bufferBytes]byte)(b)) }
