package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"

	"github.com/runlot/runlot/bench/measure"
	"github.com/runlot/runlot/bench/report"
)

// subject is what can be measured again and again.
type subject interface {
	Measure(ctx context.Context, w measure.Window) (measure.Sample, error)
	Close(ctx context.Context) error
}

// entry is a subject of a figure of its own.
type entry struct {
	name    string
	open    func(ctx context.Context) (subject, error)
	targets []report.Target
	note    string
	// unit is "msg/s" when it is empty.
	unit string
	// inside says that the work is done in this process, so that it can be profiled here.
	inside bool
}

// rates measures subjects in turn, round after round, so that what else the machine does hits all of them alike, and
// reports the median of each. Peers come before those who are compared to them.
func (b *bench) rates(ctx context.Context, entries []entry) (err error) {
	var chosen []entry
	for _, e := range entries {
		if b.wants(e.name) {
			chosen = append(chosen, e)
		}
	}
	subjects := make([]subject, len(chosen))
	defer func() {
		for i, s := range subjects {
			if s == nil {
				continue
			}
			if closeErr := s.Close(context.WithoutCancel(ctx)); closeErr != nil {
				err = errors.Join(err, fmt.Errorf("%s: %w", chosen[i].name, closeErr))
			}
		}
	}()
	samples := make([][]measure.Sample, len(chosen))
	for round := range b.rounds {
		for k := range chosen {
			// Each round begins with another one.
			i := (k + round) % len(chosen)
			b.progressf("round %d of %d: %s", round+1, b.rounds, chosen[i].name)
			if subjects[i] == nil {
				if subjects[i], err = chosen[i].open(ctx); err != nil {
					return fmt.Errorf("%s: %w", chosen[i].name, err)
				}
			}
			w := b.window()
			if chosen[i].inside && round == 0 {
				b.profiled(&w, chosen[i].name)
			}
			sample, err := subjects[i].Measure(ctx, w)
			if err != nil {
				return fmt.Errorf("%s: %w", chosen[i].name, err)
			}
			samples[i] = append(samples[i], sample)
			if err := b.server.clean(ctx); err != nil {
				return err
			}
		}
	}
	for i, e := range chosen {
		f := rate(e.name, samples[i])
		f.Targets, f.Note, f.Unit = e.targets, e.note, cmp.Or(e.unit, f.Unit)
		b.add(f)
	}
	return nil
}

// rate makes a figure of the rounds of one subject.
func rate(name string, samples []measure.Sample) *report.Figure {
	f := &report.Figure{Name: name, Unit: "msg/s", CPU: map[string]float64{}}
	perCPU := make([]float64, 0, len(samples))
	cores := map[string][]float64{}
	for _, s := range samples {
		f.Rounds = append(f.Rounds, s.Rate)
		perCPU = append(perCPU, s.PerCPU)
		for role, c := range s.Cores {
			cores[role] = append(cores[role], c)
		}
	}
	f.PerCPU = report.Median(perCPU)
	for role, c := range cores {
		f.CPU[role] = report.Median(c)
	}
	return f
}

// profiled makes a window write a CPU profile of this process, when profiles are wanted.
func (b *bench) profiled(w *measure.Window, name string) {
	if b.profile == "" {
		return
	}
	var file *os.File
	w.Begin = func() {
		var err error
		if file, err = os.Create(filepath.Join(b.profile, name+".pprof")); err == nil {
			err = pprof.StartCPUProfile(file)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "bench: no profile:", err)
		}
	}
	w.End = func() {
		pprof.StopCPUProfile()
		_ = file.Close()
	}
}
