package backup_test

import (
	"fmt"
	"log/slog"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/runlot/runlot/internal/adapter/postgres/cluster/clustertest"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/daemon/backup"
)

// TestDumpOfAnOwnPostgres: with a PostgreSQL of the operator's own, pg_dump and pg_restore of the database are enough for
// its messages.
func TestDumpOfAnOwnPostgres(t *testing.T) {
	socket := clustertest.Version15(t)
	program := func(name string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), filepath.Join("/usr/lib/postgresql/15/bin", name), append([]string{"-h", socket, "-U", clustertest.Superuser}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", name, err, out)
		}
	}
	address := func(database string) map[string]string {
		return map[string]string{"": fmt.Sprintf("postgres://%s@/%s?host=%s", clustertest.Superuser, database, socket)}
	}
	program("createdb", "first")
	told := newEar(t)
	data := t.TempDir()
	i := start(t, data, "", address("first"))
	i.deploy(told.url, "jobs")
	i.must("/send?to=JOBS&id=fail", "sent")
	told.wait(t, "jobs/fail/1")
	i.must("/send?to=JOBS&id=hang", "sent")
	told.wait(t, "jobs/hang/1")
	const delay = 15
	due := time.Now().Add(delay * time.Second)
	i.must(fmt.Sprintf("/send?to=JOBS&id=delayed&delay=%d", delay), "sent")
	i.must("/send?to=LATER&id=waiting", "sent")
	i.must("/store?id=before", "stored")
	dump := filepath.Join(t.TempDir(), "dump")
	program("pg_dump", "--format=custom", "--file", dump, "first")
	// What celld keeps in its folder is backed up by itself.
	file := filepath.Join(t.TempDir(), "backup.tar.gz")
	r, err := backup.Make(t.Context(), backup.Options{Data: data, File: file, WithKey: true, URLs: address("first"), Log: slog.New(slog.DiscardHandler), Progress: quiet})
	if err != nil {
		t.Fatal(fault.Detail(err))
	}
	if r.Manifest.Has("postgres") || !slices.Equal(r.Manifest.Elsewhere, []string{""}) {
		t.Errorf("the backup says %+v", r.Manifest)
	}
	told.release()
	i.stop()
	told.forget()

	program("createdb", "second")
	program("pg_restore", "--exit-on-error", "--dbname", "second", dump)
	copied := t.TempDir()
	if _, err := backup.Restore(t.Context(), backup.RestoreOptions{File: file, Data: copied, Progress: quiet}); err != nil {
		t.Fatal(fault.Detail(err))
	}
	i = start(t, copied, "", address("second"))
	i.must("/stored", "before+before+before+before")
	told.wait(t, "jobs/hang/1")
	if at := told.wait(t, "jobs/delayed/1"); at.Before(due.Add(-time.Second)) {
		t.Errorf("the delayed message came %s too early", due.Sub(at))
	}
	i.deploy(told.url, "jobs", "later", "jobs-dead")
	told.wait(t, "jobs-dead/fail/1")
	told.wait(t, "later/waiting/1")
	i.must("/send?to=JOBS&id=new", "sent")
	told.wait(t, "jobs/new/1")
}
