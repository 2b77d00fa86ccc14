package schedule_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/runlot/runlot/internal/core/cron"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/schedule"
)

func TestClocks(t *testing.T) {
	jump := func(w *world, n *node, d time.Duration) {
		w.mu.Lock()
		w.jump += d
		w.mu.Unlock()
		n.set(func() { n.jump += d })
	}
	times := func(w *world) string {
		list := make([]string, 0, len(w.called()))
		for _, c := range w.called() {
			list = append(list, c.at.Format("02 15:04"))
		}
		return strings.Join(list, ", ")
	}
	for name, c := range map[string]struct {
		jump time.Duration
		want string
	}{
		"forward, as after a sleep":             {150 * time.Minute, "01 01:00, 01 04:00, 01 05:00, 01 06:00, 01 07:00"},
		"back a little: no hour comes twice":    {-90 * time.Minute, "01 01:00, 01 02:00, 01 03:00"},
		"back by a correction: the hours count": {-10 * time.Hour, "01 01:00, 31 16:00, 31 17:00, 31 18:00"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				n := w.start("n", hourly)
				wait(90 * time.Minute)
				jump(w, n, c.jump)
				wait(190*time.Minute + queue.CronCheckEvery)
				if got := times(w); got != c.want {
					t.Errorf("%s; want %s", got, c.want)
				}
			})
		})
	}
	t.Run("noticed soon", func(t *testing.T) {
		bubble(t, func(w *world) {
			n := w.start("n", daily)
			wait(time.Hour)
			jump(w, n, 12*time.Hour)
			wait(queue.CronCheckEvery + 2*time.Second)
			if got := times(w); got != "01 12:00" {
				t.Errorf("after the jump: %s", got)
			}
		})
	})
	t.Run("a node's own clock counts for nothing", func(t *testing.T) {
		bubble(t, func(w *world) {
			n := w.start("n", hourly)
			wait(30 * time.Minute)
			n.set(func() { n.jump = 7 * time.Hour })
			wait(time.Hour)
			n.set(func() { n.jump = -7 * time.Hour })
			wait(time.Hour)
			w.wantCourse("n 0 * * * * 01 01:00 +0s", "n 0 * * * * 01 02:00 +0s")
		})
	})
	t.Run("during a run", func(t *testing.T) {
		bubble(t, func(w *world) {
			w.handle(takes(10*time.Minute, ok))
			n := w.start("n", hourly)
			w.start("m", hourly)
			wait(61 * time.Minute)
			jump(w, n, 30*time.Minute) // no other node takes the run to be lost
			wait(15 * time.Minute)
			w.wantOutcomes(hourly, "01 01:00 ok 1")
		})
	})
}

