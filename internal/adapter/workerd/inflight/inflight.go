// Package inflight counts what a process was given and has not answered, so that its end can wait for it.
package inflight

import (
	"io"
	"sync"
)

// Counter counts calls and requests until it is closed and the last one has left.
type Counter struct {
	mu     sync.Mutex
	count  int
	closed bool
	idle   chan struct{}
}

// New returns a counter that lets everything in.
func New() *Counter { return &Counter{idle: make(chan struct{})} }

// Enter counts one in and returns true; false after Close.
func (c *Counter) Enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.count++
	return true
}

// Leave counts one out that was let in.
func (c *Counter) Leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count--
	if c.closed && c.count == 0 {
		close(c.idle)
	}
}

// Close lets nothing more in. Twice is fine.
func (c *Counter) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed && c.count == 0 {
		close(c.idle)
	}
	c.closed = true
}

// Idle is closed when the counter is, and all have left.
func (c *Counter) Idle() <-chan struct{} { return c.idle }

// Body returns b as the body of a response that was let in, and that leaves when it is closed. One that is written to as
// well, as that of an upgraded connection is, stays so.
func (c *Counter) Body(b io.ReadCloser) io.ReadCloser {
	counted := body{b, sync.OnceFunc(c.Leave)}
	if w, ok := b.(io.Writer); ok {
		return &stream{counted, w}
	}
	return &counted
}

type body struct {
	io.ReadCloser
	leave func()
}

func (b *body) Close() error {
	defer b.leave()
	return b.ReadCloser.Close()
}

type stream struct {
	body
	io.Writer
}
