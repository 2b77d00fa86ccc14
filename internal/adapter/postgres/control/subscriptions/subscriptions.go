// Package subscriptions keeps event subscriptions in the database of what celld knows of its apps, and the events that are still
// to be sent, which are written in the transactions of the facts that they tell of.
package subscriptions

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/runlot/runlot/internal/adapter/postgres/session"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/engine/subscribe"
)

// Store implements subscribe.Store.
type Store struct{ pool *pgxpool.Pool }

var _ subscribe.Store = Store{}

// New returns a store over the connections of a control store, which has brought the schema up to date.
func New(pool *pgxpool.Pool) Store { return Store{pool} }

const columns = "id, name, enabled, source, script, source_database, source_queue, target_database, target_queue, events, created_at, modified_at"

// Subscriptions implements subscribe.Store.
func (s Store) Subscriptions(ctx context.Context) ([]subscribe.Subscription, error) {
	rows, err := s.pool.Query(ctx, "SELECT "+columns+" FROM runlot_control.subscription ORDER BY created_at, id")
	if err != nil {
		return nil, session.Classify(err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (one subscribe.Subscription, err error) {
		var id uuid.UUID
		err = row.Scan(&id, &one.Name, &one.Enabled, &one.Source.Type, &one.Source.Script, &one.Source.Queue.Database, &one.Source.Queue.Queue,
			&one.Target.Database, &one.Target.Queue, &one.Events, &one.Created, &one.Modified)
		one.ID, one.Created, one.Modified = id.String(), one.Created.UTC(), one.Modified.UTC()
		return one, err
	})
	return list, session.Classify(err)
}

// values are those of columns.
func values(id uuid.UUID, s *subscribe.Subscription) []any {
	return []any{
		id, s.Name, s.Enabled, s.Source.Type, s.Source.Script, s.Source.Queue.Database, s.Source.Queue.Queue, s.Target.Database, s.Target.Queue, s.Events,
		s.Created, s.Modified,
	}
}

// AddSubscription implements subscribe.Store.
func (s Store) AddSubscription(ctx context.Context, one *subscribe.Subscription, most int) error {
	id, err := uuid.NewV7()
	if err != nil {
		return err
	}
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		// Facts read beside this lock; two that are added at a time do not.
		if _, err := tx.Exec(ctx, "LOCK TABLE runlot_control.subscription IN SHARE ROW EXCLUSIVE MODE"); err != nil {
			return err
		}
		var n int
		if err := tx.QueryRow(ctx, "SELECT count(*) FROM runlot_control.subscription").Scan(&n); err != nil {
			return err
		}
		if n >= most {
			return fault.New(fault.Limit, subscribe.CodeCount, "there are %d event subscriptions, and more are not possible", n).WithHint("delete one that is not needed")
		}
		_, err := tx.Exec(ctx, "INSERT INTO runlot_control.subscription ("+columns+") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)", values(id, one)...)
		return err
	})
	if err != nil {
		return session.Classify(err)
	}
	one.ID = id.String()
	return nil
}

// ChangeSubscription implements subscribe.Store.
func (s Store) ChangeSubscription(ctx context.Context, one *subscribe.Subscription) error {
	id, err := uuid.Parse(one.ID)
	if err != nil {
		return subscribe.Unknown(one.ID)
	}
	tag, err := s.pool.Exec(ctx, `UPDATE runlot_control.subscription SET (`+columns+`) = ROW($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) WHERE id = $1`, values(id, one)...)
	if err == nil && tag.RowsAffected() == 0 {
		return subscribe.Unknown(one.ID)
	}
	return session.Classify(err)
}

// DeleteSubscription implements subscribe.Store.
func (s Store) DeleteSubscription(ctx context.Context, text string) error {
	id, err := uuid.Parse(text)
	if err != nil {
		return subscribe.Unknown(text)
	}
	tag, err := s.pool.Exec(ctx, "DELETE FROM runlot_control.subscription WHERE id = $1", id)
	if err == nil && tag.RowsAffected() == 0 {
		return subscribe.Unknown(text)
	}
	return session.Classify(err)
}

