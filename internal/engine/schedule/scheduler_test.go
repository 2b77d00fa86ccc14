package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/schedule"
)

const (
	hourly  = "0 * * * *"
	quarter = "*/15 * * * *"
	minutes = "* * * * *"
	daily   = "0 12 * * *"
)

var failed = &schedule.Result{Outcome: queue.Failed, Error: &schedule.Exception{Name: "Error", Message: "no"}}

func TestEachOccurrenceRunsOnce(t *testing.T) {
	for nodes := 1; nodes <= 3; nodes++ {
		t.Run(fmt.Sprint(nodes, " nodes"), func(t *testing.T) {
			bubble(t, func(w *world) {
				for i := range nodes {
					w.start(fmt.Sprint("n", i), hourly)
				}
				wait(24*time.Hour + time.Minute)
				if len(w.called()) != 24 {
					t.Errorf("%d runs; want 24:\n%s", len(w.called()), strings.Join(w.course(), "\n"))
				}
				for i, c := range w.called() {
					if want := time.Date(2000, 1, 1, i+1, 0, 0, 0, time.UTC); !c.at.Equal(want) || c.began.Sub(c.at) > 10*time.Second {
						t.Errorf("run %d: %s", i, c)
					}
				}
			})
		})
	}
}

func TestAFailureIsTriedAgainUntilTheNextOccurrence(t *testing.T) {
	bubble(t, func(w *world) {
		w.handle(takes(0, failed))
		w.start("n", quarter)
		wait(31 * time.Minute)
		w.wantCourse(
			"n */15 * * * * 01 00:15 +0s", "n */15 * * * * 01 00:15 +10s", "n */15 * * * * 01 00:15 +30s", "n */15 * * * * 01 00:15 +1m10s",
			"n */15 * * * * 01 00:15 +2m30s", "n */15 * * * * 01 00:15 +5m10s", "n */15 * * * * 01 00:15 +10m30s",
			"n */15 * * * * 01 00:30 +0s", "n */15 * * * * 01 00:30 +10s", "n */15 * * * * 01 00:30 +30s",
		)
		kept := w.outcomes(quarter)
		if kept[0] != "01 00:15 failed 1 again" || kept[6] != "01 00:15 failed 7" || kept[7] != "01 00:30 failed 1 again" {
			t.Errorf("outcomes: %s", strings.Join(kept, ", "))
		}
	})
}

func TestAYearlyFailureIsGivenUpAfterADay(t *testing.T) {
	bubble(t, func(w *world) {
		w.handle(takes(0, failed))
		w.start("n", "0 1 1 1 *")
		wait(72 * time.Hour)
		last := w.called()[len(w.called())-1]
		if late := last.began.Sub(last.at); late > queue.CronLate || late < queue.CronLate-2*queue.CronRetryMax {
			t.Errorf("the last of %d tries: %s", len(w.called()), last)
		}
	})
}

func TestNoRetry(t *testing.T) {
	bubble(t, func(w *world) {
		w.handle(takes(0, &schedule.Result{Outcome: queue.Failed, NoRetry: true}))
		w.start("n", hourly)
		wait(2*time.Hour + time.Minute)
		w.wantOutcomes(hourly, "01 01:00 failed 1", "01 02:00 failed 1")
	})
}

func TestSuccessAfterARetry(t *testing.T) {
	bubble(t, func(w *world) {
		w.handle(func(_ context.Context, c *call) (*schedule.Result, error) {
			if c.number < 3 {
				return failed, nil
			}
			return ok, nil
		})
		w.start("n", hourly)
		wait(2 * time.Hour)
		w.wantOutcomes(hourly, "01 01:00 failed 1 again", "01 01:00 failed 2 again", "01 01:00 ok 3", "01 02:00 failed 1 again")
	})
}

func TestTheHandlersTime(t *testing.T) {
	bubble(t, func(w *world) {
		w.handle(takes(24*time.Hour, ok))
		n := w.start("n", hourly)
		wait(time.Hour + queue.CronTime + time.Second)
		w.wantOutcomes(hourly, "01 01:00 timeout 1 again")
		if r := n.recorded()[0]; r.Duration != queue.CronTime || !strings.Contains(r.Reason, "15m") {
			t.Errorf("%+v", r)
		}
		wait(queue.CronRetryFirst)
		if len(w.called()) != 2 {
			t.Errorf("%d runs; want 2", len(w.called()))
		}
	})
}

