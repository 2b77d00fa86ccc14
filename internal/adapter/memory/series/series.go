// Package series is a series.Store that keeps its minutes in memory and nowhere else, by the contract of the store over
// PostgreSQL, for tests that need no database.
package series

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/series"
)

// Store holds minutes. The zero Store knows no queue.
type Store struct {
	mu     sync.Mutex
	queues map[string][]series.Row // guarded by mu
}

var _ series.Store = (*Store)(nil)

// Declare makes queues exist.
func (s *Store) Declare(names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queues == nil {
		s.queues = map[string][]series.Row{}
	}
	for _, name := range names {
		if _, ok := s.queues[name]; !ok {
			s.queues[name] = nil
		}
	}
}

func unavailable(err error) error {
	return fault.New(fault.Unavailable, "context_ended", "the call was cut off").WithCause(err)
}

// Write implements series.Store.
func (s *Store) Write(ctx context.Context, rows []series.Row) error {
	if err := ctx.Err(); err != nil {
		return unavailable(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range rows {
		held, ok := s.queues[rows[i].Queue]
		if !ok || slices.ContainsFunc(held, func(r series.Row) bool { return order(&r, &rows[i]) == 0 }) {
			continue
		}
		held = append(held, rows[i])
		slices.SortFunc(held, func(a, b series.Row) int { return order(&a, &b) })
		s.queues[rows[i].Queue] = held
	}
	return nil
}

func order(a, b *series.Row) int {
	return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(a.Writer, b.Writer))
}

// Read implements series.Store.
func (s *Store) Read(ctx context.Context, queueName string, from, to time.Time) ([]series.Row, error) {
	if err := ctx.Err(); err != nil {
		return nil, unavailable(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []series.Row
	for _, r := range s.queues[queueName] {
		if !r.Start.Before(from) && r.Start.Before(to) {
			list = append(list, r)
		}
	}
	return list, nil
}

// Prune implements series.Store.
func (s *Store) Prune(ctx context.Context, now time.Time) (days int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, unavailable(err)
	}
	const day = 24 * time.Hour
	keepFrom := now.Add(-queue.SeriesAge).Truncate(day)
	gone := map[time.Time]bool{}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, held := range s.queues {
		s.queues[name] = slices.DeleteFunc(held, func(r series.Row) bool {
			if r.Start.Before(keepFrom) {
				gone[r.Start.Truncate(day)] = true
				return true
			}
			return false
		})
	}
	return len(gone), nil
}
