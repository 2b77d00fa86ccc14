package inflight

import (
	"io"
	"net"
	"strings"
	"testing"
)

func idle(c *Counter) bool {
	select {
	case <-c.Idle():
		return true
	default:
		return false
	}
}

func TestIdleComesWithTheLast(t *testing.T) {
	c := New()
	for range 2 {
		if !c.Enter() {
			t.Fatal("an open counter refuses")
		}
	}
	b := c.Body(io.NopCloser(strings.NewReader("x")))
	c.Leave()
	c.Close()
	c.Close()
	if c.Enter() || idle(c) {
		t.Error("it is closed, and one is left")
	}
	for range 2 {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
	if !idle(c) {
		t.Error("none is left")
	}
	empty := New()
	if idle(empty) {
		t.Error("an open counter is not idle")
	}
	empty.Close()
	if !idle(empty) {
		t.Error("a closed counter that nothing entered is idle")
	}
}

func TestAnUpgradedConnectionCanBeWrittenTo(t *testing.T) {
	c := New()
	c.Enter()
	one, two := net.Pipe()
	defer two.Close()
	b, ok := c.Body(one).(io.ReadWriteCloser)
	if !ok {
		t.Fatal("it cannot be written to")
	}
	go func() { _, _ = b.Write([]byte("x")) }()
	if _, err := io.ReadFull(two, make([]byte, 1)); err != nil {
		t.Error(err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	c.Close()
	if !idle(c) {
		t.Error("it is closed and still counted")
	}
}
