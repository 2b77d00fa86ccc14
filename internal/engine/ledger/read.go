package ledger

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/ledger/feed"
)

// Subscription is a view of the records as they are made.
type Subscription = feed.Subscription[*Record]

// Subscribe begins to follow the records that the filter lets through; its times are not looked at. Records come before
// they are written, without the lines that their handlers logged, and nobody may write to them. Whoever subscribes closes
// the subscription.
func (l *Ledger) Subscribe(filter Filter) *Subscription { return l.hub.Subscribe(filter.matches) }

func (f *Filter) matches(r *Record) bool {
	return (len(f.Queues) == 0 || slices.Contains(f.Queues, r.ID.Queue)) && (f.App == "" || f.App == r.App) &&
		(len(f.Outcomes) == 0 || slices.Contains(f.Outcomes, r.Outcome))
}

// List returns a page of the records that the filter lets through, newest first, without their fates, acks, lines and stacks. A
// cursor of "" begins at the newest; limit is brought into 1 to queue.RecordPage. Faults: Invalid (record_cursor), Unavailable.
func (l *Ledger) List(ctx context.Context, f Filter, cursor string, limit int) (Page, error) {
	q := Query{Queues: f.Queues, App: f.App, Outcomes: f.Outcomes, To: math.MaxInt64, Limit: min(max(limit, 1), queue.RecordPage)}
	if !f.Since.IsZero() {
		q.From = numberAt(f.Since)
	}
	if !f.Until.IsZero() {
		q.To = numberAt(f.Until)
	}
	if cursor != "" {
		var err error
		if q.Before, err = parseCursor(cursor); err != nil {
			return Page{}, err
		}
	}
	var page Page
	err := l.read(ctx, func(ctx context.Context, s Store) (err error) {
		page.Records, err = s.List(ctx, &q)
		return err
	})
	if err == nil && len(page.Records) == q.Limit {
		page.Next = page.Records[q.Limit-1].ID.Cursor()
	}
	return page, err
}

// Of returns the newest records of some queues that name a message, at most queue.HistoryRecords, newest first, each with the
// fates and acks of that message alone. Since is when it was sent, or before. Fault: Unavailable.
func (l *Ledger) Of(ctx context.Context, queues []string, message queue.ID, since time.Time) (records []Record, err error) {
	err = l.read(ctx, func(ctx context.Context, s Store) (err error) {
		records, err = s.Of(ctx, queues, message, numberAt(since), queue.HistoryRecords)
		return err
	})
	return records, err
}

// Get returns one record with its fates, acks and lines. Faults: NotFound (record_not_found), Unavailable.
func (l *Ledger) Get(ctx context.Context, id ID) (record *Record, err error) {
	err = l.read(ctx, func(ctx context.Context, s Store) (err error) {
		record, err = s.Get(ctx, id)
		return err
	})
	return record, err
}

// Last returns the newest record of a handler call of each queue that has one, by name of the queue, without fates,
// acks, lines and stacks. Fault: Unavailable.
func (l *Ledger) Last(ctx context.Context) (records []Record, err error) {
	err = l.read(ctx, func(ctx context.Context, s Store) (err error) {
		records, err = s.Last(ctx)
		return err
	})
	return records, err
}

// read calls the store for a reader.
func (l *Ledger) read(ctx context.Context, call func(ctx context.Context, s Store) error) error {
	l.mu.Lock()
	s, life := l.store, l.life
	l.mu.Unlock()
	if s == nil {
		return errNoStore
	}
	ctx, cancel := context.WithTimeout(ctx, queue.RecordTime)
	defer cancel()
	defer context.AfterFunc(life, cancel)()
	return call(ctx, s)
}
