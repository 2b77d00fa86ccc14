// Package schema prepares a database for a store: it checks the server, brings the schema runlot_queue up to date and grants
// the apps their rights.
package schema

import (
	"context"
	"embed"
	"io/fs"
	"log/slog"

	"github.com/jackc/pgx/v5"

	"github.com/runlot/runlot/internal/adapter/postgres/migrate"
	"github.com/runlot/runlot/internal/adapter/postgres/session"
	"github.com/runlot/runlot/internal/core/fault"
)

// Codes of the faults of Prepare, beside those of package session.
const (
	CodeDatabaseVersion  = "database_version"
	CodeDatabaseEncoding = "database_encoding"
	CodeNewer            = migrate.CodeNewer
)

//go:embed migrations/*.sql
var migrations embed.FS

const (
	name = "runlot_queue"
	// oldest is the first server version that is supported, as server_version_num counts.
	oldest = 150_000
)

// Prepare checks the server, brings the schema up to date and grants appRole its rights; "" grants nothing. One node at a
// time does it, under a lock of its own. Faults: Environment for what an operator can mend, Unavailable when the server does
// not answer.
func Prepare(ctx context.Context, config *pgx.ConnConfig, appRole string, log *slog.Logger) error {
	conn, err := session.Open(ctx, config, session.IdleName)
	if err != nil {
		return err
	}
	defer session.Close(ctx, conn)
	if err := checkServer(ctx, conn, log); err != nil {
		return session.Classify(err)
	}
	if err := migrate.Lock(ctx, conn); err != nil {
		return session.Classify(err)
	}
	if err := upgrade(ctx, config); err != nil {
		return session.Classify(err)
	}
	return session.Classify(grant(ctx, conn, appRole))
}

func checkServer(ctx context.Context, conn *pgx.Conn, log *slog.Logger) error {
	var (
		pid, number                        int
		version, encoding, recovery, fsync string
	)
	err := conn.QueryRow(ctx, `SELECT pg_backend_pid(), current_setting('server_version_num')::int, current_setting('server_version'),
		current_setting('server_encoding'), pg_is_in_recovery()::text, current_setting('fsync')`).
		Scan(&pid, &number, &version, &encoding, &recovery, &fsync)
	switch {
	case err != nil:
		return err
	case number < oldest:
		return fault.New(fault.Environment, CodeDatabaseVersion, "PostgreSQL %s is too old", version).
			WithHint("use PostgreSQL %d or later", oldest/10_000)
	case encoding != "UTF8":
		return fault.New(fault.Environment, CodeDatabaseEncoding, "the database has the encoding %s", encoding).
			WithHint("create it with the encoding UTF8")
	case recovery != "false":
		return fault.New(fault.Environment, session.CodeDatabaseReadOnly, "the database is a standby, which takes no writes").
			WithHint("give the address of the primary")
	case pid != int(conn.PgConn().PID()):
		return session.PoolerInTheWay()
	case fsync != "on":
		log.WarnContext(ctx, "PostgreSQL runs with fsync off: a power cut can lose acknowledged messages")
	}
	return nil
}

func upgrade(ctx context.Context, config *pgx.ConnConfig) error {
	folder, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	return migrate.Up(ctx, config, migrate.Schema{Name: name, What: "the queues of this database", Migrations: folder})
}

// grant gives the role of the apps what it needs to enqueue and to look, and nothing else.
func grant(ctx context.Context, conn *pgx.Conn, role string) error {
	if role == "" {
		return nil
	}
	to := " TO " + pgx.Identifier{role}.Sanitize()
	_, err := conn.Exec(ctx, `GRANT USAGE ON SCHEMA runlot_queue`+to+`;
		GRANT SELECT ON runlot_queue.messages, runlot_queue.batches, runlot_queue.batch_fates, runlot_queue.usage_by_day`+to+`;
		GRANT EXECUTE ON FUNCTION runlot_queue.send(text, jsonb, interval), runlot_queue.send_batch(text, jsonb[], interval),
			runlot_queue.body_as_jsonb(smallint, bytea)`+to)
	return err
}
