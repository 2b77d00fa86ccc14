package supervise_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/supervise"
)

func TestTheNewVersionComesBeforeTheOldOneGoes(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.work = 10 * time.Second
		w.deploy(t, "v1")
		w.deploy(t, "v2")
		time.Sleep(time.Minute)
		w.check(t, "50ms v1#1 live as v1", "100ms v2#1 live as v2", "100ms v1#1 drains", "10.1s v1#1 ends")
		w.Stop(t.Context())
		w.check(t, "1m0.1s down: the app was stopped", "1m0.1s v2#1 drains", "1m10.1s v2#1 ends")
	})
}

func TestAFailedDeploymentChangesNothing(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.deploy(t, "v1")
		before := w.State()
		w.fail("v2", errBroken)
		if err := w.Deploy(t.Context(), "v2"); !errors.Is(err, errBroken) {
			t.Errorf("Deploy: %v", err)
		}
		if diff := cmp.Diff(before, w.State()); diff != "" {
			t.Errorf("state: %s", diff)
		}
		w.check(t, "50ms v1#1 live as v1")

		w.startTime = time.Hour
		begin := time.Now()
		err := w.Deploy(t.Context(), "v3")
		if fault.KindOf(err) != fault.Timeout || err.Error() != "the worker did not start within 15s" {
			t.Errorf("a start that hangs: %v", err)
		}
		if took := time.Since(begin); took != queue.StartTime {
			t.Errorf("gave up after %s", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := w.Deploy(ctx, "v4"); !errors.Is(err, context.DeadlineExceeded) || fault.KindOf(err) == fault.Timeout {
			t.Errorf("a caller that gives up: %v", err)
		}
		w.check(t)
	})
}

func TestTheFirstDeploymentShows(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		var mu sync.Mutex
		var phases []supervise.Phase
		look := func() {
			mu.Lock()
			defer mu.Unlock()
			phases = append(phases, w.State().Phase)
		}
		look()
		w.fail("v1", errBroken)
		defer time.AfterFunc(10*time.Millisecond, look).Stop()
		if err := w.Deploy(t.Context(), "v1"); !errors.Is(err, errBroken) {
			t.Errorf("Deploy: %v", err)
		}
		if s := w.State(); s.Phase != supervise.Stopped || !errors.Is(s.Reason, errBroken) {
			t.Errorf("state %+v", s)
		}
		w.deploy(t, "v2")
		look()
		mu.Lock()
		defer mu.Unlock()
		if diff := cmp.Diff([]supervise.Phase{supervise.Stopped, supervise.Starting, supervise.Live}, phases); diff != "" {
			t.Errorf("phases: %s", diff)
		}
	})
}

func TestAProcessThatDiesComesBackWithBackoff(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.deploy(t, "v1")
		time.Sleep(queue.RestartReset)
		w.serving().die(errBroken)
		synctest.Wait()
		s := w.State()
		if s.Phase != supervise.Restarting || !errors.Is(s.Reason, errBroken) || !s.NextTry.Equal(time.Now().Add(queue.RestartFirst)) {
			t.Errorf("state %+v", s)
		}
		time.Sleep(time.Second)
		w.serving().die(nil)
		time.Sleep(time.Second)
		w.check(t, "50ms v1#1 live as v1",
			"10.05s v1#1 ends", "10.05s down: broken", "10.3s v1#2 live as v1",
			"11.05s v1#2 ends", "11.05s down: the worker process ended by itself", "11.5s v1#3 live as v1")
		s = w.State()
		if s.Phase != supervise.Live || s.Restarts != 2 || !s.NextTry.IsZero() || s.Version != "v1" {
			t.Errorf("state %+v", s)
		}
		// It ran a while: the next death is a first one again.
		time.Sleep(queue.RestartReset)
		w.serving().die(errBroken)
		time.Sleep(250 * time.Millisecond)
		w.check(t, "22.05s v1#3 ends", "22.05s down: broken", "22.3s v1#4 live as v1")
	})
}

func TestAStartThatFailsIsTriedLessAndLessOften(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.fail("v1", errBroken)
		if err := w.Resume(t.Context(), "v1"); err != nil {
			t.Fatal(err)
		}
		tries := make([]time.Duration, 0, 11)
		for range 11 {
			time.Sleep(w.startTime)
			synctest.Wait()
			wait := time.Until(w.State().NextTry)
			tries = append(tries, wait)
			time.Sleep(wait)
		}
		ms := time.Millisecond
		want := []time.Duration{
			200 * ms, 400 * ms, 800 * ms, 1600 * ms, 3200 * ms, 6400 * ms, 12800 * ms, 25600 * ms, 30000 * ms, 30000 * ms, 30000 * ms,
		}
		if diff := cmp.Diff(want, tries); diff != "" {
			t.Errorf("waits: %s", diff)
		}
		w.check(t)
		w.fail("v1", nil)
		time.Sleep(time.Minute)
		if s := w.State(); s.Phase != supervise.Live {
			t.Errorf("state %+v", s)
		}
		if err := w.Resume(t.Context(), "v0"); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		if s := w.State(); s.Version != "v1" {
			t.Errorf("Resume replaced a version: %+v", s)
		}
	})
}

func TestADeploymentDoesNotWaitForABackoff(t *testing.T) {
	for name, at := range map[string]time.Duration{"in the wait": time.Second, "in the start": 12860 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, w *world) {
				w.deploy(t, "v1")
				w.log = nil
				w.fail("v1", errBroken)
				w.serving().die(errBroken)
				time.Sleep(at)
				begin := time.Now()
				w.deploy(t, "v2")
				if took := time.Since(begin); took != w.startTime {
					t.Errorf("the deployment took %s", took)
				}
				w.log = nil
				w.fail("v1", nil)
				time.Sleep(time.Hour)
				w.check(t)
				if s := w.State(); s.Phase != supervise.Live || s.Version != "v2" || s.Restarts != 0 || s.Reason != nil {
					t.Errorf("state %+v", s)
				}
			})
		})
	}
}