func TestTheProcessDies(t *testing.T) {
	bubble(t, func(w *world) {
		w.handle(takes(time.Minute, ok))
		n := w.start("n", hourly)
		wait(time.Hour + time.Second)
		n.process.die(fmt.Errorf("%w: signal: killed", schedule.ErrLost))
		synctest.Wait()
		n.Hold()
		wait(30 * time.Second)
		n.run(hourly)
		wait(2 * time.Minute)
		w.wantOutcomes(hourly, "01 01:00 lost 1 again", "01 01:00 ok 2")
		if r := n.recorded()[0]; !strings.Contains(r.Reason, "killed") {
			t.Errorf("%+v", r)
		}
	})
}

func TestAReplacedProcessCostsNoBackOff(t *testing.T) {
	bubble(t, func(w *world) {
		w.handle(takes(time.Minute, ok))
		n := w.start("n", hourly)
		wait(time.Hour + time.Second)
		old := n.process
		n.run(hourly)
		wait(30 * time.Second)
		old.die(schedule.ErrLost)
		wait(2 * time.Minute)
		w.wantCourse("n 0 * * * * 01 01:00 +0s", "n 0 * * * * 01 01:00 +31s")
		w.wantOutcomes(hourly, "01 01:00 lost 1 again", "01 01:00 ok 2")
	})
}

func TestAProcessThatIsGoneHasNotRun(t *testing.T) {
	bubble(t, func(w *world) {
		n := w.start("n", hourly)
		wait(time.Minute)
		n.process.die(schedule.ErrLost)
		wait(time.Hour)
		w.wantOutcomes(hourly)
		n.run(hourly)
		synctest.Wait()
		w.wantCourse("n 0 * * * * 01 01:00 +1m0s")
		w.wantOutcomes(hourly, "01 01:00 ok 1")
	})
}

func TestWhatCannotRunIsAnError(t *testing.T) {
	bubble(t, func(w *world) {
		w.handle(func(context.Context, *call) (*schedule.Result, error) {
			return nil, fmt.Errorf("%w: no handler", schedule.ErrCannotRun)
		})
		w.start("n", hourly)
		wait(time.Hour + 5*time.Second)
		w.wantOutcomes(hourly, "01 01:00 error 1 again")
		w.handle(func(context.Context, *call) (*schedule.Result, error) { return nil, errors.New("a defect") })
		wait(6 * time.Second)
		w.wantOutcomes(hourly, "01 01:00 error 1 again", "01 01:00 lost 2 again")
	})
}

func TestANodeDies(t *testing.T) {
	bubble(t, func(w *world) {
		w.handle(takes(5*time.Minute, ok))
		a := w.start("a", hourly)
		wait(time.Hour + 10*time.Second)
		w.start("b", hourly)
		wait(time.Minute)
		a.kill()
		wait(10 * time.Minute)
		if len(w.called()) != 2 || w.called()[1].node != "b" || w.called()[1].began.Sub(w.called()[0].began) > 2*time.Minute {
			t.Errorf("course: %s", strings.Join(w.course(), ", "))
		}
		w.wantOutcomes(hourly, "01 01:00 lost 1 again", "01 01:00 ok 2")
	})
}

