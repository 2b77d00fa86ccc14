package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/goleak"

	"github.com/runlot/runlot/internal/adapter/postgres"
	"github.com/runlot/runlot/internal/adapter/postgres/cluster"
	"github.com/runlot/runlot/internal/adapter/postgres/cluster/clustertest"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/engine/broker/store"
	"github.com/runlot/runlot/internal/engine/broker/storetest"
	"github.com/runlot/runlot/internal/engine/broker/storetest/lookup"
	"github.com/runlot/runlot/internal/engine/broker/storetest/removaltest"
	"github.com/runlot/runlot/internal/engine/broker/storetest/undotest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(clustertest.Main(m)) }

// database is a fresh database with the ways into it.
type database struct {
	access cluster.Access
}

func newDatabase(t *testing.T) *database {
	return &database{access: clustertest.NewDatabase(t)}
}

// open opens a store, which is closed after the test.
func (d *database) open(t *testing.T) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), d.options())
	clustertest.Must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Error(fault.Detail(err))
		}
	})
	return s
}

func (d *database) options() postgres.Options {
	return postgres.Options{URL: d.access.OwnerURL(), AppRole: d.access.App.User, Node: "test", Log: slog.New(slog.DiscardHandler)}
}

// connect opens a session of the owner's role, and app one of the app's.
func (d *database) connect(t *testing.T) *pgx.Conn {
	return clustertest.Connect(t, d.access.OwnerURL())
}

func (d *database) app(t *testing.T) *pgx.Conn { return clustertest.Connect(t, d.access.AppURL()) }

func TestStoreContract(t *testing.T) { storeContract(t, newDatabase) }

func TestLookupContract(t *testing.T) {
	lookup.Run(t, func(t *testing.T) store.Store { return newDatabase(t).open(t) })
}

func TestStoreContractOnTheOldestServer(t *testing.T) {
	dir := clustertest.Version15(t)
	number := 0
	storeContract(t, func(t *testing.T) *database {
		number++
		name := fmt.Sprintf("contract_%d", number)
		access := cluster.Access{
			Database: name, SocketDir: dir, Port: 5432,
			Owner: cluster.Role{User: clustertest.Superuser}, App: cluster.Role{User: "app_" + name},
		}
		admin := access
		admin.Database = "postgres"
		conn := clustertest.Connect(t, admin.OwnerURL())
		clustertest.Exec(t, conn, "CREATE DATABASE "+name)
		clustertest.Exec(t, conn, "CREATE ROLE app_"+name+" LOGIN")
		return &database{access: access}
	})
}

func storeContract(t *testing.T, newDatabase func(*testing.T) *database) {
	open := func(t *testing.T) storetest.Subject {
		d := newDatabase(t)
		app := d.app(t)
		return storetest.Subject{
			Store:   d.open(t),
			Another: func(t *testing.T) store.Store { return d.open(t) },
			Enqueue: func(t *testing.T, queueName, body string, delay time.Duration) {
				clustertest.Exec(t, app, "SELECT runlot_queue.send($1, $2, $3)", queueName, body, delay)
			},
			TryEnqueue: func(t *testing.T, queueName, body string) string {
				_, err := app.Exec(t.Context(), "SELECT runlot_queue.send($1, $2)", queueName, body)
				if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
					return refused.Code + ": " + refused.Message + " " + refused.Hint
				}
				clustertest.Must(t, err)
				return ""
			},
			Sever: func(t *testing.T) {
				// The session that brought the schema up to date may still be on its way out, with a lock of its own.
				const sql = `SELECT count(pg_terminate_backend(l.pid)) FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
					WHERE l.locktype = 'advisory' AND l.granted AND a.datname = current_database() AND a.application_name LIKE 'runlot/%'`
				if n := clustertest.One[int](t, d.connect(t), sql); n != 1 {
					t.Fatalf("%d sessions hold the ownership", n)
				}
			},
		}
	}
	storetest.Run(t, open)
	removaltest.Run(t, open)
	undotest.Run(t, open)
}
