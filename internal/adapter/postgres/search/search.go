// Package search looks for the messages of a PostgreSQL database that match a filter. It has one session of its own, which
// can only read and whose statements end after queue.SearchTime, so that a search takes nothing from deliveries but its part
// of the machine.
package search

import (
	"context"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/runlot/runlot/internal/adapter/postgres/session"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// Searcher is the session. It connects when it is used, and disconnects when it has not been used for a while.
type Searcher struct{ pool *pgxpool.Pool }

// Open makes a searcher over a database whose schema is up to date.
func Open(ctx context.Context, config *pgx.ConnConfig) (*Searcher, error) {
	options, err := pgxpool.ParseConfig("")
	if err != nil {
		return nil, err
	}
	options.ConnConfig = config.Copy()
	params := options.ConnConfig.RuntimeParams
	params["statement_timeout"] = strconv.FormatInt(queue.SearchTime.Milliseconds(), 10)
	params["default_transaction_read_only"] = "on"
	// The statements differ, and with the values known a list of Seqs is looked up and not gone through.
	params["plan_cache_mode"] = "force_custom_plan"
	options.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	options.MaxConns, options.MinConns, options.MaxConnIdleTime = 1, 0, time.Minute
	pool, err := pgxpool.NewWithConfig(ctx, options)
	if err != nil {
		return nil, session.Classify(err)
	}
	return &Searcher{pool: pool}, nil
}

// Close ends the session.
func (s *Searcher) Close() { s.pool.Close() }

// Search implements a part of store.Store. The bodies of the page are bounded in bytes by a running sum, which costs next to
// nothing: the size of a body is known without reading it.
func (s *Searcher) Search(ctx context.Context, queueID int32, q *store.Search) (store.Searched, error) {
	var found store.Searched
	var bytes int64
	var seqs, accepted, places []int64
	sql, args := statement(queueID, q)
	err := s.pool.QueryRow(ctx, sql, args...).Scan(&found.Looked, &found.Last, &bytes, &seqs, &accepted, &places)
	if err != nil {
		return store.Searched{}, session.Classify(err)
	}
	found.More = found.Looked == q.Rows || q.Filter.NeedsBody() && bytes > int64(q.Bytes)
	for i := range seqs {
		found.Matches = append(found.Matches, store.Match{Seq: seqs[i], Accepted: accepted[i], Place: int(places[i])})
	}
	return found, nil
}

// Replace deletes a message and adds another in its stead, which keeps where the first came from, in one statement. Repeated,
// it does nothing.
func Replace(ctx context.Context, conn *pgx.Conn, old store.Key, r *store.Row) error {
	_, err := conn.Exec(ctx, `WITH gone AS (DELETE FROM runlot_queue.message WHERE queue_id = $1 AND seq = $2 RETURNING source_id, reason)
		INSERT INTO runlot_queue.message (seq, sent_at, queue_id, failures, losses, format, body, source_id, reason)
		SELECT $3::bigint, $4::timestamptz, $5::int, 0, 0, $6::smallint, $7::bytea, source_id, reason FROM gone`,
		old.Queue, old.Seq, r.Seq, time.UnixMilli(r.SentAt), r.Queue, int16(r.Format), r.Body)
	return err
}
