package memory

import (
	"cmp"
	"context"
	"slices"

	"github.com/runlot/runlot/internal/core/filter"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// Search implements store.Store.
func (s *Store) Search(ctx context.Context, queueID int32, q *store.Search) (store.Searched, error) {
	var found store.Searched
	err := s.read(ctx, "Search", func() {
		m := s.db.numbered(queueID)
		if m == nil {
			return
		}
		var rows []store.Row
		m.each(func(r *store.Row) {
			if r.Seq > q.After && r.Seq <= q.UpTo && (q.Only == nil || slices.Contains(q.Only, r.Seq)) {
				rows = append(rows, *r)
			}
		})
		slices.SortFunc(rows, func(a, b store.Row) int { return cmp.Compare(a.Seq, b.Seq) })
		bytes := 0
		for i := range rows {
			r := &rows[i]
			if found.Looked == q.Rows || bytes > q.Bytes && q.Filter.NeedsBody() {
				found.More = true
				return
			}
			bytes += len(r.Body)
			found.Looked++
			found.Last = r.Seq
			if q.Filter.Match(m.subject(r, q), q.Now) {
				found.Matches = append(found.Matches, store.Match{Seq: r.Seq, Accepted: cmp.Or(r.Origin, r.Seq), Place: found.Looked})
			}
		}
	})
	return found, err
}

// subject is a row as a filter looks at it.
func (m *messages) subject(r *store.Row, q *store.Search) *filter.Subject {
	from := m.letters[r.Seq]
	subject := filter.Subject{
		ID: queue.NewID(q.Database, cmp.Or(r.Origin, r.Seq)), State: filter.Visible, SentAt: r.SentAt, Attempts: int(r.Failures),
		Size: len(r.Body), Reason: from.reason, Format: r.Format, Body: r.Body,
	}
	for name, id := range q.Sources {
		if id == from.source {
			subject.Source = name
		}
	}
	if slices.Contains(q.Flying, r.Seq) {
		subject.State = filter.InFlight
	} else if r.VisibleAt > q.Now {
		subject.State = filter.Delayed
	}
	return &subject
}

// Replace implements store.Store.
func (s *Store) Replace(ctx context.Context, old store.Key, row *store.Row) error {
	return s.write(ctx, "Replace", func() error {
		q, to := s.db.numbered(old.Queue), s.db.numbered(row.Queue)
		if q == nil || to == nil {
			return nil
		}
		from := q.letters[old.Seq]
		if _, ok := q.remove(old.Seq); ok {
			to.add(row)
			if from.source != 0 {
				to.letters[row.Seq] = from
			}
		}
		return nil
	})
}
