package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// messages are those of one queue. The database's lock guards them.
type messages struct {
	info store.QueueInfo
	// removed is set when the queue is gone; its messages are left to Scrap.
	removed bool
	// ready holds the messages with VisibleAt 0 in order of Seq; one with Queue 0 is gone. live counts the others, and
	// hint is where the last search ended: the next one often goes on from there.
	ready []store.Row
	live  int
	hint  int
	// due holds every other message. order has their places, sorted unless unsorted is set, and places that are stale.
	due      map[int64]store.Row
	order    []store.Due
	unsorted bool
	// letters says where dead letters came from, by Seq.
	letters map[int64]letter
	// retried says why messages were given back, by Seq.
	retried map[int64]store.Cause
}

func newMessages(info store.QueueInfo) *messages {
	return &messages{info: info, due: map[int64]store.Row{}, letters: map[int64]letter{}, retried: map[int64]store.Cause{}}
}

func (d *Database) numbered(id int32) *messages {
	if id < 1 || int(id) > len(d.queues) {
		return nil
	}
	return d.queues[id-1]
}

// find returns the place in ready at which the first message with at least this Seq is.
func (q *messages) find(seq int64) int {
	if n := len(q.ready); n == 0 || q.ready[n-1].Seq < seq {
		return n
	}
	if next := q.hint + 1; next < len(q.ready) && q.ready[next].Seq == seq {
		q.hint = next
		return next
	}
	i, _ := slices.BinarySearchFunc(q.ready, seq, func(r store.Row, seq int64) int { return cmp.Compare(r.Seq, seq) })
	q.hint = i
	return i
}

func (q *messages) readyRow(seq int64) *store.Row {
	if i := q.find(seq); i < len(q.ready) && q.ready[i].Seq == seq && q.ready[i].Queue != 0 {
		return &q.ready[i]
	}
	return nil
}

func (q *messages) has(seq int64) bool {
	_, ok := q.due[seq]
	return ok || q.readyRow(seq) != nil
}

func (q *messages) add(r *store.Row) {
	if r.VisibleAt != 0 {
		q.due[r.Seq] = *r
		q.order = append(q.order, store.Due{VisibleAt: r.VisibleAt, Seq: r.Seq})
		q.unsorted = true
		return
	}
	q.live++
	if n := len(q.ready); n == 0 || q.ready[n-1].Seq < r.Seq {
		q.ready = append(q.ready, *r)
		return
	}
	i := q.find(r.Seq)
	if q.ready[i].Seq == r.Seq {
		q.ready[i] = *r
		return
	}
	q.ready = slices.Insert(q.ready, i, *r)
}

// remove takes a message out for good and returns it.
func (q *messages) remove(seq int64) (store.Row, bool) {
	delete(q.letters, seq)
	delete(q.retried, seq)
	return q.take(seq)
}

// take takes a message out and returns it.
func (q *messages) take(seq int64) (store.Row, bool) {
	if r, ok := q.due[seq]; ok {
		delete(q.due, seq)
		return r, true
	}
	p := q.readyRow(seq)
	if p == nil {
		return store.Row{}, false
	}
	r := *p
	*p = store.Row{Seq: seq}
	q.live--
	return r, true
}

// tidy drops what is gone when it is most of what is kept.
func (q *messages) tidy() {
	if len(q.ready) > 64 && q.live < len(q.ready)/2 {
		q.ready = slices.DeleteFunc(q.ready, func(r store.Row) bool { return r.Queue == 0 })
		q.hint = 0
	}
	if len(q.order) > 64 && len(q.due) < len(q.order)/2 {
		q.order = slices.DeleteFunc(q.order, q.stale)
	}
}

func (q *messages) stale(d store.Due) bool {
	r, ok := q.due[d.Seq]
	return !ok || r.VisibleAt != d.VisibleAt
}

func compareDue(a, b store.Due) int {
	return cmp.Or(cmp.Compare(a.VisibleAt, b.VisibleAt), cmp.Compare(a.Seq, b.Seq))
}

