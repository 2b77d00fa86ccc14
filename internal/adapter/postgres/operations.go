package postgres

import (
	"context"
	"time"

	"github.com/runlot/runlot/internal/adapter/postgres/query"
	"github.com/runlot/runlot/internal/adapter/postgres/search"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

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
