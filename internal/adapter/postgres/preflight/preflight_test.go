package preflight_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/runlot/runlot/internal/adapter/postgres/cluster/clustertest"
	"github.com/runlot/runlot/internal/adapter/postgres/cluster/install"
	"github.com/runlot/runlot/internal/adapter/postgres/preflight"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/fault/faulttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(clustertest.Main(m)) }

func TestCheckOfOurOwn(t *testing.T) {
	access := clustertest.NewDatabase(t)
	c := clustertest.Cluster(t)
	check := func() error {
		report, err := preflight.Check(t.Context(), access.OwnerURL())
		if err == nil && (!strings.HasPrefix(report.Version, c.Version()) || len(report.Warnings) > 0) {
			t.Errorf("report %+v", report)
		}
		return err
	}
	if err := check(); err != nil {
		t.Fatal(fault.Detail(err))
	}
	owner, err := pgx.Connect(t.Context(), access.OwnerURL())
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close(context.Background())
	clustertest.Exec(t, owner, "CREATE SCHEMA runlot_queue")
	if err := check(); err != nil {
		t.Fatal(fault.Detail(err))
	}
	_, err = preflight.Check(t.Context(), access.AppURL())
	faulttest.Want(t, err, fault.Environment, "database_rights", access.App.User, "ALTER SCHEMA runlot_queue")
	clustertest.Exec(t, owner, "DROP SCHEMA runlot_queue; REVOKE CREATE ON DATABASE "+pgx.Identifier{access.Database}.Sanitize()+" FROM "+pgx.Identifier{access.App.User}.Sanitize())
	_, err = preflight.Check(t.Context(), access.AppURL())
	faulttest.Want(t, err, fault.Environment, "database_rights", access.App.User, "GRANT CREATE")
	clustertest.Exec(t, owner, "ALTER ROLE CURRENT_USER SET default_transaction_read_only = on")
	faulttest.Want(t, check(), fault.Environment, "database_read_only", access.Owner.User)
	clustertest.Exec(t, owner, "ALTER ROLE CURRENT_USER RESET default_transaction_read_only")
	clustertest.Exec(t, owner, "ALTER ROLE CURRENT_USER SET synchronous_commit = off")
	faulttest.Want(t, check(), fault.Environment, "database_synchronous_commit", "ALTER ROLE")
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
		"a slash":        {"postgres://u:12/hunter2@127.0.0.1:1/x", fault.Invalid, "database_url", "%2F"},
		"a question":     {"postgres://u:12?hunter2@127.0.0.1:1/x", fault.Unavailable, "database_connect", "connection refused"},
		"a hash":         {"postgres://u:12#hunter2@127.0.0.1:1/x", fault.Unavailable, "database_connect", "connection refused"},
		"a hash behind":  {"postgres://u:12/#hunter2@127.0.0.1:1/x", fault.Invalid, "database_url", "%23"},
		"no colon":       {"postgres://u@hunter2@127.0.0.1:1/x", fault.Invalid, "database_url", "%40"},
		"an at sign":     {"postgres://u:a@hunter2@127.0.0.1:1/x", fault.Invalid, "database_url", "%40"},
		"a percent":      {"postgres://u:%hunter2@127.0.0.1:1/x", fault.Invalid, "database_url", "%25"},
		"a space":        {"postgres://u:a hunter2@127.0.0.1:1/x", fault.Invalid, "database_url", "postgres://"},
		"a bracket":      {"postgres://u:[hunter2@127.0.0.1:1/x", fault.Unavailable, "database_connect", "connection refused"},
		"a control":      {"postgres://u:hunter2\x01@127.0.0.1:1/x", fault.Unavailable, "database_connect", "connection refused"},
		"pairs":          {"host=127.0.0.1 port=x password=hunter2", fault.Invalid, "database_url", "postgres://"},
		"pairs cut":      {"host=127.0.0.1 port=1 password=a hunter2", fault.Invalid, "database_url", "postgres://"},
		"a path":         {"postgres://u:12/a?b=hunter2@127.0.0.1:1/x", fault.Invalid, "database_url", "%2F"},
		"in the query":   {"postgres://127.0.0.1:1/x?password=hunter2&port=x", fault.Invalid, "database_url", "postgres://"},
		"nobody there":   {"postgres://u:hunter2@127.0.0.1:1/x", fault.Unavailable, "database_connect", "connection refused"},
		"wrong password": {wrong.OwnerURL(), fault.Environment, "database_connect", "password"},
		"no database":    {missing.OwnerURL(), fault.Environment, "database_connect", "CREATE DATABASE"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := preflight.Check(t.Context(), test.url)
			faulttest.Want(t, err, test.kind, test.code, test.word)
			if said := fault.From(err).Message; strings.Count(said, "connection refused") > 1 {
				t.Errorf("the reason is said more than once: %q", said)
			}
			if strings.Contains(fault.Detail(err), "hunter2") {
				t.Errorf("the password is in %q", fault.Detail(err))
			}
		})
	}
}

// TestCheckOfUnsafeServer runs servers with settings that the embedded one does not allow.
func TestCheckOfUnsafeServer(t *testing.T) {
	c, dir := clustertest.Start(t)
	access, err := c.EnsureDatabase(t.Context(), "default")
	if err != nil {
		t.Fatal(fault.Detail(err))
	}
	admin, err := c.Admin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	clustertest.Exec(t, admin, "CREATE DATABASE ascii ENCODING 'SQL_ASCII' LOCALE 'C' LOCALE_PROVIDER libc TEMPLATE template0 OWNER "+access.Owner.User)
	admin.Close(t.Context())
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
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
			access.SocketDir, _ = clustertest.Serve(t, dir, test.setting)
			access.Database = test.database
			report, err := preflight.Check(t.Context(), access.OwnerURL())
			if test.code != "" {
				faulttest.Want(t, err, fault.Environment, test.code, test.word)
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
	if _, err := os.Stat("/usr/lib/postgresql/15/bin"); err != nil {
		t.Skip("no PostgreSQL 15 here")
	}
	dir := clustertest.Dir(t)
	data := filepath.Join(dir, "data")
	account, err := install.FindAccount(data)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Mkdir(data, 0o700), account.Give(data)); err != nil {
		t.Fatal(err)
	}
	build, err := install.Prepare(t.Context(), install.Options{Dir: "/usr/lib/postgresql/15", Account: account, State: dir, Run: dir})
	if err != nil {
		t.Fatal(err)
	}
	initdb := build.Command(t.Context(), install.InitProgram, "-D", data, "-U", "someone", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	if out, err := initdb.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	socket, _ := clustertest.ServeBuild(t, build.Dir, dir)
	report, err := preflight.Check(t.Context(), fmt.Sprintf("host=%s user=someone dbname=postgres", socket))
	if err != nil || !strings.HasPrefix(report.Version, "15.") || len(report.Warnings) > 0 {
		t.Errorf("report %+v, %v", report, err)
	}
}
