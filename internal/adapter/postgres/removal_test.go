package postgres_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/runlot/runlot/internal/adapter/postgres"
	"github.com/runlot/runlot/internal/adapter/postgres/cluster/clustertest"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// owned opens a store that is the owner of a queue "jobs".
func owned(t *testing.T, d *database) (s *postgres.Store, queueID int32) {
	t.Helper()
	s = d.open(t)
	_, err := s.Acquire(t.Context())
	clustertest.Must(t, err)
	infos, err := s.Declare(t.Context(), []string{"jobs", "other"})
	clustertest.Must(t, err)
	return s, infos[0].ID
}

// TestRemoveWaitsForOpenTransactions: what SQL sends in a transaction that was open when the queue ended is either counted
// as deleted or refused, at every isolation level, and never lost behind a commit.
func TestRemoveWaitsForOpenTransactions(t *testing.T) {
	d := newDatabase(t)
	s, id := owned(t, d)
	app := d.app(t)
	tx, err := app.Begin(t.Context())
	clustertest.Must(t, err)
	_, err = tx.Exec(t.Context(), "SELECT runlot_queue.send('jobs', '1')")
	clustertest.Must(t, err)
	_, err = s.Remove(t.Context(), id)
	if f, ok := errors.AsType[*fault.Error](err); !ok || f.Kind != fault.Conflict || f.Code != store.CodeQueueBusy {
		t.Fatalf("beside an open transaction: %v", err)
	}
	clustertest.Must(t, tx.Commit(t.Context()))
	// A transaction that sends elsewhere is in nobody's way.
	elsewhere, err := app.Begin(t.Context())
	clustertest.Must(t, err)
	_, err = elsewhere.Exec(t.Context(), "SELECT runlot_queue.send('other', '1')")
	clustertest.Must(t, err)
	old := make([]pgx.Tx, 0, 2)
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		tx, err := d.app(t).BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
		clustertest.Must(t, err)
		_, err = tx.Exec(t.Context(), "SELECT count(*) FROM runlot_queue.messages") // it has its snapshot from now on
		clustertest.Must(t, err)
		old = append(old, tx)
	}
	// Marks are written to the row of the queue all the time, which is no reason to refuse a send.
	clustertest.Must(t, s.SaveMarks(t.Context(), []store.Mark{{Queue: id, ReadyMark: 5}}))
	_, err = old[1].Exec(t.Context(), "SAVEPOINT before; SELECT runlot_queue.send('jobs', '1'); ROLLBACK TO SAVEPOINT before")
	clustertest.Must(t, err)
	gone, err := s.Remove(t.Context(), id)
	clustertest.Must(t, err)
	if gone.Messages != 1 {
		t.Errorf("%d messages were in the inbox, want the one that was committed", gone.Messages)
	}
	clustertest.Must(t, elsewhere.Commit(t.Context()))
	for i, tx := range old {
		_, err := tx.Exec(t.Context(), "SELECT runlot_queue.send('jobs', '1')")
		if pg, ok := errors.AsType[*pgconn.PgError](err); !ok || pg.Code != "40001" {
			t.Errorf("with snapshot %d from before: %v, want a serialization failure", i, err)
		}
		_ = tx.Rollback(t.Context())
	}
	rows, err := s.Drain(t.Context(), store.SeqAt(time.Now()), time.Now(), 100)
	clustertest.Must(t, err)
	if len(rows) != 1 || rows[0].Queue == id {
		t.Errorf("the inbox held %+v, want the message of the other queue", rows)
	}
}

// TestRemoveAgainstSenders: of sends that run all the time, each was committed before the queue ended, or is refused.
func TestRemoveAgainstSenders(t *testing.T) {
	d := newDatabase(t)
	s, id := owned(t, d)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const senders = 4
	sent := make(chan int64, senders)
	first := make(chan struct{}, senders)
	for range senders {
		app := d.app(t)
		go func() {
			n := int64(0)
			for ctx.Err() == nil {
				_, err := app.Exec(ctx, "SELECT runlot_queue.send('jobs', '1')")
				if err != nil {
					if !strings.Contains(err.Error(), `queue "jobs" does not exist`) {
						t.Error(err)
					}
					break
				}
				if n++; n == 10 {
					first <- struct{}{}
				}
			}
			sent <- n
		}()
	}
	for range senders {
		<-first
	}
	var gone store.Count
	for {
		var err error
		gone, err = s.Remove(t.Context(), id)
		if f, ok := errors.AsType[*fault.Error](err); ok && f.Code == store.CodeQueueBusy {
			continue
		}
		clustertest.Must(t, err)
		break
	}
	total := int64(0)
	for range senders {
		total += <-sent
	}
	if total != gone.Messages {
		t.Errorf("%d sends were committed and %d counted as deleted", total, gone.Messages)
	}
	if n := clustertest.One[int](t, d.connect(t), "SELECT count(*) FROM runlot_queue.inbox"); n != 0 {
		t.Errorf("%d messages of no queue are in the inbox", n)
	}
}

// TestScrapTakesRecordsToo: what was recorded of a queue goes with it, and the queue that has its name now sees none.
func TestScrapTakesRecordsToo(t *testing.T) {
	d := newDatabase(t)
	s, id := owned(t, d)
	conn := d.connect(t)
	clustertest.Exec(t, conn, `INSERT INTO runlot_queue.batch (number, started_at, duration, queue_id, delivered, acked, retried, redelivered,
		dead, dropped, expired, missed, outcome, app, version, delivery) SELECT n, now(), 1, $1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 'a', 'v', 'd' FROM generate_series(1, 7) n`, id)
	clustertest.Exec(t, conn, "INSERT INTO runlot_queue.batch_held (lowest, queue_id, records) VALUES (1, $1, 7)", id)
	_, err := s.Remove(t.Context(), id)
	clustertest.Must(t, err)
	_, err = s.Declare(t.Context(), []string{"jobs"})
	clustertest.Must(t, err)
	if n := clustertest.One[int](t, conn, "SELECT count(*) FROM runlot_queue.batches"); n != 0 {
		t.Errorf("the new queue has %d records of the old one", n)
	}
	for more := true; more; {
		more, err = s.Scrap(t.Context(), 5)
		clustertest.Must(t, err)
	}
	if n := clustertest.One[int](t, conn, `SELECT (SELECT count(*) FROM runlot_queue.batch) + (SELECT count(*) FROM runlot_queue.batch_held)
		+ (SELECT count(*) FROM runlot_queue.removed)`); n != 0 {
		t.Errorf("%d rows are left of the queue", n)
	}
}
