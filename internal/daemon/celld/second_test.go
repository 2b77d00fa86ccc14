package celld_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/adapter/postgres/cluster/clustertest"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/daemon/celld"
)

// TestASecondCelldOnTheSameDatabase: it waits for the first one to stop, and is refused when that does not; meanwhile it
// touches nothing. After a stop it has all that is in PostgreSQL: apps, secrets, tokens, messages.
func TestASecondCelldOnTheSameDatabase(t *testing.T) {
	databases := map[string]string{"celld": clustertest.NewDatabase(t).OwnerURL(), "shop": clustertest.NewDatabase(t).OwnerURL()}
	told := make(chan string, 10)
	ear := newEar(t, told)
	first := startOn(t, t.TempDir(), 0, databases)
	first.deploy("shop", "one", ear)
	other := t.TempDir()
	for _, name := range []string{"secrets.key", "admin-token"} {
		text, err := os.ReadFile(filepath.Join(first.data, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(other, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	err := celld.Run(t.Context(), &celld.Settings{
		Data: other, Listen: "127.0.0.1:0", Operator: "127.0.0.1:0", DatabaseURLs: databases, Version: "test", Log: slog.New(slog.DiscardHandler),
		Ready: func(celld.Ready) { t.Error("the second one is ready beside the first") },
	})
	if f := fault.From(err); f == nil || f.Code != "celld_elsewhere" || !strings.Contains(f.Message, first.data) || f.Hint == "" {
		t.Fatalf("the second one ends with %v", err)
	}
	first.deploy("shop", "two", ear)
	if got := first.ask("shop", "/"); got != "two" {
		t.Errorf("beside a second one, shop answers %q", got)
	}
	// A delayed message is stored before the stop and delivered by the other one.
	if got := first.ask("shop", "/?delay=1"); got != "sent" {
		t.Errorf("the message: %q", got)
	}
	go first.stop()
	second := startOn(t, other, 0, databases)
	if got := second.ask("shop", "/"); got != "two" {
		t.Errorf("on the second one, shop answers %q", got)
	}
	select {
	case path := <-told:
		if path != "/two/1" {
			t.Errorf("the message is told as %s", path)
		}
	case <-time.After(waitTime):
		t.Error("the message of the first one is not delivered")
	}
	if _, err := second.Deploy(t.Context(), "shop", &client.Deploy{Rollback: true}); err != nil {
		t.Fatal(err)
	}
	if got := second.ask("shop", "/"); got != "one" {
		t.Errorf("after the rollback there, shop answers %q", got)
	}
}
