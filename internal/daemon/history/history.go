// Package history wires the records of batches: from the dispatchers to the ledger of their database, and from there to
// PostgreSQL, and opens what keeps them and the series of the queues.
package history

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/runlot/runlot/internal/adapter/postgres"
	"github.com/runlot/runlot/internal/adapter/postgres/record"
	minutes "github.com/runlot/runlot/internal/adapter/postgres/series"
	"github.com/runlot/runlot/internal/adapter/workerd"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/dispatch"
	"github.com/runlot/runlot/internal/engine/ledger"
	"github.com/runlot/runlot/internal/engine/series"
)

// Store is the queues of a PostgreSQL database, with the records and the series beside them.
type Store struct {
	*postgres.Store
	records *record.Store
	minutes *minutes.Store
}

// Open opens all of them. Its faults are those of postgres.Open.
func Open(ctx context.Context, o postgres.Options) (*Store, error) {
	queues, err := postgres.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	records, err := record.Open(ctx, o.URL)
	if err != nil {
		_ = queues.Close(ctx)
		return nil, err
	}
	kept, err := minutes.Open(ctx, o.URL)
	if err != nil {
		records.Close()
		_ = queues.Close(ctx)
		return nil, err
	}
	return &Store{Store: queues, records: records, minutes: kept}, nil
}

// Records returns the store of the records. It is closed with the queues.
func (s *Store) Records() ledger.Store { return s.records }

// Series returns the store of the series. It is closed with the queues.
func (s *Store) Series() series.Store { return s.minutes }

// Pools are the connections by what they are for.
func (s *Store) Pools() map[string]*pgxpool.Pool {
	return map[string]*pgxpool.Pool{"queues": s.Readers(), "records": s.records.Pool(), "series": s.minutes.Pool()}
}

// Close gives the ownership back, if it is held, and ends every session. The ledger and the
// recorder of the series have let go before.
func (s *Store) Close(ctx context.Context) error {
	s.records.Close()
	s.minutes.Close()
	return s.Store.Close(ctx)
}

// Recorder takes the records of dispatchers to an observer and to the ledger of their database.
type Recorder struct {
	Observer dispatch.Recorder
	Ledger   *ledger.Ledger
}

// Batch implements dispatch.Recorder.
func (r Recorder) Batch(batch *dispatch.Record) {
	r.Ledger.Batch(translate(batch))
	r.Observer.Batch(batch)
}

// Lines takes what handlers log to the records of their batches, and on to next.
func Lines(l *ledger.Ledger, next func(workerd.Line)) func(workerd.Line) {
	return func(line workerd.Line) {
		if line.Delivery != "" {
			l.Log(line.Delivery, ledger.Line{Time: line.Time, Level: line.Level, Text: line.Text})
		}
		next(line)
	}
}

func translate(b *dispatch.Record) *ledger.Record {
	r := &ledger.Record{
		ID: ledger.ID{Queue: b.Queue}, App: b.App, Version: b.Version, Delivery: b.Delivery, Start: b.Start, Duration: b.Duration, Outcome: b.Outcome,
		Delivered: b.Delivered, Acked: b.Acked, Retried: b.Retried, Redelivered: b.Redelivered, Dead: b.Dead, Dropped: b.Dropped, Reason: b.Reason,
		Acks: b.Acks,
	}
	// What the observer keeps is not shared.
	r.Warnings = append(r.Warnings, b.Warnings...)
	if b.Error != nil {
		e := ledger.Exception(*b.Error)
		r.Error = &e
	}
	for _, f := range b.Fates {
		r.Fates = append(r.Fates, ledger.Fate{ID: f.ID, Kind: kind(&f), Attempt: f.Attempt, Delay: f.Delay})
	}
	return r
}

func kind(f *dispatch.Fate) ledger.FateKind {
	switch {
	case f.Verdict == queue.DeadLetter:
		return ledger.Dead
	case f.Verdict == queue.Drop:
		return ledger.Dropped
	case f.Spent:
		return ledger.Retried
	default:
		return ledger.Redelivered
	}
}
