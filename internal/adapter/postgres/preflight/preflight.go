// Package preflight judges a PostgreSQL that the user runs, before anything is kept in it.
package preflight

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/runlot/runlot/internal/adapter/postgres/session"
	"github.com/runlot/runlot/internal/core/fault"
)

// MinVersion is the oldest PostgreSQL that serves, as in server_version_num.
const MinVersion = 15_00_00

// Report is what Check found on a server that serves.
type Report struct {
	// Version is the server's own text, "16.4 (Debian …)".
	Version string
	// Warnings are sentences about what works but is worth a look.
	Warnings []string
}

// facts is what a server tells of itself.
type facts struct {
	// where names the server and database without the password.
	where             string
	user              string
	version           int
	versionText       string
	encoding          string
	standby           bool
	readOnly          bool
	fsync             bool
	synchronousCommit string
	fullPageWrites    bool
	canCreate         bool
	// schemaOwned is nil when the schema does not exist, else whether the user has its owner's rights.
	schemaOwned *bool
	// announced is the process id that the session was given at its start, process what its server process says of itself.
	announced, process uint32
}

// Check judges a PostgreSQL of the user's own, at an address that pgx understands. It fails with a fault that names the
// rule and the way out. What could lose acknowledged messages is refused: fsync off, a commit that does not wait for
// the disk. It writes nothing.
func Check(ctx context.Context, url string) (*Report, error) {
	config, err := session.Parse(url)
	if err != nil {
		return nil, err
	}
	// A pooler between may not know prepared statements.
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	where := fmt.Sprintf("database %s at %s", config.Database, net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port))))
	f, err := gather(ctx, config)
	if err != nil {
		return nil, unreachable(where, err)
	}
	f.where, f.user = where, config.User
	return f.judge()
}

func gather(ctx context.Context, config *pgx.ConnConfig) (*facts, error) {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	f := &facts{announced: conn.PgConn().PID()}
	err = conn.QueryRow(ctx, `
		SELECT current_setting('server_version_num')::int, current_setting('server_version'), current_setting('server_encoding'),
			pg_is_in_recovery(), current_setting('transaction_read_only')::bool, current_setting('fsync')::bool,
			current_setting('synchronous_commit'), current_setting('full_page_writes')::bool,
			has_database_privilege(current_database(), 'CREATE'),
			(SELECT pg_has_role(nspowner, 'USAGE') FROM pg_namespace WHERE nspname = 'runlot_queue'),
			pg_backend_pid()`).
		Scan(&f.version, &f.versionText, &f.encoding, &f.standby, &f.readOnly, &f.fsync, &f.synchronousCommit, &f.fullPageWrites,
			&f.canCreate, &f.schemaOwned, &f.process)
	return f, err
}

// role is the user's name as SQL writes it.
func (f *facts) role() string { return pgx.Identifier{f.user}.Sanitize() }

// judge applies the rules, most fundamental first.
func (f *facts) judge() (*Report, error) {
	refuse := func(code, hint, format string, args ...any) (*Report, error) {
		return nil, fault.New(fault.Environment, code, "the %s %s", f.where, fmt.Sprintf(format, args...)).WithHint("%s", hint)
	}
	switch {
	case f.version < MinVersion:
		return refuse("database_version", "use PostgreSQL 15 or later", "is PostgreSQL %s", f.versionText)
	case f.encoding != "UTF8":
		return refuse("database_encoding", "make one with CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0", "has the encoding %s, and messages need UTF8", f.encoding)
	case f.standby:
		return refuse("database_standby", "name the primary, or add target_session_attrs=read-write with all hosts to the address", "is a standby and takes no writes")
	case f.readOnly:
		return refuse("database_read_only", "set default_transaction_read_only = off for the user "+f.user, "takes no writes from the user %s", f.user)
	case !f.fsync:
		return refuse("database_fsync", "set fsync = on", "runs with fsync off: a power cut would lose or damage what was acknowledged")
	case f.synchronousCommit == "off":
		return refuse("database_synchronous_commit", "set synchronous_commit = on, for the server or with ALTER ROLE "+f.role()+" SET synchronous_commit = on",
			"acknowledges commits before they are on disk (synchronous_commit off)")
	case f.schemaOwned != nil && !*f.schemaOwned:
		return refuse("database_rights", "use the user that made it, or ALTER SCHEMA runlot_queue OWNER TO "+f.role(), "has a schema runlot_queue that is not the user %s's", f.user)
	case f.schemaOwned == nil && !f.canCreate:
		return refuse("database_rights", "GRANT CREATE ON DATABASE … TO "+f.role(), "lets the user %s make no schema", f.user)
	case f.announced != f.process:
		// Also one in session mode: it drops the settings that a session begins with, or refuses them.
		pooler := session.PoolerInTheWay()
		return refuse(pooler.Code, pooler.Hint, "is behind a connection pooler")
	}
	report := &Report{Version: f.versionText}
	if !f.fullPageWrites {
		report.Warnings = append(report.Warnings, "full_page_writes is off: that is safe only on a file system that never writes half a page (ZFS, Btrfs)")
	}
	return report, nil
}

// unreachable turns the error of a connection into a fault.
func unreachable(where string, err error) error {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		if f := fault.From(session.Classify(err)); f.Code == session.CodeDatabasePooler {
			return f // it refuses the settings that a session begins with
		}
		f := fault.New(fault.Environment, "database_connect", "the %s does not let us in: %s", where, e.Message).WithCause(err)
		switch e.Code {
		case "28P01", "28000":
			return f.WithHint("check the user and the password in the address, and the server's pg_hba.conf")
		case "3D000":
			return f.WithHint("make the database first: CREATE DATABASE … ENCODING 'UTF8'")
		case "53300", "57P03":
			f.Kind = fault.Unavailable
			return f
		}
		return f
	}
	reason := err
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		reason = inner
	}
	return fault.New(fault.Unavailable, "database_connect", "the %s does not answer: %s", where, oneLine(reason)).
		WithHint("check that the server runs and that the address is right").WithCause(err)
}

// oneLine is an error's text in one line. The driver tries an address with TLS and then without, and names both failures
// in a line each; equal ones are said once.
func oneLine(err error) string {
	return strings.Join(slices.Compact(strings.Split(err.Error(), "\n")), "; ")
}
