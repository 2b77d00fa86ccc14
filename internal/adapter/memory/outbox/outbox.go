// Package outbox is the outbox of notices in memory, for tests: the fake of the one in PostgreSQL, held to the same contract.
package outbox

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/engine/notify"
)

// Outbox implements notify.Outbox. Its clock is time.Now. The zero value is ready.
type Outbox struct {
	mu      sync.Mutex
	away    bool
	lastID  int64
	notices []*entry
}

type entry struct {
	id      int64
	created time.Time
	notice  notify.Notice
	ways    []*notify.Status
}

var _ notify.Outbox = (*Outbox)(nil)

// SetAway lets every call fail as it does while a database is away, until it is told otherwise.
func (o *Outbox) SetAway(away bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.away = away
}

func (o *Outbox) lock() (unlock func(), err error) {
	o.mu.Lock()
	if o.away {
		o.mu.Unlock()
		return nil, fault.New(fault.Unavailable, "store", "the store does not answer")
	}
	return o.mu.Unlock, nil
}

// Add implements notify.Outbox.
func (o *Outbox) Add(_ context.Context, n *notify.Notice, ways []string, keep int) (bool, error) {
	unlock, err := o.lock()
	if err != nil {
		return false, err
	}
	defer unlock()
	for _, e := range o.notices {
		if e.notice.Rule == n.Rule && e.notice.Subject() == n.Subject() && e.notice.Day().Equal(n.Day()) {
			return false, nil
		}
	}
	o.lastID++
	e := &entry{id: o.lastID, created: time.Now(), notice: *n}
	for _, way := range ways {
		e.ways = append(e.ways, &notify.Status{Way: way, State: notify.Waiting, Next: e.created})
	}
	o.notices = append(o.notices, e)
	o.notices = o.notices[max(len(o.notices)-keep, 0):]
	return true, nil
}

// Claim implements notify.Outbox.
func (o *Outbox) Claim(_ context.Context, ways []string, lease time.Duration) (*notify.Delivery, time.Duration, error) {
	unlock, err := o.lock()
	if err != nil {
		return nil, 0, err
	}
	defer unlock()
	var on *entry
	var first *notify.Status
	for _, e := range o.notices {
		for _, s := range e.ways {
			if s.State == notify.Waiting && slices.Contains(ways, s.Way) && (first == nil || s.Next.Before(first.Next)) {
				on, first = e, s
			}
		}
	}
	if first == nil {
		return nil, 0, nil
	}
	now := time.Now()
	if wait := first.Next.Sub(now); wait > 0 {
		return nil, wait, nil
	}
	first.Attempt++
	first.Next = now.Add(lease)
	n := on.notice
	return &notify.Delivery{ID: on.id, Way: first.Way, Notice: &n, Attempt: first.Attempt, Age: now.Sub(on.created)}, 0, nil
}

// change changes a claimed delivery.
func (o *Outbox) change(d *notify.Delivery, change func(*notify.Status)) error {
	unlock, err := o.lock()
	if err != nil {
		return err
	}
	defer unlock()
	for _, e := range o.notices {
		for _, s := range e.ways {
			if e.id == d.ID && s.Way == d.Way && s.Attempt == d.Attempt && s.State == notify.Waiting {
				change(s)
			}
		}
	}
	return nil
}

// Sent implements notify.Outbox.
func (o *Outbox) Sent(_ context.Context, d *notify.Delivery) error {
	return o.change(d, func(s *notify.Status) { s.State, s.Sent, s.Next, s.Problem = notify.Sent, time.Now(), time.Time{}, "" })
}

// Retry implements notify.Outbox.
func (o *Outbox) Retry(_ context.Context, d *notify.Delivery, after time.Duration, problem string) error {
	return o.change(d, func(s *notify.Status) { s.Next, s.Problem = time.Now().Add(after), problem })
}

// Failed implements notify.Outbox.
func (o *Outbox) Failed(_ context.Context, d *notify.Delivery, problem string) error {
	return o.change(d, func(s *notify.Status) { s.State, s.Next, s.Problem = notify.Failed, time.Time{}, problem })
}

// Notices implements notify.Outbox.
func (o *Outbox) Notices(_ context.Context, before int64, count int) ([]notify.Stored, error) {
	unlock, err := o.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	list := []notify.Stored{}
	for _, e := range slices.Backward(o.notices) {
		if before > 0 && e.id >= before || len(list) >= count {
			continue
		}
		n := e.notice
		stored := notify.Stored{ID: e.id, Notice: &n}
		for _, s := range e.ways {
			stored.Ways = append(stored.Ways, *s)
		}
		slices.SortFunc(stored.Ways, func(x, y notify.Status) int { return strings.Compare(x.Way, y.Way) })
		list = append(list, stored)
	}
	return list, nil
}
