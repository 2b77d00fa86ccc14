package node

import (
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/runlot/runlot/internal/adapter/postgres/cluster/clustertest"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/daemon/outsiders"
	folder "github.com/runlot/runlot/internal/daemon/state"
)

// TestSendToADatabaseThatNoAppUses: what is no app's reaches a queue that was made before the last start, and makes no database.
func TestSendToADatabaseThatNoAppUses(t *testing.T) {
	state := clustertest.Dir(t)
	if err := os.Mkdir(folder.RunDir(state), 0o700); err != nil {
		t.Fatal(err)
	}
	start := func() *Node {
		return New(Options{
			Postgres: clustertest.Install, State: state, StopTime: time.Second, Log: slog.New(slog.DiscardHandler), Observer: make(runs, 1),
		})
	}
	drafts := []queue.Draft{{Format: queue.JSON, Body: []byte("1")}}
	n := start()
	if err := n.Open(t.Context(), "default"); err != nil {
		t.Fatal(fault.Detail(err))
	}
	db, err := n.Database(t.Context(), "default")
	if err != nil {
		t.Fatal(fault.Detail(err))
	}
	if err := db.Broker.Declare(t.Context(), []string{"told"}); err != nil {
		t.Fatal(fault.Detail(err))
	}
	n.Stop()

	n = start()
	defer n.Stop()
	if _, err := n.ControlURL(t.Context()); err != nil { // it runs, as under celld
		t.Fatal(fault.Detail(err))
	}
	if err := outsiders.Send(t.Context(), n, "default", "told", drafts); err != nil {
		t.Fatal(fault.Detail(err))
	}
	if got := n.Waiting(t.Context(), "default", "told"); got != 1 {
		t.Errorf("%d messages wait", got)
	}
	if err := outsiders.Send(t.Context(), n, "nowhere", "told", drafts); fault.KindOf(err) != fault.NotFound {
		t.Errorf("a database that is not there: %v", err)
	}
	if n.servers.Known("nowhere") {
		t.Error("a database was made")
	}
}
