package backlog

import (
	"bytes"
	"context"
	"time"

	"github.com/runlot/runlot/internal/core/queue"
)

// Take leases up to n messages that are visible, each in a batch of its own, the one that has been visible longest first.
// With wait it returns when there is at least one, else also when it is known that there is none. It fails as Next does.
func (l *Lane) Take(ctx context.Context, n int, wait bool) ([]*queue.Batch, error) {
	batch, err := l.wait(ctx, &waiter{size: n, poll: !wait})
	if batch == nil || err != nil {
		return nil, err
	}
	l.q.mu.Lock()
	defer l.q.mu.Unlock()
	whole := l.q.leases[batch]
	if whole == nil {
		return nil, l.refusal() // the lane was closed meanwhile
	}
	return l.q.split(whole), nil
}

// none reports that no message is visible, as far as the store can be asked. mu is held.
func (q *Queue) none(now time.Time) bool {
	w := q.win
	if w.Visible() > 0 {
		return false
	}
	return now.Before(w.retryAt) || !w.busy && !w.Behind(q.newest) && !w.WantsDue(now)
}

// split gives each message of a lease a lease of its own. The bodies are copied: such leases last long, and shall not keep
// what their bodies were cut from. mu is held.
func (q *Queue) split(whole *Lease) []*queue.Batch {
	q.end(whole)
	list := make([]*queue.Batch, len(whole.batch.Messages))
	for i := range whole.batch.Messages {
		m := whole.batch.Messages[i]
		m.Body = bytes.Clone(m.Body)
		one := &Lease{
			batch: queue.Batch{Queue: q.Name, Messages: []queue.Message{m}, Metrics: whole.batch.Metrics},
			lane:  whole.lane, win: whole.win, since: whole.since, oldest: m.SentAt.UnixMilli(),
		}
		if whole.visibleAt != nil {
			one.visibleAt = whole.visibleAt[i : i+1 : i+1]
		}
		if whole.gone != nil {
			one.gone = []bool{whole.gone[i]}
		}
		q.begin(one)
		list[i] = &one.batch
	}
	return list
}
