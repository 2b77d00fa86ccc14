// Package undo keeps what it takes to undo what operators did to messages of a PostgreSQL database.
package undo

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/runlot/runlot/internal/adapter/postgres/session"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// noteSQL notes messages as they are. A message that has left its queue has none, and one that was noted keeps its note, so
// that a repeated change notes nothing else.
const noteSQL = `INSERT INTO runlot_queue.undo (queue_id, action, seq, noted_at, kind, origin, sent_at, visible_at, format, failures,
		losses, source_id, reason, trace, body, bytes, to_queue_id, to_seq, to_visible_at)
	SELECT m.queue_id, $1::text, m.seq, $2::timestamptz, k.kind, m.origin, m.sent_at, m.visible_at, m.format, m.failures,
		m.losses, m.source_id, m.reason, m.trace, CASE WHEN k.kind = 1 THEN m.body END, octet_length(m.body), k.to_queue, k.to_seq, k.to_visible
	FROM unnest($3::smallint[], $4::int[], $5::bigint[], $6::int[], $7::bigint[], $8::timestamptz[]) AS k (kind, queue_id, seq, to_queue, to_seq, to_visible)
	JOIN runlot_queue.message m ON m.queue_id = k.queue_id AND m.seq = k.seq
	ON CONFLICT DO NOTHING`

// boundSQL drops the oldest notes of queues $1 beyond $2 deleted messages, $3 bytes of their bodies, and $4 others.
const boundSQL = `DELETE FROM runlot_queue.undo u USING (
		SELECT queue_id, action, seq, kind, row_number() OVER w AS place, sum(bytes) OVER w AS total
		FROM runlot_queue.undo WHERE queue_id = ANY($1::int[])
		WINDOW w AS (PARTITION BY queue_id, kind = 1 ORDER BY noted_at DESC, seq DESC ROWS UNBOUNDED PRECEDING)
	) k
	WHERE u.queue_id = k.queue_id AND u.action = k.action AND u.seq = k.seq
		AND CASE WHEN k.kind = 1 THEN k.place > $2::bigint OR k.total > $3::bigint ELSE k.place > $4::bigint END`

// returnSQL takes messages of queues $1 back, by their notes of actions $2 and Seqs $3: under the Seqs $4 where they come
// back into the queue, with $5 as when they are visible.
const returnSQL = `WITH used AS (
		DELETE FROM runlot_queue.undo u
		USING unnest($1::int[], $2::text[], $3::bigint[], $4::bigint[], $5::timestamptz[]) AS k (queue_id, action, seq, new_seq, visible)
		WHERE u.queue_id = k.queue_id AND u.action = k.action AND u.seq = k.seq
		RETURNING u.*, k.new_seq, k.visible
	), delayed AS (
		UPDATE runlot_queue.message m SET visible_at = n.visible FROM used n
		WHERE n.kind = 2 AND m.queue_id = n.queue_id AND m.seq = n.seq
	), moved AS (
		DELETE FROM runlot_queue.message m USING used n
		WHERE n.kind = 3 AND m.queue_id = n.to_queue_id AND m.seq = n.to_seq
		RETURNING m.queue_id, m.seq, m.body
	)
	INSERT INTO runlot_queue.message (seq, origin, sent_at, visible_at, queue_id, failures, losses, format, body, trace, source_id, reason)
	SELECT n.new_seq, coalesce(n.origin, n.seq), n.sent_at, n.visible, n.queue_id, n.failures, n.losses, n.format, coalesce(n.body, m.body), n.trace, n.source_id, n.reason
	FROM used n LEFT JOIN moved m ON m.queue_id = n.to_queue_id AND m.seq = n.to_seq
	WHERE n.kind = 1 OR m.seq IS NOT NULL`

const (
	forgetQueueSQL  = `DELETE FROM runlot_queue.undo WHERE queue_id = $1::int`
	forgetActionSQL = forgetQueueSQL + ` AND action = $2::text`
	forgetBeforeSQL = `DELETE FROM runlot_queue.undo WHERE noted_at < $1::timestamptz`
)

// Statements are the parts of a change that belong to this package.
type Statements []statement

type statement struct {
	sql    string
	values [][]byte
	oids   []uint32
}

