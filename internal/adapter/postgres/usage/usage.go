// Package usage is the SQL of a store's account: the operation count, the refusals that SQL's send functions read, and the
// size of the database. The sessions belong to the store.
package usage

import (
	"context"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/runlot/runlot/internal/engine/broker/store"
)

const columns = `source, day, number, written, delivered, deleted, warned`

// Insert writes one entry with the parameters of Params. Writing it again changes nothing.
const Insert = `INSERT INTO runlot_queue.usage (` + columns + `)
	VALUES ($1::smallint, date '1970-01-01' + $2::int, $3::bigint, $4::bigint, $5::bigint, $6::bigint, $7::smallint)
	ON CONFLICT (source, day, number) DO NOTHING`

// Params are the parameters of Insert as text.
func Params(u *store.Usage) [][]byte {
	list := [...]int64{int64(u.Source), int64(u.Day), u.Number, u.Written, u.Delivered, u.Deleted, int64(u.Warned)}
	params := make([][]byte, len(list))
	for i, v := range list {
		params[i] = strconv.AppendInt(nil, v, 10)
	}
	return params
}

// Before puts the insertion of an entry before a statement of the simple protocol, which makes both one transaction.
func Before(u *store.Usage, statement string) string {
	b := []byte(`INSERT INTO runlot_queue.usage (` + columns + `) VALUES (`)
	for i, p := range Params(u) {
		if i > 0 {
			b = append(b, ',')
		}
		if i == 1 {
			b = append(b, `date '1970-01-01' + `...)
		}
		b = append(b, p...)
	}
	return string(append(b, `); `...)) + statement
}

// Undo takes operations out of an entry whose transaction turned out to be committed although its caller was told
// otherwise. The entry stays: those before it may be swept already.
func Undo(ctx context.Context, conn *pgx.Conn, u *store.Usage, written int64) error {
	_, err := conn.Exec(ctx, `UPDATE runlot_queue.usage SET written = $4 WHERE source = $1 AND day = date '1970-01-01' + $2::int AND number = $3`,
		int16(u.Source), u.Day, u.Number, u.Written-written)
	return err
}

// Querier is a connection or a pool of them.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// Load returns the newest entry of each source and of each of the last days. It looks for each of them from the end of its part of the index,
// so that what was deleted before it costs nothing.
func Load(ctx context.Context, q Querier, days int) ([]store.Usage, error) {
	rows, err := q.Query(ctx, `SELECT s.source::smallint, (d.day - date '1970-01-01')::int, u.number, u.written, u.delivered, u.deleted, u.warned
		FROM generate_series(1, 3) AS s (source),
			(SELECT (now() AT TIME ZONE 'UTC')::date + i AS day FROM generate_series(-$1::int, 1) AS i) AS d,
			LATERAL (SELECT u.number, u.written, u.delivered, u.deleted, u.warned FROM runlot_queue.usage u WHERE u.source = s.source AND u.day = d.day ORDER BY u.number DESC LIMIT 1) u`,
		days)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (u store.Usage, err error) {
		err = row.Scan(&u.Source, &u.Day, &u.Number, &u.Written, &u.Delivered, &u.Deleted, &u.Warned)
		return u, err
	})
}

// Swept is up to where entries were swept, so that a sweep does not step over what an earlier one deleted.
type Swept struct {
	// below is by source and day the number below which none is left that was replaced.
	below map[[2]int32]int64
	// keep is the first day that is left.
	keep int32
}

// sweptDays is how many days back replaced entries are swept: those that were written last before midnight, too.
const sweptDays = 1

// NewSwept returns a mark before everything.
func NewSwept() *Swept { return &Swept{below: map[[2]int32]int64{}} }

// Save writes entries, and sweeps what newer ones have replaced and what is from days before keep. It is one transaction.
func Save(ctx context.Context, conn *pgx.Conn, entries []store.Usage, keep int32, swept *Swept) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		for i := range entries {
			u := &entries[i]
			if _, err := tx.Exec(ctx, Insert, int16(u.Source), u.Day, u.Number, u.Written, u.Delivered, u.Deleted, u.Warned); err != nil {
				return err
			}
		}
		newest, err := Load(ctx, tx, sweptDays)
		if err != nil {
			return err
		}
		for i := range newest {
			u := &newest[i]
			key := [2]int32{int32(u.Source), u.Day}
			if swept.below[key] == u.Number {
				continue
			}
			if _, err := tx.Exec(ctx, `DELETE FROM runlot_queue.usage WHERE source = $1 AND day = date '1970-01-01' + $2::int
				AND number >= $3 AND number < $4`, int16(u.Source), u.Day, swept.below[key], u.Number); err != nil {
				return err
			}
			swept.below[key] = u.Number
		}
		if keep <= swept.keep {
			return nil
		}
		for source := store.Sends; source <= store.Others; source++ {
			if _, err := tx.Exec(ctx, `DELETE FROM runlot_queue.usage WHERE source = $1 AND day < date '1970-01-01' + $2::int`, int16(source), keep); err != nil {
				return err
			}
		}
		swept.keep = keep
		return nil
	})
}

// SetRefusal writes or deletes a refusal.
func SetRefusal(ctx context.Context, conn *pgx.Conn, r *store.Refusal) error {
	if r.Until.IsZero() {
		_, err := conn.Exec(ctx, `DELETE FROM runlot_queue.refusal WHERE code = $1`, r.Code)
		return err
	}
	_, err := conn.Exec(ctx, `INSERT INTO runlot_queue.refusal (until, code, message, hint) VALUES ($1, $2, $3, $4)
		ON CONFLICT (code) DO UPDATE SET until = excluded.until, message = excluded.message, hint = excluded.hint`,
		r.Until.Truncate(time.Microsecond), r.Code, r.Message, r.Hint)
	return err
}

// Size is what the database takes up on disk.
func Size(ctx context.Context, q Querier) (size int64, err error) {
	err = q.QueryRow(ctx, `SELECT pg_database_size(current_database())`).Scan(&size)
	return size, err
}

// Compact has PostgreSQL cut off what is free at the end of the tables that messages go through. It does not wait for
// locks that others hold.
func Compact(ctx context.Context, q Querier) error {
	_, err := q.Exec(ctx, `VACUUM (SKIP_LOCKED, TRUNCATE) runlot_queue.message, runlot_queue.inbox`)
	return err
}
