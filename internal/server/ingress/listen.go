package ingress

import (
	"context"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/runlot/runlot/internal/core/queue"
)

// bounded is a listener that hands out at most a number of connections at a time. To those beyond it says that it is full,
// at most to fullAtOnce at a time; the next ones wait with the kernel, which refuses them when its own queue is full.
type bounded struct {
	net.Listener
	slots, full chan struct{}
	// over ends when the listener is closed; refusals are the goroutines that still say that it is full.
	over     context.Context //nolint:containedctx // the lifetime of the listener; no caller's context
	end      context.CancelFunc
	refusals sync.WaitGroup
}

// fullAtOnce bounds the connections that are told at a time that there are too many.
const fullAtOnce = 64

// fullAnswer is what a connection beyond the bound gets, whatever it asks for.
var fullAnswer = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: " + strconv.Itoa(int(queue.PublicRetryAfter/time.Second)) +
	"\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: " + strconv.Itoa(len(fullText)) + "\r\nConnection: close\r\n\r\n" + fullText

const fullText = "too many connections\n"

// Bound is a listener that gives at most so many connections at a time: one more is answered with status 503 and closed.
func Bound(l net.Listener, connections int) net.Listener { return bound(l, connections) }

func bound(l net.Listener, connections int) *bounded {
	b := &bounded{Listener: l, slots: make(chan struct{}, connections), full: make(chan struct{}, fullAtOnce)}
	b.over, b.end = context.WithCancel(context.Background())
	return b
}

// Accept implements net.Listener.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		conn, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case b.slots <- struct{}{}:
			return b.held(conn), nil
		default:
		}
		select {
		case b.slots <- struct{}{}:
			return b.held(conn), nil
		case b.full <- struct{}{}:
			b.refusals.Go(func() {
				defer func() { <-b.full }()
				refuse(b.over, conn)
			})
		case <-b.over.Done():
			_ = conn.Close()
			return nil, net.ErrClosed
		}
	}
}

// Close implements net.Listener and waits for the last refusals.
func (b *bounded) Close() error {
	b.end()
	err := b.Listener.Close()
	b.refusals.Wait()
	return err
}

// refuse says that there are too many connections. The client's request is read for a moment, and not looked at: a
// connection that is closed with something unread is reset, and the answer with it.
func refuse(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	_ = conn.SetDeadline(time.Now().Add(queue.PublicRefusalTime))
	if _, err := io.WriteString(conn, fullAnswer); err != nil {
		return
	}
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(conn, queue.PublicHeaderBytes))
}

// held gives the connection its slot back when it is closed.
func (b *bounded) held(conn net.Conn) net.Conn {
	free := sync.OnceFunc(func() { <-b.slots })
	if tcp, ok := conn.(*net.TCPConn); ok {
		return &heldTCP{tcp, free}
	}
	return &held{conn, free}
}

// heldTCP is a connection of the public address, with everything that TCP can do.
type heldTCP struct {
	*net.TCPConn
	free func()
}

func (c *heldTCP) Close() error {
	defer c.free()
	return c.TCPConn.Close()
}

type held struct {
	net.Conn
	free func()
}

func (c *held) Close() error {
	defer c.free()
	return c.Conn.Close()
}
