package postgres

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/runlot/runlot/internal/adapter/postgres/query"
	"github.com/runlot/runlot/internal/adapter/postgres/removal"
	"github.com/runlot/runlot/internal/adapter/postgres/retry"
	"github.com/runlot/runlot/internal/adapter/postgres/undo"
	"github.com/runlot/runlot/internal/adapter/postgres/usage"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/store"
	"github.com/runlot/runlot/internal/engine/subscribe"
)

// The statements that every writer prepares. They stand here and not among the generated ones because their parameters
// are built by hand, see wire.go.
const (
	stmtInsert = "runlot_insert"
	stmtDelete = "runlot_delete"
	stmtRetry  = "runlot_retry"
	stmtMove   = "runlot_move"
	stmtExists = "runlot_exists"
	stmtDrain  = "runlot_drain"
	stmtRange  = "runlot_range"
	stmtReturn = "runlot_return"
	stmtUsage  = "runlot_usage"
	stmtClear  = "runlot_clear"
)

var statements = map[string]string{
	stmtInsert: `INSERT INTO runlot_queue.message (` + messageColumns + `)
		SELECT ` + messageColumns + ` FROM unnest($1::bigint[], $2::bigint[], $3::timestamptz[], $4::timestamptz[], $5::int[], $6::smallint[], $7::smallint[], $8::smallint[], $9::bytea[], $10::bytea[]) AS r (` + messageColumns + `)`,
	stmtDelete: `DELETE FROM runlot_queue.message WHERE queue_id = $1 AND seq = ANY($2::bigint[])`,
	stmtRetry:  retry.Statement,
	stmtMove: `WITH gone AS (
			DELETE FROM runlot_queue.message m
			USING unnest($1::int[], $2::bigint[], $3::int[], $4::bigint[], $5::int[], $6::text[]) AS k (from_queue, from_seq, to_queue, to_seq, source, reason)
			WHERE m.queue_id = k.from_queue AND m.seq = k.from_seq
			RETURNING k.to_seq, coalesce(m.origin, m.seq) AS origin, m.sent_at, k.to_queue, m.format, m.body, m.trace, m.failures, nullif(k.source, 0) AS source, nullif(k.reason, '') AS reason),
		died AS (
			INSERT INTO runlot_queue.died (origin, sent_at, queue_id, target_id, attempts, reason)
			SELECT origin, sent_at, source, to_queue, failures + 1, reason FROM gone JOIN runlot_queue.watched w ON w.queue_id = source
			WHERE substring(body FROM 1 FOR ` + strconv.Itoa(len(subscribe.Mark)) + `) <> convert_to('` + subscribe.Mark + `', 'UTF8'))
		INSERT INTO runlot_queue.message (` + messageColumns + `, source_id, reason)
		SELECT to_seq, origin, sent_at, NULL, to_queue, 0, 0, format, body, trace, source, reason FROM gone`,
	stmtExists: `SELECT EXISTS (SELECT FROM runlot_queue.message WHERE queue_id = $1 AND seq = $2)`,
	stmtDrain:  drainSQL,
	stmtRange:  rangeSQL,
	stmtReturn: returnSQL,
	stmtUsage:  usage.Insert,
	stmtClear:  removal.ClearInboxSQL,
}

// copyRows is the number of rows from which on COPY beats INSERT … SELECT unnest: it costs a second round trip and a parse,
// and less for each row.
const copyRows = 64

const copySQL = `COPY runlot_queue.message (` + messageColumns + `) FROM STDIN WITH (FORMAT binary)`

// binaryFormat is the format code of all parameters and results.
var binaryFormat = []int16{pgtype.BinaryFormatCode}

