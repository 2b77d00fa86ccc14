// Package control keeps what celld knows of its apps in PostgreSQL: versions, deployments, secrets, tokens and events.
package control

import (
	"context"
	"embed"
	"errors"
	"io/fs"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/runlot/runlot/internal/adapter/postgres/control/query"
	"github.com/runlot/runlot/internal/adapter/postgres/migrate"
	"github.com/runlot/runlot/internal/adapter/postgres/session"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/deploy"
	"github.com/runlot/runlot/internal/engine/operations"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Store implements deploy.Store, access.Store and operations.Store.
type Store struct {
	pool    *pgxpool.Pool
	address func(context.Context) (url string, err error)
}

var (
	_ deploy.Store = (*Store)(nil)
	_ access.Store = (*Store)(nil)

	_ operations.Store = (*Store)(nil)
)

// Open brings the schema runlot_control up to date and returns the store. The address is asked for at each connection: a
// server that was started again may have moved.
func Open(ctx context.Context, address func(context.Context) (url string, err error)) (*Store, error) {
	config, err := locate(ctx, address)
	if err != nil {
		return nil, err
	}
	if err := upgrade(ctx, config); err != nil {
		return nil, session.Classify(err)
	}
	return connect(ctx, config, address)
}

// Attach returns the store beside a program that has opened it, and leaves the schema as it is. Faults: NotFound
// (control_missing) where no program has opened it yet, Unavailable.
func Attach(ctx context.Context, address func(context.Context) (url string, err error)) (*Store, error) {
	config, err := locate(ctx, address)
	if err != nil {
		return nil, err
	}
	s, err := connect(ctx, config, address)
	if err != nil {
		return nil, err
	}
	var known bool
	if err := s.pool.QueryRow(ctx, "SELECT to_regclass('runlot_control.token') IS NOT NULL").Scan(&known); err != nil {
		s.Close()
		return nil, session.Classify(err)
	}
	if !known {
		s.Close()
		return nil, fault.New(fault.NotFound, "control_missing", "the database holds no records of a celld").
			WithHint("name the database that celld runs with, and start it once")
	}
	return s, nil
}

func connect(ctx context.Context, config *pgx.ConnConfig, address func(context.Context) (url string, err error)) (*Store, error) {
	pool, err := pgxpool.ParseConfig("")
	if err != nil {
		return nil, err
	}
	pool.ConnConfig = config.Copy()
	pool.MaxConns, pool.MinConns = queue.ControlConnections, 0
	pool.BeforeConnect = func(ctx context.Context, c *pgx.ConnConfig) error {
		now, err := locate(ctx, address)
		if err == nil {
			*c = *now
		}
		return err
	}
	p, err := pgxpool.NewWithConfig(ctx, pool)
	if err != nil {
		return nil, session.Classify(err)
	}
	return &Store{p, address}, nil
}

func locate(ctx context.Context, address func(context.Context) (string, error)) (*pgx.ConnConfig, error) {
	url, err := address(ctx)
	if err != nil {
		return nil, err
	}
	return session.Parse(url)
}

func upgrade(ctx context.Context, config *pgx.ConnConfig) error {
	folder, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	conn, err := session.Open(ctx, config, session.IdleName)
	if err != nil {
		return err
	}
	defer session.Close(ctx, conn)
	if err := migrate.Lock(ctx, conn); err != nil {
		return err
	}
	return migrate.Up(ctx, config, migrate.Schema{Name: "runlot_control", What: "the records of the apps", Migrations: folder})
}

// Close ends the connections. Twice is fine.
func (s *Store) Close() { s.pool.Close() }

// Pool is what the store works with.
func (s *Store) Pool() *pgxpool.Pool { return s.pool }

// write runs f in a transaction.
func (s *Store) write(ctx context.Context, f func(*query.Queries) error) error {
	return s.transaction(ctx, func(_ pgx.Tx, q *query.Queries) error { return f(q) })
}

// transaction is write for what is not all among the queries.
func (s *Store) transaction(ctx context.Context, f func(pgx.Tx, *query.Queries) error) error {
	return session.Classify(pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error { return f(tx, query.New(tx)) }))
}

func (s *Store) read() *query.Queries { return query.New(s.pool) }

func missing(err error) bool { return errors.Is(err, pgx.ErrNoRows) }

// newID returns an id that sorts by time.
func newID() (uuid.UUID, error) { return uuid.NewV7() }

// all is the number below which every number lies, for the first page of a list.
const all = 1<<31 - 1

func before(n int) int32 {
	if n <= 0 || n > all {
		return all
	}
	return int32(n)
}

func page(n int) int32 { return int32(min(max(n, 0), queue.MaxPage)) }
