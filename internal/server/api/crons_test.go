package api_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/schedule"
	"github.com/runlot/runlot/internal/server/api/crons"
)

// scheduled is the crons of the app shop.
type scheduled struct {
	crons []crons.Cron
	runs  []schedule.Kept
	// asked is the filter of the last list, and fired the expression of the last run by hand.
	asked schedule.Filter
	fired string
	fails error
}

func (s *scheduled) Crons(_ context.Context, name string) ([]crons.Cron, error) {
	if name != "shop" {
		return nil, fault.New(fault.NotFound, crons.CodeNotRunning, "%s does not run", name)
	}
	return s.crons, nil
}

func (s *scheduled) Runs(_ context.Context, f *schedule.Filter, limit int) ([]schedule.Kept, error) {
	s.asked = *f
	return s.runs[:min(limit, len(s.runs))], nil
}

func (s *scheduled) Fire(_ context.Context, _, cron string, at time.Time) (*schedule.Record, error) {
	s.fired = cron
	return &schedule.Record{App: "shop", Cron: cron, At: at, Outcome: queue.Failed, Manual: true, Error: &schedule.Exception{Name: "Error", Message: "no"}}, s.fails
}

func TestCrons(t *testing.T) {
	w := newWorld(t)
	ctx, reader := t.Context(), w.client("shop", access.Read)
	day := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	last := schedule.Kept{ID: 7, Record: schedule.Record{
		App: "shop", Cron: "0 * * * *", At: day, Start: day, Duration: 1500 * time.Microsecond, Attempt: 2, Outcome: queue.Failed, Retry: day.Add(time.Minute),
		Version: "v", Node: "n", Error: &schedule.Exception{Name: "Error", Message: "no", Location: "a.js:1:2"},
	}}
	w.crons.crons = []crons.Cron{
		{
			Text: "0 * * * *", Words: "every hour", Next: day.Add(time.Hour), State: schedule.State{Phase: schedule.Waiting, Try: day.Add(time.Minute)},
			Standing: schedule.Standing{Last: &last, FailingSince: day},
		},
		{Text: "0 0 * * *", Words: "every day", Next: day.Add(24 * time.Hour), State: schedule.State{Phase: schedule.Running, Began: day}},
	}
	got, err := reader.Crons(ctx, "shop")
	if err != nil {
		t.Fatal(err)
	}
	at := func(d time.Duration) *time.Time { moment := day.Add(d); return &moment }
	run := client.Run{
		ID: 7, App: "shop", Cron: "0 * * * *", At: day, Attempt: 2, Version: "v", Node: "n", Start: day, Milliseconds: 1.5, Outcome: "failed",
		Retry: at(time.Minute), Error: &client.Exception{Name: "Error", Message: "no", Location: "a.js:1:2"},
	}
	want := []client.Cron{
		{Cron: "0 * * * *", Description: "every hour", Next: day.Add(time.Hour), RetryAt: at(time.Minute), FailingSince: at(0), Last: &run},
		{Cron: "0 0 * * *", Description: "every day", Next: day.Add(24 * time.Hour), RunningSince: at(0)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	_, err = w.admin.Crons(ctx, "other")
	w.code(err, crons.CodeNotRunning)
	_, err = reader.Crons(ctx, "other")
	w.code(err, access.CodeForbidden)
}

func TestRunsComeInPages(t *testing.T) {
	w := newWorld(t)
	for id := int64(5); id > 0; id-- {
		w.crons.runs = append(w.crons.runs, schedule.Kept{ID: id, Record: schedule.Record{App: "shop", Outcome: queue.OK}})
	}
	page, err := w.admin.Runs(t.Context(), "shop", &client.RunFilter{Limit: 2, Cron: " 0  * * * * ", Outcome: "ok"})
	if err != nil || len(page.Items) != 2 || page.Items[1].ID != 4 || page.Next != "4" {
		t.Fatalf("%+v, %v", page, err)
	}
	if f := w.crons.asked; f.App != "shop" || f.Cron == nil || *f.Cron != "0 * * * *" || len(f.Outcomes) != 1 || f.Outcomes[0] != queue.OK || f.Before != 0 {
		t.Errorf("asked for %+v", f)
	}
	page, err = w.admin.Runs(t.Context(), "shop", &client.RunFilter{Limit: 5, Cursor: page.Next})
	if err != nil || len(page.Items) != 5 || page.Next != "" || w.crons.asked.Before != 4 || w.crons.asked.Cron != nil {
		t.Errorf("%+v, %v, asked for %+v", page, err, w.crons.asked)
	}
	_, err = w.admin.Runs(t.Context(), "shop", &client.RunFilter{Cursor: "x"})
	w.code(err, "cursor_invalid")
	_, err = w.admin.Runs(t.Context(), "shop", &client.RunFilter{Outcome: "fine"})
	w.code(err, "request_invalid")
}

func TestACronIsRunByHand(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	_, err := w.client("shop", access.Read).RunCron(ctx, "shop", &client.RunCron{})
	w.code(err, access.CodeForbidden)
	deployer := w.client("shop", access.Deploy)
	for _, step := range []struct {
		has         []string
		asks, fires string
		code        string
	}{
		{nil, "", "", ""},
		{nil, "0 * * * *", "", "cron_unknown"},
		{[]string{"0 9 * * MON"}, "", "0 9 * * MON", ""},
		{[]string{"0 9 * * MON"}, " 0 9  * * mon", "0 9 * * MON", ""},
		{[]string{"0 9 * * MON", "1 1 * * *"}, "", "", "cron_ambiguous"},
		{[]string{"0 9 * * MON", "1 1 * * *"}, "1 1 * * *", "1 1 * * *", ""},
		{[]string{"0 9 * * MON", "1 1 * * *"}, "2 1 * * *", "", "cron_unknown"},
	} {
		w.crons.crons, w.crons.fired = nil, "none"
		for _, text := range step.has {
			w.crons.crons = append(w.crons.crons, crons.Cron{Text: text})
		}
		r, err := deployer.RunCron(ctx, "shop", &client.RunCron{Cron: step.asks})
		if step.code != "" {
			w.code(err, step.code)
			continue
		}
		if err != nil || r.Cron != step.fires || w.crons.fired != step.fires || r.Outcome != "failed" || !r.Manual || r.Error.Message != "no" {
			t.Errorf("%+v: %+v, %v", step, r, err)
		}
	}
	w.crons.fails = fault.New(fault.Conflict, schedule.CodeUnderWay, "busy")
	_, err = deployer.RunCron(ctx, "shop", &client.RunCron{Cron: "1 1 * * *"})
	w.code(err, schedule.CodeUnderWay)
	events, err := w.admin.Events(ctx, "shop", 0, 10)
	if err != nil || len(events) != 4 || events[0].Kind != "cron.run" || events[0].Detail["cron"] != "1 1 * * *" || events[0].Detail["outcome"] != "failed" {
		t.Errorf("events %+v, %v", events, err)
	}
}
