package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/runlot/runlot/bench/measure"
	"github.com/runlot/runlot/bench/peer"
	"github.com/runlot/runlot/bench/report"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// old is the queue in which millions wait.
const old = "old"

// loadRows is the size of one COPY of waiting messages.
const loadRows = 50_000

// backlogs is the engine's rate while 0, 1 and 5 million messages wait in the table that it works on. "new" are messages
// of another queue, which flow past those that wait; "old" are the waiting ones themselves, which are delivered while
// as many new ones arrive behind them; "drain" is the old ones without new.
func (b *bench) backlogs(ctx context.Context) (err error) {
	if !b.wants("backlog") {
		return nil
	}
	s, err := b.postgres(ctx)
	if err != nil {
		return err
	}
	empty, err := s.database(ctx)
	if err != nil {
		return err
	}
	full, err := s.database(ctx)
	if err != nil {
		return err
	}
	e, err := openEngine(ctx, s, full, jobs, old)
	if err != nil {
		return err
	}
	if err := e.Close(ctx); err != nil {
		return err
	}
	for _, millions := range []int{1, 5} {
		if err := b.fill(ctx, full, millions*1_000_000); err != nil {
			return err
		}
		if err := b.backlog(ctx, s, empty, full, millions); err != nil {
			return fmt.Errorf("with %d million waiting: %w", millions, err)
		}
	}
	return nil
}

// backlog measures next to an engine whose table is empty.
func (b *bench) backlog(ctx context.Context, s *server, empty, full string, millions int) (err error) {
	b.progressf("starting with %d million waiting", millions)
	begun := time.Now()
	withBacklog, err := openEngine(ctx, s, full)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, withBacklog.Close(context.WithoutCancel(ctx))) }()
	started := time.Since(begun)
	without, err := openEngine(ctx, s, empty, jobs)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, without.Close(context.WithoutCancel(ctx))) }()
	steps := []struct {
		name, note string
		measure    func(w measure.Window) (measure.Sample, error)
		samples    []measure.Sample
		targets    []report.Target
	}{
		{name: "none", note: "nothing waits, same rounds", measure: func(w measure.Window) (measure.Sample, error) {
			return without.measure(ctx, w, jobs)
		}},
		{name: "new", note: "new messages flow past those that wait", measure: func(w measure.Window) (measure.Sample, error) {
			return withBacklog.measure(ctx, w, jobs)
		}, targets: []report.Target{{Want: 0.85}}},
		{name: "old", note: "those that wait are delivered, as many arrive behind them", measure: func(w measure.Window) (measure.Sample, error) {
			return withBacklog.measure(ctx, w, old)
		}, targets: []report.Target{{Want: 0.85}}},
		{name: "drain", note: "those that wait are delivered, none arrive; a short window", measure: func(w measure.Window) (measure.Sample, error) {
			return withBacklog.drain(ctx, measure.Window{Warm: w.Warm / 10, Long: w.Long / 8, Begin: w.Begin, End: w.End}, old)
		}},
	}
	prefix := fmt.Sprintf("backlog-%dm-", millions)
	for round := range b.rounds {
		for i := range steps {
			b.progressf("round %d of %d: %s%s", round+1, b.rounds, prefix, steps[i].name)
			w := b.window()
			if round == 0 {
				b.profiled(&w, prefix+steps[i].name)
			}
			sample, err := steps[i].measure(w)
			if err != nil {
				return fmt.Errorf("%s: %w", steps[i].name, err)
			}
			steps[i].samples = append(steps[i].samples, sample)
			if err := s.clean(ctx); err != nil {
				return err
			}
		}
	}
	for i := range steps {
		f := rate(prefix+steps[i].name, steps[i].samples)
		f.Note, f.Targets = steps[i].note, steps[i].targets
		for t := range f.Targets {
			f.Targets[t].Peer = prefix + "none"
		}
		b.add(f)
	}
	b.add(&report.Figure{
		Name: prefix + "open", Value: float64(started.Milliseconds()), Unit: "ms", Note: "until the broker serves with so many waiting",
	})
	return nil
}

// fill makes n messages wait in the old queue, ready, and sent a minute ago.
func (b *bench) fill(ctx context.Context, url string, n int) (err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	var id int32
	var next int64
	var done int
	// A broker has read the queue up to the next number, so that what is added has to be at it or behind.
	err = conn.QueryRow(ctx, `SELECT q.id, (SELECT next_seq FROM runlot_queue.owner), count(m.seq)
		FROM runlot_queue.queue q LEFT JOIN runlot_queue.message m ON m.queue_id = q.id WHERE q.name = $1 GROUP BY q.id`,
		old).Scan(&id, &next, &done)
	if err != nil {
		return err
	}
	sent := time.Now().Add(-time.Minute)
	seq := max(next, store.SeqAt(sent))
	for done < n {
		b.progressf("%d of %d messages waiting", done, n)
		rows := min(loadRows, n-done)
		_, err := conn.CopyFrom(ctx, pgx.Identifier{"runlot_queue", "message"},
			[]string{"seq", "sent_at", "queue_id", "failures", "losses", "format", "body"},
			pgx.CopyFromSlice(rows, func(i int) ([]any, error) {
				return []any{seq + int64(i), sent, id, int16(0), int16(0), int16(queue.JSON), peer.Body}, nil
			}))
		if err != nil {
			return err
		}
		done += rows
		seq += int64(rows)
	}
	// What has waited for a while has been seen by autovacuum; its first pass over the load shall not fall into a window.
	b.progressf("VACUUM")
	if _, err := conn.Exec(ctx, `VACUUM runlot_queue.message`); err != nil {
		return err
	}
	// Sequence numbers below the owner's next one are taken; what was loaded has to be below it.
	_, err = conn.Exec(ctx, `UPDATE runlot_queue.owner SET next_seq = greatest(next_seq, $1)`, seq)
	return err
}
