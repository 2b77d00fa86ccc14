package measure

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// counting raises a counter by ten every ten milliseconds until it is as high as most.
func counting(ctx context.Context, most int64) *atomic.Int64 {
	var n atomic.Int64
	go func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for n.Load() < most {
			select {
			case <-tick.C:
				n.Add(10)
			case <-ctx.Done():
				return
			}
		}
	}()
	return &n
}

func TestCountsTheWindowOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		n := counting(ctx, 1<<40)
		edges := 0
		w := Window{Warm: time.Second, Long: 2 * time.Second, Begin: func() { edges++ }, End: func() { edges++ }}
		begun := time.Now()
		sample, err := w.Count(ctx, n.Load)
		if err != nil {
			t.Fatal(err)
		}
		if sample.Rate < 990 || sample.Rate > 1_010 {
			t.Errorf("rate %g, want 1000", sample.Rate)
		}
		if took := time.Since(begun); took < 3*time.Second || took > 3100*time.Millisecond {
			t.Errorf("took %s, want warm-up and window", took)
		}
		if edges != 2 {
			t.Errorf("%d edges", edges)
		}
	})
}

// TestEndsWithTheWork: a window that waits on after the last job would show a rate that is too low.
func TestEndsWithTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		n := counting(ctx, 500)
		sample, err := Window{Long: time.Minute, Most: 500}.Count(ctx, n.Load)
		if err != nil {
			t.Fatal(err)
		}
		// The counter is looked at every pollEvery: at each edge of the half second the rate can be off by as much of it.
		if off := 2 * pollEvery.Seconds() / 0.5; sample.Rate < 950 || sample.Rate > 1_000*(1+off) {
			t.Errorf("rate %g, want that of the half second in which there was work", sample.Rate)
		}
	})
}

func TestGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if _, err := (Window{Long: time.Second}).Count(t.Context(), func() int64 { return 0 }); err == nil {
			t.Error("a counter that never moves has a rate")
		}
		if _, err := (Window{Long: time.Hour}).Count(t.Context(), func() int64 { return 1 }); err == nil {
			t.Error("a counter that stands still has a rate")
		}
		cause := errors.New("the work failed")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		if _, err := (Window{Long: time.Second}).Count(ctx, func() int64 { return 0 }); !errors.Is(err, cause) {
			t.Errorf("error %v, want the cause", err)
		}
	})
}
