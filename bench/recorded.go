package main

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	"github.com/runlot/runlot/internal/adapter/postgres/record"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/ledger"
)

// recorded is the engine with a record of each batch.
type recorded struct {
	*engine
	store *record.Store
}

func openRecorded(ctx context.Context, s *server, url string) (subject, error) {
	e, err := openEngine(ctx, s, url, jobs)
	if err != nil {
		return nil, err
	}
	r := &recorded{engine: e}
	if r.store, err = record.Open(ctx, url); err != nil {
		return nil, err
	}
	e.records = ledger.New(slog.New(slog.DiscardHandler))
	e.records.Attach(r.store)
	e.records.Start()
	return r, nil
}

// Close implements subject.
func (r *recorded) Close(ctx context.Context) error {
	stop, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	r.records.Stop(stop)
	r.store.Close()
	return r.engine.Close(ctx)
}

// record makes the record of a batch that was acknowledged, as a dispatcher does.
func (e *engine) record(start time.Time, messages []queue.Message) {
	acks := make([]queue.Acked, 0, len(messages))
	for i := range messages {
		acks = append(acks, queue.Acked{ID: messages[i].ID, Attempt: messages[i].Attempts()})
	}
	e.records.Batch(&ledger.Record{
		ID: ledger.ID{Queue: jobs}, App: "bench", Version: "0123456789ab", Delivery: "0123456789ABCDEF-" + strconv.FormatInt(messages[0].Seq, 36),
		Start: start, Duration: time.Since(start), Outcome: queue.OK, Delivered: len(messages), Acked: len(messages), Acks: acks,
	})
}
