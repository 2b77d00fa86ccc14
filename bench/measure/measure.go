// Package measure takes one round of a rate: what a counter gains in a window of time, and the processor time that it
// cost.
package measure

import (
	"context"
	"fmt"
	"time"

	"github.com/runlot/runlot/bench/proc"
)

// pollEvery is how often a counter is looked at: short against a window, long against what a look costs.
const pollEvery = 5 * time.Millisecond

// stall is the longest time in which a counter may stand still before the round is given up.
const stall = 30 * time.Second

// Sample is one round.
type Sample struct {
	// Rate is counted things per second, PerCPU per second of processor time of all processes.
	Rate   float64
	PerCPU float64
	// Cores is the processor time by program per second of the window.
	Cores map[string]float64
}

// Window is when a round begins and how long it is.
type Window struct {
	// Warm is how long the work goes on before it counts.
	Warm time.Duration
	Long time.Duration
	// Most, when above 0, ends the window when the counter reaches it: there is no more work.
	Most int64
	// Begin and End, when set, are called at the edges of the window.
	Begin, End func()
}

// Count measures a counter that other goroutines or processes raise. roots are processes that do the work beside this
// one; their children count too.
func (w Window) Count(ctx context.Context, counter func() int64, roots ...int) (Sample, error) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	// The warm-up begins when something happens.
	for begun := time.Now(); counter() == 0; {
		if err := wait(ctx, tick.C); err != nil {
			return Sample{}, err
		}
		if time.Since(begun) > stall {
			return Sample{}, fmt.Errorf("nothing happened within %s", stall)
		}
	}
	for begun := time.Now(); time.Since(begun) < w.Warm; {
		if err := wait(ctx, tick.C); err != nil {
			return Sample{}, err
		}
	}
	if w.Begin != nil {
		w.Begin()
	}
	cpu, first, begun := proc.ReadCPU(roots...), counter(), time.Now()
	last, moved := first, begun
	for time.Since(begun) < w.Long && (w.Most == 0 || last < w.Most) {
		if err := wait(ctx, tick.C); err != nil {
			return Sample{}, err
		}
		if now := counter(); now != last {
			last, moved = now, time.Now()
		}
		if time.Since(moved) > stall {
			return Sample{}, fmt.Errorf("nothing happened for %s after %d", stall, last)
		}
	}
	seconds, gained := time.Since(begun).Seconds(), float64(last-first)
	used := proc.ReadCPU(roots...).Sub(cpu)
	if w.End != nil {
		w.End()
	}
	s := Sample{Rate: gained / seconds, Cores: map[string]float64{}}
	if total := used.Total(); total > 0 {
		s.PerCPU = gained / total
	}
	for role, t := range used {
		s.Cores[role] = t / seconds
	}
	return s, nil
}

func wait(ctx context.Context, tick <-chan time.Time) error {
	select {
	case <-tick:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
