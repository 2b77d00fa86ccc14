// Package clustertest gives tests a real PostgreSQL: one embedded cluster for each test package, started by the first
// test that asks, and a database of its own for each test.
//
//	func TestMain(m *testing.M) { os.Exit(clustertest.Main(m).Run()) }
//
//	func TestStore(t *testing.T) {
//		access := clustertest.NewDatabase(t)
//		conn, err := pgx.Connect(t.Context(), access.OwnerURL())
//		…
//
// The build of PostgreSQL is found as the product finds it, from the working folder of the tests upwards.
package clustertest

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/runlot/runlot/internal/adapter/binaries"
	"github.com/runlot/runlot/internal/adapter/postgres/cluster"
)

// Suite is a package's tests with the cluster that they share. It can be given to goleak.VerifyTestMain.
type Suite struct{ m *testing.M }

// Main prepares the tests of a package.
func Main(m *testing.M) *Suite { return &Suite{m: m} }

// Run runs the tests, then stops the cluster, if one was started, and removes it.
func (s *Suite) Run() int {
	code := s.m.Run()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.cluster == nil {
		return code
	}
	err := shared.cluster.Stop(context.Background())
	if errRemove := os.RemoveAll(shared.dir); err == nil {
		err = errRemove
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "clustertest:", err)
		return max(code, 1)
	}
	return code
}

var shared struct {
	mu      sync.Mutex
	cluster *cluster.Cluster
	dir     string
	err     error
}

var databases atomic.Int64

// Install returns the folder of the PostgreSQL build.
func Install() (string, error) { return binaries.Postgres(".") }

// Dir makes a folder that the server's user can go through, also when the tests run as root. It is removed after the
// test.
func Dir(tb testing.TB) string {
	tb.Helper()
	dir, err := newDir()
	if err != nil {
		tb.Fatalf("clustertest: %v", err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func newDir() (string, error) {
	dir, err := os.MkdirTemp("", "runlot-test-")
	if err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o711) //nolint:gosec // names inside are not secret
}

// Cluster returns the package's cluster and starts it for the first test. Tests that break their server start one of
// their own.
func Cluster(tb testing.TB) *cluster.Cluster {
	tb.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.cluster == nil && shared.err == nil {
		shared.err = start()
	}
	if shared.err != nil {
		tb.Fatalf("clustertest: %v", shared.err)
	}
	return shared.cluster
}

func start() error {
	install, err := Install()
	if err != nil {
		return err
	}
	dir, err := newDir()
	if err != nil {
		return err
	}
	c, err := cluster.Start(context.Background(), cluster.Options{Install: install, Dir: dir})
	if err != nil {
		_ = os.RemoveAll(dir)
		return err
	}
	shared.cluster, shared.dir = c, dir
	return nil
}

// NewDatabase makes an empty database for the test, which is dropped after it, sessions and all.
func NewDatabase(tb testing.TB) cluster.Access {
	tb.Helper()
	c := Cluster(tb)
	access, err := c.EnsureDatabase(tb.Context(), databaseName(tb.Name()))
	if err != nil {
		tb.Fatalf("clustertest: %v", err)
	}
	tb.Cleanup(func() {
		if err := drop(context.Background(), c, &access); err != nil {
			tb.Errorf("clustertest: %v", err)
		}
	})
	return access
}

// databaseName tells in the server's lists which test a database belongs to.
func databaseName(test string) string {
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, test)
	return fmt.Sprintf("t%d_%.40s", databases.Add(1), clean)
}

func drop(ctx context.Context, c *cluster.Cluster, access *cluster.Access) error {
	admin, err := c.Admin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = admin.Close(ctx) }()
	quote := func(name string) string { return pgx.Identifier{name}.Sanitize() }
	for _, statement := range []string{
		"DROP DATABASE IF EXISTS " + quote(access.Database) + " WITH (FORCE)",
		"DROP ROLE IF EXISTS " + quote(access.Owner.User),
		"DROP ROLE IF EXISTS " + quote(access.App.User),
	} {
		if _, err := admin.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}
