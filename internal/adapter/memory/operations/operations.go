// Package operations keeps the background operations of a program that has no database of its own in memory: they end with
// it.
package operations

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/runlot/runlot/internal/engine/operations"
)

// Store holds operations. The zero Store is empty.
type Store struct {
	mu   sync.Mutex
	last int64
	all  []operations.Operation // by ID, rising; guarded by mu
}

var _ operations.Store = (*Store)(nil)

// copied copies what a caller may change.
func copied(o *operations.Operation) operations.Operation {
	c := *o
	c.IDs = slices.Clone(o.IDs)
	c.Skipped = make(map[string]int64, len(o.Skipped))
	maps.Copy(c.Skipped, o.Skipped)
	return c
}

// AddOperation implements operations.Store.
func (s *Store) AddOperation(_ context.Context, o *operations.Operation) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	o.ID = s.last
	s.all = append(s.all, copied(o))
	return nil
}

func (s *Store) find(id int64) (at int, ok bool) {
	return slices.BinarySearchFunc(s.all, id, func(o operations.Operation, id int64) int { return cmp.Compare(o.ID, id) })
}

// SaveOperation implements operations.Store.
func (s *Store) SaveOperation(_ context.Context, o *operations.Operation, keep int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, ok := s.find(o.ID); ok {
		s.all[at] = copied(o)
	}
	ended := 0
	for i := range s.all {
		if s.all[i].State.Ended() {
			ended++
		}
	}
	s.all = slices.DeleteFunc(s.all, func(o operations.Operation) bool {
		if ended <= keep || !o.State.Ended() {
			return false
		}
		ended--
		return true
	})
	return nil
}

// Operation implements operations.Store.
func (s *Store) Operation(_ context.Context, id int64) (*operations.Operation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.find(id)
	if !ok {
		return nil, operations.Unknown(id)
	}
	o := copied(&s.all[at])
	return &o, nil
}

// Operations implements operations.Store.
func (s *Store) Operations(_ context.Context, q operations.Query) ([]operations.Operation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []operations.Operation
	for i := len(s.all) - 1; i >= 0 && len(list) < q.Limit; i-- {
		o := &s.all[i]
		if (q.Before == 0 || o.ID < q.Before) && (q.Database == "" || o.Database == q.Database) && (q.Queue == "" || o.Queue == q.Queue) {
			list = append(list, copied(o))
		}
	}
	return list, nil
}

// OpenOperations implements operations.Store.
func (s *Store) OpenOperations(context.Context) ([]operations.Operation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []operations.Operation
	for i := range s.all {
		if !s.all[i].State.Ended() {
			list = append(list, copied(&s.all[i]))
		}
	}
	return list, nil
}
