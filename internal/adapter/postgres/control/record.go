package control

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/runlot/runlot/internal/adapter/postgres/control/query"
	"github.com/runlot/runlot/internal/adapter/postgres/session"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/deploy"
)

// Secrets implements deploy.Store.
func (s *Store) Secrets(ctx context.Context, appName string) ([]deploy.Secret, error) {
	rows, err := s.read().Secrets(ctx, appName)
	if err != nil {
		return nil, session.Classify(err)
	}
	list := make([]deploy.Secret, len(rows))
	for i := range rows {
		list[i] = deploy.Secret{Name: rows[i].Name, Updated: rows[i].UpdatedAt.UTC(), Sealed: rows[i].Sealed}
	}
	return list, nil
}

// PutSecret implements deploy.Store.
func (s *Store) PutSecret(ctx context.Context, appName string, secret *deploy.Secret) error {
	return s.write(ctx, func(q *query.Queries) error {
		if err := q.AddApp(ctx, query.AddAppParams{Name: appName, CreatedAt: secret.Updated}); err != nil {
			return err
		}
		return q.PutSecret(ctx, query.PutSecretParams{UpdatedAt: secret.Updated, App: appName, Name: secret.Name, Sealed: secret.Sealed})
	})
}

// DeleteSecret implements deploy.Store.
func (s *Store) DeleteSecret(ctx context.Context, appName, name string) error {
	n, err := s.read().DeleteSecret(ctx, query.DeleteSecretParams{App: appName, Name: name})
	if err == nil && n == 0 {
		return fault.New(fault.NotFound, deploy.CodeSecretUnknown, "%s has no secret %s", appName, name).WithHint("`runlot secret list` lists them")
	}
	return session.Classify(err)
}

// AddEvent implements deploy.Store.
func (s *Store) AddEvent(ctx context.Context, e *deploy.Event, keep int) error {
	detail, err := json.Marshal(e.Detail)
	if err != nil {
		return err
	}
	return s.write(ctx, func(q *query.Queries) error {
		id, err := q.AddEvent(ctx, query.AddEventParams{At: e.At, Kind: e.Kind, App: e.App, Author: e.Author, Detail: detail})
		if err != nil {
			return err
		}
		e.ID = id
		return q.PruneEvents(ctx, id-int64(keep))
	})
}

// Events implements deploy.Store.
func (s *Store) Events(ctx context.Context, appName string, id int64, count int) ([]deploy.Event, error) {
	if id <= 0 {
		id = math.MaxInt64
	}
	rows, err := s.read().Events(ctx, query.EventsParams{Before: id, App: appName, Count: page(count)})
	if err != nil {
		return nil, session.Classify(err)
	}
	list := make([]deploy.Event, len(rows))
	for i := range rows {
		r := &rows[i]
		list[i] = deploy.Event{ID: r.ID, At: r.At.UTC(), Kind: r.Kind, App: r.App, Author: r.Author}
		if err := json.Unmarshal(r.Detail, &list[i].Detail); err != nil {
			return nil, fmt.Errorf("event %d: %w", r.ID, err)
		}
	}
	return list, nil
}

func unknownToken(id string) *fault.Error {
	return fault.New(fault.NotFound, access.CodeTokenUnknown, "there is no token %s", id).WithHint("`runlot token list` lists them")
}

// AddToken implements access.Store.
func (s *Store) AddToken(ctx context.Context, t *access.Token) error {
	p := query.AddTokenParams{CreatedAt: t.Created, ID: t.ID, Name: t.Name, Role: string(t.Role), Hash: t.Hash}
	if t.App != "" {
		p.App = &t.App
	}
	if !t.Expires.IsZero() {
		p.ExpiresAt = &t.Expires
	}
	return session.Classify(s.read().AddToken(ctx, p))
}

// Token implements access.Store.
func (s *Store) Token(ctx context.Context, id string) (*access.Token, error) {
	row, err := s.read().Token(ctx, id)
	if missing(err) {
		return nil, unknownToken(id)
	}
	if err != nil {
		return nil, session.Classify(err)
	}
	return token(&row), nil
}

func token(row *query.RunlotControlToken) *access.Token {
	t := &access.Token{ID: row.ID, Name: row.Name, Role: access.Role(row.Role), Created: row.CreatedAt.UTC(), Hash: row.Hash}
	if row.App != nil {
		t.App = *row.App
	}
	if row.ExpiresAt != nil {
		t.Expires = row.ExpiresAt.UTC()
	}
	if row.UsedAt != nil {
		t.Used = row.UsedAt.UTC()
	}
	return t
}

// Tokens implements access.Store.
func (s *Store) Tokens(ctx context.Context) ([]access.Token, error) {
	rows, err := s.read().Tokens(ctx)
	if err != nil {
		return nil, session.Classify(err)
	}
	list := make([]access.Token, len(rows))
	for i := range rows {
		list[i] = *token(&rows[i])
	}
	return list, nil
}

// DeleteToken implements access.Store.
func (s *Store) DeleteToken(ctx context.Context, id string) error {
	n, err := s.read().DeleteToken(ctx, id)
	if err == nil && n == 0 {
		return unknownToken(id)
	}
	return session.Classify(err)
}

// UseToken implements access.Store.
func (s *Store) UseToken(ctx context.Context, id string, at time.Time) error {
	return session.Classify(s.read().UseToken(ctx, query.UseTokenParams{UsedAt: &at, ID: id}))
}
