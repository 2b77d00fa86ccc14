package memory

import (
	"context"
	"slices"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// Hold stands for a transaction that enqueued for a queue and has not ended: until the end, a Remove of it fails.
func (d *Database) Hold(queueName string) (end func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held[queueName]++
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.held[queueName]--
	}
}

// Remove implements store.Store.
func (s *Store) Remove(ctx context.Context, queueID int32) (store.Count, error) {
	var c store.Count
	err := s.write(ctx, "Remove", func() error {
		c = store.Count{}
		q := s.db.numbered(queueID)
		if q == nil || q.removed {
			return nil
		}
		if s.db.held[q.info.Name] > 0 {
			return fault.New(fault.Conflict, store.CodeQueueBusy, "a transaction that enqueued for queue %s has not ended", q.info.Name)
		}
		s.db.inbox = slices.DeleteFunc(s.db.inbox, func(r inboxRow) bool {
			if r.queue != queueID {
				return false
			}
			c.Messages++
			c.Bytes += int64(len(r.body))
			return true
		})
		s.db.forget(&store.Forget{Queue: queueID})
		q.removed = true
		delete(s.db.byName, q.info.Name)
		return nil
	})
	return c, err
}

// Scrap implements store.Store.
func (s *Store) Scrap(ctx context.Context, limit int) (more bool, err error) {
	err = s.write(ctx, "Scrap", func() error {
		left := limit
		for _, q := range s.db.queues {
			if !q.removed {
				continue
			}
			var seqs []int64
			q.each(func(r *store.Row) { seqs = append(seqs, r.Seq) })
			for _, seq := range seqs[:min(len(seqs), left)] {
				q.remove(seq)
				left--
			}
			q.tidy()
		}
		more = left == 0
		return nil
	})
	return more, err
}
