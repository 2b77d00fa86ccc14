// Package removal ends queues in a PostgreSQL database: in one transaction the queue is gone, and what it held is deleted
// behind it, step by step.
package removal

import (
	"context"
	"errors"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// class is the first half of the advisory locks that runlot_queue.send_batch() takes, shared, for each queue that it sends
// to: "queu" in ASCII. It never changes, and stands in the function too.
const class = 0x71756575

// ClearInboxSQL deletes what is for queue $1 among the next $3 rows of the inbox behind $2.
const ClearInboxSQL = `
WITH looked AS MATERIALIZED (
	SELECT id, queue_id FROM runlot_queue.inbox WHERE id > $2::bigint ORDER BY id LIMIT $3::bigint
), gone AS (
	DELETE FROM runlot_queue.inbox i USING looked l WHERE i.id = l.id AND l.queue_id = $1::int RETURNING octet_length(i.body) AS bytes
)
SELECT count(*), coalesce(sum(bytes), 0)::bigint, coalesce((SELECT max(id) FROM looked), 0), (SELECT count(*) FROM looked) < $3::bigint FROM gone`

// inboxSQL deletes what SQL enqueued for a queue.
const inboxSQL = `WITH gone AS (DELETE FROM runlot_queue.inbox WHERE queue_id = $1 RETURNING octet_length(body) AS bytes)
	SELECT count(*), coalesce(sum(bytes), 0)::bigint FROM gone`

// endSQL makes the queue one that was, in which nothing can be undone.
const endSQL = `WITH forgotten AS (DELETE FROM runlot_queue.undo WHERE queue_id = $1), gone AS (DELETE FROM runlot_queue.queue WHERE id = $1 RETURNING id, name)
	INSERT INTO runlot_queue.removed (queue_id, name) SELECT id, name FROM gone`

// lockNotAvailable is PostgreSQL's code for a lock that was waited for in vain.
const lockNotAvailable = "55P03"

// Remove ends a queue, see store.Removal. Repeated, it does nothing.
func Remove(ctx context.Context, conn *pgx.Conn, queueID int32) (gone store.Count, err error) {
	var name string
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, "SELECT name FROM runlot_queue.queue WHERE id = $1", queueID).Scan(&name)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "SELECT set_config('lock_timeout', $1, true)", strconv.FormatInt(queue.RemoveLockTime.Milliseconds(), 10)); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1, hashtext($2))", class, name); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, inboxSQL, queueID).Scan(&gone.Messages, &gone.Bytes); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, endSQL, queueID)
		return err
	})
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == lockNotAvailable {
		return store.Count{}, fault.New(fault.Conflict, store.CodeQueueBusy, "a transaction that sent to the queue %s with runlot_queue.send() has not ended", name).
			WithHint("end it, then delete the queue").WithCause(err)
	}
	return gone, err
}

// scrapSQL deletes the next messages of a queue that is no more, in order of Seq, from the one behind which none is left.
const scrapSQL = `WITH gone AS (
		DELETE FROM runlot_queue.message WHERE queue_id = $1 AND seq IN (
			SELECT m.seq FROM runlot_queue.message m, runlot_queue.removed r
			WHERE r.queue_id = $1 AND m.queue_id = $1 AND m.seq > r.scrapped ORDER BY m.seq LIMIT $2)
		RETURNING seq), counted AS (SELECT count(*) AS n, max(seq) AS last FROM gone),
	noted AS (UPDATE runlot_queue.removed r SET scrapped = c.last FROM counted c WHERE r.queue_id = $1 AND c.n > 0)
	SELECT n FROM counted`

// recordsSQL deletes some records of a queue that is no more.
const recordsSQL = `DELETE FROM runlot_queue.batch WHERE queue_id = $1 AND number IN (
		SELECT number FROM runlot_queue.batch WHERE queue_id = $1 ORDER BY number LIMIT $2)`

// Scrap deletes what is left of queues that are no more, see store.Removal, in one transaction. It does not wait for locks
// for long: what is in use is left to the next call.
func Scrap(ctx context.Context, conn *pgx.Conn, limit int) (more bool, err error) {
	var id int32
	err = conn.QueryRow(ctx, "SELECT queue_id FROM runlot_queue.removed ORDER BY queue_id LIMIT 1").Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		var n int64
		if err := tx.QueryRow(ctx, scrapSQL, id, limit).Scan(&n); err != nil || n > 0 {
			return err
		}
		records, err := tx.Exec(ctx, recordsSQL, id, limit)
		if err != nil || records.RowsAffected() > 0 {
			return err
		}
		for _, table := range []string{"batch_held", "undo", "removed"} {
			if _, err := tx.Exec(ctx, "DELETE FROM runlot_queue."+table+" WHERE queue_id = $1", id); err != nil {
				return err
			}
		}
		return nil
	})
}
