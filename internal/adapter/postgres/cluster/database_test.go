package cluster_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/runlot/runlot/internal/adapter/postgres/cluster"
	"github.com/runlot/runlot/internal/adapter/postgres/cluster/clustertest"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/fault/faulttest"
)

func TestRights(t *testing.T) {
	access, other := clustertest.NewDatabase(t), clustertest.NewDatabase(t)
	owner, app := clustertest.Connect(t, access.OwnerURL()), clustertest.Connect(t, access.AppURL())
	clustertest.Exec(t, owner, "CREATE SCHEMA runlot_queue; CREATE TABLE runlot_queue.message (body bytea)")
	clustertest.Exec(t, app, "CREATE TABLE rows (id int); INSERT INTO rows VALUES (1); CREATE SCHEMA drizzle; CREATE TEMPORARY TABLE t (); CREATE EXTENSION pgcrypto")
	admin, err := clustertest.Cluster(t).Admin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(t.Context())
	for name, test := range map[string]struct {
		conn *pgx.Conn
		sql  string
	}{
		"app reads the queues":           {app, "SELECT FROM runlot_queue.message"},
		"app takes the queues":           {app, "DROP SCHEMA runlot_queue CASCADE"},
		"app makes a role":               {app, "CREATE ROLE another"},
		"app makes a database":           {app, "CREATE DATABASE another"},
		"app becomes the owner":          {app, `SET ROLE "` + access.Owner.User + `"`},
		"app reads a file":               {app, "COPY rows FROM '/etc/passwd'"},
		"app runs a program":             {app, "COPY rows TO PROGRAM 'true'"},
		"app ends a session of theirs":   {app, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '" + access.Owner.User + "'"},
		"owner makes a role":             {owner, "CREATE ROLE another"},
		"owner runs a program":           {owner, "COPY (SELECT 1) TO PROGRAM 'true'"},
		"owner ends the administrator's": {owner, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'runlot'"},
	} {
		if _, err := test.conn.Exec(t.Context(), test.sql); err == nil {
			t.Errorf("%s: allowed", name)
		}
	}
	doomed := clustertest.Connect(t, access.OwnerURL())
	if got := clustertest.One[string](t, owner, "SELECT pg_terminate_backend($1, 10000)::text", doomed.PgConn().PID()); got != "true" {
		t.Errorf("the owner cannot end its own session: %s", got)
	}
	for _, role := range []cluster.Role{access.Owner, access.App} {
		for _, database := range []string{other.Database, "postgres", "template1"} {
			foreign := other
			foreign.Database, foreign.App = database, role
			if conn, err := pgx.Connect(t.Context(), foreign.AppURL()); err == nil {
				conn.Close(t.Context())
				t.Errorf("%s enters %s", role.User, database)
			}
		}
	}
	wrong := access
	wrong.App.Password = "wrong"
	if conn, err := pgx.Connect(t.Context(), wrong.AppURL()); err == nil {
		conn.Close(t.Context())
		t.Error("a wrong password is let in")
	}
}

func TestEnsureDatabaseTwice(t *testing.T) {
	c := clustertest.Cluster(t)
	var wait sync.WaitGroup
	got := make([]cluster.Access, 4)
	for i := range got {
		wait.Go(func() {
			var err error
			if got[i], err = c.EnsureDatabase(t.Context(), "twice"); err != nil {
				t.Error(fault.Detail(err))
			}
		})
	}
	wait.Wait()
	for _, access := range got {
		if access != got[0] {
			t.Errorf("%v and %v", access, got[0])
		}
	}
	// What the user changes stays.
	clustertest.Exec(t, clustertest.Connect(t, got[0].AppURL()), "DROP SCHEMA public")
	again := ensure(t, c, "twice")
	if got := clustertest.One[string](t, clustertest.Connect(t, again.OwnerURL()), "SELECT count(*)::text FROM pg_namespace WHERE nspname = 'public'"); got != "0" {
		t.Error("the schema public came back")
	}
}

func TestDatabaseNames(t *testing.T) {
	c := clustertest.Cluster(t)
	for _, name := range []string{"", "-a", "postgres", "template0", "template1", "a b", `a"b`, "a.b", strings.Repeat("a", 64)} {
		_, err := c.EnsureDatabase(t.Context(), name)
		faulttest.Want(t, err, fault.Invalid, "database_name", "a database name has")
	}
	seen := map[string]bool{}
	for _, name := range []string{"pg_x", "Upper-Case", "1", strings.Repeat("a", 62) + "b", strings.Repeat("a", 62) + "c"} {
		access := ensure(t, c, name)
		if seen[access.App.User] {
			t.Errorf("%s shares the role %s", name, access.App.User)
		}
		seen[access.App.User] = true
		clustertest.Exec(t, clustertest.Connect(t, access.AppURL()), "CREATE TABLE here ()")
		clustertest.Exec(t, clustertest.Connect(t, access.OwnerURL()), "CREATE SCHEMA runlot_queue")
	}
}

// TestEnsureDatabaseMendsWhatACrashLeft loses one half or the other of what EnsureDatabase does.
func TestEnsureDatabaseMendsWhatACrashLeft(t *testing.T) {
	dir := clustertest.Dir(t)
	c, _ := start(t, dir)
	ensure(t, c, "default")
	stop(t, c)
	path := filepath.Join(dir, "credentials.json")
	for name, spoil := range map[string]func(t *testing.T, file map[string]any, c *cluster.Cluster){
		"passwords lost": func(_ *testing.T, file map[string]any, _ *cluster.Cluster) { file["databases"] = nil },
		"not ready": func(_ *testing.T, file map[string]any, _ *cluster.Cluster) {
			file["databases"].(map[string]any)["default"].(map[string]any)["ready"] = false
		},
		"database dropped": func(t *testing.T, _ map[string]any, c *cluster.Cluster) {
			admin, err := c.Admin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer admin.Close(t.Context())
			clustertest.Exec(t, admin, `DROP DATABASE "default"`)
			clustertest.Exec(t, admin, `DROP ROLE "app_default"`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			file := map[string]any{}
			if err := json.Unmarshal(text, &file); err != nil {
				t.Fatal(err)
			}
			c, _ := start(t, dir)
			spoil(t, file, c)
			if text, err = json.Marshal(file); err != nil {
				t.Fatal(err)
			}
			stop(t, c)
			write(t, path, string(text))
			c, _ = start(t, dir)
			access := ensure(t, c, "default")
			clustertest.Exec(t, clustertest.Connect(t, access.AppURL()), "CREATE TABLE here (); DROP TABLE here")
			clustertest.Exec(t, clustertest.Connect(t, access.OwnerURL()), "CREATE SCHEMA runlot_queue; DROP SCHEMA runlot_queue")
		})
	}
}

// TestWrongPasswordsAreThoseOfTheFile: a password that the server does not take is said to be wrong in the file that it came
// from, and the way out that is named leads out.
func TestWrongPasswordsAreThoseOfTheFile(t *testing.T) {
	dir := clustertest.Dir(t)
	c, _ := start(t, dir)
	ensure(t, c, "default")
	path := filepath.Join(dir, "credentials.json")
	edit := func(change func(file map[string]any)) {
		t.Helper()
		stop(t, c)
		text, err := os.ReadFile(path)
		clustertest.Must(t, err)
		file := map[string]any{}
		clustertest.Must(t, json.Unmarshal(text, &file))
		change(file)
		text, err = json.Marshal(file)
		clustertest.Must(t, err)
		write(t, path, string(text))
		c, _ = start(t, dir)
	}
	edit(func(file map[string]any) {
		file["databases"].(map[string]any)["default"].(map[string]any)["owner"] = "wrong"
	})
	_, err := c.EnsureDatabase(t.Context(), "default")
	faulttest.Want(t, err, fault.Environment, "credentials", path, "owner_default", "new passwords")
	edit(func(file map[string]any) { delete(file["databases"].(map[string]any), "default") })
	access := ensure(t, c, "default")
	clustertest.Exec(t, clustertest.Connect(t, access.OwnerURL()), "CREATE SCHEMA runlot_queue")
	edit(func(file map[string]any) { file["admin"] = "wrong" })
	_, err = c.EnsureDatabase(t.Context(), "default")
	faulttest.Want(t, err, fault.Environment, "credentials", path, "administrator", "backup")
}

func TestSecretsStayInTheirFile(t *testing.T) {
	dir := clustertest.Dir(t)
	c, r := start(t, dir)
	access := ensure(t, c, "default")
	conn := clustertest.Connect(t, access.AppURL())
	if _, err := conn.Exec(t.Context(), "SELECT 'a secret of theirs' FROM nowhere"); err == nil {
		t.Fatal("no error")
	}
	stop(t, c)
	path := filepath.Join(dir, "credentials.json")
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v (%v)", info.Mode(), err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Admin string }
	if err := json.Unmarshal(text, &file); err != nil || len(file.Admin) < 26 {
		t.Fatalf("%s (%v)", text, err)
	}
	for _, secret := range []string{access.App.Password, access.Owner.Password, file.Admin, "a secret of theirs"} {
		if strings.Contains(r.text(), secret) {
			t.Errorf("the log has %q", secret)
		}
	}
	if !strings.Contains(r.text(), "ready to accept connections") {
		t.Error("the log has nothing of the server")
	}
}