func (q *messages) sortDue() {
	if q.unsorted {
		slices.SortFunc(q.order, compareDue)
		q.order = slices.Compact(q.order)
		q.unsorted = false
	}
}

func (q *messages) count() store.Count {
	var c store.Count
	for i := range q.ready {
		if q.ready[i].Queue != 0 {
			c.Messages++
			c.Bytes += int64(len(q.ready[i].Body))
		}
	}
	for _, r := range q.due {
		c.Messages++
		c.Bytes += int64(len(r.Body))
	}
	return c
}

// page gathers rows within bounds.
type page struct {
	rows        []store.Row
	left, bytes int
}

// take adds a row and reports whether there was room for it.
func (p *page) take(r *store.Row) bool {
	if p.left == 0 || len(p.rows) > 0 && len(r.Body) > p.bytes {
		return false
	}
	p.left--
	p.bytes -= len(r.Body)
	p.rows = append(p.rows, *r)
	return true
}

// ReadReady implements store.Store.
func (s *Store) ReadReady(ctx context.Context, queueID int32, after, upTo int64, rows, bytes int) ([]store.Row, error) {
	p := page{left: rows, bytes: bytes}
	err := s.read(ctx, "ReadReady", func() {
		q := s.db.numbered(queueID)
		if q == nil {
			return
		}
		for i := q.find(after + 1); i < len(q.ready) && q.ready[i].Seq <= upTo; i++ {
			if q.ready[i].Queue != 0 && !p.take(&q.ready[i]) {
				return
			}
		}
	})
	return p.rows, err
}

// ReadDue implements store.Store.
func (s *Store) ReadDue(ctx context.Context, queueID int32, after store.Due, upTo int64, rows, bytes int) ([]store.Row, error) {
	p := page{left: rows, bytes: bytes}
	err := s.read(ctx, "ReadDue", func() {
		q := s.db.numbered(queueID)
		if q == nil {
			return
		}
		q.sortDue()
		i, found := slices.BinarySearchFunc(q.order, after, compareDue)
		if found {
			i++
		}
		for ; i < len(q.order) && q.order[i].VisibleAt <= upTo; i++ {
			if q.stale(q.order[i]) {
				continue
			}
			if r := q.due[q.order[i].Seq]; !p.take(&r) {
				return
			}
		}
	})
	return p.rows, err
}

// Append implements store.Store.
func (s *Store) Append(ctx context.Context, rows []store.Row, usage *store.Usage) error {
	return s.write(ctx, "Append", func() error {
		for i := range rows {
			q := s.db.numbered(rows[i].Queue)
			if q == nil || q.removed {
				return fmt.Errorf("there is no queue %d", rows[i].Queue)
			}
			if q.has(rows[i].Seq) {
				return fmt.Errorf("seq %d of queue %d is taken", rows[i].Seq, rows[i].Queue)
			}
		}
		if !rising(rows) {
			if key, twice := repeated(rows); twice {
				return fmt.Errorf("seq %d of queue %d comes twice", key.Seq, key.Queue)
			}
		}
		for i := range rows {
			s.db.numbered(rows[i].Queue).add(&rows[i])
		}
		s.db.account.put(usage)
		return nil
	})
}

func rising(rows []store.Row) bool {
	for i := 1; i < len(rows); i++ {
		if rows[i].Seq <= rows[i-1].Seq {
			return false
		}
	}
	return true
}

func repeated(rows []store.Row) (key store.Key, twice bool) {
	seen := make(map[store.Key]bool, len(rows))
	for i := range rows {
		key = store.Key{Queue: rows[i].Queue, Seq: rows[i].Seq}
		if seen[key] {
			return key, true
		}
		seen[key] = true
	}
	return store.Key{}, false
}

