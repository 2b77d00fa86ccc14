package basebackup_test

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/runlot/runlot/internal/adapter/postgres/basebackup"
	"github.com/runlot/runlot/internal/adapter/postgres/cluster"
	"github.com/runlot/runlot/internal/adapter/postgres/cluster/clustertest"
	"github.com/runlot/runlot/internal/adapter/postgres/cluster/install"
	"github.com/runlot/runlot/internal/core/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(clustertest.Main(m)) }

func copyOf(ctx context.Context, t *testing.T, dir string, each func(*tar.Header, io.Reader) error) error {
	t.Helper()
	config, err := cluster.Replication(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = basebackup.Copy(ctx, basebackup.Options{Config: config, Each: each})
	return err
}

func ignore(*tar.Header, io.Reader) error { return nil }

// TestWhatStopsACopy: each leaves no session and no slot, which would keep the log for ever.
func TestWhatStopsACopy(t *testing.T) {
	c, dir := clustertest.Start(t)
	admin, err := c.Admin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = admin.Close(context.WithoutCancel(t.Context())) }()
	clustertest.Exec(t, admin, "CREATE TABLE big AS SELECT repeat('x', 1000) FROM generate_series(1, 10000)")
	clustertest.Exec(t, admin, "CHECKPOINT")
	if err := copyOf(t.Context(), t, dir, ignore); err != nil {
		t.Fatalf("a whole server: %s", fault.Detail(err))
	}
	mine := errors.New("mine")
	if err := copyOf(t.Context(), t, dir, func(*tar.Header, io.Reader) error { return mine }); !errors.Is(err, mine) {
		t.Errorf("an error of Each: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = copyOf(ctx, t, dir, func(*tar.Header, io.Reader) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a copy that is stopped: %v", err)
	}

	account, err := install.FindAccount(filepath.Join(dir, "data"))
	if err != nil {
		t.Fatal(err)
	}
	outside := clustertest.Dir(t)
	if err := account.Give(outside); err != nil {
		t.Fatal(err)
	}
	clustertest.Exec(t, admin, "CREATE TABLESPACE outside LOCATION '"+outside+"'")
	if err := copyOf(t.Context(), t, dir, ignore); fault.KindOf(err) != fault.Environment || fault.From(err).Code != "postgres_tablespace" {
		t.Errorf("a tablespace: %v", err)
	}
	clustertest.Exec(t, admin, "DROP TABLESPACE outside")

	name := clustertest.One[string](t, admin, "SELECT pg_relation_filepath('big')")
	file, err := os.OpenFile(filepath.Join(dir, "data", name), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.WriteAt([]byte("rot"), 5000)
	if err = errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	if err := copyOf(t.Context(), t, dir, ignore); err == nil || fault.From(err).Code != "postgres_damaged" {
		t.Errorf("a damaged page: %v", err)
	}
	// A session that was cut off ends when the server next writes to it.
	if n := clustertest.One[int](t, admin, "SELECT count(*)::int FROM pg_replication_slots WHERE NOT temporary"); n != 0 {
		t.Errorf("%d slots last", n)
	}
}

// TestTheLogIsHeldBack: what is written while a copy lasts makes the server recycle its log, but not what the copy needs.
func TestTheLogIsHeldBack(t *testing.T) {
	c, dir := clustertest.Start(t)
	admin, err := c.Admin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = admin.Close(context.WithoutCancel(t.Context())) }()
	for _, sql := range []string{
		"ALTER SYSTEM SET min_wal_size = '32MB'", "ALTER SYSTEM SET max_wal_size = '32MB'", "SELECT pg_reload_conf()", "CREATE TABLE big (x text)",
	} {
		clustertest.Exec(t, admin, sql)
	}
	written, logs := false, 0
	err = copyOf(t.Context(), t, dir, func(h *tar.Header, _ io.Reader) error {
		if strings.HasPrefix(h.Name, "pg_wal/0") {
			logs++
		}
		if written {
			return nil
		}
		written = true
		for range 4 {
			clustertest.Exec(t, admin, "INSERT INTO big SELECT repeat('x', 1000) FROM generate_series(1, 40000)")
			clustertest.Exec(t, admin, "CHECKPOINT")
		}
		return nil
	})
	if err != nil {
		t.Fatal(fault.Detail(err))
	}
	if logs < 8 {
		t.Errorf("the copy has %d files of the log", logs)
	}
}

func TestNoServer(t *testing.T) {
	if _, err := cluster.Replication(t.TempDir()); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("no server: %v", err)
	}
}