func TestFire(t *testing.T) {
	bubble(t, func(w *world) {
		w.handle(takes(time.Minute, failed))
		n := w.start("n", hourly)
		wait(time.Minute)
		at := time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)
		r, err := n.Fire(w.Context(), "any text", at)
		if err != nil || r.Outcome != queue.Failed || r.Cron != "any text" || !r.At.Equal(at) || !r.Manual || r.Error.Message != "no" || !r.Retry.IsZero() {
			t.Errorf("%+v, %v", r, err)
		}
		if kept := w.runs("app", "any text"); len(kept) != 1 || !kept[0].Manual || len(n.recorded()) != 1 {
			t.Errorf("kept: %+v, recorded %+v", kept, n.recorded())
		}
		// It waits for its turn, and no longer than its caller.
		w.handle(takes(time.Minute, ok))
		wait(time.Until(time.Date(2000, 1, 1, 1, 0, 10, 0, time.UTC)))
		ctx, cancel := context.WithTimeout(w.Context(), 10*time.Second)
		defer cancel()
		if r, err := n.Fire(ctx, hourly, at); fault.KindOf(err) != fault.Unavailable {
			t.Errorf("during another run: %+v, %v", r, err)
		}
		if r, err := n.Fire(w.Context(), hourly, at); err != nil || r.Outcome != queue.OK || r.Start.Second() != 0 {
			t.Errorf("after another run: %+v, %v", r, err)
		}
		n.Hold()
		ctx, cancel = context.WithTimeout(w.Context(), 10*time.Second)
		defer cancel()
		if r, err := n.Fire(ctx, hourly, at); fault.KindOf(err) != fault.Unavailable {
			t.Errorf("without a process: %+v, %v", r, err)
		}
		n.Stop(w.Context())
		if r, err := n.Fire(w.Context(), hourly, at); fault.KindOf(err) != fault.Unavailable {
			t.Errorf("after the stop: %+v, %v", r, err)
		}
	})
	// An app without crons can be fired too.
	bubble(t, func(w *world) {
		n := w.start("n")
		n.Set(schedule.Target{Runtime: n.process})
		if r, err := n.Fire(w.Context(), "", time.Now()); err != nil || r.Outcome != queue.OK {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// TestARunByHandIsTheOnlyOne: on all nodes, and when the node that does it dies.
func TestARunByHandIsTheOnlyOne(t *testing.T) {
	bubble(t, func(w *world) {
		w.handle(takes(time.Minute, ok))
		n, m := w.start("n", hourly), w.start("m", hourly)
		wait(time.Until(time.Date(2000, 1, 1, 0, 59, 30, 0, time.UTC)))
		done := make(chan error, 1)
		go func() {
			_, err := n.FireNow(w.Context(), hourly, time.Now())
			done <- err
		}()
		wait(time.Second)
		for _, other := range []*node{n, m} {
			if r, err := other.FireNow(w.Context(), hourly, time.Now()); fault.From(err).Code != schedule.CodeUnderWay {
				t.Errorf("on node %s during a run by hand: %+v, %v", other.name, r, err)
			}
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		wait(2 * time.Minute)
		w.wantOutcomes(hourly, "01 00:59 ok 1", "01 01:00 ok 1")
		go func() {
			_, err := n.FireNow(w.Context(), hourly, time.Now())
			done <- err
		}()
		wait(time.Second)
		n.kill()
		wait(time.Second)
		if r, err := m.FireNow(w.Context(), hourly, time.Now()); fault.From(err).Code != schedule.CodeUnderWay {
			t.Errorf("before it is known that the node is dead: %+v, %v", r, err)
		}
		wait(queue.CronLease + 10*time.Second)
		if r, err := m.FireNow(w.Context(), hourly, time.Now()); err != nil || r.Outcome != queue.OK {
			t.Errorf("after the death of the node: %+v, %v", r, err)
		}
	})
}

func TestAParkedAppIsWokenWhenACronIsDue(t *testing.T) {
	bubble(t, func(w *world) {
		w.handle(takes(time.Minute, ok))
		n := w.start("n", hourly)
		wait(10 * time.Minute)
		if !n.Idle(time.Hour) {
			t.Error("an app that never ran is not idle")
		}
		woken := make(chan time.Time, 10)
		s, err := cron.Parse(hourly)
		if err != nil {
			t.Fatal(err)
		}
		n.Set(schedule.Target{Version: "v", Store: n.store(), Crons: []*cron.Schedule{s}, Wake: func() { woken <- time.Now() }})
		wait(time.Hour) // 01:10
		w.wantCourse()
		if len(woken) == 0 || (<-woken).Minute() != 0 {
			t.Fatalf("it was woken %d times", len(woken))
		}
		n.run(hourly)
		wait(30 * time.Second)
		w.wantCourse("n 0 * * * * 01 01:00 +10m0s")
		if n.Idle(0) {
			t.Error("an app whose handler runs is idle")
		}
		wait(2 * time.Minute)
		if !n.Idle(time.Minute) || n.Idle(2*time.Minute) {
			t.Error("it is not idle since its run ended")
		}
		w.wantOutcomes(hourly, "01 01:00 ok 1")
	})
}
