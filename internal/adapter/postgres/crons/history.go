package crons

import (
	"context"
	"time"

	"github.com/runlot/runlot/internal/adapter/postgres/crons/query"
	"github.com/runlot/runlot/internal/adapter/postgres/session"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/schedule"
)

// Runs implements schedule.History.
func (s *Store) Runs(ctx context.Context, f *schedule.Filter, limit int) ([]schedule.Kept, error) {
	outcomes := make([]string, len(f.Outcomes))
	for i := range f.Outcomes {
		outcomes[i] = string(f.Outcomes[i])
	}
	rows, err := query.New(s.pool).Runs(ctx, query.RunsParams{
		App: f.App, Cron: f.Cron, Outcomes: outcomes, Before: f.Before, Count: int32(min(limit, queue.RunsKept)),
	})
	if err != nil {
		return nil, session.Classify(err)
	}
	list := make([]schedule.Kept, len(rows))
	for i := range rows {
		list[i] = kept(&rows[i])
	}
	return list, nil
}

// Standings implements schedule.History.
func (s *Store) Standings(ctx context.Context, app string, crons []string) (map[string]schedule.Standing, error) {
	q := query.New(s.pool)
	last, err := q.LastRuns(ctx, query.LastRunsParams{App: app, Crons: crons})
	if err != nil {
		return nil, session.Classify(err)
	}
	failing, err := q.Failing(ctx, query.FailingParams{App: app, Crons: crons})
	if err != nil {
		return nil, session.Classify(err)
	}
	standings := map[string]schedule.Standing{}
	for i := range last {
		k := kept(&last[i])
		standings[k.Cron] = schedule.Standing{Last: &k}
	}
	for i := range failing {
		standing := standings[failing[i].Cron]
		standing.FailingSince = failing[i].Since.UTC()
		standings[failing[i].Cron] = standing
	}
	return standings, nil
}

func kept(r *query.RunlotQueueRun) schedule.Kept {
	k := schedule.Kept{ID: r.ID, Record: schedule.Record{
		App: r.App, Cron: r.Cron, At: r.Occurrence.UTC(), Attempt: int(r.Attempt), Version: r.Version, Node: r.Node, Start: r.StartedAt.UTC(),
		Duration: time.Duration(r.DurationUs) * time.Microsecond, Outcome: queue.Outcome(r.Outcome), Missed: int(r.Missed), Reason: r.Reason,
		Retry: value(r.RetryAt), Manual: r.Manual,
	}}
	if r.ErrorName != nil {
		k.Error = &schedule.Exception{Name: *r.ErrorName, Message: text(r.ErrorMessage), Location: text(r.ErrorLocation), Stack: text(r.ErrorStack)}
	}
	return k
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
