package workerd

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/runlot/runlot/internal/adapter/workerd/workerdtest"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/dispatch"
)

func TestMain(m *testing.M) {
	if os.Getenv(orphanEnv) != "" {
		orphanParent()
		return
	}
	goleak.VerifyTestMain(m)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func newRuntime(tb testing.TB) *Runtime {
	tb.Helper()
	r := New(workerdtest.Binary(tb), slog.New(slog.DiscardHandler))
	r.exceptionWait = 20 * time.Second
	return r
}

// lines collects what a worker logs.
type lines struct {
	mu   sync.Mutex
	all  []Line
	more chan struct{}
}

func newLines() *lines { return &lines{more: make(chan struct{}, 1)} }

func (l *lines) add(line Line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, line)
	select {
	case l.more <- struct{}{}:
	default:
	}
}

// list returns what was logged so far.
func (l *lines) list() []Line {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.all)
}

// forget drops what was logged so far.
func (l *lines) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = nil
}

// find waits for a line with this text.
func (l *lines) find(tb testing.TB, text string) Line {
	tb.Helper()
	deadline := time.After(time.Minute)
	for {
		l.mu.Lock()
		for _, line := range l.all {
			if strings.Contains(line.Text, text) {
				l.mu.Unlock()
				return line
			}
		}
		seen := fmt.Sprint(l.all)
		l.mu.Unlock()
		select {
		case <-l.more:
		case <-deadline:
			tb.Fatalf("no log line has %q: %s", text, seen)
		}
	}
}

// bundle makes a bundle of one module.
func bundle(code string) *app.Bundle {
	return &app.Bundle{Modules: []app.Module{{Name: "main.mjs", Kind: app.ESModule, Body: []byte(code)}}}
}

// manifest declares an app that sends to and consumes the queue jobs.
func manifest() *app.Manifest {
	return &app.Manifest{
		Name: "test", CompatibilityDate: "2026-11-17",
		Producers: []app.Producer{{Binding: "JOBS", Queue: "jobs"}},
		Consumers: []queue.Consumer{{Queue: "jobs"}},
	}
}

// world is a running worker with its surroundings.
type world struct {
	*Process
	logs *lines
	url  string
}

// run starts a worker with this code; change, which may be nil, adjusts what runs.
func run(tb testing.TB, code string, change func(*Runtime, *Spec)) *world {
	tb.Helper()
	w, err := tryRun(tb, code, change)
	if err != nil {
		tb.Fatal(err)
	}
	return w
}

func tryRun(tb testing.TB, code string, change func(*Runtime, *Spec)) (*world, error) {
	tb.Helper()
	w := &world{logs: newLines()}
	door := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", "worker" },
		Transport: public{w},
		ErrorLog:  log.New(io.Discard, "", 0),
	})
	tb.Cleanup(door.Close)
	w.url = door.URL
	r := newRuntime(tb)
	spec := Spec{
		App: "test", Version: "1", Manifest: manifest(), Bundle: bundle(code), Public: true, Log: w.logs.add, Dir: tb.TempDir(),
	}
	if change != nil {
		change(r, &spec)
	}
	var err error
	w.Process, err = r.Start(context.Background(), spec)
	if err != nil {
		return nil, err
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = w.Drain(ctx)
	})
	return w, nil
}

// public sends requests to the process that a world has.
type public struct{ w *world }

func (p public) RoundTrip(r *http.Request) (*http.Response, error) { return p.w.RoundTrip(r) }

// get requests the worker's fetch handler.
func (w *world) get(tb testing.TB, path string) string {
	tb.Helper()
	resp, err := plain.Get(w.url + path)
	if err != nil {
		tb.Fatal(err)
	}
	defer resp.Body.Close()
	var b strings.Builder
	if err := resp.Write(&b); err != nil {
		tb.Fatal(err)
	}
	_, body, _ := strings.Cut(b.String(), "\r\n\r\n")
	return body
}

// plain is a client without kept connections.
var plain = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// message makes a message; seq gives its ID.
func message(seq int64, format queue.Format, body string) queue.Message {
	return queue.Message{Seq: seq, ID: queue.NewID(7, seq), Format: format, Body: []byte(body), SentAt: time.UnixMilli(1_700_000_000_000 + seq)}
}

func jsons(bodies ...string) []queue.Message {
	list := make([]queue.Message, len(bodies))
	for i, body := range bodies {
		list[i] = message(int64(i), queue.JSON, body)
	}
	return list
}

func delivery(id string, messages ...queue.Message) *dispatch.Delivery {
	return &dispatch.Delivery{ID: id, Batch: &queue.Batch{Queue: "jobs", Messages: messages}}
}

// deliver delivers and expects no error.
func (w *world) deliver(tb testing.TB, id string, messages ...queue.Message) *dispatch.Result {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	result, err := w.Deliver(ctx, delivery(id, messages...))
	if err != nil {
		tb.Fatalf("deliver: %v", err)
	}
	return result
}

// host is a stand-in for the server of queue bindings: it answers each request with one of its answers.
type host struct {
	mu       sync.Mutex
	requests []string
	code     string
	cause    string
}

func (h *host) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.requests = append(h.requests, r.Header.Get(BindingHeader)+" "+r.Method+" "+r.URL.Path+" "+r.Header.Get("X-Msg-Fmt"))
	if h.code != "" {
		w.Header().Set("Cf-Queues-Error-Code", h.code)
		w.Header().Set("Cf-Queues-Error-Cause", h.cause)
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	metrics := `{"backlogCount":3,"backlogBytes":99,"oldestMessageTimestamp":1000000}`
	if r.URL.Path != "/metrics" {
		metrics = `{"metadata":{"metrics":` + metrics + `}}`
	}
	_, _ = io.WriteString(w, metrics)
}
