package pace_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/pace"
)

func TestBackoffDoublesUpToTheMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var wait pace.Backoff
		for want := queue.StoreRetryFirst; want < queue.StoreRetryMax; want *= 2 {
			begin := time.Now()
			if err := wait.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := time.Since(begin); got != want {
				t.Fatalf("waited %s, want %s", got, want)
			}
		}
		for range 2 {
			if got := wait.Step(); got != queue.StoreRetryMax {
				t.Fatalf("waits %s at most, want %s", got, queue.StoreRetryMax)
			}
		}
	})
}

func TestBackoffEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reason := errors.New("over")
		ctx, end := context.WithTimeoutCause(t.Context(), queue.StoreRetryFirst/2, reason)
		defer end()
		begin := time.Now()
		if err := new(pace.Backoff).Wait(ctx); !errors.Is(err, reason) || time.Since(begin) != queue.StoreRetryFirst/2 {
			t.Errorf("%v after %s", err, time.Since(begin))
		}
	})
}

func TestKickIsKeptAndNeverBlocks(t *testing.T) {
	k := make(pace.Kick, 1)
	k.Poke()
	k.Poke()
	<-k
	select {
	case <-k:
		t.Error("one more than the capacity was kept")
	default:
	}
}