// Append inserts rows in one transaction.
func (s *Store) Append(ctx context.Context, rows []store.Row, entry *store.Usage) error {
	if len(rows) == 0 {
		return nil
	}
	return s.add(ctx, operation{
		run: func(ctx context.Context, w *writer) error {
			w.frame.reset()
			if len(rows) < copyRows {
				return w.pipeline(ctx, func(p *pgconn.Pipeline) {
					p.SendQueryPrepared(stmtInsert, w.frame.rowArrays(rows), binaryFormat, binaryFormat)
					sendUsage(p, entry)
				})
			}
			w.frame.buf = putCopy(w.frame.buf, rows)
			sql := copySQL
			if entry != nil {
				sql = usage.Before(entry, copySQL)
			}
			_, err := w.conn.PgConn().CopyFrom(ctx, bytes.NewReader(w.frame.buf), sql)
			return err
		},
		// The rows came in one transaction and nobody knows of them yet, so the first stands for all.
		landed: func(ctx context.Context, w *writer) (landed bool, err error) {
			err = w.conn.QueryRow(ctx, stmtExists, rows[0].Queue, rows[0].Seq).Scan(&landed)
			return landed, err
		},
		undo: undoAppend(rows, entry),
	})
}

func undoAppend(rows []store.Row, entry *store.Usage) func(ctx context.Context, w *writer) error {
	// The caller's memory is used for something else by then.
	var counted *store.Usage
	if entry != nil {
		kept := *entry
		counted = &kept
	}
	return func(ctx context.Context, w *writer) error {
		keys := make([]store.Key, len(rows))
		written := int64(0)
		for i := range rows {
			keys[i] = store.Key{Queue: rows[i].Queue, Seq: rows[i].Seq}
			written += queue.Operations(len(rows[i].Body))
		}
		if counted != nil {
			if err := usage.Undo(ctx, w.conn, counted, written); err != nil {
				return err
			}
		}
		return w.apply(ctx, &store.Change{Delete: keys})
	}
}

// Apply carries a change out in one transaction and one round trip.
func (s *Store) Apply(ctx context.Context, change *store.Change) error {
	if len(change.Delete)+len(change.Retry)+len(change.Move)+len(change.Return)+len(change.Forget) == 0 {
		return nil
	}
	return s.settle(ctx, func(ctx context.Context, w *writer) error { return w.apply(ctx, change) })
}

func (w *writer) apply(ctx context.Context, change *store.Change) error {
	f := &w.frame
	f.reset()
	aside, err := undo.Of(w.conn.TypeMap(), change)
	if err != nil {
		return err
	}
	return w.pipeline(ctx, func(p *pgconn.Pipeline) {
		aside.Send(p)
		for keys := range f.byQueue(change.Delete) {
			p.SendQueryPrepared(stmtDelete, f.deleteParams(keys), binaryFormat, nil)
		}
		if len(change.Retry) > 0 {
			p.SendQueryPrepared(stmtRetry, f.retryParams(change.Retry), binaryFormat, nil)
		}
		if len(change.Move) > 0 {
			p.SendQueryPrepared(stmtMove, f.moveParams(change.Move), binaryFormat, nil)
		}
		sendUsage(p, change.Usage)
	})
}

// byQueue yields the keys of each queue in order of Seq, so that neighbours in the index are deleted one after the other.
func (f *frame) byQueue(keys []store.Key) func(yield func([]store.Key) bool) {
	return func(yield func([]store.Key) bool) {
		f.keys = append(f.keys[:0], keys...)
		slices.SortFunc(f.keys, func(a, b store.Key) int {
			return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Seq, b.Seq))
		})
		for rest := f.keys; len(rest) > 0; {
			n := 1
			for n < len(rest) && rest[n].Queue == rest[0].Queue {
				n++
			}
			if !yield(rest[:n]) {
				return
			}
			rest = rest[n:]
		}
	}
}

func (f *frame) deleteParams(keys []store.Key) [][]byte {
	return f.params(
		func(b []byte) []byte { return putRawInt4(b, keys[0].Queue) },
		func(b []byte) []byte {
			return putArray(b, pgtype.Int8OID, keys, func(b []byte, k *store.Key) []byte { return putInt8(b, k.Seq) })
		},
	)
}

