package binding

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/queue"
)

// slowQueues holds every call until its context ends or released is closed.
type slowQueues struct {
	entered  chan string
	released chan struct{}
}

func (s *slowQueues) wait(ctx context.Context, name string) (queue.Metrics, error) {
	s.entered <- name
	select {
	case <-s.released:
		return queue.Metrics{}, nil
	case <-ctx.Done():
		return queue.Metrics{}, ctx.Err()
	}
}

func (s *slowQueues) Send(ctx context.Context, name string, _ []queue.Draft) (queue.Metrics, error) {
	return s.wait(ctx, name)
}

func (s *slowQueues) Metrics(ctx context.Context, name string) (queue.Metrics, error) {
	return s.wait(ctx, name)
}

// underWay counts the calls in all places.
func (g *Gate) underWay() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := 0
	for _, calls := range g.calls {
		n += calls
	}
	return n
}

// TestGateIsShared fills one queue from two processes and finds the other queue, metrics and another database open.
func TestGateIsShared(t *testing.T) {
	gate, q := NewGate(), &slowQueues{entered: make(chan string), released: make(chan struct{})}
	other := manifest(queue.Runlot)
	other.Database = "other"
	var processes [3]http.Handler
	for i, m := range []*app.Manifest{manifest(queue.Runlot), manifest(queue.Wrangler), other} {
		processes[i] = New(Options{Manifest: m, Queues: q, Gate: gate, Log: slog.New(slog.DiscardHandler)})
	}
	var calls sync.WaitGroup
	start := func(h http.Handler, method, path, binding string) {
		calls.Go(func() {
			if got := call(h, method, path, "1", Header, binding); !strings.HasPrefix(got, "{") {
				t.Error(got)
			}
		})
		<-q.entered
	}
	for i := range queue.MaxProducerCalls {
		start(processes[i%2], "POST", "/message", "JOBS")
	}
	const refused = "503 Queue is overloaded. Please back off. (10250)"
	for _, h := range processes[:2] {
		if got := call(h, "POST", "/message", "1"); got != refused {
			t.Error(got)
		}
		if got := call(h, "POST", "/batch", frame([3]string{"", "1", ""})); got != refused {
			t.Error(got)
		}
	}
	start(processes[0], "POST", "/message", "LATE")
	start(processes[1], "GET", "/metrics", "JOBS")
	start(processes[2], "POST", "/message", "JOBS")
	close(q.released)
	calls.Wait()
	if gate.underWay() != 0 {
		t.Errorf("%d calls are still counted", gate.underWay())
	}
	go func() { <-q.entered }()
	if got := call(processes[0], "POST", "/message", "1"); !strings.HasPrefix(got, "{") {
		t.Error(got)
	}
}

func TestSendTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &slowQueues{entered: make(chan string, 1)}
		start := time.Now()
		if got := call(newHandler(q), "POST", "/message", "1"); got != "503 Queue is overloaded. Please back off. (10250)" {
			t.Error(got)
		}
		if took := time.Since(start); took != queue.SendTimeout {
			t.Errorf("took %s", took)
		}
	})
}

// TestSocket makes calls on a real socket: on one kept connection, refused ones between accepted ones, and one whose
// caller goes away.
func TestSocket(t *testing.T) {
	q := &slowQueues{entered: make(chan string, 100), released: make(chan struct{})}
	gate := NewGate()
	h := New(Options{Manifest: manifest(queue.Runlot), Queues: q, Gate: gate, Log: slog.New(slog.DiscardHandler)})
	ended := make(chan struct{}, 100)
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r)
		ended <- struct{}{}
	})}}
	server.Start()
	defer server.Close()
	dials := 0
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		dials++
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
	defer client.CloseIdleConnections()
	post := func(ctx context.Context, size int) (int, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://fake-host/message", strings.NewReader(strings.Repeat("x", size)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(Header, "JOBS")
		response, err := client.Do(r)
		if err != nil {
			return 0, err
		}
		defer response.Body.Close()
		if _, err := io.Copy(io.Discard, response.Body); err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, nil
	}
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan error)
	go func() {
		_, err := post(ctx, 1)
		gone <- err
	}()
	<-q.entered
	leave()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	<-ended
	if gate.underWay() != 0 {
		t.Errorf("%d calls are still counted", gate.underWay())
	}
	dials = 0
	close(q.released)
	for i, size := range []int{10, 2 << 20, 131072, 131073, 1, 10 << 20, 1} {
		want := http.StatusOK
		if size > 131072 {
			want = http.StatusTooManyRequests
		}
		if status, err := post(t.Context(), size); err != nil || status != want {
			t.Errorf("call %d: status %d, %v", i, status, err)
		}
	}
	if dials != 1 {
		t.Errorf("%d connections", dials)
	}
}

// pipes is a listener whose connections are pipes, which live on the fake clock.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{} }

// TestStalledBody: a body that does not arrive frees its place after the time of a call, and a slow commit after a body
// that did arrive is not taken for one.
func TestStalledBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &slowQueues{entered: make(chan string, 1), released: make(chan struct{})}
		gate := NewGate()
		server := &http.Server{Handler: New(Options{Manifest: manifest(queue.Runlot), Queues: q, Gate: gate, Log: slog.New(slog.DiscardHandler)})}
		listener := make(pipes)
		var serving sync.WaitGroup
		serving.Go(func() { _ = server.Serve(listener) })
		send := func(body string) *bufio.Reader {
			ours, theirs := net.Pipe()
			t.Cleanup(func() { ours.Close() })
			listener <- theirs
			if _, err := io.WriteString(ours, "POST /message HTTP/1.1\r\nHost: fake-host\r\nRunlot-Binding: JOBS\r\nContent-Length: 10\r\n\r\n"+body); err != nil {
				t.Fatal(err)
			}
			return bufio.NewReader(ours)
		}
		stalled := send("12345")
		synctest.Wait()
		if gate.underWay() != 1 {
			t.Error("the call is not counted")
		}
		time.Sleep(queue.SendTimeout)
		synctest.Wait()
		if gate.underWay() != 0 {
			t.Error("the stalled call is still counted")
		}
		if line, err := stalled.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 400") {
			t.Errorf("%q, %v", line, err)
		}
		whole := send("1234567890")
		<-q.entered
		time.Sleep(queue.SendTimeout - time.Second)
		close(q.released)
		if line, err := whole.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 200") {
			t.Errorf("%q, %v", line, err)
		}
		close(listener)
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		serving.Wait()
	})
}
