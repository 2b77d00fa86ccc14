package watch

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/internal/core/queue"
)

// gathering runs a gatherer in a bubble with its own clock.
func gathering(t *testing.T, f func(t *testing.T, g *gatherer, out <-chan []string)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g, out := newGatherer(), make(chan []string)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			g.run(ctx, out)
		}()
		f(t, g, out)
		stop()
		<-done
	})
}

func TestOneSaveIsOneChange(t *testing.T) {
	gathering(t, func(t *testing.T, g *gatherer, out <-chan []string) {
		start := time.Now()
		g.add("b")
		time.Sleep(60 * time.Millisecond)
		g.add("a")
		g.add("b")
		got := <-out
		if diff := cmp.Diff([]string{"a", "b"}, got); diff != "" {
			t.Error(diff)
		}
		if at := time.Since(start); at != 60*time.Millisecond+queue.WatchQuiet {
			t.Errorf("reported after %s", at)
		}
		select {
		case again := <-out:
			t.Errorf("reported again: %q", again)
		case <-time.After(time.Hour):
		}
	})
}

func TestEndlessChangesAreReportedInTime(t *testing.T) {
	gathering(t, func(t *testing.T, g *gatherer, out <-chan []string) {
		start := time.Now()
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 100 {
				if ctx.Err() != nil {
					return
				}
				g.add("a")
				time.Sleep(queue.WatchQuiet / 2)
			}
		}()
		<-out
		if at := time.Since(start); at != queue.WatchWait {
			t.Errorf("first after %s", at)
		}
		<-out
		if at := time.Since(start); at < 2*queue.WatchWait || at > 2*queue.WatchWait+queue.WatchQuiet {
			t.Errorf("second after %s", at)
		}
		stop()
		<-done
	})
}

func TestChangesAreKeptWhileNobodyReceives(t *testing.T) {
	gathering(t, func(t *testing.T, g *gatherer, out <-chan []string) {
		g.add("a")
		time.Sleep(time.Hour)
		g.add("b")
		time.Sleep(time.Hour)
		g.add("a")
		time.Sleep(time.Hour)
		if diff := cmp.Diff([]string{"a", "b"}, <-out); diff != "" {
			t.Error(diff)
		}
		// A change while another is on offer is reported again: it may come after that one was read.
		g.add("a")
		time.Sleep(time.Hour)
		g.add("a")
		<-out
		if diff := cmp.Diff([]string{"a"}, <-out); diff != "" {
			t.Error(diff)
		}
	})
}
