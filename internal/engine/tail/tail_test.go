package tail_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/tail"
)

// process is one that tells when it is watched.
type process struct {
	done chan struct{}
	err  error

	mu    sync.Mutex
	heard []bool
}

func (p *process) Watch(_ context.Context, on bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard = append(p.heard, on)
	return p.err
}

func (p *process) Done() <-chan struct{} { return p.done }

func (p *process) wants(t *testing.T, want ...bool) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if diff := cmp.Diff(want, p.heard); diff != "" {
		t.Errorf("the process heard (-want +got):\n%s", diff)
	}
}

func all(*tail.Invocation) bool { return true }

func TestProcessesAreWatchedWhileSomebodyFollows(t *testing.T) {
	ctx := t.Context()
	h := tail.New(slog.New(slog.DiscardHandler))
	first, other, ended, deaf := &process{done: make(chan struct{})}, &process{done: make(chan struct{})}, &process{done: make(chan struct{})}, &process{done: make(chan struct{}), err: errors.New("busy")}
	h.Started(ctx, "shop", first)
	h.Started(ctx, "shop", ended)
	h.Started(ctx, "shop", deaf)
	h.Started(ctx, "mail", other)
	close(ended.done)
	one := h.Follow(ctx, "shop", all)
	two := h.Follow(ctx, "shop", all)
	first.wants(t, true)
	second := &process{done: make(chan struct{})}
	h.Started(ctx, "shop", second)
	second.wants(t, true)
	one.Close(ctx)
	one.Close(ctx)
	first.wants(t, true)
	two.Close(ctx)
	first.wants(t, true, false)
	second.wants(t, true, false)
	deaf.wants(t, true, false)
	ended.wants(t)
	other.wants(t)
}

func TestEachFollowerGetsWhatItWants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		h := tail.New(slog.New(slog.DiscardHandler))
		failed := h.Follow(ctx, "shop", func(i *tail.Invocation) bool { return i.Outcome != "ok" })
		slow := h.Follow(ctx, "shop", all)
		h.Publish(&tail.Invocation{App: "mail", Outcome: "exception"})
		for n := range queue.TailQueue + 3 {
			outcome := "ok"
			if n == 1 {
				outcome = "exception"
			}
			h.Publish(&tail.Invocation{App: "shop", Version: strings.Repeat("x", n%7), Outcome: outcome})
		}
		if i := <-failed.Invocations(); i.Outcome != "exception" || i.Version != "x" || failed.Missed() != 0 || len(failed.Invocations()) != 0 {
			t.Errorf("%+v", i)
		}
		if len(slow.Invocations()) != queue.TailQueue || slow.Missed() != 3 || slow.Missed() != 0 {
			t.Errorf("%d wait", len(slow.Invocations()))
		}
		failed.Close(ctx)
		slow.Close(ctx)
		h.Publish(&tail.Invocation{App: "shop"})
		if len(slow.Invocations()) != queue.TailQueue || slow.Missed() != 0 {
			t.Error("a follower that was closed still follows")
		}
	})
}
