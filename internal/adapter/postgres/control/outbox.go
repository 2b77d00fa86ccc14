package control

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/runlot/runlot/internal/adapter/postgres/control/query"
	"github.com/runlot/runlot/internal/adapter/postgres/session"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/notify"
)

// Outbox implements notify.Outbox. Its clock is that of the database.
type Outbox struct{ s *Store }

var _ notify.Outbox = Outbox{}

// Outbox returns the outbox of the store.
func (s *Store) Outbox() Outbox { return Outbox{s} }

// VersionNumber is the number of a version of an app, 0 when there is no such version.
func (s *Store) VersionNumber(ctx context.Context, appName, id string) (int, error) {
	key, err := uuid.Parse(id)
	if err != nil {
		return 0, nil //nolint:nilerr // what is no id names no version
	}
	number, err := s.read().VersionNumber(ctx, query.VersionNumberParams{App: appName, ID: key})
	if missing(err) {
		return 0, nil
	}
	return int(number), session.Classify(err)
}

// Add implements notify.Outbox.
func (o Outbox) Add(ctx context.Context, n *notify.Notice, ways []string, keep int) (added bool, err error) {
	body, err := json.Marshal(n)
	if err != nil {
		return false, err
	}
	err = o.s.write(ctx, func(q *query.Queries) error {
		id, err := q.AddNotice(ctx, query.AddNoticeParams{
			Day: pgtype.Date{Time: n.Day(), Valid: true}, Rule: string(n.Rule), Subject: n.Subject(), Body: body,
		})
		if missing(err) {
			return nil
		}
		if err != nil {
			return err
		}
		added = true
		if err := q.AddNoticeWays(ctx, query.AddNoticeWaysParams{Notice: id, Ways: ways}); err != nil {
			return err
		}
		err = q.ExpireNotices(ctx, query.ExpireNoticesParams{Problem: "no node sends to this receiver any more", Age: queue.NotifyAge.Seconds()})
		if err != nil {
			return err
		}
		return q.PruneNotices(ctx, int32(keep))
	})
	return added && err == nil, err
}

// Claim implements notify.Outbox.
func (o Outbox) Claim(ctx context.Context, ways []string, lease time.Duration) (*notify.Delivery, time.Duration, error) {
	row, err := o.s.read().ClaimNotice(ctx, query.ClaimNoticeParams{Lease: lease.Seconds(), Ways: ways})
	if missing(err) {
		seconds, err := o.s.read().NextNotice(ctx, ways)
		if err != nil || seconds == 0 {
			return nil, 0, session.Classify(err)
		}
		return nil, max(duration(seconds), time.Millisecond), nil
	}
	if err != nil {
		return nil, 0, session.Classify(err)
	}
	n, err := notice(row.Notice, row.Body)
	if err != nil {
		return nil, 0, err
	}
	return &notify.Delivery{ID: row.Notice, Way: row.Way, Notice: n, Attempt: int(row.Attempts), Age: max(duration(row.Age), 0)}, 0, nil
}

func notice(id int64, body []byte) (*notify.Notice, error) {
	n := &notify.Notice{}
	if err := json.Unmarshal(body, n); err != nil {
		return nil, fmt.Errorf("notice %d: %w", id, err)
	}
	return n, nil
}

func duration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

func (o Outbox) settle(ctx context.Context, d *notify.Delivery, state notify.State, after time.Duration, problem string) error {
	return session.Classify(o.s.read().SettleNotice(ctx, query.SettleNoticeParams{
		State: string(state), Problem: problem, After: after.Seconds(), Notice: d.ID, Way: d.Way, Attempt: int32(d.Attempt),
	}))
}

// Sent implements notify.Outbox.
func (o Outbox) Sent(ctx context.Context, d *notify.Delivery) error {
	return o.settle(ctx, d, notify.Sent, 0, "")
}

// Retry implements notify.Outbox.
func (o Outbox) Retry(ctx context.Context, d *notify.Delivery, after time.Duration, problem string) error {
	return o.settle(ctx, d, notify.Waiting, after, problem)
}

// Failed implements notify.Outbox.
func (o Outbox) Failed(ctx context.Context, d *notify.Delivery, problem string) error {
	return o.settle(ctx, d, notify.Failed, 0, problem)
}

// Notices implements notify.Outbox.
func (o Outbox) Notices(ctx context.Context, before int64, count int) ([]notify.Stored, error) {
	if before <= 0 {
		before = math.MaxInt64
	}
	rows, err := o.s.read().Notices(ctx, query.NoticesParams{Before: before, Count: page(count)})
	if err != nil {
		return nil, session.Classify(err)
	}
	list, ids, place := make([]notify.Stored, len(rows)), make([]int64, len(rows)), map[int64]int{}
	for i := range rows {
		n, err := notice(rows[i].ID, rows[i].Body)
		if err != nil {
			return nil, err
		}
		list[i], ids[i], place[rows[i].ID] = notify.Stored{ID: rows[i].ID, Notice: n}, rows[i].ID, i
	}
	ways, err := o.s.read().NoticeWays(ctx, ids)
	if err != nil {
		return nil, session.Classify(err)
	}
	for i := range ways {
		w := &ways[i]
		one := &list[place[w.Notice]]
		one.Ways = append(one.Ways, notify.Status{
			Way: w.Way, State: notify.State(w.State), Attempt: int(w.Attempts), Next: moment(w.DueAt), Sent: moment(w.SentAt), Problem: w.Problem,
		})
	}
	return list, nil
}

// moment is a time, zero for none.
func moment(at *time.Time) time.Time {
	if at == nil {
		return time.Time{}
	}
	return at.UTC()
}
