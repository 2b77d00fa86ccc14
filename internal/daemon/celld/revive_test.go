package celld_test

import (
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/adapter/postgres/cluster/clustertest"
)

// gate is a way to a server that can be shut.
type gate struct {
	net.Listener

	shut atomic.Bool
	done sync.WaitGroup
}

func newGate(t *testing.T, socket string) *gate {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{Listener: l}
	g.done.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			g.done.Go(func() { g.pass(from, socket) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		g.done.Wait()
	})
	return g
}

func (g *gate) pass(from net.Conn, socket string) {
	defer from.Close()
	if g.shut.Load() {
		return
	}
	to, err := net.Dial("unix", socket)
	if err != nil {
		return
	}
	defer to.Close()
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(from, to)
		_ = from.Close()
	})
	_, _ = io.Copy(to, from)
	_ = to.Close()
	back.Wait()
}

// TestAnAppComesBackWithItsDatabase: one whose queues cannot be had when celld starts is shown with the reason, and runs when they
// can.
func TestAnAppComesBackWithItsDatabase(t *testing.T) {
	made := clustertest.NewDatabase(t)
	g := newGate(t, clustertest.Cluster(t).SocketPath())
	u := url.URL{Scheme: "postgres", User: url.UserPassword(made.Owner.User, made.Owner.Password), Host: g.Addr().String(), Path: made.Database, RawQuery: "sslmode=disable"}
	databases := map[string]string{"celld": clustertest.NewDatabase(t).OwnerURL(), "shop": u.String()}
	data := t.TempDir()
	first := startOn(t, data, 0, databases)
	first.deploy("shop", "one", "http://127.0.0.1:1")
	first.stop()

	g.shut.Store(true)
	second := startOn(t, data, 0, databases)
	state := func() *client.App {
		t.Helper()
		a, err := second.App(t.Context(), "shop")
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	if a := state(); a.State != "restarting" || a.Reason == "" || a.Since.IsZero() || a.Live == nil {
		t.Errorf("while its database is away: %+v", a)
	}
	g.shut.Store(false)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(waitTime)
	for state().State != "live" {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("when its database is back: %+v", state())
		}
	}
	if got := second.ask("shop", "/"); got != "one" {
		t.Errorf("it answers %q", got)
	}
}
