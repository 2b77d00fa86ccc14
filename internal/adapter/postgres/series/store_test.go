package series_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/runlot/runlot/internal/adapter/postgres/cluster"
	"github.com/runlot/runlot/internal/adapter/postgres/cluster/clustertest"
	"github.com/runlot/runlot/internal/adapter/postgres/schema"
	minutes "github.com/runlot/runlot/internal/adapter/postgres/series"
	"github.com/runlot/runlot/internal/adapter/postgres/session"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/series"
	"github.com/runlot/runlot/internal/engine/series/seriestest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(clustertest.Main(m)) }

// prepared makes a database with the queues.
func prepared(t *testing.T, names ...string) cluster.Access {
	t.Helper()
	access := clustertest.NewDatabase(t)
	config, err := session.Parse(access.OwnerURL())
	clustertest.Must(t, err)
	clustertest.Must(t, schema.Prepare(t.Context(), config, access.App.User))
	declare(t, access, names...)
	return access
}

func declare(t *testing.T, access cluster.Access, names ...string) {
	t.Helper()
	clustertest.Exec(t, clustertest.Connect(t, access.OwnerURL()), "INSERT INTO runlot_queue.queue (name) SELECT unnest($1::text[])", names)
}

func open(t *testing.T, access cluster.Access) *minutes.Store {
	t.Helper()
	s, err := minutes.Open(t.Context(), access.OwnerURL())
	clustertest.Must(t, err)
	t.Cleanup(s.Close)
	return s
}

func TestContract(t *testing.T) {
	seriestest.Run(t, func(t *testing.T) seriestest.Subject {
		access := prepared(t)
		return seriestest.Subject{Store: open(t, access), Declare: func(t *testing.T, names ...string) { declare(t, access, names...) }}
	})
}

const day = 24 * time.Hour

func minute(at time.Time, writer, sent int64) series.Row {
	r := series.Row{Queue: "jobs", Writer: writer, Point: series.Point{Start: at, Counts: series.Counts{Sent: sent, Batches: [5]int64{3, 2, 0, 0, 1}}}}
	r.Visible = sent
	return r
}

// A reader that stays for long keeps a day, and neither the one who prunes nor anybody behind it waits for it.
func TestPruneDoesNotWaitForReaders(t *testing.T) {
	access := prepared(t, "jobs")
	s, now := open(t, access), time.Now().Truncate(time.Minute)
	old := minute(now.Add(-8*day), 1, 5)
	clustertest.Must(t, s.Write(t.Context(), []series.Row{old, minute(now, 1, 1)}))
	reader := clustertest.Connect(t, access.OwnerURL())
	tx, err := reader.Begin(t.Context())
	clustertest.Must(t, err)
	if _, err := tx.Exec(t.Context(), "SELECT FROM runlot_queue.minute"); err != nil {
		t.Fatal(err)
	}
	prune := func() int {
		t.Helper()
		days, err := s.Prune(t.Context(), now)
		clustertest.Must(t, err)
		return days
	}
	if days := prune(); days != 0 {
		t.Errorf("%d days are gone under a reader", days)
	}
	clustertest.Must(t, tx.Rollback(t.Context()))
	if days := prune(); days != 1 {
		t.Errorf("%d days are gone, want 1", days)
	}
	rows, err := s.Read(t.Context(), "jobs", now.Add(-9*day), now.Add(day))
	clustertest.Must(t, err)
	if len(rows) != 1 || !rows[0].Start.Equal(now) {
		t.Errorf("left: %v", rows)
	}
}

// The view adds up what two nodes wrote, and shows nothing that is too old.
func TestView(t *testing.T) {
	access := prepared(t, "jobs")
	s, now := open(t, access), time.Now().Truncate(time.Minute)
	clustertest.Must(t, s.Write(t.Context(), []series.Row{
		minute(now.Add(-time.Minute), 1, 5), minute(now.Add(-time.Minute), 2, 7), minute(now.Add(-7*day-time.Minute), 1, 100),
	}))
	var sent, batches, failed, depth int64
	err := clustertest.Connect(t, access.AppURL()).QueryRow(t.Context(),
		"SELECT sent, batches, failed_batches, max_visible FROM runlot_queue.minutes WHERE queue = 'jobs'").Scan(&sent, &batches, &failed, &depth)
	clustertest.Must(t, err)
	if sent != 12 || batches != 12 || failed != 6 || depth != 7 {
		t.Errorf("sent %d, batches %d, failed %d, visible %d", sent, batches, failed, depth)
	}
}

// A read of a week looks at the keys of one queue, in the tables of the days alone.
func TestReadUsesTheKey(t *testing.T) {
	access := prepared(t, "jobs", "mail")
	conn := clustertest.Connect(t, access.OwnerURL())
	now := time.Now()
	clustertest.Exec(t, conn, `INSERT INTO runlot_queue.minute SELECT m, 1, 1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1, q.id, 1, 1,
			(extract(epoch FROM m)::bigint / 86400 % 9)::smallint, '{1}', '{1}'
		FROM generate_series(date_trunc('minute', $1::timestamptz) - interval '7 days', $1::timestamptz, interval '1 minute') m, runlot_queue.queue q`, now)
	clustertest.Exec(t, conn, "ANALYZE runlot_queue.minute")
	s := open(t, access)
	rows, err := s.Read(t.Context(), "jobs", now.Add(-queue.SeriesAge), now)
	clustertest.Must(t, err)
	if n := len(rows); n != 7*24*60 {
		t.Errorf("a week has %d rows", n)
	}
	plan, err := pgx.CollectRows(must(conn.Query(t.Context(), `EXPLAIN (COSTS OFF) SELECT FROM runlot_queue.minute m
		WHERE m.queue_id = 1 AND m.day = ANY('{3}') AND m.minute >= now() - interval '1 hour' AND m.minute < now()`)), pgx.RowTo[string])
	clustertest.Must(t, err)
	for _, line := range plan {
		if len(line) > 8 && line[:8] == "Seq Scan" {
			t.Errorf("it reads a whole table: %v", plan)
		}
	}
}

func must(rows pgx.Rows, err error) pgx.Rows {
	if err != nil {
		panic(err)
	}
	return rows
}
