package postgres_test

import (
	"context"
	"log/slog"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/runlot/runlot/internal/adapter/postgres"
	"github.com/runlot/runlot/internal/adapter/postgres/cluster"
	"github.com/runlot/runlot/internal/adapter/postgres/cluster/clustertest"
	"github.com/runlot/runlot/internal/engine/broker"
	"github.com/runlot/runlot/internal/engine/broker/operate"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// The server is killed in the middle of a redrive of 200,000 dead letters: each is in one of the two queues, what was said
// to be moved is, and another call moves the rest, each to where it came from.
func TestServerKilledUnderRedrive(t *testing.T) {
	install, err := clustertest.Install()
	clustertest.Must(t, err)
	dir, err := os.MkdirTemp("", "runlot-redrive-")
	clustertest.Must(t, err)
	defer os.RemoveAll(dir)
	clustertest.Must(t, os.Chmod(dir, 0o711))
	const total, killAt = 200_000, 60_000
	open := func() (*cluster.Cluster, *postgres.Store, *pgx.Conn) {
		c, err := cluster.Start(t.Context(), cluster.Options{Install: install, Dir: dir})
		clustertest.Must(t, err)
		access, err := c.EnsureDatabase(t.Context(), "app")
		clustertest.Must(t, err)
		s, err := postgres.Open(t.Context(), postgres.Options{URL: access.OwnerURL(), Log: slog.New(slog.DiscardHandler)})
		clustertest.Must(t, err)
		return c, s, clustertest.Connect(t, access.OwnerURL())
	}
	serve := func(s *postgres.Store) *broker.Broker {
		b := broker.New(broker.Options{Store: s})
		clustertest.Must(t, b.Start(t.Context()))
		return b
	}
	// held counts messages and ids by the place in which they are and the queue that they came from.
	type place struct {
		Queue, From string
		Messages    int
		IDs         int
	}
	held := func(conn *pgx.Conn) []place {
		rows, err := conn.Query(t.Context(), `SELECT q.name, CASE m.origin % 2 WHEN 0 THEN 'a' ELSE 'b' END, count(*)::int, count(DISTINCT m.origin)::int
			FROM runlot_queue.message m JOIN runlot_queue.queue q ON q.id = m.queue_id GROUP BY 1, 2 ORDER BY 1, 2`)
		clustertest.Must(t, err)
		list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[place])
		clustertest.Must(t, err)
		return list
	}

	c, s, conn := open()
	own, err := s.Acquire(t.Context())
	clustertest.Must(t, err)
	queues, err := s.Declare(t.Context(), []string{"a", "b", "dead"})
	clustertest.Must(t, err)
	first := max(own.NextSeq, store.SeqAt(time.Now()))
	clustertest.Must(t, s.Reserve(t.Context(), first+2*total))
	clustertest.Exec(t, conn, `INSERT INTO runlot_queue.message (origin, seq, sent_at, queue_id, failures, losses, format, body, source_id)
		SELECT n, $1::bigint + n, now(), $2, 0, 0, 1, '1', CASE n % 2 WHEN 0 THEN $3::int ELSE $4::int END FROM generate_series(1, $5::int) AS s (n)`,
		first, queues[2].ID, queues[0].ID, queues[1].ID, total)
	b := serve(s)
	killed := make(chan struct{})
	var told operate.Redriven
	_, err = b.Redrive(t.Context(), "dead", operate.RedriveOptions{Progress: func(p operate.Redriven) {
		if told.Moved < killAt && p.Moved >= killAt {
			// It is on its way with the next step when it dies.
			go func() {
				defer close(killed)
				_ = syscall.Kill(c.PID(), syscall.SIGKILL)
			}()
		}
		told = p
	}})
	if err == nil {
		t.Fatal("the redrive ended before the server was killed")
	}
	<-killed
	<-b.Done()
	<-c.Done()
	clustertest.Must(t, b.Stop(context.Background()))
	clustertest.Must(t, s.Close(context.Background()))
	_ = c.Stop(context.Background())

	c, s, conn = open()
	b = serve(s)
	moved, all := 0, 0
	for _, p := range held(conn) {
		all += p.Messages
		if p.Messages != p.IDs || p.Queue != "dead" && p.Queue != p.From {
			t.Errorf("after the restart: %+v", p)
		}
		if p.Queue != "dead" {
			moved += p.Messages
		}
	}
	if all != total || moved < int(told.Moved) || moved > int(told.Moved)+1_000 {
		t.Errorf("%d messages are left, %d of them moved; %d were said to be", all, moved, told.Moved)
	}
	done, err := b.Redrive(t.Context(), "dead", operate.RedriveOptions{})
	clustertest.Must(t, err)
	if int(done.Moved) != total-moved {
		t.Errorf("the second call moved %d, want %d", done.Moved, total-moved)
	}
	if diff := cmp.Diff([]place{{"a", "a", total / 2, total / 2}, {"b", "b", total / 2, total / 2}}, held(conn)); diff != "" {
		t.Errorf("in the end (-want +got):\n%s", diff)
	}
	clustertest.Must(t, b.Stop(context.Background()))
	clustertest.Must(t, s.Close(context.Background()))
	clustertest.Must(t, c.Stop(context.Background()))
}
