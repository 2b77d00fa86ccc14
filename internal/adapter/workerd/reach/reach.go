// Package reach has the clients that reach a worker process at its unix sockets.
package reach

import (
	"context"
	"errors"
	"net"
	"net/http"
	"syscall"

	"github.com/runlot/runlot/internal/core/queue"
)

// Client returns a client whose requests all go to one unix socket, over at most so many connections.
func Client(path string, connections int) *http.Client { return client(dial(path), connections) }

// Fresh returns a client that opens a connection for each request.
func Fresh(path string) *http.Client {
	open := dial(path)
	c := client(func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := open(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &patient{conn}, nil
	}, 0)
	if t, ok := c.Transport.(*http.Transport); ok {
		t.DisableKeepAlives = true
	}
	return c
}

func dial(path string) func(ctx context.Context, network, address string) (net.Conn, error) {
	var dialer net.Dialer
	return func(ctx context.Context, _, _ string) (net.Conn, error) { return dialer.DialContext(ctx, "unix", path) }
}

func client(dial func(ctx context.Context, network, address string) (net.Conn, error), connections int) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext:         dial,
		MaxIdleConns:        connections,
		MaxIdleConnsPerHost: connections,
		IdleConnTimeout:     queue.RuntimeIdle,
		DisableCompression:  true,
		WriteBufferSize:     64 << 10,
		ReadBufferSize:      16 << 10,
	}}
}

// patient is the connection of one request. workerd closes it when it has answered, though a body that the worker left
// unread may still be on its way: the answer that lies there counts, not the write that fails.
type patient struct{ net.Conn }

// Write drops what the other side does not take any more.
func (p *patient) Write(b []byte) (int, error) {
	n, err := p.Conn.Write(b)
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		return len(b), nil
	}
	return n, err
}
