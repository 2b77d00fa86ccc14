package model_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/runlot/runlot/internal/adapter/memory"
	"github.com/runlot/runlot/internal/adapter/postgres"
	"github.com/runlot/runlot/internal/adapter/postgres/cluster/clustertest"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

var (
	seed     = flag.Uint64("seed", 0, "run only the program of this seed")
	programs = flag.Uint64("programs", 60, "number of programs on PostgreSQL; ten times as many run in memory")
)

func TestMain(m *testing.M) {
	// A program waits for most of its time, so more of them run at a time than there are processors, unless a flag says otherwise.
	_ = flag.Set("test.parallel", fmt.Sprint(together))
	goleak.VerifyTestMain(clustertest.Main(m))
}

// seeds returns the seeds to run, from the first to the last.
func seeds(n uint64) (first, last uint64) {
	if *seed != 0 {
		return *seed, *seed
	}
	return 1, n
}

// tell prints a program that failed, and how to run it again.
func tell(t *testing.T, p *program) {
	t.Logf("again: go test ./test/model -run '%s' -seed %d", t.Name(), p.seed)
	for i := range p.steps {
		t.Logf("%3d %s", i+1, &p.steps[i])
	}
}

// TestProgramsInMemory: random programs keep every promise about a message, on a clock that jumps.
func TestProgramsInMemory(t *testing.T) {
	first, last := seeds(10 * *programs)
	for n := first; n <= last && !t.Failed(); n++ {
		p := newProgram(n)
		synctest.Test(t, func(t *testing.T) {
			db := memory.NewDatabase()
			lands := false
			execute(t, &world{
				open:    func() (store.Store, func()) { return db.Open(), func() {} },
				enqueue: db.Enqueue,
				sever: func(bool) {
					lands = !lands
					db.Crash(func() bool { return lands })
				},
				unit: 5 * time.Second, handlerTime: 30 * time.Second, retention: 2 * time.Minute, patience: time.Hour,
			}, p)
		})
	}
	t.Logf("seeds %d to %d", first, last)
}

// together is the number of programs that run on PostgreSQL at a time: they wait for most of it.
const together = 12

// TestProgramsOnPostgreSQL: the same on the real store, broker and dispatcher.
func TestProgramsOnPostgreSQL(t *testing.T) {
	first, last := seeds(*programs)
	var next atomic.Uint64
	next.Store(first)
	t.Run("group", func(t *testing.T) {
		for i := range min(together, last-first+1) {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				w := realWorld(t)
				for n := next.Add(1) - 1; n <= last && !t.Failed(); n = next.Add(1) - 1 {
					execute(t, w, newProgram(n))
					t.Logf("seed %d has ended", n)
				}
			})
		}
	})
	t.Logf("seeds %d to %d", first, last)
}

func realWorld(t *testing.T) *world {
	access := clustertest.NewDatabase(t)
	app, admin := clustertest.Connect(t, access.AppURL()), clustertest.Connect(t, access.OwnerURL())
	return &world{
		open: func() (store.Store, func()) {
			s, err := postgres.Open(t.Context(), postgres.Options{URL: access.OwnerURL(), AppRole: access.App.User, Node: "test", Log: slog.New(slog.DiscardHandler)})
			clustertest.Must(t, err)
			return s, func() {
				// After a lost session there is nothing that could close cleanly.
				_ = s.Close(context.Background())
			}
		},
		enqueue: func(queueName, body string, delay time.Duration) error {
			_, err := app.Exec(t.Context(), "SELECT runlot_queue.send($1, $2, $3)", queueName, body, delay)
			return err
		},
		sever: func(all bool) {
			const owner = `SELECT count(pg_terminate_backend(pid)) FROM pg_locks
				WHERE locktype = 'advisory' AND granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`
			const node = `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
				WHERE datname = current_database() AND backend_type = 'client backend' AND pid NOT IN (pg_backend_pid(), $1)`
			if all {
				clustertest.One[int](t, admin, node, app.PgConn().PID())
			} else {
				clustertest.One[int](t, admin, owner)
			}
		},
		unit: 20 * time.Millisecond, handlerTime: 120 * time.Millisecond, retention: time.Minute, patience: time.Minute,
	}
}
