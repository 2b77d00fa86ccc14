// Package record keeps the records of batches in a PostgreSQL database, beside the queues they tell of. It is the
// ledger.Store that production runs on. It writes without the ownership of the queues: a node that lost it may still have
// something to tell.
package record

//go:generate env CGO_ENABLED=0 go run github.com/sqlc-dev/sqlc/cmd/sqlc@v1.31.1 generate

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/runlot/runlot/internal/adapter/postgres/record/query"
	"github.com/runlot/runlot/internal/adapter/postgres/session"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/ledger"
)

// Store keeps the records of one database. It implements ledger.Store.
type Store struct{ pool *pgxpool.Pool }

var _ ledger.Store = (*Store)(nil)

// Open returns the store of a database whose schema is up to date. It connects when it is used. Fault: Environment for a
// URL that cannot be read.
func Open(ctx context.Context, url string) (*Store, error) {
	config, err := session.Parse(url)
	if err != nil {
		return nil, err
	}
	options, err := pgxpool.ParseConfig("")
	if err != nil {
		return nil, err
	}
	options.ConnConfig = config
	options.MaxConns = queue.RecordConnections
	pool, err := pgxpool.NewWithConfig(ctx, options)
	if err != nil {
		return nil, session.Classify(err)
	}
	return &Store{pool: pool}, nil
}

// Pool is what the store works with.
func (s *Store) Pool() *pgxpool.Pool { return s.pool }

// Close ends every session; calls under way end first, so their contexts have to.
func (s *Store) Close() { s.pool.Close() }

// Write adds records in one transaction.
func (s *Store) Write(ctx context.Context, records []ledger.Record) ([]ledger.Held, error) {
	rows, err := query.New(s.pool).WriteRecords(ctx, columns(records))
	if err != nil {
		return nil, session.Classify(err)
	}
	held := make([]ledger.Held, len(rows))
	for i, r := range rows {
		held[i] = ledger.Held{Queue: r.Name, Records: int(r.Records)}
	}
	return held, nil
}

// Overdue returns the queues that hold too much or too old.
func (s *Store) Overdue(ctx context.Context, keep int, before int64) ([]string, error) {
	names, err := query.New(s.pool).OverdueRecords(ctx, query.OverdueRecordsParams{Keep: int32(keep), Before: before})
	return names, session.Classify(err)
}

// Prune deletes the oldest records of a queue in one transaction.
func (s *Store) Prune(ctx context.Context, queueName string, keep int, before int64, rows int) (more bool, err error) {
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) (err error) {
		more, err = prune(ctx, query.New(tx), queueName, keep, before, rows)
		return err
	})
	return more, session.Classify(err)
}

func prune(ctx context.Context, q *query.Queries, queueName string, keep int, before int64, rows int) (more bool, err error) {
	held, err := q.LockHeldRecords(ctx, queueName)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	lowest, gone := held.Lowest, 0
	// What is too much, whatever its age; then what is too old.
	excess := min(int(held.Records)-keep, rows)
	for _, step := range []struct {
		before int64
		rows   int
	}{{math.MaxInt64, excess}, {before, rows - max(excess, 0)}} {
		if step.rows <= 0 || lowest >= step.before {
			continue
		}
		deleted, err := q.PruneRecords(ctx, query.PruneRecordsParams{
			QueueID: held.QueueID, Lowest: lowest, Before: step.before, MaxRows: int32(step.rows),
		})
		if err != nil {
			return false, err
		}
		gone += int(deleted.Rows)
		lowest = max(lowest, deleted.Highest+1)
		if int(deleted.Rows) < step.rows && step.before != math.MaxInt64 {
			lowest = max(lowest, step.before)
		}
	}
	return gone == rows, q.SaveHeldRecords(ctx, query.SaveHeldRecordsParams{Gone: int32(gone), Lowest: lowest, QueueID: held.QueueID})
}