func TestAProcessThatDiesBeforeTheSwitchIsAFailedDeployment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		start := w.start
		s := supervise.New(supervise.Options[string, *process]{
			App: "app", Log: slog.New(slog.DiscardHandler),
			Start: func(ctx context.Context, version string) (*process, error) {
				p, err := start(ctx, version)
				if version == "v2" {
					p.die(errBroken)
				}
				return p, err
			},
			OnLive: func(p *process, _ string) { w.note(p.name + " live") },
			OnDown: func(reason error) { w.note("down: " + reason.Error()) },
		})
		if err := s.Deploy(t.Context(), "v1"); err != nil {
			t.Fatal(err)
		}
		if err := s.Deploy(t.Context(), "v2"); !errors.Is(err, errBroken) {
			t.Errorf("Deploy: %v", err)
		}
		w.check(t, "50ms v1#1 live", "100ms v2#1 ends")
		s.Stop(t.Context())
		w.end(t)
	})
}

func TestDrainingIsBounded(t *testing.T) {
	run(t, func(t *testing.T, w *world) {
		w.work = time.Hour
		for i := range 20 {
			w.deploy(t, fmt.Sprintf("v%d", i))
		}
		synctest.Wait()
		if running, most := w.count(); running != 1+queue.DrainingVersions || most > 3+queue.DrainingVersions {
			t.Errorf("%d processes run, at most %d ran", running, most)
		}
		time.Sleep(queue.DrainTime)
		synctest.Wait()
		if running, _ := w.count(); running != 1 {
			t.Errorf("%d processes run after the drain time", running)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		w.Stop(ctx)
		if took := time.Since(begin); took != time.Second {
			t.Errorf("Stop took %s", took)
		}
	})
}

// TestAStopInAStartLeavesNothing: a process that starts while or after the stop comes is drained.
func TestAStopInAStartLeavesNothing(t *testing.T) {
	for _, at := range []time.Duration{time.Millisecond, 50 * time.Millisecond} {
		for range 200 {
			run(t, func(t *testing.T, w *world) {
				w.stubborn = true
				var beside sync.WaitGroup
				beside.Go(func() {
					if err := w.Deploy(t.Context(), "v1"); err != nil && !errors.Is(err, supervise.ErrStopped) {
						t.Errorf("Deploy: %v", err)
					}
				})
				time.Sleep(at)
				w.Stop(t.Context())
				beside.Wait()
			})
			run(t, func(t *testing.T, w *world) {
				w.stubborn = true
				if err := w.Resume(t.Context(), "v1"); err != nil {
					t.Error(err)
				}
				time.Sleep(at)
				w.Stop(t.Context())
			})
		}
	}
}

// TestAnyOrderOfEvents: deployments, deaths and a stop at any moment leave no process and no goroutine behind; what serves
// is the version that was deployed last and never a process that ended; OnLive and OnDown alternate rightly.
func TestAnyOrderOfEvents(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		type step struct {
			Kind  string
			Pause int
		}
		steps := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) step {
			return step{
				rapid.SampledFrom([]string{"deploy", "deploy beside", "break", "mend", "die", "resume", "give up", "park", "wake"}).Draw(rt, "kind"),
				rapid.SampledFrom([]int{0, 0, 10, 50, 300, 20_000}).Draw(rt, "pause"),
			}
		}), 1, 25).Draw(rt, "steps")
		work := time.Duration(rapid.IntRange(0, 40_000).Draw(rt, "work")) * time.Millisecond
		soft := time.Duration(rapid.IntRange(0, 1000).Draw(rt, "soft")) * time.Millisecond
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			w.work = work
			var beside sync.WaitGroup
			for i, s := range steps {
				version := fmt.Sprintf("v%d", i)
				switch s.Kind {
				case "deploy":
					if err := w.Deploy(t.Context(), version); err == nil && w.State().Version != version {
						t.Errorf("%s was deployed, but the state is %+v", version, w.State())
					}
				case "deploy beside":
					beside.Go(func() { _ = w.Deploy(t.Context(), version) })
				case "give up":
					ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
					_ = w.Deploy(ctx, version)
					cancel()
				case "break":
					for j := range steps {
						w.fail(fmt.Sprintf("v%d", j), errBroken)
					}
				case "mend":
					for j := range steps {
						w.fail(fmt.Sprintf("v%d", j), nil)
					}
				case "die":
					if p := w.serving(); p != nil {
						p.die(errBroken)
					}
				case "resume":
					_ = w.Resume(t.Context(), version)
				case "park":
					w.Park()
				case "wake":
					w.Wake()
				}
				time.Sleep(time.Duration(s.Pause) * time.Millisecond)
				synctest.Wait()
				if p := w.serving(); p != nil {
					if s := w.State(); s.Phase != supervise.Live || p.name[:len(s.Version)] != s.Version {
						t.Errorf("%s serves, and the state is %+v", p.name, s)
					}
					select {
					case <-p.done:
						t.Errorf("%s serves and has ended", p.name)
					default:
					}
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), soft)
			defer cancel()
			begin := time.Now()
			w.Stop(ctx)
			if took := time.Since(begin); took > soft {
				t.Errorf("Stop took %s of %s", took, soft)
			}
			beside.Wait()
			w.end(t)
			if w.serving() != nil {
				t.Error("a process serves after Stop")
			}
		})
	})
}