// Of returns the statements of a change. They come before those that change messages, in the same transaction. What they do
// twice does no harm.
func Of(types *pgtype.Map, c *store.Change) (Statements, error) {
	var list Statements
	put := func(sql string, args ...any) error {
		s := statement{sql: sql}
		for _, arg := range args {
			t, ok := types.TypeForValue(arg)
			if !ok {
				return fmt.Errorf("PostgreSQL has no type for %T", arg)
			}
			value, err := types.Encode(t.OID, pgtype.BinaryFormatCode, arg, nil)
			if err != nil {
				return err
			}
			s.values, s.oids = append(s.values, value), append(s.oids, t.OID)
		}
		list = append(list, s)
		return nil
	}
	if c.Note != nil {
		if err := note(put, c); err != nil {
			return nil, err
		}
	}
	if len(c.Return) > 0 {
		var r returns
		for i := range c.Return {
			r.add(&c.Return[i])
		}
		if err := put(returnSQL, r.queues, r.actions, r.seqs, r.to, r.visible); err != nil {
			return nil, err
		}
	}
	for _, f := range c.Forget {
		var err error
		switch {
		case f.Queue == 0:
			err = put(forgetBeforeSQL, time.UnixMilli(f.Before))
		case f.Action == "":
			err = put(forgetQueueSQL, f.Queue)
		default:
			err = put(forgetActionSQL, f.Queue, f.Action)
		}
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}

// Send adds the statements to a transaction.
func (s Statements) Send(p *pgconn.Pipeline) {
	for i := range s {
		p.SendQueryParams(s[i].sql, s[i].values, s[i].oids, []int16{pgtype.BinaryFormatCode}, nil)
	}
}

// note notes what a change does, and drops what is too much.
func note(put func(sql string, args ...any) error, c *store.Change) error {
	var n notes
	for _, k := range c.Delete {
		n.add(store.NoteDeleted, k, nil, nil, nil)
	}
	for i := range c.Retry {
		r := &c.Retry[i]
		n.add(store.NoteHurried, r.Key, nil, nil, new(time.UnixMilli(r.VisibleAt)))
	}
	for i := range c.Move {
		m := &c.Move[i]
		n.add(store.NoteMoved, m.From, &m.To.Queue, &m.To.Seq, nil)
	}
	if err := put(noteSQL, c.Note.Action, time.UnixMilli(c.Note.At), n.kinds, n.queues, n.seqs, n.toQueues, n.toSeqs, n.toVisible); err != nil {
		return err
	}
	return put(boundSQL, n.queues, int64(queue.UndoDeleted), int64(queue.UndoBytes), int64(queue.UndoMoved))
}

// notes and returns are the arrays of the statements.
type notes struct {
	kinds     []int16
	queues    []int32
	seqs      []int64
	toQueues  []*int32
	toSeqs    []*int64
	toVisible []*time.Time
}

func (n *notes) add(kind store.NoteKind, k store.Key, toQueue *int32, toSeq *int64, toVisible *time.Time) {
	n.kinds = append(n.kinds, int16(kind))
	n.queues, n.seqs = append(n.queues, k.Queue), append(n.seqs, k.Seq)
	n.toQueues, n.toSeqs, n.toVisible = append(n.toQueues, toQueue), append(n.toSeqs, toSeq), append(n.toVisible, toVisible)
}

type returns struct {
	queues   []int32
	actions  []string
	seqs, to []int64
	visible  []*time.Time
}

func (r *returns) add(one *store.Return) {
	r.queues, r.actions = append(r.queues, one.Queue), append(r.actions, one.Action)
	r.seqs, r.to = append(r.seqs, one.Seq), append(r.to, one.To)
	var visible *time.Time
	if one.VisibleAt > 0 {
		visible = new(time.UnixMilli(one.VisibleAt))
	}
	r.visible = append(r.visible, visible)
}

// Reader reads notes. It implements store.Undo.
type Reader struct{ pool *pgxpool.Pool }

// NewReader reads through a pool.
func NewReader(pool *pgxpool.Pool) *Reader { return &Reader{pool} }

const (
	notedBegin = `SELECT action, min(kind), count(*), extract(epoch FROM min(noted_at)) * 1000, extract(epoch FROM max(noted_at)) * 1000
		FROM runlot_queue.undo WHERE noted_at >= $1`
	notedEnd    = ` GROUP BY action ORDER BY max(noted_at) DESC, max(seq) DESC`
	notedAllSQL = notedBegin + notedEnd
	notedSQL    = notedBegin + ` AND queue_id = $2` + notedEnd

	messagesSQL = `SELECT kind, seq, coalesce(origin, 0), format, failures, losses, (extract(epoch FROM sent_at) * 1000)::bigint,
			coalesce((extract(epoch FROM visible_at) * 1000)::bigint, 0), bytes, coalesce(source_id, 0), coalesce(reason, ''),
			coalesce(to_queue_id, 0), coalesce(to_seq, 0), coalesce((extract(epoch FROM to_visible_at) * 1000)::bigint, 0)
		FROM runlot_queue.undo WHERE queue_id = $1 AND action = $2 AND seq > $3 ORDER BY seq LIMIT $4`
)

// Noted implements store.Undo.
func (r *Reader) Noted(ctx context.Context, queueID int32, since int64) ([]store.Noted, error) {
	sql, args := notedSQL, []any{time.UnixMilli(since), queueID}
	if queueID == 0 {
		sql, args = notedAllSQL, args[:1]
	}
	return read(ctx, r.pool, func(row pgx.CollectableRow) (n store.Noted, err error) {
		var first, last float64
		err = row.Scan(&n.Action, &n.Kind, &n.Messages, &first, &last)
		n.First, n.Last = int64(first), int64(last)
		return n, err
	}, sql, args...)
}

// NotedMessages implements store.Undo.
func (r *Reader) NotedMessages(ctx context.Context, queueID int32, action string, after int64, limit int) ([]store.NotedMessage, error) {
	return read(ctx, r.pool, func(row pgx.CollectableRow) (n store.NotedMessage, err error) {
		n.Queue = queueID
		err = row.Scan(&n.Kind, &n.Seq, &n.Origin, &n.Format, &n.Failures, &n.Losses, &n.SentAt, &n.VisibleAt, &n.Bytes, &n.Source, &n.Reason,
			&n.To.Queue, &n.To.Seq, &n.ToVisibleAt)
		return n, err
	}, messagesSQL, queueID, action, after, limit)
}

// read reads in a transaction of its own that the server ends when it takes too long.
func read[R any](ctx context.Context, pool *pgxpool.Pool, scan pgx.RowToFunc[R], sql string, args ...any) (rows []R, err error) {
	err = pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		most := strconv.FormatInt(queue.OperateReadTime.Milliseconds(), 10)
		if _, err := tx.Exec(ctx, "SELECT set_config('statement_timeout', $1, true)", most); err != nil {
			return err
		}
		found, err := tx.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		rows, err = pgx.CollectRows(found, scan)
		return err
	})
	return rows, session.Classify(err)
}
