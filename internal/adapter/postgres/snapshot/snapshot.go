// Package snapshot is a consistent view of the messages of a PostgreSQL database, to count them while deliveries go on.
package snapshot

import (
	"context"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/runlot/runlot/internal/adapter/postgres/query"
	"github.com/runlot/runlot/internal/adapter/postgres/session"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// Open opens a view. It holds one of the connections of the pool until it is closed.
func Open(ctx context.Context, pool *pgxpool.Pool) (store.Snapshot, error) {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return nil, session.Classify(err)
	}
	// The SELECT takes the snapshot. The one full scan of the store may choose its plan.
	_, err = conn.Exec(ctx, `BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY; SET LOCAL enable_seqscan = on; SELECT 1`)
	if err != nil {
		session.Close(ctx, conn.Hijack())
		return nil, session.Classify(err)
	}
	return &snapshot{conn: conn}, nil
}

type snapshot struct {
	conn  *pgxpool.Conn
	close sync.Once
}

// Counts counts messages and their bytes by queue; a queue without messages is absent.
func (s *snapshot) Counts(ctx context.Context) (map[int32]store.Count, error) {
	rows, err := query.New(s.conn).Counts(ctx)
	if err != nil {
		return nil, session.Classify(err)
	}
	counts := make(map[int32]store.Count, len(rows))
	for _, r := range rows {
		counts[r.QueueID] = store.Count{Messages: r.Messages, Bytes: r.Bytes}
	}
	return counts, nil
}

// Close ends the view. Calling it twice is fine.
func (s *snapshot) Close(ctx context.Context) error {
	var err error
	s.close.Do(func() {
		_, err = s.conn.Exec(ctx, "ROLLBACK")
		s.conn.Release()
	})
	return session.Classify(err)
}
