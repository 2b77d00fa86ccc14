// Package deaths reads the notes that a database of queues makes of dead letters: in the transaction that moves them, of the queues
// that are watched.
package deaths

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/runlot/runlot/internal/adapter/postgres/session"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/subscribe"
)

// Store is the notes of one database.
type Store struct{ pool *pgxpool.Pool }

// New returns the notes of a database. It connects when it is first used, and asks for the address each time, since a server
// may move.
func New(ctx context.Context, address func(context.Context) (url string, err error)) (*Store, error) {
	config, err := pgxpool.ParseConfig("")
	if err != nil {
		return nil, err
	}
	config.MaxConns, config.MinConns, config.MaxConnIdleTime = queue.DeathConnections, 0, queue.DeathConnectionIdle
	config.BeforeConnect = func(ctx context.Context, c *pgx.ConnConfig) error {
		url, err := address(ctx)
		if err != nil {
			return err
		}
		fresh, err := session.Parse(url)
		if err == nil {
			*c = *fresh
		}
		return err
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, session.Classify(err)
	}
	return &Store{pool}, nil
}

// Close ends the connection.
func (s *Store) Close() { s.pool.Close() }

// Watch has notes made of the dead letters of these queues, and of no others. Those that do not exist are left out.
func (s *Store) Watch(ctx context.Context, queues []string) error {
	return session.Classify(pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `DELETE FROM runlot_queue.watched WHERE queue_id NOT IN (SELECT id FROM runlot_queue.queue WHERE name = ANY($1))`, queues)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `INSERT INTO runlot_queue.watched (queue_id) SELECT id FROM runlot_queue.queue WHERE name = ANY($1) ON CONFLICT DO NOTHING`, queues)
		return err
	}))
}

// Deaths returns the oldest notes, at most limit. Those of queues that are gone are left out.
func (s *Store) Deaths(ctx context.Context, limit int) ([]subscribe.Death, error) {
	rows, err := s.pool.Query(ctx, `SELECT d.number, o.store_id, d.origin, d.sent_at, d.died_at, coalesce(q.name, ''), coalesce(t.name, ''), d.attempts, coalesce(d.reason, '')
		FROM (SELECT number, origin, sent_at, died_at, queue_id, target_id, attempts, reason FROM runlot_queue.died ORDER BY number LIMIT $1) d
		CROSS JOIN runlot_queue.owner o
		LEFT JOIN runlot_queue.queue q ON q.id = d.queue_id
		LEFT JOIN runlot_queue.queue t ON t.id = d.target_id
		ORDER BY d.number`, limit)
	if err != nil {
		return nil, session.Classify(err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (d subscribe.Death, err error) {
		var store, origin int64
		err = row.Scan(&d.Number, &store, &origin, &d.Sent, &d.Died, &d.Queue, &d.Target, &d.Attempts, &d.Reason)
		d.Message = queue.NewID(uint64(store), origin)
		return d, err
	})
	return list, session.Classify(err)
}

// Forget deletes notes.
func (s *Store) Forget(ctx context.Context, numbers []int64) error {
	_, err := s.pool.Exec(ctx, "DELETE FROM runlot_queue.died WHERE number = ANY($1)", numbers)
	return session.Classify(err)
}