func TestARestartTakesTheInterruptedRunUp(t *testing.T) {
	bubble(t, func(w *world) {
		w.handle(takes(5*time.Minute, ok))
		w.start("a", hourly)
		wait(time.Hour + time.Minute)
		w.wantCourse("a 0 * * * * 01 01:00 +0s")
		for _, c := range w.claimed() {
			if c.Node != "a" {
				t.Errorf("claim: %+v", c)
			}
		}
	})
	bubble(t, func(w *world) {
		w.handle(takes(5*time.Minute, ok))
		a := w.start("a", hourly)
		wait(time.Hour + time.Minute)
		a.kill()
		w.start("b", hourly)
		wait(time.Minute)
		w.wantCourse("a 0 * * * * 01 01:00 +0s", "b 0 * * * * 01 01:00 +1m30s")
	})
	// A clean stop hands it on without a wait.
	bubble(t, func(w *world) {
		w.handle(takes(5*time.Minute, ok))
		a := w.start("a", hourly)
		wait(time.Hour + time.Minute)
		ctx, cancel := context.WithTimeout(w.Context(), 5*time.Second)
		defer cancel()
		a.Stop(ctx)
		w.start("b", hourly)
		synctest.Wait()
		w.wantCourse("a 0 * * * * 01 01:00 +0s", "b 0 * * * * 01 01:00 +1m5s")
		w.wantOutcomes(hourly, "01 01:00 lost 1 again")
	})
	// One that is done within the time of the stop is done.
	bubble(t, func(w *world) {
		w.handle(takes(5*time.Second, ok))
		a := w.start("a", hourly)
		wait(time.Hour + time.Second)
		a.Stop(w.Context())
		w.wantOutcomes(hourly, "01 01:00 ok 1")
		w.start("b", hourly)
		wait(time.Minute)
		w.wantCourse("a 0 * * * * 01 01:00 +0s")
	})
}

func TestAfterADowntimeOnlyTheLatestRuns(t *testing.T) {
	bubble(t, func(w *world) {
		a := w.start("a", hourly, daily)
		wait(time.Hour + time.Minute)
		a.Stop(w.Context())
		wait(12 * time.Hour) // 13:01
		w.start("b", hourly, daily)
		synctest.Wait()
		w.wantOutcomes(hourly, "01 01:00 ok 1", "01 13:00 ok 1 missed 11")
		w.wantOutcomes(daily, "01 12:00 ok 1")
	})
	bubble(t, func(w *world) {
		a := w.start("a", daily)
		wait(13 * time.Hour)
		a.Stop(w.Context())
		wait(5*24*time.Hour - 2*time.Hour) // the 6th at 11:00
		b := w.start("b", daily)
		synctest.Wait()
		w.wantOutcomes(daily, "01 12:00 ok 1", "05 12:00 ok 1 missed 3")
		b.Stop(w.Context())
	})
	// More than a day after the latest, nothing runs.
	const everyOther = "0 12 1-31/2 * *"
	bubble(t, func(w *world) {
		a := w.start("a", everyOther)
		wait(13 * time.Hour)
		a.Stop(w.Context())
		wait(5*24*time.Hour + 2*time.Hour) // the 6th at 15:00: the latest was on the 5th at 12:00
		b := w.start("b", everyOther)
		synctest.Wait()
		w.wantOutcomes(everyOther, "01 12:00 ok 1", "05 12:00 missed 0 missed 2")
		if len(b.recorded()) != 1 || b.recorded()[0].Outcome != schedule.Missed {
			t.Errorf("records: %+v", b.recorded())
		}
		wait(24 * time.Hour)
		if kept := w.outcomes(everyOther); len(kept) != 3 || kept[2] != "07 12:00 ok 1" {
			t.Errorf("outcomes: %s", kept)
		}
	})
}

func TestTheScheduleFollowsTheVersion(t *testing.T) {
	bubble(t, func(w *world) {
		n := w.start("n", hourly)
		wait(70 * time.Minute)
		n.run(quarter) // 01:10
		wait(70 * time.Minute)
		w.wantOutcomes(hourly, "01 01:00 ok 1")
		w.wantOutcomes(quarter, "01 01:15 ok 1", "01 01:30 ok 1", "01 01:45 ok 1", "01 02:00 ok 1", "01 02:15 ok 1")
		// One that comes back begins with its next occurrence.
		n.run(hourly, quarter)
		synctest.Wait()
		w.wantOutcomes(hourly, "01 01:00 ok 1")
		wait(time.Hour)
		w.wantOutcomes(hourly, "01 01:00 ok 1", "01 03:00 ok 1")
		n.run()
		wait(24 * time.Hour)
		if n := w.declared(); n != 0 {
			t.Errorf("%d crons are remembered of an app that has none", n)
		}
	})
}

func TestAnAppLeavesItsDatabase(t *testing.T) {
	bubble(t, func(w *world) {
		n := w.start("n", hourly)
		wait(time.Minute)
		n.Set(schedule.Target{Runtime: n.process})
		synctest.Wait()
		if n := w.declared(); n != 0 {
			t.Errorf("%d crons are remembered there", n)
		}
	})
}

