package supervise_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/runlot/runlot/internal/engine/supervise"
)

func TestAParkedAppHasNoProcessUntilItWakes(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.deploy(t, "v1")
		w.Park()
		w.Park()
		w.check(t, "50ms v1#1 live as v1", "50ms down: the app is parked", "50ms v1#1 drains", "50ms v1#1 ends")
		time.Sleep(time.Hour)
		synctest.Wait()
		if running, _ := w.count(); running != 0 || w.State().Phase != supervise.Parked || w.State().Version != "v1" {
			t.Errorf("%d processes, state %+v", running, w.State())
		}
		w.Wake()
		w.Wake()
		time.Sleep(time.Minute)
		w.check(t, "1h0m0.1s v1#2 live as v1")
		if s := w.State(); s.Phase != supervise.Live || s.Restarts != 0 {
			t.Errorf("state %+v", s)
		}
	})
}

func TestADeploymentWakes(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		if err := w.ResumeParked(t.Context(), "v1"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		w.check(t)
		if s := w.State(); s.Phase != supervise.Parked || s.Version != "v1" {
			t.Errorf("state %+v", s)
		}
		w.deploy(t, "v2")
		w.Wake() // too late: nothing is parked
		time.Sleep(time.Minute)
		w.check(t, "1h0m0.05s v2#1 live as v2")
		w.Park()
		w.failures["v2"] = errBroken
		w.Wake()
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		if s := w.State(); s.Phase != supervise.Restarting || !errors.Is(s.Reason, errBroken) {
			t.Errorf("a wake that fails: %+v", s)
		}
		w.Park() // there is nothing to park
		if s := w.State(); s.Phase != supervise.Restarting {
			t.Errorf("state %+v", s)
		}
	})
}

func TestNothingChangesWhenTheCommitFails(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.deploy(t, "v1")
		err := w.DeployCommitted(t.Context(), "v2", func(context.Context) error {
			if w.serving().name != "v1#1" {
				t.Error("the switch comes before the commit")
			}
			return errBroken
		})
		if !errors.Is(err, errBroken) {
			t.Errorf("error %v", err)
		}
		w.check(t, "50ms v1#1 live as v1", "100ms v2#1 drains", "100ms v2#1 ends")
		if s := w.State(); s.Version != "v1" || s.Phase != supervise.Live {
			t.Errorf("state %+v", s)
		}
	})
}

func TestWhatIsCommittedIsTheOneToRun(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.deploy(t, "v1")
		old := w.serving()
		var born *process
		w.born = func(p *process) { born = p }
		err := w.DeployCommitted(t.Context(), "v2", func(context.Context) error {
			born.die(errBroken)
			return nil
		})
		if !errors.Is(err, errBroken) {
			t.Errorf("error %v", err)
		}
		w.mu.Lock()
		w.born = nil
		w.mu.Unlock()
		time.Sleep(time.Minute)
		w.check(t, "50ms v1#1 live as v1", "100ms v2#1 ends", "100ms down: broken", "100ms v1#1 drains", "100ms v1#1 ends", "350ms v2#2 live as v2")
		if s := w.State(); s.Version != "v2" || s.Phase != supervise.Live || s.Restarts != 1 {
			t.Errorf("state %+v", s)
		}
		select {
		case <-old.Done():
		default:
			t.Error("the old process goes on")
		}
	})
}
