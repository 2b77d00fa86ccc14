package ingress

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/runlot/runlot/internal/core/queue"
)

// patience bounds what a test waits for; it is reached only when something is broken.
const patience = 30 * time.Second

// openBounded starts a door for so many connections, whose server is changed before.
func openBounded(t *testing.T, connections int, change func(s *http.Server)) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	door := New(slog.New(slog.DiscardHandler))
	door.Set(answers("here"))
	change(door.server)
	var serving, conns sync.WaitGroup
	door.server.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			conns.Add(1)
		case http.StateClosed:
			conns.Done()
		}
	}
	serving.Go(func() { door.serve(bound(listener, connections)) })
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // connections that the test left open are cut
		door.Stop(ctx)
		serving.Wait()
		conns.Wait() // the server waits a moment behind some of its answers
	})
	return listener.Addr().String()
}

// dial connects and writes the beginning of a request.
func dial(t *testing.T, address, text string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	return conn
}

const request = "GET / HTTP/1.1\r\nHost: here\r\n\r\n"

func answer(t *testing.T, conn net.Conn) (*http.Response, string) {
	t.Helper()
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(body)
}

// status asks on a new connection, which it closes.
func status(t *testing.T, address string) int {
	t.Helper()
	conn := dial(t, address, request)
	defer conn.Close()
	response, _ := answer(t, conn)
	return response.StatusCode
}

// eventually asks until there is room.
func eventually(t *testing.T, address string) {
	t.Helper()
	for began := time.Now(); status(t, address) != http.StatusOK; {
		if time.Since(began) > patience {
			t.Fatal("there is no room")
		}
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	address := openBounded(t, 2, func(*http.Server) {})
	kept := make([]net.Conn, 2)
	for i := range kept {
		conn := dial(t, address, request)
		if response, body := answer(t, conn); response.StatusCode != http.StatusOK || !strings.HasPrefix(body, "here") {
			t.Fatalf("%s %q", response.Status, body)
		}
		kept[i] = conn
	}
	// Many at a time, with more to say than anybody reads: all of them get the answer.
	var all sync.WaitGroup
	for range 2 * fullAtOnce {
		all.Go(func() {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(patience))
			_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 10000\r\n\r\n"+strings.Repeat("x", 10_000))
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Error(err)
				return
			}
			_ = response.Body.Close()
			if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") != "1" || !response.Close {
				t.Errorf("%s %v", response.Status, response.Header)
			}
		})
	}
	all.Wait()
	// Those within the bound notice nothing, and one that leaves makes room.
	if _, err := io.WriteString(kept[0], request); err != nil {
		t.Fatal(err)
	}
	if response, _ := answer(t, kept[0]); response.StatusCode != http.StatusOK {
		t.Errorf("a connection within the bound got %s", response.Status)
	}
	_ = kept[1].Close()
	eventually(t, address)
}

// TestSlowHeadsMakeRoom: clients that take every connection and write their requests byte by byte lose them.
func TestSlowHeadsMakeRoom(t *testing.T) {
	const clients = 8
	address := openBounded(t, clients, func(s *http.Server) { s.ReadHeaderTimeout = 200 * time.Millisecond })
	var all sync.WaitGroup
	for range clients {
		conn := dial(t, address, "GET / HTTP/1.1\r\nX-Slow: ")
		all.Go(func() {
			for { // until the server ends it
				if _, err := io.WriteString(conn, "x"); err != nil {
					return
				}
				_ = conn.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
				if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
					return
				}
			}
		})
	}
	eventually(t, address)
	all.Wait()
}

func TestIdleConnectionsEnd(t *testing.T) {
	address := openBounded(t, 1, func(s *http.Server) { s.IdleTimeout = 50 * time.Millisecond })
	conn := dial(t, address, request)
	if response, _ := answer(t, conn); response.StatusCode != http.StatusOK {
		t.Fatal(response.Status)
	}
	eventually(t, address)
}

func TestHeadsAreBounded(t *testing.T) {
	address := openBounded(t, 1, func(*http.Server) {})
	conn := dial(t, address, "GET / HTTP/1.1\r\nHost: here\r\nX-Long: "+strings.Repeat("x", 2*queue.PublicHeaderBytes)+"\r\n\r\n")
	if response, _ := answer(t, conn); response.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("answer %s", response.Status)
	}
}

// TestTheDoorHasItsBounds: the bounds of the limits are those of the server that runs.
func TestTheDoorHasItsBounds(t *testing.T) {
	s := New(slog.New(slog.DiscardHandler)).server
	if s.ReadHeaderTimeout != queue.PublicHeaderTime || s.IdleTimeout != queue.PublicIdle || s.MaxHeaderBytes != queue.PublicHeaderBytes {
		t.Errorf("%v %v %d", s.ReadHeaderTimeout, s.IdleTimeout, s.MaxHeaderBytes)
	}
}
