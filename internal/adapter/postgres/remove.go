package postgres

import (
	"context"

	"github.com/runlot/runlot/internal/adapter/postgres/removal"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// Remove ends a queue.
func (s *Store) Remove(ctx context.Context, queueID int32) (gone store.Count, err error) {
	err = s.settle(ctx, func(ctx context.Context, w *writer) (err error) {
		gone, err = removal.Remove(ctx, w.conn, queueID)
		return err
	})
	return gone, err
}

// Scrap deletes what is left of queues that were removed.
func (s *Store) Scrap(ctx context.Context, limit int) (more bool, err error) {
	err = s.settle(ctx, func(ctx context.Context, w *writer) (err error) {
		more, err = removal.Scrap(ctx, w.conn, limit)
		return err
	})
	return more, err
}
