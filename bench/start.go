package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/runlot/runlot/bench/measure"
	"github.com/runlot/runlot/bench/proc"
	"github.com/runlot/runlot/bench/report"
)

// starts is the time from the start of the process to the first delivery: with an empty state folder, and on the state
// that a clean stop left.
func (b *bench) starts(ctx context.Context) error {
	if !b.wants("start") {
		return nil
	}
	first := &report.Figure{Name: "start-first", Unit: "ms", Note: "process start to first delivery, empty state folder"}
	second := &report.Figure{Name: "start-second", Unit: "ms", Note: "the same on the state of a clean stop"}
	for round := range b.rounds {
		name := fmt.Sprintf("start-%d", round)
		for _, f := range []*report.Figure{first, second} {
			b.progressf("round %d of %d: %s", round+1, b.rounds, f.Name)
			ms, err := b.start(ctx, name)
			if err != nil {
				return err
			}
			f.Rounds = append(f.Rounds, ms)
		}
		if err := os.RemoveAll(filepath.Join(b.tmp, name)); err != nil {
			return err
		}
	}
	b.add(first)
	b.add(second)
	return nil
}

func (b *bench) start(ctx context.Context, name string) (ms float64, err error) {
	s, err := newSink(1)
	if err != nil {
		return 0, err
	}
	defer s.server.Close()
	n, err := b.startApps(ctx, name, 1, nodeOptions{request: s.ping(time.Now())})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, n.stop()) }()
	if err := s.wait(ctx, 1); err != nil {
		return 0, err
	}
	return s.list[0], nil
}

// settleTime is how long the product rests before its idle memory is read.
const settleTime = 3 * time.Second

// memory is what the product takes, at rest after its start and under load.
func (b *bench) memory(ctx context.Context) (err error) {
	if !b.wants("memory") {
		return nil
	}
	b.progressf("memory")
	w, err := b.openWorker(ctx, "memory", batches, 1, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close(ctx)) }()
	rest := time.NewTimer(settleTime)
	defer rest.Stop()
	select {
	case <-rest.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	b.addMemory("idle", proc.ReadMemory(w.pid))
	window := b.window()
	var busy map[string]proc.Memory
	window.End = func() { busy = proc.ReadMemory(w.pid) }
	if _, err := w.Measure(ctx, measure.Window{Warm: window.Warm, Long: 2 * window.Long, End: window.End}); err != nil {
		return err
	}
	b.addMemory("load", busy)
	return nil
}

func (b *bench) addMemory(state string, byRole map[string]proc.Memory) {
	const mib = 1 << 20
	for _, role := range []string{proc.Daemon, "workerd", "postgres"} {
		m := byRole[role]
		f := &report.Figure{Name: "memory-" + state + "-" + role, Value: float64(m.RSS) / mib, Unit: "MiB"}
		f.Note = fmt.Sprintf("resident; %.0f MiB of it private", float64(m.Private)/mib)
		if role == "postgres" {
			// Its processes share their buffers.
			f.Value = float64(m.PSS) / mib
			f.Note = fmt.Sprintf("resident, shared pages counted once; %.0f MiB of it private", float64(m.Private)/mib)
		}
		b.add(f)
	}
}
