package ledger

import (
	"context"
	"slices"
	"sync"

	"github.com/runlot/runlot/internal/core/queue"
)

// hub hands every record to those who follow.
type hub struct {
	mu   sync.Mutex
	subs map[*Subscription]struct{}
}

// Subscription is a view of the records as they are made. It holds up to queue.RecordFollow records for a reader that is
// slower; then the oldest go.
type Subscription struct {
	hub    *hub
	filter Filter

	mu      sync.Mutex
	records []*Record
	missed  int
	// change has room for one signal that records has grown.
	change chan struct{}
}

// Subscribe begins to follow the records that the filter lets through; its times are not looked at. Whoever subscribes
// closes the subscription.
func (l *Ledger) Subscribe(filter Filter) *Subscription {
	s := &Subscription{hub: &l.hub, filter: filter, change: make(chan struct{}, 1)}
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	if l.hub.subs == nil {
		l.hub.subs = map[*Subscription]struct{}{}
	}
	l.hub.subs[s] = struct{}{}
	return s
}

// Close ends the subscription. Calling it twice is fine.
func (s *Subscription) Close() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	delete(s.hub.subs, s)
}

// Next waits for the next record and returns it with the number of records that were missed before it, because the reader
// was too slow. It fails only when ctx ends. Nobody may write to the record.
func (s *Subscription) Next(ctx context.Context) (record *Record, missed int, err error) {
	for {
		s.mu.Lock()
		if len(s.records) > 0 {
			record, missed = s.records[0], s.missed
			s.records, s.missed = s.records[1:], 0
			s.mu.Unlock()
			return record, missed, nil
		}
		s.mu.Unlock()
		select {
		case <-s.change:
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
	}
}

func (h *hub) publish(r *Record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.subs {
		if s.filter.matches(r) {
			s.put(r)
		}
	}
}

func (s *Subscription) put(r *Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.records) >= queue.RecordFollow {
		s.records = s.records[1:]
		s.missed++
	}
	s.records = append(s.records, r)
	select {
	case s.change <- struct{}{}:
	default:
	}
}

func (f *Filter) matches(r *Record) bool {
	return (len(f.Queues) == 0 || slices.Contains(f.Queues, r.ID.Queue)) && (f.App == "" || f.App == r.App) &&
		(len(f.Outcomes) == 0 || slices.Contains(f.Outcomes, r.Outcome))
}