// Drain implements store.Store.
func (s *Store) Drain(ctx context.Context, first int64, now time.Time, limit int) ([]store.Row, error) {
	var rows []store.Row
	err := s.write(ctx, "Drain", func() error {
		bytes := 0
		for _, in := range s.db.inbox {
			if len(rows) == limit || bytes >= queue.ReadBytes {
				break
			}
			bytes += len(in.body)
			r := store.Row{
				Queue: in.queue, Seq: first + int64(len(rows)), Format: queue.JSON, Body: in.body,
				SentAt: min(in.sent.UnixMilli(), now.UnixMilli()),
			}
			if !in.due.IsZero() {
				// The send time is cut to a millisecond and the delay stays whole.
				r.VisibleAt = max(in.sent.UnixMilli()+in.due.Sub(in.sent).Milliseconds(), now.UnixMilli())
			}
			rows = append(rows, r)
		}
		for i := range rows {
			s.db.numbered(rows[i].Queue).add(&rows[i])
		}
		s.db.inbox = slices.Delete(s.db.inbox, 0, len(rows))
		return nil
	})
	if err != nil {
		return nil, err
	}
	return rows, nil
}

// Apply implements store.Store.
func (s *Store) Apply(ctx context.Context, change *store.Change) error {
	return s.write(ctx, "Apply", func() error {
		for _, m := range change.Move {
			if q := s.db.numbered(m.To.Queue); q == nil || q.removed || q.has(m.To.Seq) && s.db.has(m.From) {
				return fmt.Errorf("a message cannot move to seq %d of queue %d", m.To.Seq, m.To.Queue)
			}
		}
		s.db.note(change)
		for i := range change.Return {
			s.db.back(&change.Return[i])
		}
		for i := range change.Forget {
			s.db.forget(&change.Forget[i])
		}
		for _, k := range change.Delete {
			if q := s.db.numbered(k.Queue); q != nil {
				q.remove(k.Seq)
			}
		}
		for i := range change.Retry {
			s.db.retry(&change.Retry[i])
		}
		for _, m := range change.Move {
			s.db.move(m)
		}
		for _, q := range s.db.queues {
			q.tidy()
		}
		s.db.account.put(change.Usage)
		return nil
	})
}

func (d *Database) has(k store.Key) bool {
	q := d.numbered(k.Queue)
	return q != nil && q.has(k.Seq)
}

func (d *Database) retry(t *store.Retry) {
	q := d.numbered(t.Queue)
	if q == nil {
		return
	}
	r, ok := q.take(t.Seq)
	if !ok {
		return
	}
	r.Failures, r.Losses, r.VisibleAt = t.Failures, t.Losses, t.VisibleAt
	q.add(&r)
	q.retried[r.Seq] = t.Cause
}

func (d *Database) move(m store.Move) {
	q := d.numbered(m.From.Queue)
	if q == nil {
		return
	}
	r, ok := q.remove(m.From.Seq)
	if !ok {
		return
	}
	r.Origin = cmp.Or(r.Origin, r.Seq)
	r.Queue, r.Seq, r.Failures, r.Losses, r.VisibleAt = m.To.Queue, m.To.Seq, 0, 0, 0
	to := d.numbered(m.To.Queue)
	to.add(&r)
	if m.Source != 0 {
		to.letters[r.Seq] = letter{source: m.Source, reason: m.Reason}
	}
}

// Expire implements store.Store.
func (s *Store) Expire(ctx context.Context, queueID int32, after, before int64, limit int) ([]store.Expired, error) {
	var gone []store.Expired
	err := s.write(ctx, "Expire", func() error {
		q := s.db.numbered(queueID)
		if q == nil {
			return nil
		}
		for i := q.find(after + 1); i < len(q.ready) && q.ready[i].Seq < before; i++ {
			if r := &q.ready[i]; r.Queue != 0 {
				gone = append(gone, store.Expired{Seq: r.Seq, Bytes: len(r.Body)})
			}
		}
		for seq, r := range q.due {
			if seq > after && seq < before {
				gone = append(gone, store.Expired{Seq: seq, Bytes: len(r.Body)})
			}
		}
		slices.SortFunc(gone, func(a, b store.Expired) int { return cmp.Compare(a.Seq, b.Seq) })
		gone = gone[:min(limit, len(gone))]
		for _, e := range gone {
			q.remove(e.Seq)
		}
		q.tidy()
		return nil
	})
	return gone, err
}
