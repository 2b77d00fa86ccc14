// Package look reads the messages of queues for operators, without taking them: heads in order, bodies, and single messages by
// the number under which they were accepted.
package look

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/runlot/runlot/internal/adapter/postgres/query"
	"github.com/runlot/runlot/internal/adapter/postgres/retry"
	"github.com/runlot/runlot/internal/adapter/postgres/session"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// Looker looks into one database.
type Looker struct{ pool *pgxpool.Pool }

// New makes a looker that reads with a pool of another.
func New(pool *pgxpool.Pool) *Looker { return &Looker{pool: pool} }

// look reads in a transaction of its own that the server ends when it takes too long.
func look[R any](ctx context.Context, k *Looker, read func(q *query.Queries) ([]R, error)) (rows []R, err error) {
	err = pgx.BeginTxFunc(ctx, k.pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		most := strconv.FormatInt(queue.OperateReadTime.Milliseconds(), 10)
		if _, err := tx.Exec(ctx, "SELECT set_config('statement_timeout', $1, true)", most); err != nil {
			return err
		}
		rows, err = read(query.New(tx))
		return err
	})
	return rows, session.Classify(err)
}

// headRow is what each of the queries for heads returns.
type headRow interface {
	query.ListReadyRow | query.ListDueRow | query.FindAcceptedRow | query.FindMovedRow
}

func heads[R headRow](queueID int32, rows []R) []store.Head {
	list := make([]store.Head, len(rows))
	for i := range rows {
		r := query.ListReadyRow(rows[i])
		list[i] = store.Head{
			Row: store.Row{
				Queue: queueID, Seq: r.Seq, Origin: r.Origin, Format: queue.Format(r.Format), Failures: r.Failures, Losses: r.Losses,
				SentAt: r.SentAt, VisibleAt: r.VisibleAt,
			},
			Bytes: int(r.Bytes), Source: r.Source, Reason: r.Reason, Retried: store.Cause{Outcome: retry.Outcome(r.RetryOutcome), Reason: r.RetryReason},
		}
	}
	return list
}

// ListReady returns the heads of messages with VisibleAt 0 in order of Seq.
func (k *Looker) ListReady(ctx context.Context, queueID int32, after, upTo int64, limit int) ([]store.Head, error) {
	rows, err := look(ctx, k, func(q *query.Queries) ([]query.ListReadyRow, error) {
		return q.ListReady(ctx, query.ListReadyParams{QueueID: queueID, After: after, UpTo: upTo, MaxRows: int32(limit)})
	})
	return heads(queueID, rows), err
}

// ListDue returns the heads of delayed messages in order of (VisibleAt, Seq).
func (k *Looker) ListDue(ctx context.Context, queueID int32, after store.Due, upTo int64, limit int) ([]store.Head, error) {
	rows, err := look(ctx, k, func(q *query.Queries) ([]query.ListDueRow, error) {
		return q.ListDue(ctx, query.ListDueParams{
			QueueID: queueID, After: time.UnixMilli(after.VisibleAt), AfterSeq: after.Seq, UpTo: time.UnixMilli(upTo), MaxRows: int32(limit),
		})
	})
	return heads(queueID, rows), err
}

// Find returns the heads of messages by the Seqs under which they were first accepted.
func (k *Looker) Find(ctx context.Context, queueID int32, accepted []int64) ([]store.Head, error) {
	var moved []query.FindMovedRow
	rows, err := look(ctx, k, func(q *query.Queries) (rows []query.FindAcceptedRow, err error) {
		if moved, err = q.FindMoved(ctx, query.FindMovedParams{QueueID: queueID, Seqs: accepted}); err != nil {
			return nil, err
		}
		return q.FindAccepted(ctx, query.FindAcceptedParams{QueueID: queueID, Seqs: accepted})
	})
	all := slices.Concat(heads(queueID, moved), heads(queueID, rows))
	slices.SortFunc(all, func(a, b store.Head) int { return cmp.Compare(a.Seq, b.Seq) })
	return all, err
}

// Bodies returns bodies by Seq. Of one that is stored out of line, the server reads only what is asked for.
func (k *Looker) Bodies(ctx context.Context, queueID int32, seqs []int64, bytes int) (map[int64][]byte, error) {
	rows, err := look(ctx, k, func(q *query.Queries) ([]query.BodiesRow, error) {
		return q.Bodies(ctx, query.BodiesParams{QueueID: queueID, Seqs: seqs, MaxBytes: int32(cmp.Or(bytes, math.MaxInt32))})
	})
	bodies := make(map[int64][]byte, len(rows))
	for _, r := range rows {
		bodies[r.Seq] = r.Body
	}
	return bodies, err
}
