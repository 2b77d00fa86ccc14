package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/runlot/runlot/internal/adapter/postgres/query"
	"github.com/runlot/runlot/internal/adapter/postgres/session"
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
	conn, err := s.readers.Acquire(ctx)
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
