package cluster_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/runlot/runlot/internal/adapter/postgres/cluster"
	"github.com/runlot/runlot/internal/adapter/postgres/cluster/clustertest"
	"github.com/runlot/runlot/internal/core/fault"
)

func TestCheckOfOurOwn(t *testing.T) {
	access := clustertest.NewDatabase(t)
	c := clustertest.Cluster(t)
	check := func() error {
		report, err := cluster.Check(t.Context(), access.OwnerURL())
		if err == nil && (!strings.HasPrefix(report.Version, c.Version()) || len(report.Warnings) > 0) {
			t.Errorf("report %+v", report)
		}
		return err
	}
	if err := check(); err != nil {
		t.Fatal(fault.Detail(err))
	}
	owner := connect(t, access.OwnerURL())
	exec1(t, owner, "CREATE SCHEMA runlot_queue")
	if err := check(); err != nil {
		t.Fatal(fault.Detail(err))
	}
	_, err := cluster.Check(t.Context(), access.AppURL())
	wantFault(t, err, fault.Environment, "database_rights", access.App.User, "ALTER SCHEMA runlot_queue")
	exec1(t, owner, "DROP SCHEMA runlot_queue; REVOKE CREATE ON DATABASE "+pgx.Identifier{access.Database}.Sanitize()+" FROM "+pgx.Identifier{access.App.User}.Sanitize())
	_, err = cluster.Check(t.Context(), access.AppURL())
	wantFault(t, err, fault.Environment, "database_rights", access.App.User, "GRANT CREATE")
	exec1(t, owner, "ALTER ROLE CURRENT_USER SET default_transaction_read_only = on")
	wantFault(t, check(), fault.Environment, "database_read_only", access.Owner.User)
	exec1(t, owner, "ALTER ROLE CURRENT_USER RESET default_transaction_read_only")
	exec1(t, owner, "ALTER ROLE CURRENT_USER SET synchronous_commit = off")
	wantFault(t, check(), fault.Environment, "database_synchronous_commit", "ALTER ROLE")
}

func TestCheckOfWhatDoesNotAnswer(t *testing.T) {
	access := clustertest.NewDatabase(t)
	wrong, missing := access, access
	wrong.Owner.Password = "hunter2"
	missing.Database = "missing"
	for name, test := range map[string]struct {
		url  string
		kind fault.Kind
		code string
		word string
	}{
		"no address":     {"nonsense hunter2", fault.Invalid, "database_url", "postgres://"},
		"bad port":       {"postgres://u:hunter2@127.0.0.1:port/x", fault.Invalid, "database_url", "postgres://"},
		"nobody there":   {"postgres://u:hunter2@127.0.0.1:1/x", fault.Unavailable, "database_connect", "127.0.0.1:1"},
		"wrong password": {wrong.OwnerURL(), fault.Environment, "database_connect", "password"},
		"no database":    {missing.OwnerURL(), fault.Environment, "database_connect", "CREATE DATABASE"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := cluster.Check(t.Context(), test.url)
			wantFault(t, err, test.kind, test.code, test.word)
			if strings.Contains(fault.Detail(err), "hunter2") {
				t.Errorf("the password is in %q", fault.Detail(err))
			}
		})
	}
}

// TestCheckOfUnsafeServer runs servers with settings that the embedded one does not allow.
func TestCheckOfUnsafeServer(t *testing.T) {
	dir := newDir(t)
	c, _ := start(t, dir)
	access := ensure(t, c, "default")
	admin, err := c.Admin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	exec1(t, admin, "CREATE DATABASE ascii ENCODING 'SQL_ASCII' LOCALE 'C' LOCALE_PROVIDER libc TEMPLATE template0 OWNER "+access.Owner.User)
	admin.Close(t.Context())
	stop(t, c)
	for _, test := range []struct {
		setting, database, code, word string
	}{
		{"fsync=off", "default", "database_fsync", "power cut"},
		{"synchronous_commit=off", "default", "database_synchronous_commit", "synchronous_commit"},
		{"full_page_writes=on", "ascii", "database_encoding", "SQL_ASCII"},
		{"full_page_writes=off", "default", "", "full_page_writes"},
	} {
		t.Run(test.setting, func(t *testing.T) {
			access := access
			access.SocketDir, _ = startByHand(t, dir, test.setting)
			access.Database = test.database
			report, err := cluster.Check(t.Context(), access.OwnerURL())
			if test.code != "" {
				wantFault(t, err, fault.Environment, test.code, test.word)
				return
			}
			if err != nil || !strings.Contains(strings.Join(report.Warnings, ""), test.word) {
				t.Errorf("report %+v, %v", report, err)
			}
		})
	}
}

// TestCheckOfVersion15 needs Debian's PostgreSQL 15, the oldest that is supported.
func TestCheckOfVersion15(t *testing.T) {
	bin := "/usr/lib/postgresql/15/bin"
	if _, err := os.Stat(bin); err != nil {
		t.Skip("no PostgreSQL 15 here")
	}
	dir := newDir(t)
	attributes := &syscall.SysProcAttr{}
	if os.Geteuid() == 0 {
		attributes.Credential = &syscall.Credential{Uid: 65534, Gid: 65534}
		if err := os.Chown(dir, 65534, 65534); err != nil {
			t.Fatal(err)
		}
	}
	initdb := exec.CommandContext(t.Context(), filepath.Join(bin, "initdb"), "-D", dataOf(dir), "-U", "someone", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	initdb.SysProcAttr, initdb.Dir = attributes, "/"
	if out, err := initdb.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	server := exec.CommandContext(t.Context(), filepath.Join(bin, "postgres"), "-D", dataOf(dir), "-c", "listen_addresses=", "-c", "unix_socket_directories="+dir)
	server.SysProcAttr, server.Dir = attributes, "/"
	out := &recorder{}
	server.Stderr = out
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Process.Signal(syscall.SIGINT); server.Wait() })
	for !strings.Contains(out.text(), "ready to accept connections") {
	}
	report, err := cluster.Check(t.Context(), fmt.Sprintf("host=%s user=someone dbname=postgres", dir))
	if err != nil || !strings.HasPrefix(report.Version, "15.") || len(report.Warnings) > 0 {
		t.Errorf("report %+v, %v", report, err)
	}
}