// RaiseEvents implements subscribe.Store.
func (s Store) RaiseEvents(ctx context.Context, list []subscribe.Event) error {
	return session.Classify(pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		for i := range list {
			e := &list[i]
			// The row is locked, so that it does not go away between this look and the commit.
			_, err := tx.Exec(ctx, `INSERT INTO runlot_control.subscription_event (at, subscription, kind, payload)
				SELECT $1, id, $3, $4 FROM runlot_control.subscription WHERE id = $2 FOR KEY SHARE`, e.At, e.Subscription, e.Kind, []byte(e.Payload))
			if err != nil {
				return err
			}
		}
		return nil
	}))
}

// WaitingEvents implements subscribe.Store.
func (s Store) WaitingEvents(ctx context.Context, subscription string, limit int) ([]subscribe.Event, error) {
	rows, err := s.pool.Query(ctx, `SELECT seq, at, kind, payload FROM runlot_control.subscription_event WHERE subscription = $1 ORDER BY seq LIMIT $2`, subscription, limit)
	if err != nil {
		return nil, session.Classify(err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e subscribe.Event, err error) {
		e.Subscription = subscription
		err = row.Scan(&e.Seq, &e.At, &e.Kind, &e.Payload)
		return e, err
	})
	return list, session.Classify(err)
}

// EventsSent implements subscribe.Store.
func (s Store) EventsSent(ctx context.Context, seqs []int64) error {
	_, err := s.pool.Exec(ctx, "DELETE FROM runlot_control.subscription_event WHERE seq = ANY($1)", seqs)
	return session.Classify(err)
}

// ExpireEvents implements subscribe.Store.
func (s Store) ExpireEvents(ctx context.Context, before time.Time) (int64, error) {
	tag, err := s.pool.Exec(ctx, "DELETE FROM runlot_control.subscription_event WHERE at < $1", before)
	return tag.RowsAffected(), session.Classify(err)
}

// Raise writes, in the transaction of a fact about a script, an event for each subscription that asks for it.
func Raise(ctx context.Context, tx pgx.Tx, f *subscribe.Fact) error {
	f.Payload["scriptName"] = f.Script
	payload, err := json.Marshal(f.Payload)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `INSERT INTO runlot_control.subscription_event (at, subscription, kind, payload)
		SELECT $1, id, $2, $3 FROM runlot_control.subscription
		WHERE enabled AND source = ANY($4) AND (script = '' OR script = $5) AND $2 = ANY (events) ORDER BY created_at, id FOR KEY SHARE`,
		f.At, f.Event, payload, []string{subscribe.Scripts, subscribe.Builds}, f.Script)
	return err
}

// Forget deletes, in the transaction that deletes an app and before it, the subscriptions whose queues no other live version
// names: those queues were its.
func Forget(ctx context.Context, tx pgx.Tx, appName string) error {
	rows, err := tx.Query(ctx, `SELECT a.name, v.manifest FROM runlot_control.app a JOIN runlot_control.version v ON v.id = a.live_version
		WHERE EXISTS (SELECT FROM runlot_control.subscription)`)
	if err != nil {
		return err
	}
	var own *app.Manifest
	var others []*app.Manifest
	var name string
	var text []byte
	_, err = pgx.ForEachRow(rows, []any{&name, &text}, func() error {
		var m app.Manifest
		if err := json.Unmarshal(text, &m); err != nil {
			return err
		}
		if name == appName {
			own = &m
		} else {
			others = append(others, &m)
		}
		return nil
	})
	if err != nil || own == nil {
		return err
	}
	for _, queue := range own.Queues() {
		named := false
		for _, m := range others {
			named = named || m.Names(own.Database, queue)
		}
		if named {
			continue
		}
		if _, err := tx.Exec(ctx, "DELETE FROM runlot_control.subscription WHERE target_database = $1 AND target_queue = $2", own.Database, queue); err != nil {
			return err
		}
	}
	return nil
}