// List returns the newest records that the query asks for.
func (s *Store) List(ctx context.Context, q *ledger.Query) ([]ledger.Record, error) {
	p := query.ListRecordsParams{
		FromNumber: q.From, ToNumber: q.To, BeforeNumber: math.MaxInt64, App: q.App, MaxRows: int32(q.Limit),
		Queues: q.Queues, Outcomes: make([]int16, 0, len(q.Outcomes)),
	}
	if p.Queues == nil {
		p.Queues = []string{}
	}
	if q.Before.Number != 0 {
		p.BeforeNumber, p.BeforeQueue = q.Before.Number, q.Before.Queue
		p.ToNumber = min(p.ToNumber, q.Before.Number+1)
	}
	trouble := len(q.Outcomes) > 0
	for _, o := range q.Outcomes {
		p.Outcomes = append(p.Outcomes, outcomeNumber(o))
		trouble = trouble && o != queue.OK
	}
	if trouble {
		rows, err := query.New(s.pool).ListTrouble(ctx, query.ListTroubleParams(p))
		if err != nil {
			return nil, session.Classify(err)
		}
		return records(rows, func(r *query.ListTroubleRow) query.ListRecordsRow { return query.ListRecordsRow(*r) }), nil
	}
	rows, err := query.New(s.pool).ListRecords(ctx, p)
	if err != nil {
		return nil, session.Classify(err)
	}
	return records(rows, func(r *query.ListRecordsRow) query.ListRecordsRow { return *r }), nil
}

// Of returns the newest records that name a message.
func (s *Store) Of(ctx context.Context, queues []string, message queue.ID, from int64, limit int) ([]ledger.Record, error) {
	rows, err := query.New(s.pool).RecordsOf(ctx, query.RecordsOfParams{
		Queues: queues, Message: message[:], Accepted: message[8:], FromNumber: from, MaxRows: int32(limit),
	})
	if err != nil {
		return nil, session.Classify(err)
	}
	list := make([]ledger.Record, 0, len(rows))
	for i := range rows {
		r := named((*query.SettledRecordsRow)(&rows[i]))
		r.Fates = slices.DeleteFunc(r.Fates, func(f ledger.Fate) bool { return f.ID != message })
		r.Acks = slices.DeleteFunc(r.Acks, func(a queue.Acked) bool { return a.ID != message })
		// The bytes of an id may also be those of a part of two.
		if len(r.Fates)+len(r.Acks) > 0 {
			list = append(list, r)
		}
	}
	return list, nil
}

// Settled returns the newest records that name messages which left their queue.
func (s *Store) Settled(ctx context.Context, queueName string, before int64, limit int) ([]ledger.Record, error) {
	rows, err := query.New(s.pool).SettledRecords(ctx, query.SettledRecordsParams{Queue: queueName, BeforeNumber: before, MaxRows: int32(limit)})
	if err != nil {
		return nil, session.Classify(err)
	}
	list := make([]ledger.Record, len(rows))
	for i := range rows {
		list[i] = named(&rows[i])
	}
	return list, nil
}

// Get returns one record.
func (s *Store) Get(ctx context.Context, id ledger.ID) (*ledger.Record, error) {
	row, err := query.New(s.pool).GetRecord(ctx, query.GetRecordParams{Queue: id.Queue, Number: id.Number})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, ledger.NotFound(id)
	}
	if err != nil {
		return nil, session.Classify(err)
	}
	r := record(&query.ListRecordsRow{
		Queue: row.Queue, Number: row.Number, StartedAt: row.StartedAt, Duration: row.Duration, Delivered: row.Delivered, Acked: row.Acked,
		Retried: row.Retried, Redelivered: row.Redelivered, Dead: row.Dead, Dropped: row.Dropped, Expired: row.Expired, Missed: row.Missed,
		Outcome: row.Outcome, App: row.App, Version: row.Version, Delivery: row.Delivery, ErrorName: row.ErrorName,
		ErrorMessage: row.ErrorMessage, ErrorLocation: row.ErrorLocation, Reason: row.Reason, Warnings: row.Warnings,
	})
	if r.Error != nil {
		r.Error.Stack = row.ErrorStack
	}
	r.Fates, r.Acks, r.Lines = fates(row.Fates), acks(row.Acks), lines(row.Logs)
	return &r, nil
}

// Last returns the newest record of a handler call of each queue.
func (s *Store) Last(ctx context.Context) ([]ledger.Record, error) {
	rows, err := query.New(s.pool).LastRecords(ctx)
	if err != nil {
		return nil, session.Classify(err)
	}
	return records(rows, func(r *query.LastRecordsRow) query.ListRecordsRow { return query.ListRecordsRow(*r) }), nil
}
