package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// drainSQL moves rows from the inbox, oldest first, as far as rows ($4) and bytes ($5) allow, skipping what is below the
// mark ($1). Times are cut to milliseconds; a send time is never after the owner's clock ($3), and a delay that is over
// ends now, so that the owner finds the message above what it has already delivered.
const drainSQL = `
WITH pick AS MATERIALIZED (
	SELECT id, sum(octet_length(body)) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING) - octet_length(body) AS before
	FROM (SELECT id, body FROM runlot_queue.inbox WHERE id > $1::bigint ORDER BY id LIMIT $4::bigint) i
), taken AS (
	DELETE FROM runlot_queue.inbox i USING pick p WHERE i.id = p.id AND p.before < $5::bigint
	RETURNING i.id, date_trunc('milliseconds', least(i.sent_at, $3::timestamptz)) AS sent_at,
		date_trunc('milliseconds', CASE WHEN i.visible_at IS NOT NULL THEN greatest(i.visible_at, $3::timestamptz) END) AS visible_at, i.queue_id, i.body
), numbered AS MATERIALIZED (
	SELECT id, $2::bigint - 1 + row_number() OVER (ORDER BY id) AS seq, sent_at, visible_at, queue_id, body FROM taken
), stored AS (
	INSERT INTO runlot_queue.message (` + messageColumns + `)
	SELECT seq, NULL, sent_at, visible_at, queue_id, 0, 0, 1, body, NULL FROM numbered
)
SELECT seq, NULL::bigint, sent_at, visible_at, queue_id, 0::smallint, 0::smallint, 1::smallint, body, NULL::bytea, id,
	(SELECT pg_current_xact_id()::text::bigint)
FROM numbered ORDER BY seq`

// rangeSQL finds the messages of all queues with $1 <= seq < $2.
const rangeSQL = `
SELECT ` + messageColumns + ` FROM runlot_queue.message
WHERE queue_id = ANY (ARRAY(SELECT id FROM runlot_queue.queue)) AND seq >= $1::bigint AND seq < $2::bigint
ORDER BY seq`

// returnSQL puts the messages of rangeSQL back into the inbox.
const returnSQL = `
WITH back AS (
	DELETE FROM runlot_queue.message
	WHERE queue_id = ANY (ARRAY(SELECT id FROM runlot_queue.queue)) AND seq >= $1::bigint AND seq < $2::bigint
	RETURNING seq, sent_at, visible_at, queue_id, body
)
INSERT INTO runlot_queue.inbox (sent_at, visible_at, queue_id, body)
SELECT sent_at, visible_at, queue_id, body FROM back ORDER BY seq`

// inboxMark is the id up to which the inbox is settled: nothing there is left and nothing can come. Looks start above
// it, so that the dead rows which a long transaction elsewhere keeps are not walked over each time.
//
// Rows commit in any order, so having seen id n says nothing about n-1. But send() takes its transaction id before its
// inbox id; so once n was seen, every transaction that may still commit a row up to n has an id below any transaction id
// taken later. When all transactions below that one (until) have ended, one more look settles the inbox up to n (next).
type inboxMark struct {
	low   int64
	next  int64
	until int64
}

// Drain moves up to limit rows from the inbox into their queues and returns them.
func (s *Store) Drain(ctx context.Context, first int64, now time.Time, limit int) ([]store.Row, error) {
	var rows []store.Row
	limitSeq := first + int64(limit)
	err := s.add(ctx, operation{
		run: func(ctx context.Context, w *writer) (err error) {
			rows, err = w.drain(ctx, first, now, limit)
			return err
		},
		landed: func(ctx context.Context, w *writer) (landed bool, err error) {
			rows, err = collect(ctx, w.conn, stmtRange, first, limitSeq)
			return len(rows) > 0, err
		},
		undo: func(ctx context.Context, w *writer) error {
			_, err := w.conn.Exec(ctx, stmtReturn, first, limitSeq)
			return err
		},
	})
	if err != nil {
		return nil, err
	}
	return rows, nil
}

func (w *writer) drain(ctx context.Context, first int64, now time.Time, limit int) ([]store.Row, error) {
	mark := &w.tenure.inbox
	settles := false
	if mark.until != 0 {
		var oldest int64
		if err := w.conn.QueryRow(ctx, "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint").Scan(&oldest); err != nil {
			return nil, err
		}
		settles = oldest >= mark.until
	}
	result, err := w.conn.Query(ctx, stmtDrain, mark.low, first, now, limit, queue.ReadBytes)
	if err != nil {
		return nil, err
	}
	defer result.Close()
	var (
		rows         []store.Row
		bytes        int
		highest, xid int64
	)
	const id, transaction = 10, 11
	for result.Next() {
		v := result.RawValues()
		row := rowOf(v)
		rows = append(rows, row)
		bytes += len(row.Body)
		highest, xid = int8Of(v[id]), int8Of(v[transaction])
	}
	if err := result.Err(); err != nil {
		return nil, err
	}
	whole := len(rows) < limit && bytes < queue.ReadBytes
	if settles && whole {
		mark.low, mark.until = mark.next, 0
	}
	if mark.until == 0 && len(rows) > 0 {
		mark.next, mark.until = highest, xid
	}
	return rows, nil
}

// querier is a connection or a pool of them.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// collect reads rows with the columns of messageColumns.
func collect(ctx context.Context, q querier, sql string, args ...any) ([]store.Row, error) {
	result, err := q.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	defer result.Close()
	var rows []store.Row
	for result.Next() {
		rows = append(rows, rowOf(result.RawValues()))
	}
	return rows, result.Err()
}
