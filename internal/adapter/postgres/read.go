package postgres

import (
	"context"
	"time"

	"github.com/runlot/runlot/internal/adapter/postgres/session"
	"github.com/runlot/runlot/internal/adapter/postgres/snapshot"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// The two reads end at the row that reaches the bound of bytes: the running sum costs next to nothing, because the size
// of a body that is stored out of line is known without reading it.
const (
	readBegin = `SELECT ` + messageColumns + ` FROM (
		SELECT ` + messageColumns + `, sum(octet_length(body)) OVER (ORDER BY `
	readMiddle = ` ROWS UNBOUNDED PRECEDING) - octet_length(body) AS before
		FROM (SELECT ` + messageColumns + ` FROM runlot_queue.message WHERE queue_id = $1 `

	readReadySQL = readBegin + `seq` + readMiddle + `AND visible_at IS NULL AND seq > $2 AND seq <= $3 ORDER BY seq LIMIT $4) m
	) r WHERE before <= $5 ORDER BY seq`

	readDueSQL = readBegin + `visible_at, seq` + readMiddle + `AND visible_at IS NOT NULL
			AND (visible_at, seq) > ($2::timestamptz, $3::bigint) AND visible_at <= $4 ORDER BY visible_at, seq LIMIT $5) m
	) r WHERE before <= $6 ORDER BY visible_at, seq`
)

// ReadReady returns messages with VisibleAt 0 in order of Seq.
func (s *Store) ReadReady(ctx context.Context, queueID int32, after, upTo int64, rows, bytes int) ([]store.Row, error) {
	list, err := collect(ctx, s.readers, readReadySQL, queueID, after, upTo, rows, bytes)
	if err != nil {
		return nil, session.Classify(err)
	}
	return within(list, bytes), nil
}

// ReadDue returns delayed messages in order of (VisibleAt, Seq).
func (s *Store) ReadDue(ctx context.Context, queueID int32, after store.Due, upTo int64, rows, bytes int) ([]store.Row, error) {
	list, err := collect(ctx, s.readers, readDueSQL,
		queueID, time.UnixMilli(after.VisibleAt), after.Seq, time.UnixMilli(upTo), rows, bytes)
	if err != nil {
		return nil, session.Classify(err)
	}
	return within(list, bytes), nil
}

// within cuts off the row that went over the bound, if it is not the first.
func within(rows []store.Row, bytes int) []store.Row {
	total := 0
	for i := range rows {
		total += len(rows[i].Body)
		if total > bytes && i > 0 {
			return rows[:i]
		}
	}
	return rows
}

// Snapshot opens a consistent view. It holds one of the connections for reading until it is closed.
func (s *Store) Snapshot(ctx context.Context) (store.Snapshot, error) {
	return snapshot.Open(ctx, s.readers)
}
