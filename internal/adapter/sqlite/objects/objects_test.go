package objects

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/ncruces/go-sqlite3"

	"github.com/runlot/runlot/internal/adapter/workerd/workerdtest"
)

// run runs SQL on a file, which is made when it is missing, and returns the first column of what it selects.
func run(t *testing.T, file, sql string) []string {
	t.Helper()
	c, err := sqlite3.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, tail, err := c.Prepare(sql)
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for s.Step() {
		rows = append(rows, s.ColumnText(0))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if tail != "" {
		return run(t, file, tail)
	}
	return rows
}

// TestAlarmsOfBothMoments: an alarm that was there before or behind the copy of its object is in the backup.
func TestAlarmsOfBothMoments(t *testing.T) {
	dir, scratch, out := t.TempDir(), t.TempDir(), t.TempDir()
	class := filepath.Join(dir, "shop", "shop-Room")
	if err := os.MkdirAll(class, 0o700); err != nil {
		t.Fatal(err)
	}
	alarms := filepath.Join(class, alarmsFile)
	run(t, alarms, "CREATE TABLE _cf_ALARM (actor_id TEXT PRIMARY KEY, scheduled_time INTEGER) WITHOUT ROWID; INSERT INTO _cf_ALARM VALUES ('fires', 1), ('stays', 1)")
	run(t, filepath.Join(class, "a.sqlite"), "PRAGMA journal_mode=WAL; CREATE TABLE t (x); INSERT INTO t VALUES ('kept')")
	var names []string
	err := Backup(t.Context(), dir, scratch, func(name, path string) error {
		names = append(names, name)
		if filepath.Base(name) == "a.sqlite" {
			run(t, alarms, "DELETE FROM _cf_ALARM WHERE actor_id = 'fires'; INSERT INTO _cf_ALARM VALUES ('new', 2); UPDATE _cf_ALARM SET scheduled_time = 3 WHERE actor_id = 'stays'")
		}
		return os.Link(path, filepath.Join(out, filepath.Base(name)))
	})
	if err != nil || !slices.Equal(names, []string{"shop/shop-Room/a.sqlite", "shop/shop-Room/metadata.sqlite"}) {
		t.Fatal(names, err)
	}
	if got := run(t, filepath.Join(out, "a.sqlite"), "SELECT x FROM t"); !slices.Equal(got, []string{"kept"}) {
		t.Error(got)
	}
	got := run(t, filepath.Join(out, alarmsFile), "SELECT actor_id || scheduled_time FROM _cf_ALARM ORDER BY 1")
	if diff := cmp.Diff([]string{"fires1", "new2", "stays3"}, got); diff != "" {
		t.Error(diff)
	}
	if left, err := os.ReadDir(scratch); err != nil || len(left) != 0 {
		t.Error(left, err)
	}
}

// TestBackupOfARunningProcess: the objects of a workerd that runs are copied as they are, with their alarms.
func TestBackupOfARunningProcess(t *testing.T) {
	dir, code := t.TempDir(), t.TempDir()
	folder := filepath.Join(dir, "shop")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	const script = `import { DurableObject } from "cloudflare:workers";
export class Room extends DurableObject {
  async fetch() { await this.ctx.storage.put("n", "seven"); await this.ctx.storage.setAlarm(Date.now() + 3600_000); return new Response("ok"); }
  alarm() {}
}
export default { fetch: (request, env) => env.ROOM.getByName(new URL(request.url).pathname).fetch(request) };`
	if err := os.WriteFile(filepath.Join(code, "main.mjs"), []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	url := workerdtest.Serve(t, code, fmt.Sprintf(`using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (services = [
  (name = "user", worker = (modules = [(name = "main.mjs", esModule = embed "main.mjs")], compatibilityDate = "2026-11-01",
   durableObjectNamespaces = [(className = "Room", uniqueKey = "shop-Room", enableSql = true)], durableObjectStorage = (localDisk = "disk"),
   bindings = [(name = "ROOM", durableObjectNamespace = "Room")])),
  (name = "disk", disk = (path = %q, writable = true))],
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "user")]);`, folder))
	for _, room := range []string{"one", "two"} {
		if got := workerdtest.Get(t, url+room); got != "ok" {
			t.Fatal(got)
		}
	}
	values := 0
	alarms := []string{}
	err := Backup(t.Context(), dir, t.TempDir(), func(name, path string) error {
		if filepath.Base(name) == alarmsFile {
			alarms = run(t, path, "SELECT actor_id FROM _cf_ALARM")
			return nil
		}
		if diff := cmp.Diff([]string{"n"}, run(t, path, "SELECT key FROM _cf_KV WHERE value IS NOT NULL")); diff != "" {
			t.Error(diff)
		}
		values++
		return nil
	})
	if err != nil || values != 2 || len(alarms) != 2 {
		t.Errorf("%d objects, %d alarms, %v", values, len(alarms), err)
	}
	if got := workerdtest.Get(t, url+"one"); got != "ok" {
		t.Error(got)
	}
}
