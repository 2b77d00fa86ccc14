package postgres

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/runlot/runlot/internal/adapter/postgres/query"
	"github.com/runlot/runlot/internal/adapter/postgres/retry"
	"github.com/runlot/runlot/internal/adapter/postgres/search"
	"github.com/runlot/runlot/internal/adapter/postgres/session"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// clearSQL deletes what is for queue $1 among the next $3 rows of the inbox behind $2.
const clearSQL = `
WITH looked AS MATERIALIZED (
	SELECT id, queue_id FROM runlot_queue.inbox WHERE id > $2::bigint ORDER BY id LIMIT $3::bigint
), gone AS (
	DELETE FROM runlot_queue.inbox i USING looked l WHERE i.id = l.id AND l.queue_id = $1::int RETURNING octet_length(i.body) AS bytes
)
SELECT count(*), coalesce(sum(bytes), 0)::bigint, coalesce((SELECT max(id) FROM looked), 0), (SELECT count(*) FROM looked) < $3::bigint FROM gone`

// look reads in a transaction of its own that the server ends when it takes too long.
func look[R any](ctx context.Context, s *Store, read func(q *query.Queries) ([]R, error)) (rows []R, err error) {
	err = pgx.BeginTxFunc(ctx, s.readers, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
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
func (s *Store) ListReady(ctx context.Context, queueID int32, after, upTo int64, limit int) ([]store.Head, error) {
	rows, err := look(ctx, s, func(q *query.Queries) ([]query.ListReadyRow, error) {
		return q.ListReady(ctx, query.ListReadyParams{QueueID: queueID, After: after, UpTo: upTo, MaxRows: int32(limit)})
	})
	return heads(queueID, rows), err
}

// ListDue returns the heads of delayed messages in order of (VisibleAt, Seq).
func (s *Store) ListDue(ctx context.Context, queueID int32, after store.Due, upTo int64, limit int) ([]store.Head, error) {
	rows, err := look(ctx, s, func(q *query.Queries) ([]query.ListDueRow, error) {
		return q.ListDue(ctx, query.ListDueParams{
			QueueID: queueID, After: time.UnixMilli(after.VisibleAt), AfterSeq: after.Seq, UpTo: time.UnixMilli(upTo), MaxRows: int32(limit),
		})
	})
	return heads(queueID, rows), err
}

// Find returns the heads of messages by the Seqs under which they were first accepted.
func (s *Store) Find(ctx context.Context, queueID int32, accepted []int64) ([]store.Head, error) {
	var moved []query.FindMovedRow
	rows, err := look(ctx, s, func(q *query.Queries) (rows []query.FindAcceptedRow, err error) {
		if moved, err = q.FindMoved(ctx, query.FindMovedParams{QueueID: queueID, Seqs: accepted}); err != nil {
			return nil, err
		}
		return q.FindAccepted(ctx, query.FindAcceptedParams{QueueID: queueID, Seqs: accepted})
	})
	all := slices.Concat(heads(queueID, moved), heads(queueID, rows))
	slices.SortFunc(all, func(a, b store.Head) int { return cmp.Compare(a.Seq, b.Seq) })
	return all, err
}

// Bodies returns bodies by Seq.
func (s *Store) Bodies(ctx context.Context, queueID int32, seqs []int64) (map[int64][]byte, error) {
	rows, err := look(ctx, s, func(q *query.Queries) ([]query.BodiesRow, error) {
		return q.Bodies(ctx, query.BodiesParams{QueueID: queueID, Seqs: seqs})
	})
	bodies := make(map[int64][]byte, len(rows))
	for _, r := range rows {
		bodies[r.Seq] = r.Body
	}
	return bodies, err
}

// Configure stores the settings of a queue.
func (s *Store) Configure(ctx context.Context, queueID int32, settings store.Settings) error {
	const milli = float64(time.Second / time.Millisecond)
	p := query.ConfigureParams{
		ID: queueID, PausedAt: time.UnixMilli(settings.PausedAt), PurgedBelow: settings.PurgedBelow,
		Retention: float64(settings.Retention) / milli, RetentionOverride: float64(settings.RetentionOverride) / milli,
		DeliveryDelay: float64(settings.DeliveryDelay) / milli, Pull: settings.Pull.Text(),
	}
	return s.settle(ctx, func(ctx context.Context, w *writer) error { return query.New(w.conn).Configure(ctx, p) })
}

// Replace deletes a message and adds another in its stead.
func (s *Store) Replace(ctx context.Context, old store.Key, r *store.Row) error {
	return s.settle(ctx, func(ctx context.Context, w *writer) error { return search.Replace(ctx, w.conn, old, r) })
}

// ClearInbox deletes messages for one queue from the inbox. Looks start above the mark of the inbox, as those of Drain do.
func (s *Store) ClearInbox(ctx context.Context, queueID int32, after int64, limit int) (store.Cleared, error) {
	var c store.Cleared
	err := s.add(ctx, operation{run: func(ctx context.Context, w *writer) error {
		from := max(after, w.tenure.inbox.low)
		c.Last = from
		var last int64
		err := w.conn.QueryRow(ctx, stmtClear, queueID, from, limit).Scan(&c.Messages, &c.Bytes, &last, &c.Done)
		c.Last = max(from, last)
		return err
	}})
	return c, err
}

// queueInfo reads a row of the table of queues.
func queueInfo(r *query.QueuesRow) store.QueueInfo {
	return store.QueueInfo{
		ID: r.ID, Name: r.Name, Created: r.CreatedAt, ReadyMark: r.ReadyMark, DueMark: r.DueMark,
		Settings: store.Settings{
			PausedAt: r.PausedAt, Retention: r.Retention, RetentionOverride: r.RetentionOverride, PurgedBelow: r.PurgedBelow,
			DeliveryDelay: r.DeliveryDelay, Pull: store.ParsePull(r.Pull),
		},
	}
}