func TestOneRunAtATime(t *testing.T) {
	bubble(t, func(w *world) {
		w.handle(func(ctx context.Context, c *call) (*schedule.Result, error) {
			d := time.Second
			if c.cron == hourly {
				d = 10 * time.Minute
			}
			return takes(d, ok)(ctx, c)
		})
		w.start("a", hourly, quarter, minutes)
		w.start("b", hourly, quarter, minutes)
		wait(70*time.Minute + 10*time.Second)
		// Nothing else ran in the ten minutes; of the minutes that passed, the latest runs.
		got := w.outcomes(minutes)
		if last := got[len(got)-1]; last != "01 01:10 ok 1 missed 10" && last != "01 01:10 ok 1 missed 9" {
			t.Errorf("the last minute: %s", last)
		}
		w.wantOutcomes(hourly, "01 01:00 ok 1")
	})
}

func TestTheDatabaseIsAwayDuringARun(t *testing.T) {
	bubble(t, func(w *world) {
		w.handle(takes(10*time.Minute, ok))
		a := w.start("a", hourly)
		wait(time.Hour + time.Minute)
		b := w.start("b", hourly)
		a.set(func() { a.away = true })
		wait(5 * time.Minute)
		// The call of a ends before the one of b begins: the world looks for two at a time.
		if len(w.called()) != 2 || w.called()[1].node != "b" {
			t.Fatalf("course: %s", strings.Join(w.course(), ", "))
		}
		a.set(func() { a.away = false })
		wait(10 * time.Minute)
		w.wantOutcomes(hourly, "01 01:00 lost 1 again", "01 01:00 ok 2")
		if r := a.recorded()[0]; r.Outcome != queue.Lost || !strings.Contains(r.Reason, "did not answer") {
			t.Errorf("a: %+v", r)
		}
		if len(b.recorded()) != 2 {
			t.Errorf("b: %+v", b.recorded())
		}
	})
	// A short absence costs nothing.
	bubble(t, func(w *world) {
		w.handle(takes(time.Minute, ok))
		a := w.start("a", hourly)
		wait(time.Hour + 30*time.Second)
		a.set(func() { a.away = true })
		wait(10 * time.Second)
		a.set(func() { a.away = false })
		wait(time.Minute)
		w.wantOutcomes(hourly, "01 01:00 ok 1")
	})
	// Nor does one at the end of the run.
	bubble(t, func(w *world) {
		w.handle(takes(time.Minute, ok))
		a := w.start("a", hourly)
		wait(time.Hour + 50*time.Second)
		a.set(func() { a.away = true })
		wait(19 * time.Second)
		a.set(func() { a.away = false })
		wait(time.Minute)
		w.wantOutcomes(hourly, "01 01:00 ok 1")
	})
}

func TestARunThatWasTakenOverIsCutOff(t *testing.T) {
	bubble(t, func(w *world) {
		w.handle(takes(10*time.Minute, ok))
		n := w.start("n", hourly)
		wait(time.Hour + time.Minute)
		view, err := w.Look(w.Context(), "app")
		if err != nil {
			t.Fatal(err)
		}
		// Another node that believes the run to be lost.
		c := &schedule.Claim{App: "app", Fence: view.Fence, Beat: view.Beat, Cron: hourly, At: view.Crons[0].At, Attempt: 2}
		if _, err := w.Claim(w.Context(), c); err != nil {
			t.Fatal(err)
		}
		wait(queue.CronRenewEvery)
		if len(n.recorded()) != 1 || n.recorded()[0].Outcome != queue.Lost || !strings.Contains(n.recorded()[0].Reason, "another node") {
			t.Errorf("records: %+v", n.recorded())
		}
		w.wantOutcomes(hourly)
	})
}

func TestAStopDuringALookBeginsNothing(t *testing.T) {
	bubble(t, func(w *world) {
		n := w.start("n", hourly)
		wait(time.Minute)
		n.set(func() {
			n.onLook = func() {
				go n.Stop(w.Context())
				time.Sleep(time.Second)
			}
		})
		wait(time.Hour)
		w.wantCourse()
	})
}
