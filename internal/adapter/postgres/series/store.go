package series

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/runlot/runlot/internal/adapter/postgres/series/query"
	"github.com/runlot/runlot/internal/adapter/postgres/session"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/series"
)

// Store keeps the minutes of one database. It implements series.Store.
type Store struct{ pool *pgxpool.Pool }

var _ series.Store = (*Store)(nil)

// Open returns the store of a database whose schema is up to date. It connects when it is used. Fault: Environment for a
// URL that cannot be read.
func Open(ctx context.Context, url string) (*Store, error) {
	config, err := session.Parse(url)
	if err != nil {
		return nil, err
	}
	options, err := pgxpool.ParseConfig("")
	if err != nil {
		return nil, err
	}
	options.ConnConfig = config
	options.MaxConns = queue.SeriesConnections
	pool, err := pgxpool.NewWithConfig(ctx, options)
	if err != nil {
		return nil, session.Classify(err)
	}
	return &Store{pool: pool}, nil
}

// Close ends every session; calls under way end first, so their contexts have to.
func (s *Store) Close() { s.pool.Close() }

// Pool is what the store works with.
func (s *Store) Pool() *pgxpool.Pool { return s.pool }

// tables is in how many tables the days take turns: those that are kept, today, and one that can be emptied at any time
// before its day begins.
const tables = int(queue.SeriesAge/day) + 2

const day = 24 * time.Hour

// turn is the number of the table of a day.
func turn(t time.Time) int16 { return int16(t.Unix() / int64(day/time.Second) % int64(tables)) }

// turns are the tables of a span of time.
func turns(from, to time.Time) []int16 {
	var list []int16
	for at := from.Truncate(day); at.Before(to) && len(list) < tables; at = at.Add(day) {
		list = append(list, turn(at))
	}
	return list
}

// Write implements series.Store.
func (s *Store) Write(ctx context.Context, rows []series.Row) error {
	return session.Classify(query.New(s.pool).WriteMinutes(ctx, columns(rows)))
}

// Read implements series.Store.
func (s *Store) Read(ctx context.Context, queueName string, from, to time.Time) ([]series.Row, error) {
	rows, err := query.New(s.pool).ReadMinutes(ctx, query.ReadMinutesParams{
		Queue: queueName, Days: turns(from, to), FromMinute: from, ToMinute: to,
	})
	if err != nil {
		return nil, session.Classify(err)
	}
	list := make([]series.Row, len(rows))
	for i := range rows {
		list[i] = row(queueName, &rows[i])
	}
	return list, nil
}

// lockNotAvailable is PostgreSQL's code for a lock that was waited for in vain.
const lockNotAvailable = "55P03"

// Prune implements series.Store.
func (s *Store) Prune(ctx context.Context, now time.Time) (days int, err error) {
	keepFrom := now.Add(-queue.SeriesAge).Truncate(day)
	for t := range int16(tables) {
		held, err := query.New(s.pool).HoldsMinutes(ctx, query.HoldsMinutesParams{Day: t, KeepFrom: keepFrom})
		if err != nil {
			return days, session.Classify(err)
		}
		if !held.Some || held.Needed {
			continue
		}
		err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error { return empty(ctx, tx, t, keepFrom) })
		if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == lockNotAvailable {
			continue
		}
		if err != nil {
			return days, session.Classify(err)
		}
		days++
	}
	return days, nil
}

// empty truncates a table, unless somebody wrote to it meanwhile what is to stay.
func empty(ctx context.Context, tx pgx.Tx, t int16, keepFrom time.Time) error {
	table := "runlot_queue.minute_" + strconv.Itoa(int(t))
	if _, err := tx.Exec(ctx, "SET LOCAL lock_timeout = "+strconv.FormatInt(queue.SeriesPruneWait.Milliseconds(), 10)); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "LOCK TABLE ONLY "+table+" IN ACCESS EXCLUSIVE MODE"); err != nil {
		return err
	}
	held, err := query.New(tx).HoldsMinutes(ctx, query.HoldsMinutesParams{Day: t, KeepFrom: keepFrom})
	if err != nil || held.Needed {
		return err
	}
	_, err = tx.Exec(ctx, "TRUNCATE ONLY "+table)
	return err
}
