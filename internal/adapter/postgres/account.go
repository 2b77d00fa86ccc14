package postgres

import (
	"context"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/runlot/runlot/internal/adapter/postgres/session"
	"github.com/runlot/runlot/internal/adapter/postgres/usage"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// sendUsage adds the insertion of an entry to a pipeline; nil is none.
func sendUsage(p *pgconn.Pipeline, entry *store.Usage) {
	if entry != nil {
		p.SendQueryPrepared(stmtUsage, usage.Params(entry), nil, nil)
	}
}

// Usage returns the newest entry of each source and day that is kept.
func (s *Store) Usage(ctx context.Context) ([]store.Usage, error) {
	entries, err := usage.Load(ctx, s.readers, queue.UsageDays)
	return entries, session.Classify(err)
}

// SaveUsage writes entries and sweeps what is no longer needed.
func (s *Store) SaveUsage(ctx context.Context, entries []store.Usage, keep int32) error {
	return s.settle(ctx, func(ctx context.Context, w *writer) error {
		return usage.Save(ctx, w.conn, entries, keep, w.tenure.swept)
	})
}

// SetRefusal writes or takes back what SQL's send functions refuse calls with.
func (s *Store) SetRefusal(ctx context.Context, refusal store.Refusal) error {
	return s.settle(ctx, func(ctx context.Context, w *writer) error {
		return usage.SetRefusal(ctx, w.conn, &refusal)
	})
}

// Size returns the bytes that the database takes up on disk.
func (s *Store) Size(ctx context.Context) (int64, error) {
	size, err := usage.Size(ctx, s.readers)
	return size, session.Classify(err)
}

// Compact gives the space of deleted messages back.
func (s *Store) Compact(ctx context.Context) error {
	return session.Classify(usage.Compact(ctx, s.readers))
}
