package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/runlot/runlot/bench/measure"
	"github.com/runlot/runlot/bench/report"
)

// held is the engine's rate while another session holds a transaction with a snapshot open, so that nothing that is
// deleted meanwhile can be cleaned up. It is measured after the engine has worked that long, in turn with an engine on
// another database of the same server, which the snapshot does not concern.
func (b *bench) held(ctx context.Context) (err error) {
	if !b.wants("held") {
		return nil
	}
	s, err := b.postgres(ctx)
	if err != nil {
		return err
	}
	var engines [2]*engine
	var urls [2]string
	for i := range engines {
		if urls[i], err = s.database(ctx); err != nil {
			return err
		}
		if engines[i], err = openEngine(ctx, s, urls[i], jobs); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, engines[i].Close(context.WithoutCancel(ctx))) }()
	}
	holder, err := pgx.Connect(ctx, urls[1])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, holder.Close(context.WithoutCancel(ctx))) }()
	for _, statement := range []string{`BEGIN ISOLATION LEVEL REPEATABLE READ`, `SELECT count(*) FROM runlot_queue.queue`} {
		if _, err := holder.Exec(ctx, statement); err != nil {
			return err
		}
	}
	names := [2]string{"held-none", "held"}
	var samples [2][]measure.Sample
	for round := range b.rounds {
		for _, i := range []int{1, 0} {
			b.progressf("round %d of %d: %s", round+1, b.rounds, names[i])
			w := b.window()
			if i == 1 && round == 0 {
				w.Warm = b.holdFor
				b.profiled(&w, names[i])
			}
			sample, err := engines[i].Measure(ctx, w)
			if err != nil {
				return fmt.Errorf("%s: %w", names[i], err)
			}
			samples[i] = append(samples[i], sample)
		}
	}
	free, hold := rate(names[0], samples[0]), rate(names[1], samples[1])
	free.Note = "another database of the same server, same rounds"
	hold.Note = fmt.Sprintf("a transaction has been open in another session for %s and more", b.holdFor)
	hold.Targets = []report.Target{{Peer: names[0], Want: 0.8}}
	b.add(free)
	b.add(hold)
	return nil
}
