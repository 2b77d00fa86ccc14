package record_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/runlot/runlot/internal/adapter/postgres/cluster"
	"github.com/runlot/runlot/internal/adapter/postgres/cluster/clustertest"
	"github.com/runlot/runlot/internal/adapter/postgres/record"
	"github.com/runlot/runlot/internal/adapter/postgres/schema"
	"github.com/runlot/runlot/internal/adapter/postgres/session"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/engine/ledger/ledgertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(clustertest.Main(m)) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(fault.Detail(err))
	}
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func exec(t *testing.T, conn *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// open prepares an empty database and opens a store on it, which is closed after the test.
func open(t *testing.T, access cluster.Access) *record.Store {
	t.Helper()
	config, err := session.Parse(access.OwnerURL())
	must(t, err)
	must(t, schema.Prepare(t.Context(), config, access.App.User))
	s, err := record.Open(t.Context(), access.OwnerURL())
	must(t, err)
	t.Cleanup(s.Close)
	return s
}

func declare(t *testing.T, access cluster.Access, names ...string) {
	t.Helper()
	exec(t, connect(t, access.OwnerURL()), "INSERT INTO runlot_queue.queue (name) SELECT unnest($1::text[])", names)
}

func contract(t *testing.T, newDatabase func(t *testing.T) cluster.Access) {
	ledgertest.Run(t, func(t *testing.T) ledgertest.Subject {
		access := newDatabase(t)
		return ledgertest.Subject{
			Store:   open(t, access),
			Declare: func(t *testing.T, names ...string) { declare(t, access, names...) },
		}
	})
}

func TestContract(t *testing.T) {
	contract(t, func(t *testing.T) cluster.Access { return clustertest.NewDatabase(t) })
}

func TestContractOnTheOldestServer(t *testing.T) {
	dir := clustertest.Version15(t)
	number := 0
	contract(t, func(t *testing.T) cluster.Access {
		number++
		name := fmt.Sprintf("contract_%d", number)
		access := cluster.Access{
			Database: name, SocketDir: dir, Port: 5432,
			Owner: cluster.Role{User: clustertest.Superuser}, App: cluster.Role{User: "app_" + name},
		}
		admin := access
		admin.Database = "postgres"
		conn := connect(t, admin.OwnerURL())
		exec(t, conn, "CREATE DATABASE "+name)
		exec(t, conn, "CREATE ROLE app_"+name+" LOGIN")
		return access
	})
}
