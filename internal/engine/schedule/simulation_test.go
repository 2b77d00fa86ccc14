package schedule_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/runlot/runlot/internal/core/cron"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/schedule"
)

// TestSimulation lets nodes come and go, die, lose their database and have their clocks set, while handlers fail and
// processes die. Whatever happens: never two runs of the app at once (every call checks that); no occurrence
// is run again after a success that was saved; each occurrence was claimed, or is counted as missed by the claim after it; and what was claimed was run, or found too
// late.
func TestSimulation(t *testing.T) {
	for seed := range uint64(25) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, func(w *world) { simulate(w, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func simulate(w *world, random *rand.Rand) {
	crons := []string{"*/7 * * * *", hourly, "30 */3 * * *"}
	chance := func(percent int) bool { return random.IntN(100) < percent }
	w.handle(func(ctx context.Context, _ *call) (*schedule.Result, error) {
		w.mu.Lock()
		d := time.Duration(random.Int64N(int64(4 * time.Minute)))
		if chance(3) {
			d = time.Hour
		}
		bad := chance(25)
		w.mu.Unlock()
		result, err := takes(d, ok)(ctx, nil)
		if err == nil && bad {
			result = failed
		}
		return result, err
	})
	var nodes []*node
	born := 0
	spawn := func() {
		born++
		nodes = append(nodes, w.start(fmt.Sprint("n", born), crons...))
	}
	spawn()
	wait(time.Minute)
	for time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)) < 20*time.Hour {
		w.mu.Lock()
		pause := time.Duration(random.Int64N(int64(10 * time.Minute)))
		action, pick := random.IntN(10), random.IntN(max(1, len(nodes)))
		skew := time.Duration(random.Int64N(int64(4*time.Hour))) - 2*time.Hour
		w.mu.Unlock()
		wait(pause)
		if len(nodes) == 0 {
			spawn()
			continue
		}
		n := nodes[pick]
		switch action {
		case 0:
			if len(nodes) < 3 {
				spawn()
			}
		case 1:
			n.kill()
			nodes = append(nodes[:pick], nodes[pick+1:]...)
		case 2:
			ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
			n.Stop(ctx)
			cancel()
			nodes = append(nodes[:pick], nodes[pick+1:]...)
		case 3:
			n.process.die(schedule.ErrLost)
			wait(time.Second)
			n.Hold()
			wait(time.Minute)
			n.run(crons...)
		case 4:
			old := n.process
			n.run(crons...)
			wait(30 * time.Second)
			old.die(schedule.ErrLost)
		case 5:
			n.set(func() { n.away = true })
			wait(pause / 4)
			n.set(func() { n.away = false })
		case 6:
			n.set(func() { n.jump = skew })
		}
	}
	for _, n := range nodes {
		n.set(func() { n.away, n.jump = false, 0 })
	}
	if len(nodes) == 0 {
		spawn()
	}
	wait(3 * time.Hour)
	w.judge(crons)
}

// judge looks at every claim that was granted.
func (w *world) judge(crons []string) {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, text := range crons {
		s, err := cron.Parse(text)
		if err != nil {
			w.Fatal(err)
		}
		seen := map[int64]bool{} // occurrences that a handler was called for, or that are known to be lost
		for _, r := range w.kept {
			if r.Cron == text && r.Outcome == queue.Lost {
				seen[r.At.Unix()] = true
			}
		}
		for _, c := range w.calls {
			if c.cron != text {
				continue
			}
			seen[c.at.Unix()] = true
			if saved := w.saved[text+c.at.String()]; !saved.IsZero() && c.began.After(saved) {
				w.Errorf("%s was run again after its success was saved at %s", c, saved)
			}
		}
		last, carried, total := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), 0, 0
		for _, c := range w.claims {
			if c.Cron != text {
				continue
			}
			key := fmt.Sprintf("%s attempt %d", c.At.Format("02 15:04"), c.Attempt)
			total++
			switch {
			case !s.Contains(c.At) || c.At.Before(last):
				w.Errorf("%s %s was claimed after %s", text, key, last)
			case c.At.After(last):
				if between := s.Count(last, c.At, queue.CronMissedCounted) + carried; between != c.Missed {
					w.Errorf("%s %s says that %d were missed; after %s it is %d", text, key, c.Missed, last, between)
				}
			}
			carried = 0
			if !seen[c.At.Unix()] {
				carried = c.Missed + 1 // the next claim has to count it
			}
			last = c.At
		}
		if now := time.Now(); s.Next(last).Before(now.Add(-70 * time.Minute)) {
			w.Errorf("%s stands still since %s; it is %s", text, last, now)
		}
		if total < 5 {
			w.Errorf("%s: only %d claims; does the simulation still run?", text, total)
		}
	}
}
