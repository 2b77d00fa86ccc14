package memory

import (
	"cmp"
	"context"
	"slices"

	"github.com/runlot/runlot/internal/engine/broker/store"
)

// letter is what a dead letter keeps of where it came from.
type letter struct {
	source int32
	reason string
}

func (q *messages) head(r *store.Row) store.Head {
	from := q.letters[r.Seq]
	h := store.Head{Row: *r, Bytes: len(r.Body), Source: from.source, Reason: from.reason, Retried: q.retried[r.Seq]}
	h.Body = nil
	return h
}

// everyBody is a bound that no page reaches.
const everyBody = int(^uint(0) >> 1)

// list makes heads of what a read returned.
func (s *Store) list(queueID int32, rows []store.Row) []store.Head {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	heads := make([]store.Head, len(rows))
	for i := range rows {
		heads[i] = s.db.numbered(queueID).head(&rows[i])
	}
	return heads
}

// ListReady implements store.Store.
func (s *Store) ListReady(ctx context.Context, queueID int32, after, upTo int64, limit int) ([]store.Head, error) {
	rows, err := s.ReadReady(ctx, queueID, after, upTo, limit, everyBody)
	return s.list(queueID, rows), err
}

// ListDue implements store.Store.
func (s *Store) ListDue(ctx context.Context, queueID int32, after store.Due, upTo int64, limit int) ([]store.Head, error) {
	rows, err := s.ReadDue(ctx, queueID, after, upTo, limit, everyBody)
	return s.list(queueID, rows), err
}

// each calls visit for every message of the queue, in no order.
func (q *messages) each(visit func(r *store.Row)) {
	for i := range q.ready {
		if q.ready[i].Queue != 0 {
			visit(&q.ready[i])
		}
	}
	for _, r := range q.due {
		visit(&r)
	}
}

// Find implements store.Store.
func (s *Store) Find(ctx context.Context, queueID int32, accepted []int64) ([]store.Head, error) {
	var found []store.Head
	err := s.read(ctx, "Find", func() {
		q := s.db.numbered(queueID)
		if q == nil {
			return
		}
		q.each(func(r *store.Row) {
			if slices.Contains(accepted, cmp.Or(r.Origin, r.Seq)) {
				found = append(found, q.head(r))
			}
		})
	})
	slices.SortFunc(found, func(a, b store.Head) int { return cmp.Compare(a.Seq, b.Seq) })
	return found, err
}

// Bodies implements store.Store.
func (s *Store) Bodies(ctx context.Context, queueID int32, seqs []int64, bytes int) (map[int64][]byte, error) {
	bodies := make(map[int64][]byte, len(seqs))
	part := func(body []byte) []byte { return body[:min(cmp.Or(bytes, len(body)), len(body))] }
	err := s.read(ctx, "Bodies", func() {
		q := s.db.numbered(queueID)
		for _, seq := range seqs {
			if q == nil {
				return
			}
			if r, ok := q.due[seq]; ok {
				bodies[seq] = part(r.Body)
			} else if r := q.readyRow(seq); r != nil {
				bodies[seq] = part(r.Body)
			}
		}
	})
	return bodies, err
}

// Configure implements store.Store.
func (s *Store) Configure(ctx context.Context, queueID int32, settings store.Settings) error {
	return s.write(ctx, "Configure", func() error {
		if q := s.db.numbered(queueID); q != nil {
			q.info.Settings = settings
		}
		return nil
	})
}

// ClearInbox implements store.Store. The place of a row is its number in the inbox, counted from 1; what is deleted before
// it makes the numbers fall, so that the next step begins where this one ended.
func (s *Store) ClearInbox(ctx context.Context, queueID int32, after int64, limit int) (store.Cleared, error) {
	var c store.Cleared
	err := s.write(ctx, "ClearInbox", func() error {
		c = store.Cleared{}
		begin := min(int(after), len(s.db.inbox))
		end := min(begin+limit, len(s.db.inbox))
		kept := make([]inboxRow, 0, end-begin)
		for _, r := range s.db.inbox[begin:end] {
			if r.queue != queueID {
				kept = append(kept, r)
				continue
			}
			c.Messages++
			c.Bytes += int64(len(r.body))
		}
		c.Done = end-begin < limit
		c.Last = int64(begin + len(kept))
		s.db.inbox = slices.Replace(s.db.inbox, begin, end, kept...)
		return nil
	})
	return c, err
}
