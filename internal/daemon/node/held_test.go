package node

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
)

// TestADatabaseThatTakesItsTimeHoldsNobodyUp: while one database is being opened, as happens for as long as another node has
// its queues, everything about the others is answered; a stop ends the wait.
func TestADatabaseThatTakesItsTimeHoldsNobodyUp(t *testing.T) {
	opening, away := make(chan struct{}), errors.New("away")
	n := New(Options{
		State: t.TempDir(), Log: slog.New(slog.DiscardHandler), Observer: make(runs, 1), StopTime: time.Second,
		Store: func(ctx context.Context, database string) (Store, error) {
			if database != "held" {
				return nil, away
			}
			close(opening)
			<-ctx.Done()
			return nil, ctx.Err()
		},
	})
	held := make(chan error, 1)
	go func() { held <- n.Open(t.Context(), "held") }()
	<-opening
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		if got := n.Databases(); len(got) != 0 {
			t.Errorf("databases in use: %v", got)
		}
		if got := n.Manifests(); len(got) != 0 {
			t.Errorf("manifests: %v", got)
		}
		if err := n.Claimable(&app.Manifest{Name: "shop"}); err != nil {
			t.Error(err)
		}
		if _, err := n.Database(t.Context(), "held"); fault.KindOf(err) != fault.NotFound {
			t.Errorf("the database before it is open: %v", err)
		}
		if got := n.Waiting(t.Context(), "held", "jobs"); got != -1 {
			t.Errorf("messages before it is open: %d", got)
		}
		_ = n.Facts()
		if err := n.Open(t.Context(), "other"); !errors.Is(err, away) {
			t.Errorf("another database: %v", err)
		}
	}()
	select {
	case <-answered:
	case <-time.After(20 * time.Second):
		t.Fatal("the database that is being opened holds the node up")
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if err := n.Open(gone, "held"); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("a second caller that goes away: %v", err)
	}
	n.Stop()
	select {
	case err := <-held:
		if err == nil {
			t.Error("a database was opened during the stop")
		}
	case <-time.After(20 * time.Second):
		t.Fatal("a stop does not end the wait for a database")
	}
	if err := n.Open(t.Context(), "held"); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("after the stop: %v", err)
	}
}
