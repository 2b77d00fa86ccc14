package supervise_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/runlot/runlot/internal/engine/supervise"
)

func TestAVersionThatHasToBeAloneWaitsForTheOldOne(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.work = time.Second
		w.deploy(t, "alone1")
		w.deploy(t, "alone2")
		w.check(t, "50ms alone1#1 live as alone1", "50ms down: the app is being replaced", "50ms alone1#1 drains", "1.05s alone1#1 ends", "1.1s alone2#1 live as alone2")
		// What drains longer is cut.
		w.serving().work = time.Hour
		w.deploy(t, "alone3")
		w.check(t, "1.1s down: the app is being replaced", "1.1s alone2#1 drains", "11.1s alone2#1 ends", "11.15s alone3#1 live as alone3")
		// One that may have company starts beside it; the next one waits for both.
		w.deploy(t, "v4")
		w.check(t, "11.2s v4#1 live as v4", "11.2s alone3#1 drains")
		time.Sleep(100 * time.Millisecond)
		w.deploy(t, "alone5")
		w.check(t, "11.3s down: the app is being replaced", "11.3s v4#1 drains",
			"12.2s alone3#1 ends", "12.3s v4#1 ends", "12.35s alone5#1 live as alone5")
	})
}

func TestTheOldOneComesBackWhenTheNewOneDoesNotStart(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.deploy(t, "alone1")
		w.fail("alone2", errBroken)
		if err := w.Deploy(t.Context(), "alone2"); !errors.Is(err, errBroken) {
			t.Errorf("error %v", err)
		}
		time.Sleep(time.Second)
		w.check(t, "50ms alone1#1 live as alone1", "50ms down: the app is being replaced", "50ms alone1#1 drains", "50ms alone1#1 ends", "150ms alone1#2 live as alone1")
		// So it does when the commit fails,
		err := w.DeployCommitted(t.Context(), "alone3", func(context.Context) error { return errBroken })
		if !errors.Is(err, errBroken) {
			t.Errorf("error %v", err)
		}
		time.Sleep(time.Second)
		w.check(t, "1.1s down: the app is being replaced", "1.1s alone1#2 drains", "1.1s alone1#2 ends", "1.15s alone3#1 drains", "1.15s alone3#1 ends", "1.2s alone1#3 live as alone1")
		// and when the caller goes away while the old one drains.
		w.serving().work = 5 * time.Second
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := w.Deploy(ctx, "alone4"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		time.Sleep(10 * time.Second)
		w.check(t, "2.15s down: the app is being replaced", "2.15s alone1#3 drains", "7.15s alone1#3 ends", "7.2s alone1#4 live as alone1")
		if s := w.State(); s.Phase != supervise.Live || s.Version != "alone1" {
			t.Errorf("state %+v", s)
		}
	})
}

func TestAParkedOneStaysParkedWhenTheNewOneDoesNotStart(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.work = time.Second
		w.deploy(t, "alone1")
		w.Park()
		w.Wake() // the start waits for the end of what was parked
		time.Sleep(5 * time.Second)
		w.check(t, "50ms alone1#1 live as alone1", "50ms down: the app is parked", "50ms alone1#1 drains", "1.05s alone1#1 ends", "1.1s alone1#2 live as alone1")
		w.Park()
		w.fail("alone2", errBroken)
		_ = w.Deploy(t.Context(), "alone2")
		time.Sleep(time.Minute)
		if s := w.State(); s.Phase != supervise.Parked || s.Version != "alone1" {
			t.Errorf("state %+v", s)
		}
		// A request that comes meanwhile wakes the old one.
		w.startTime = time.Second
		caller := make(chan error)
		go func() { caller <- w.Deploy(context.Background(), "alone2") }()
		synctest.Wait()
		w.Wake()
		<-caller
		time.Sleep(time.Minute)
		if s := w.State(); s.Phase != supervise.Live || s.Version != "alone1" {
			t.Errorf("state %+v", s)
		}
	})
}

// TestNeverTwo: whatever is deployed, dies, is parked and woken, in whatever order, no two processes of versions that have to
// be alone are there at a time.
func TestNeverTwo(t *testing.T) {
	rapid.Check(t, func(draw *rapid.T) {
		var left, together int
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			w.work = 3 * time.Second
			w.fail("alone-broken", errBroken)
			for range rapid.IntRange(1, 12).Draw(draw, "steps") {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rapid.IntRange(10, 20_000).Draw(draw, "patience"))*time.Millisecond)
				switch rapid.SampledFrom([]string{"deploy", "in background", "broken", "uncommitted", "die", "park", "wake", "time"}).Draw(draw, "step") {
				case "deploy":
					_ = w.Deploy(ctx, "alone")
				case "in background":
					go func() { _ = w.Deploy(ctx, "alone") }()
				case "broken":
					_ = w.Deploy(ctx, "alone-broken")
				case "uncommitted":
					_ = w.DeployCommitted(ctx, "alone", func(context.Context) error { return errBroken })
				case "die":
					if p := w.serving(); p != nil {
						p.die(errBroken)
					}
				case "park":
					w.Park()
				case "wake":
					w.Wake()
				case "time":
					time.Sleep(time.Duration(rapid.IntRange(1, 5_000).Draw(draw, "milliseconds")) * time.Millisecond)
				}
				t.Cleanup(cancel)
			}
			w.Stop(t.Context())
			left, together = w.count()
		})
		if left != 0 || together > 1 {
			draw.Fatalf("%d processes are left, %d were there at a time", left, together)
		}
	})
}
