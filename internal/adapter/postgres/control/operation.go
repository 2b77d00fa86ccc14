package control

import (
	"context"
	"encoding/json"
	"fmt"
	"math"

	"github.com/runlot/runlot/internal/adapter/postgres/control/query"
	"github.com/runlot/runlot/internal/adapter/postgres/session"
	"github.com/runlot/runlot/internal/engine/operations"
)

// AddOperation implements operations.Store.
func (s *Store) AddOperation(ctx context.Context, o *operations.Operation) error {
	ids := o.IDs
	if ids == nil {
		ids = []string{}
	}
	id, err := s.read().AddOperation(ctx, query.AddOperationParams{
		CreatedAt: o.Created, Rate: int32(o.Rate), Kind: string(o.Kind), State: string(o.State), Database: o.Database, Queue: o.Queue,
		Filter: o.Filter, Target: o.To, Author: o.Author, App: o.App, Ids: ids,
	})
	o.ID = id
	return session.Classify(err)
}

// SaveOperation implements operations.Store.
func (s *Store) SaveOperation(ctx context.Context, o *operations.Operation, keep int) error {
	skipped, err := json.Marshal(o.Skipped)
	if err != nil {
		return err
	}
	if o.Skipped == nil {
		skipped = []byte("{}")
	}
	p := query.SaveOperationParams{
		Looked: o.Looked, Matched: o.Matched, Done: o.Done, State: string(o.State), Place: o.Place, Error: o.Error, Skipped: skipped, ID: o.ID,
	}
	if o.State.Ended() {
		p.EndedAt = &o.Ended
	}
	return s.write(ctx, func(q *query.Queries) error {
		if err := q.SaveOperation(ctx, p); err != nil || !o.State.Ended() {
			return err
		}
		return q.PruneOperations(ctx, int32(keep))
	})
}

// Operation implements operations.Store.
func (s *Store) Operation(ctx context.Context, id int64) (*operations.Operation, error) {
	row, err := s.read().Operation(ctx, id)
	if missing(err) {
		return nil, operations.Unknown(id)
	}
	if err != nil {
		return nil, session.Classify(err)
	}
	return operation(&row)
}

// Operations implements operations.Store.
func (s *Store) Operations(ctx context.Context, q operations.Query) ([]operations.Operation, error) {
	if q.Before <= 0 {
		q.Before = math.MaxInt64
	}
	rows, err := s.read().Operations(ctx, query.OperationsParams{Before: q.Before, Database: q.Database, Queue: q.Queue, Count: page(q.Limit)})
	return operationList(rows, err)
}

// OpenOperations implements operations.Store.
func (s *Store) OpenOperations(ctx context.Context) ([]operations.Operation, error) {
	rows, err := s.read().OpenOperations(ctx)
	return operationList(rows, err)
}

func operationList(rows []query.RunlotControlOperation, err error) ([]operations.Operation, error) {
	if err != nil {
		return nil, session.Classify(err)
	}
	list := make([]operations.Operation, len(rows))
	for i := range rows {
		o, err := operation(&rows[i])
		if err != nil {
			return nil, err
		}
		list[i] = *o
	}
	return list, nil
}

func operation(row *query.RunlotControlOperation) (*operations.Operation, error) {
	o := &operations.Operation{
		Spec: operations.Spec{
			Kind: operations.Kind(row.Kind), Database: row.Database, Queue: row.Queue, IDs: row.Ids, Filter: row.Filter, To: row.Target,
			Rate: int(row.Rate), Author: row.Author, App: row.App,
		},
		Counts: operations.Counts{Looked: row.Looked, Matched: row.Matched, Done: row.Done},
		ID:     row.ID, State: operations.State(row.State), Created: row.CreatedAt.UTC(), Place: row.Place, Error: row.Error,
	}
	if row.EndedAt != nil {
		o.Ended = row.EndedAt.UTC()
	}
	if err := json.Unmarshal(row.Skipped, &o.Skipped); err != nil {
		return nil, fmt.Errorf("operation %d: %w", row.ID, err)
	}
	return o, nil
}