func (f *frame) retryParams(list []store.Retry) [][]byte {
	return f.params(
		func(b []byte) []byte {
			return putArray(b, pgtype.Int4OID, list, func(b []byte, r *store.Retry) []byte { return putInt4(b, r.Queue) })
		},
		func(b []byte) []byte {
			return putArray(b, pgtype.Int8OID, list, func(b []byte, r *store.Retry) []byte { return putInt8(b, r.Seq) })
		},
		func(b []byte) []byte {
			return putArray(b, pgtype.Int2OID, list, func(b []byte, r *store.Retry) []byte { return putInt2(b, r.Failures) })
		},
		func(b []byte) []byte {
			return putArray(b, pgtype.Int2OID, list, func(b []byte, r *store.Retry) []byte { return putInt2(b, r.Losses) })
		},
		func(b []byte) []byte {
			return putArray(b, pgtype.TimestamptzOID, list, func(b []byte, r *store.Retry) []byte { return putVisible(b, r.VisibleAt) })
		},
		func(b []byte) []byte {
			return putArray(b, pgtype.Int2OID, list, func(b []byte, r *store.Retry) []byte { return putInt2(b, retry.Number(r.Outcome)) })
		},
		func(b []byte) []byte {
			return putArray(b, pgtype.TextOID, list, func(b []byte, r *store.Retry) []byte { return putBytes(b, []byte(r.Reason)) })
		},
	)
}

func (f *frame) moveParams(list []store.Move) [][]byte {
	return f.params(
		func(b []byte) []byte {
			return putArray(b, pgtype.Int4OID, list, func(b []byte, m *store.Move) []byte { return putInt4(b, m.From.Queue) })
		},
		func(b []byte) []byte {
			return putArray(b, pgtype.Int8OID, list, func(b []byte, m *store.Move) []byte { return putInt8(b, m.From.Seq) })
		},
		func(b []byte) []byte {
			return putArray(b, pgtype.Int4OID, list, func(b []byte, m *store.Move) []byte { return putInt4(b, m.To.Queue) })
		},
		func(b []byte) []byte {
			return putArray(b, pgtype.Int8OID, list, func(b []byte, m *store.Move) []byte { return putInt8(b, m.To.Seq) })
		},
		func(b []byte) []byte {
			return putArray(b, pgtype.Int4OID, list, func(b []byte, m *store.Move) []byte { return putInt4(b, m.Source) })
		},
		func(b []byte) []byte {
			return putArray(b, pgtype.TextOID, list, func(b []byte, m *store.Move) []byte { return putBytes(b, []byte(m.Reason)) })
		},
	)
}

// pipeline sends statements with one Sync behind them, which makes them one transaction and one round trip, and returns
// the first error.
func (w *writer) pipeline(ctx context.Context, send func(p *pgconn.Pipeline)) error {
	p := w.conn.PgConn().StartPipeline(ctx)
	send(p)
	if err := p.Sync(); err != nil {
		return errors.Join(err, p.Close())
	}
	var first error
	for {
		result, err := p.GetResults()
		if reader, ok := result.(*pgconn.ResultReader); ok {
			_, err = reader.Close()
		}
		if first == nil {
			first = err
		}
		if _, synced := result.(*pgconn.PipelineSync); synced || w.conn.IsClosed() {
			if err := p.Close(); first == nil {
				first = err
			}
			return first
		}
	}
}

// Expire deletes up to limit messages of a queue in order of Seq and returns them. What it will delete is read first: if
// the connection breaks under the deletion, it is repeated and the answer is still whole.
func (s *Store) Expire(ctx context.Context, queueID int32, after, before int64, limit int) ([]store.Expired, error) {
	var (
		read    bool
		expired []store.Expired
		keys    []store.Key
	)
	err := s.settle(ctx, func(ctx context.Context, w *writer) error {
		if !read {
			rows, err := query.New(w.conn).ExpireCandidates(ctx, query.ExpireCandidatesParams{
				QueueID: queueID, After: after, Before: before, MaxRows: int32(limit),
			})
			if err != nil {
				return err
			}
			for _, r := range rows {
				expired = append(expired, store.Expired{Seq: r.Seq, Bytes: int(r.Bytes)})
				keys = append(keys, store.Key{Queue: queueID, Seq: r.Seq})
			}
			read = true
		}
		if len(keys) == 0 {
			return nil
		}
		return w.apply(ctx, &store.Change{Delete: keys})
	})
	if err != nil {
		return nil, err
	}
	return expired, nil
}
