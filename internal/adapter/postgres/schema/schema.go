// Package schema prepares a database for a store: it brings the schema runlot_queue up to date and grants the apps their
// rights.
package schema

import (
	"context"
	"embed"
	"io/fs"

	"github.com/jackc/pgx/v5"

	"github.com/runlot/runlot/internal/adapter/postgres/migrate"
	"github.com/runlot/runlot/internal/adapter/postgres/session"
)

// CodeNewer is the code of a fault of Prepare, beside those of package session.
const CodeNewer = migrate.CodeNewer

//go:embed migrations/*.sql
var migrations embed.FS

const name = "runlot_queue"

// Prepare brings the schema up to date and grants appRole its rights; "" grants nothing. The server has been judged fit. One
// node at a time does it, under a lock of its own. Faults: Environment for what an operator can mend, Unavailable when the
// server does not answer.
func Prepare(ctx context.Context, config *pgx.ConnConfig, appRole string) error {
	conn, err := session.Open(ctx, config, session.IdleName)
	if err != nil {
		return err
	}
	defer session.Close(ctx, conn)
	if err := migrate.Lock(ctx, conn); err != nil {
		return session.Classify(err)
	}
	if err := upgrade(ctx, config); err != nil {
		return session.Classify(err)
	}
	return session.Classify(grant(ctx, conn, appRole))
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
		GRANT SELECT ON runlot_queue.messages, runlot_queue.batches, runlot_queue.batch_fates, runlot_queue.batch_acks, runlot_queue.minutes, runlot_queue.usage_by_day`+to+`;
		GRANT EXECUTE ON FUNCTION runlot_queue.send(text, jsonb, interval), runlot_queue.send_batch(text, jsonb[], interval),
			runlot_queue.body_as_jsonb(smallint, bytea)`+to)
	return err
}
