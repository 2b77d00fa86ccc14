// Package migrate brings a schema of a database up to date.
package migrate

import (
	"context"
	"errors"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"

	"github.com/runlot/runlot/internal/adapter/postgres/session"
	"github.com/runlot/runlot/internal/core/fault"
)

// CodeNewer is the code of the fault that a schema was upgraded by a newer program.
const CodeNewer = "database_schema_newer"

// Schema is a schema and how it came to be.
type Schema struct {
	// Name is that of the schema, a plain identifier; the table of its version lives in it.
	Name string
	// What names what is in it, as a subject of a sentence in the plural: "the queues of this database".
	What string
	// Migrations are the files of goose.
	Migrations fs.FS
}

// Up brings a schema up to date. The caller holds Lock.
func Up(ctx context.Context, config *pgx.ConnConfig, s Schema) (err error) {
	db := stdlib.OpenDB(*config)
	defer func() { err = errors.Join(err, db.Close()) }()
	// The version table lives in the schema, so the schema comes first.
	if _, err := db.ExecContext(ctx, "CREATE SCHEMA IF NOT EXISTS "+pgx.Identifier{s.Name}.Sanitize()); err != nil {
		return err
	}
	provider, err := goose.NewProvider(database.DialectPostgres, db, s.Migrations,
		goose.WithTableName(s.Name+".schema_version"), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return err
	}
	have, want, err := provider.GetVersions(ctx)
	if err != nil {
		return err
	}
	if have > want {
		return fault.New(fault.Environment, CodeNewer, "%s were upgraded to schema version %d by a newer Runlot; this one knows %d", s.What, have, want).
			WithHint("run the newer Runlot")
	}
	_, err = provider.Up(ctx)
	return err
}

// lock is the advisory lock of a database whose holder migrates it: the first eight bytes of "runlotmi" in ASCII. It
// never changes.
const lock = int64(0x72756e6c6f746d69)

// Lock makes the session of conn the one that may migrate, until the session ends.
func Lock(ctx context.Context, conn *pgx.Conn) error { return session.Lock(ctx, conn, lock) }
