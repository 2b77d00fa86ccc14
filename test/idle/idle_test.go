// Package idle_test holds the product to what queues without messages may cost: nothing that grows with their number.
package idle_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/runlot/runlot/internal/adapter/postgres/cluster/clustertest"
	"github.com/runlot/runlot/internal/config/source"
	"github.com/runlot/runlot/internal/daemon"
)

func TestMain(m *testing.M) { os.Exit(clustertest.Main(m).Run()) }

// many is the number of idle queues, window how long each measurement lasts, and tries how often it may be repeated: what
// the change of versions brought about takes long on a busy machine, and ends, while what idle queues cost stays.
const (
	many   = 300
	window = 4 * time.Second
	tries  = 8
)

// watcher is the observer of the daemon.
type watcher struct {
	t    *testing.T
	live chan int
}

func (w *watcher) Live(string, string, time.Duration, bool) { w.live <- 1 }
func (w *watcher) Started(*daemon.Summary)                  { w.live <- 1 }
func (w *watcher) Failed(_ string, err error)               { w.t.Error(err) }
func (w *watcher) Warnings(string, []source.Diagnostic)     {}
func (w *watcher) Batch(r *daemon.Record)                   { w.t.Errorf("an idle queue has a batch: %+v", r) }
func (w *watcher) Notice(text string)                       { w.t.Log(text) }
func (w *watcher) Progress(string)                          {}
func (w *watcher) Down(_, _ string)                         {}
func (w *watcher) Run(*daemon.CronRun)                      {}
func (w *watcher) Line(string, *daemon.Line)                {}
func (w *watcher) Stopping()                                {}

// await waits for a number of versions that go live.
func (w *watcher) await(count int) {
	w.t.Helper()
	for range count {
		select {
		case <-w.live:
		case <-time.After(2 * time.Minute):
			w.t.Fatal("no version went live")
		}
	}
}

// cost is what a process did in a window.
type cost struct {
	cpu        time.Duration
	statements int64
}

func TestIdleQueuesCostNothing(t *testing.T) {
	dir := t.TempDir()
	write := func(file, text string) {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	declare := func(queues int) {
		consumers := make([]string, queues)
		for i := range consumers {
			consumers[i] = fmt.Sprintf(`{ "queue": "idle-%d", "dead_letter_queue": "idle-dead" }`, i)
		}
		write("wrangler.json", `{ "name": "idle", "main": "index.js", "queues": { "consumers": [`+strings.Join(consumers, ", ")+`] } }`)
	}
	write("index.js", `export default { queue() {} };`)
	declare(1)

	url := clustertest.NewDatabase(t).OwnerURL()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	w := &watcher{t: t, live: make(chan int, 4)}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- daemon.Run(ctx, daemon.Options{
			Dirs: []string{dir}, State: filepath.Join(t.TempDir(), "state"), Host: "127.0.0.1", Watch: true,
			DatabaseURLs: map[string]string{"": url}, Log: slog.New(slog.DiscardHandler), Observer: w,
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	w.await(2)
	one := measure(t, conn)
	declare(many)
	w.await(1)
	for try := range tries {
		all := measure(t, conn)
		t.Logf("in %s: %+v with one queue, %+v with %d", window, one, all, many)
		statements, cpu := all.statements-one.statements, all.cpu-one.cpu
		if statements < many/3 && cpu <= window/8 {
			break
		}
		if try == tries-1 {
			t.Errorf("%d queues without messages run %d statements and take %s of processor time more in %s than one", many, statements, cpu, window)
		}
	}
}

// measure returns what this process costs while nothing is to be done.
func measure(t *testing.T, conn *pgx.Conn) cost {
	t.Helper()
	// What the change of versions brought about is over when it shows nowhere any more; the statistics of a session come
	// within a second of its last statement.
	settle := time.NewTimer(window / 2)
	<-settle.C
	before := now(t, conn)
	whole := time.NewTimer(window)
	<-whole.C
	after := now(t, conn)
	return cost{after.cpu - before.cpu, after.statements - before.statements}
}

func now(t *testing.T, conn *pgx.Conn) cost {
	t.Helper()
	var c cost
	if err := conn.QueryRow(t.Context(), "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()").Scan(&c.statements); err != nil {
		t.Fatal(err)
	}
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	c.cpu = time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	return c
}
