// Package metered counts what a broker does with its store, group by group, on the way through.
package metered

import (
	"context"
	"sync"
	"time"

	"github.com/runlot/runlot/internal/engine/broker/store"
)

// Tally counts what happens to one queue. Its methods are called from several goroutines.
type Tally interface {
	// Sent counts messages that were sent, with the bytes of their bodies.
	Sent(messages, bytes int)
	// Arrived counts messages that came from another queue, Left those that are gone from this one.
	Arrived(messages int)
	Left(messages int)
}

// Meter takes the numbers of one database. Its methods are called from several goroutines.
type Meter interface {
	// Tally returns what counts for a queue, the same each time.
	Tally(queueName string) Tally
	// Appended is told of a group of sends that was committed, Applied of a group of settlements.
	Appended(messages int, took time.Duration)
	Applied(messages int, took time.Duration)
}

// Store is a store whose commits are counted.
type Store struct {
	store.Store
	meter Meter

	mu      sync.RWMutex
	tallies map[int32]Tally // by number of the queue; guarded by mu
}

// New returns a store that counts what goes to inner.
func New(inner store.Store, m Meter) *Store {
	return &Store{Store: inner, meter: m, tallies: map[int32]Tally{}}
}

func (s *Store) know(infos []store.QueueInfo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range infos {
		if s.tallies[infos[i].ID] == nil {
			s.tallies[infos[i].ID] = s.meter.Tally(infos[i].Name)
		}
	}
}

// Declare implements store.Store.
func (s *Store) Declare(ctx context.Context, names []string) ([]store.QueueInfo, error) {
	infos, err := s.Store.Declare(ctx, names)
	s.know(infos)
	return infos, err
}

// Queues implements store.Store.
func (s *Store) Queues(ctx context.Context) ([]store.QueueInfo, error) {
	infos, err := s.Store.Queues(ctx)
	s.know(infos)
	return infos, err
}

// Append implements store.Store.
func (s *Store) Append(ctx context.Context, rows []store.Row, usage *store.Usage) error {
	start := time.Now()
	err := s.Store.Append(ctx, rows, usage)
	if err == nil {
		s.meter.Appended(len(rows), time.Since(start))
		s.sent(rows)
	}
	return err
}

// Drain implements store.Store.
func (s *Store) Drain(ctx context.Context, first int64, now time.Time, limit int) ([]store.Row, error) {
	rows, err := s.Store.Drain(ctx, first, now, limit)
	s.sent(rows)
	return rows, err
}

// Apply implements store.Store.
func (s *Store) Apply(ctx context.Context, change *store.Change) error {
	start := time.Now()
	err := s.Store.Apply(ctx, change)
	if err == nil {
		s.meter.Applied(len(change.Delete)+len(change.Retry)+len(change.Move), time.Since(start))
		s.applied(change)
	}
	return err
}

// Expire implements store.Store.
func (s *Store) Expire(ctx context.Context, queueID int32, after, before int64, limit int) ([]store.Expired, error) {
	gone, err := s.Store.Expire(ctx, queueID, after, before, limit)
	if len(gone) > 0 {
		s.mu.RLock()
		defer s.mu.RUnlock()
		if t := s.tallies[queueID]; t != nil {
			t.Left(len(gone))
		}
	}
	return gone, err
}

// sent counts rows that are committed. Rows of one queue mostly come in a row, and count as one. What SQL sends to a queue
// that is not known yet is not counted.
func (s *Store) sent(rows []store.Row) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for first := 0; first < len(rows); {
		id, next, bytes := rows[first].Queue, first, 0
		for next < len(rows) && rows[next].Queue == id {
			bytes += len(rows[next].Body)
			next++
		}
		if t := s.tallies[id]; t != nil {
			t.Sent(next-first, bytes)
		}
		first = next
	}
}

// applied counts a change that is committed.
func (s *Store) applied(change *store.Change) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	keys := change.Delete
	for first := 0; first < len(keys); {
		id, next := keys[first].Queue, first
		for next < len(keys) && keys[next].Queue == id {
			next++
		}
		if t := s.tallies[id]; t != nil {
			t.Left(next - first)
		}
		first = next
	}
	for i := range change.Move {
		if t := s.tallies[change.Move[i].From.Queue]; t != nil {
			t.Left(1)
		}
		if t := s.tallies[change.Move[i].To.Queue]; t != nil {
			t.Arrived(1)
		}
	}
}
