// Package record is a ledger.Store that keeps its records in memory and nowhere else, by the contract of the store over
// PostgreSQL, for tests that need no database.
package record

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/ledger"
)

// Store holds records. The zero Store knows no queue.
type Store struct {
	mu     sync.Mutex
	queues map[string][]ledger.Record // by number, rising; guarded by mu
}

var _ ledger.Store = (*Store)(nil)

// Declare makes queues exist.
func (s *Store) Declare(names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queues == nil {
		s.queues = map[string][]ledger.Record{}
	}
	for _, name := range names {
		if _, ok := s.queues[name]; !ok {
			s.queues[name] = nil
		}
	}
}

// enter takes the lock, unless ctx has ended.
func (s *Store) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fault.New(fault.Unavailable, "records_unavailable", "the call has ended").WithCause(err)
	}
	s.mu.Lock()
	return nil
}

func byNumber(r ledger.Record, number int64) int { return cmp.Compare(r.ID.Number, number) }

// Write adds records.
func (s *Store) Write(ctx context.Context, records []ledger.Record) ([]ledger.Held, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	grown := map[string]bool{}
	for i := range records {
		r := records[i]
		list, known := s.queues[r.ID.Queue]
		at, there := slices.BinarySearchFunc(list, r.ID.Number, byNumber)
		if !known || there {
			continue
		}
		s.queues[r.ID.Queue] = slices.Insert(list, at, r)
		grown[r.ID.Queue] = true
	}
	var held []ledger.Held
	for _, name := range slices.Sorted(maps.Keys(grown)) {
		held = append(held, ledger.Held{Queue: name, Records: len(s.queues[name])})
	}
	return held, nil
}

// Overdue returns the queues that hold too much or too old.
func (s *Store) Overdue(ctx context.Context, keep int, before int64) ([]string, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var names []string
	for name, list := range s.queues {
		if len(list) > keep || len(list) > 0 && list[0].ID.Number < before {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// Prune deletes the oldest records of a queue.
func (s *Store) Prune(ctx context.Context, queueName string, keep int, before int64, rows int) (more bool, err error) {
	if err := s.enter(ctx); err != nil {
		return false, err
	}
	defer s.mu.Unlock()
	list := s.queues[queueName]
	old, _ := slices.BinarySearchFunc(list, before, byNumber)
	n := min(max(len(list)-keep, old), rows)
	s.queues[queueName] = slices.Delete(list, 0, n)
	return n == rows, nil
}

// List returns the newest records that the query asks for.
func (s *Store) List(ctx context.Context, q *ledger.Query) ([]ledger.Record, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var found []ledger.Record
	for name, list := range s.queues {
		if len(q.Queues) > 0 && !slices.Contains(q.Queues, name) {
			continue
		}
		for i := range list {
			r := &list[i]
			if (q.App == "" || q.App == r.App) && (len(q.Outcomes) == 0 || slices.Contains(q.Outcomes, r.Outcome)) &&
				r.ID.Number >= q.From && r.ID.Number < q.To && q.Follows(r.ID) {
				found = append(found, brief(r))
			}
		}
	}
	slices.SortFunc(found, func(a, b ledger.Record) int {
		return cmp.Or(cmp.Compare(b.ID.Number, a.ID.Number), cmp.Compare(b.ID.Queue, a.ID.Queue))
	})
	return found[:min(len(found), q.Limit)], nil
}

// Of returns the newest records that name a message.
func (s *Store) Of(ctx context.Context, queues []string, message queue.ID, from int64, limit int) ([]ledger.Record, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var found []ledger.Record
	for _, name := range queues {
		for i := range s.queues[name] {
			r := &s.queues[name][i]
			mine := slices.DeleteFunc(slices.Clone(r.Fates), func(f ledger.Fate) bool { return f.ID != message })
			acks := slices.DeleteFunc(slices.Clone(r.Acks), func(a queue.Acked) bool { return a.ID != message })
			if len(mine)+len(acks) > 0 && r.ID.Number >= from {
				short := brief(r)
				short.Fates, short.Acks = mine, acks
				found = append(found, short)
			}
		}
	}
	slices.SortFunc(found, func(a, b ledger.Record) int {
		return cmp.Or(cmp.Compare(b.ID.Number, a.ID.Number), cmp.Compare(b.ID.Queue, a.ID.Queue))
	})
	return found[:min(len(found), limit)], nil
}

// Settled returns the newest records that name messages which left their queue.
func (s *Store) Settled(ctx context.Context, queueName string, before int64, limit int) ([]ledger.Record, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	found := []ledger.Record{}
	for _, r := range slices.Backward(s.queues[queueName]) {
		if r.ID.Number < before && len(found) < limit && (len(r.Acks) > 0 || r.Dead+r.Dropped > 0) {
			short := brief(&r)
			short.Fates, short.Acks = r.Fates, r.Acks
			found = append(found, short)
		}
	}
	return found, nil
}

// brief is a record as lists have it.
func brief(r *ledger.Record) ledger.Record {
	short := *r
	short.Fates, short.Acks, short.Lines = nil, nil, nil
	if r.Error != nil {
		e := *r.Error
		e.Stack = ""
		short.Error = &e
	}
	return short
}

// Get returns one record.
func (s *Store) Get(ctx context.Context, id ledger.ID) (*ledger.Record, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	list := s.queues[id.Queue]
	at, there := slices.BinarySearchFunc(list, id.Number, byNumber)
	if !there {
		return nil, ledger.NotFound(id)
	}
	r := list[at]
	return &r, nil
}

// Last returns the newest record of a handler call of each queue.
func (s *Store) Last(ctx context.Context) ([]ledger.Record, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var last []ledger.Record
	for _, name := range slices.Sorted(maps.Keys(s.queues)) {
		list := s.queues[name]
		for i := len(list) - 1; i >= 0; i-- {
			if list[i].Outcome != ledger.Expired && list[i].Outcome != ledger.Gap {
				last = append(last, brief(&list[i]))
				break
			}
		}
	}
	return last, nil
}

// Count is the number of records of a queue.
func (s *Store) Count(queueName string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queues[queueName])
}

// All returns every record of a queue, oldest first, whole.
func (s *Store) All(queueName string) []ledger.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.queues[queueName])
}
