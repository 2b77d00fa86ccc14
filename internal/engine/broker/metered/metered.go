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

// Remove implements store.Store.
func (s *Store) Remove(ctx context.Context, queueID int32) (store.Count, error) {
	gone, err := s.Store.Remove(ctx, queueID)
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.tallies, queueID)
	}
	return gone, err
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

// sums adds up what is to be counted of a group, so that messages of several queues that come in turn cost no more than
// those of one. It takes the queues to few places: those that share one are counted apart when they take turns.
type sums struct {
	tallies map[int32]Tally
	count   func(t Tally, messages, bytes int)
	places  [32]struct {
		queue           int32
		messages, bytes int
	}
}

func (s *sums) add(queueID int32, messages, bytes int) {
	place := int(queueID) & (len(s.places) - 1)
	p := &s.places[place]
	if p.queue != queueID {
		s.tell(place)
		p.queue = queueID
	}
	p.messages += messages
	p.bytes += bytes
}

// tell counts what came together at a place. What SQL sends to a queue that is not known yet is not counted.
func (s *sums) tell(place int) {
	p := &s.places[place]
	if t := s.tallies[p.queue]; t != nil && p.messages > 0 {
		s.count(t, p.messages, p.bytes)
	}
	p.messages, p.bytes = 0, 0
}

func (s *sums) end() {
	for place := range s.places {
		s.tell(place)
	}
}

// sent counts rows that are committed.
func (s *Store) sent(rows []store.Row) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	sent := sums{tallies: s.tallies, count: Tally.Sent}
	for first := 0; first < len(rows); {
		id, next, bytes := rows[first].Queue, first, 0
		for next < len(rows) && rows[next].Queue == id {
			bytes += len(rows[next].Body)
			next++
		}
		sent.add(id, next-first, bytes)
		first = next
	}
	sent.end()
}

// applied counts a change that is committed.
func (s *Store) applied(change *store.Change) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	left := sums{tallies: s.tallies, count: func(t Tally, messages, _ int) { t.Left(messages) }}
	arrived := sums{tallies: s.tallies, count: func(t Tally, messages, _ int) { t.Arrived(messages) }}
	for first := 0; first < len(change.Delete); {
		id, next := change.Delete[first].Queue, first
		for next < len(change.Delete) && change.Delete[next].Queue == id {
			next++
		}
		left.add(id, next-first, 0)
		first = next
	}
	for i := range change.Move {
		left.add(change.Move[i].From.Queue, 1, 0)
		arrived.add(change.Move[i].To.Queue, 1, 0)
	}
	left.end()
	arrived.end()
}
