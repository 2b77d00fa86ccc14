package desk_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/daemon/d1"
	"github.com/runlot/runlot/internal/daemon/desk"
	"github.com/runlot/runlot/internal/daemon/state"
	"github.com/runlot/runlot/internal/engine/broker/store"
	"github.com/runlot/runlot/internal/engine/series"
	"github.com/runlot/runlot/internal/server/api/crons"
	"github.com/runlot/runlot/internal/server/api/reach"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// none has no database, and no app to run.
type none struct{ crons.Instance }

func (none) D1() *d1.Databases          { return nil }
func (none) Databases() []string        { return nil }
func (none) Manifests() []*app.Manifest { return nil }

func (none) Series(string) *series.Recorder { return nil }

func (none) Removable(context.Context, string, string) error { return nil }

func (none) RemoveQueue(context.Context, string, string) (store.Count, error) {
	return store.Count{}, nil
}

func (none) Database(context.Context, string) (reach.Database, error) {
	return reach.Database{}, fault.New(fault.NotFound, "none", "there is none")
}

func TestADeskIsFoundWhileItIsOpen(t *testing.T) {
	dir, ctx := t.TempDir(), t.Context()
	if err := os.Mkdir(state.RunDir(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, ok := desk.Read(ctx, dir); ok {
		t.Error("a desk is found before it is open")
	}
	d, err := desk.Open(ctx, dir, none{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(state.RunDir(dir), "api.json")
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	door, ok := desk.Read(ctx, dir)
	if !ok {
		t.Fatal("an open desk is not found")
	}
	c, err := client.New(door.Server, door.Token)
	if err != nil {
		t.Fatal(err)
	}
	if list, err := c.Queues(ctx, ""); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	_, err = c.Apps(ctx)
	if e, ok := errors.AsType[*client.Error](err); !ok || e.Code != "path_unknown" {
		t.Errorf("a call about apps: %v", err)
	}
	stranger, err := client.New(door.Server, "runlot_aaaaaaaa_bbbb")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stranger.Queues(ctx, ""); err == nil {
		t.Error("another token is accepted")
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	d.Close()
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file of a closed desk: %v", err)
	}
	// What a killed program leaves.
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, ok := desk.Read(ctx, dir); ok {
		t.Error("a desk is found where none answers")
	}
	(*desk.Desk)(nil).Close()
}
