package postgres_test

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"syscall"
	"testing"

	"github.com/runlot/runlot/internal/adapter/postgres"
	"github.com/runlot/runlot/internal/adapter/postgres/cluster"
	"github.com/runlot/runlot/internal/adapter/postgres/cluster/clustertest"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// The server is killed under sends: what was acknowledged is there after the restart, and every group whole or not at all.
func TestServerKilledUnderSends(t *testing.T) {
	install, err := clustertest.Install()
	clustertest.Must(t, err)
	dir, err := os.MkdirTemp("", "runlot-crash-")
	clustertest.Must(t, err)
	defer os.RemoveAll(dir)
	clustertest.Must(t, os.Chmod(dir, 0o711))
	start := func() (*cluster.Cluster, *postgres.Store, store.Ownership) {
		c, err := cluster.Start(t.Context(), cluster.Options{Install: install, Dir: dir})
		clustertest.Must(t, err)
		access, err := c.EnsureDatabase(t.Context(), "app")
		clustertest.Must(t, err)
		s, err := postgres.Open(t.Context(), postgres.Options{URL: access.OwnerURL(), Log: slog.New(slog.DiscardHandler)})
		clustertest.Must(t, err)
		own, err := s.Acquire(t.Context())
		clustertest.Must(t, err)
		return c, s, own
	}
	c, s, own := start()
	queues, err := s.Declare(t.Context(), []string{"jobs"})
	clustertest.Must(t, err)
	const group, enough = 100, 20
	acked := map[int64]bool{}
	sent := map[int64]bool{}
	next := own.NextSeq
	for n := 0; ; n++ {
		if n == enough {
			// Some more groups are on their way while it dies.
			go func() { _ = syscall.Kill(c.PID(), syscall.SIGKILL) }()
		}
		rows := make([]store.Row, group)
		for i := range rows {
			next++
			rows[i] = store.Row{Queue: queues[0].ID, Seq: next, Format: 1, SentAt: 1, Body: []byte("1")}
		}
		sent[rows[0].Seq] = true
		if err := s.Append(t.Context(), rows, nil); err != nil {
			break
		}
		acked[rows[0].Seq] = true
	}
	<-own.Lost
	<-c.Done()
	clustertest.Must(t, s.Close(context.Background()))
	_ = c.Stop(context.Background())

	c, s, again := start()
	defer func() {
		clustertest.Must(t, s.Close(context.Background()))
		clustertest.Must(t, c.Stop(context.Background()))
	}()
	if again.Store != own.Store || again.Epoch <= own.Epoch {
		t.Errorf("ownership %+v after %+v", again, own)
	}
	rows, err := s.ReadReady(t.Context(), queues[0].ID, 0, 1<<62, 1_000_000, 1<<30)
	clustertest.Must(t, err)
	for part := range slices.Chunk(rows, group) {
		first := part[0].Seq
		if len(part) != group || part[group-1].Seq != first+group-1 || !sent[first] {
			t.Fatalf("a group is torn: %d rows from seq %d", len(part), first)
		}
		delete(acked, first)
	}
	if len(acked) > 0 {
		t.Errorf("%d acknowledged groups are lost", len(acked))
	}
	t.Logf("%d groups sent, %d stored", len(sent), len(rows)/group)
}
