// Package schema prepares a database for a store: it brings the schema runlot_queue up to date and grants the apps their
// rights.
package schema

import (
	"context"
	"embed"
	"errors"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"

	"github.com/runlot/runlot/internal/adapter/postgres/session"
	"github.com/runlot/runlot/internal/core/fault"
)

// CodeNewer is the code of a fault of Prepare, beside those of package session.
const CodeNewer = "database_schema_newer"

//go:embed migrations/*.sql
var migrations embed.FS

const (
	name         = "runlot_queue"
	versionTable = name + ".schema_version"
	// migrateLock is the advisory lock of a database whose holder migrates it: the first eight bytes of "runlotmi" in ASCII.
	// It never changes.
	migrateLock = int64(0x72756e6c6f746d69)
)

// Prepare brings the schema up to date and grants appRole its rights; "" grants nothing. The server has been judged fit. One
// node at a time does it, under a lock of its own. Faults: Environment for what an operator can mend, Unavailable when the server does
// not answer.
func Prepare(ctx context.Context, config *pgx.ConnConfig, appRole string) error {
	conn, err := session.Open(ctx, config, session.IdleName)
	if err != nil {
		return err
	}
	defer session.Close(ctx, conn)
	if err := session.Lock(ctx, conn, migrateLock); err != nil {
		return session.Classify(err)
	}
	if err := migrate(ctx, config); err != nil {
		return session.Classify(err)
	}
	return session.Classify(grant(ctx, conn, appRole))
}

func migrate(ctx context.Context, config *pgx.ConnConfig) (err error) {
	folder, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	db := stdlib.OpenDB(*config)
	defer func() { err = errors.Join(err, db.Close()) }()
	// The version table lives in the schema, so the schema comes first.
	if _, err := db.ExecContext(ctx, "CREATE SCHEMA IF NOT EXISTS "+name); err != nil {
		return err
	}
	provider, err := goose.NewProvider(database.DialectPostgres, db, folder, goose.WithTableName(versionTable), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return err
	}
	have, want, err := provider.GetVersions(ctx)
	if err != nil {
		return err
	}
	if have > want {
		return fault.New(fault.Environment, CodeNewer, "the queues of this database were upgraded to schema version %d by a newer Runlot; this one knows %d", have, want).
			WithHint("run the newer Runlot")
	}
	_, err = provider.Up(ctx)
	return err
}

// grant gives the role of the apps what it needs to enqueue and to look, and nothing else.
func grant(ctx context.Context, conn *pgx.Conn, role string) error {
	if role == "" {
		return nil
	}
	to := " TO " + pgx.Identifier{role}.Sanitize()
	_, err := conn.Exec(ctx, `GRANT USAGE ON SCHEMA runlot_queue`+to+`;
		GRANT SELECT ON runlot_queue.messages`+to+`;
		GRANT EXECUTE ON FUNCTION runlot_queue.send(text, jsonb, interval), runlot_queue.send_batch(text, jsonb[], interval),
			runlot_queue.body_as_jsonb(smallint, bytea)`+to)
	return err
}
