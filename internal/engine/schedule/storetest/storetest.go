// Package storetest is the contract of a schedule.Store, as tests that every store runs.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/schedule"
)

// Open returns another handle on the same crons each time it is called, so that two of them can race. runs returns what is
// kept of a cron, oldest first.
type Open func(t *testing.T) (store schedule.Store, runs func(app, cron string) []schedule.Record)

// Run runs the contract. fresh returns a store without crons.
func Run(t *testing.T, fresh func(t *testing.T) Open) {
	t.Helper()
	for name, test := range map[string]func(t *testing.T, open Open){
		"declare": declare, "claim": claim, "fence": fence, "lost": lost, "race": race, "records": records, "apps": apps, "by hand": byHand,
	} {
		t.Run(name, func(t *testing.T) { test(t, fresh(t)) })
	}
}

const (
	app    = "digest"
	hourly = "0 * * * *"
	daily  = "0 0 * * *"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func look(t *testing.T, s schedule.Store, name string) *schedule.View {
	t.Helper()
	view, err := s.Look(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return view
}

func state(t *testing.T, view *schedule.View, cron string) schedule.State {
	t.Helper()
	for _, s := range view.Crons {
		if s.Cron == cron {
			return s
		}
	}
	t.Fatalf("%s is not declared: %+v", cron, view)
	return schedule.State{}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// claimOf is a claim on what view shows.
func claimOf(view *schedule.View, cron string, at time.Time, attempt int) *schedule.Claim {
	return &schedule.Claim{App: app, Node: "node", Fence: view.Fence, Beat: view.Beat, Cron: cron, At: at, Attempt: attempt}
}

func declare(t *testing.T, open Open) {
	s, _ := open(t)
	view := look(t, s, app)
	if len(view.Crons) != 0 || view.Running || view.Now.IsZero() {
		t.Errorf("before any cron: %+v", view)
	}
	must(t, s.Declare(t.Context(), app, []string{hourly}))
	first := state(t, look(t, s, app), hourly)
	if !first.At.IsZero() || first.Phase != schedule.Done || first.Attempt != 0 || first.Since.Before(view.Now) {
		t.Errorf("declared at %s: %+v", view.Now, first)
	}
	must(t, s.Declare(t.Context(), app, []string{hourly, daily}))
	view = look(t, s, app)
	if again := state(t, view, hourly); !again.Since.Equal(first.Since) {
		t.Errorf("declared again, it counts from %s, not from %s", again.Since, first.Since)
	}
	if second := state(t, view, daily); second.Since.Before(first.Since) {
		t.Errorf("the later one counts from %s, the first from %s", second.Since, first.Since)
	}
	must(t, s.Forget(t.Context(), app, []string{hourly, "7 7 * * *"}))
	if view = look(t, s, app); len(view.Crons) != 1 || view.Crons[0].Cron != daily {
		t.Errorf("after one was forgotten: %+v", view.Crons)
	}
	must(t, s.Declare(t.Context(), app, nil))
	must(t, s.Forget(t.Context(), app, nil))
}

func claim(t *testing.T, open Open) {
	s, runs := open(t)
	must(t, s.Declare(t.Context(), app, []string{hourly, daily}))
	view := look(t, s, app)
	c := claimOf(view, hourly, noon, 1)
	c.Missed = 3
	fence, err := s.Claim(t.Context(), c)
	must(t, err)
	view = look(t, s, app)
	running := state(t, view, hourly)
	if !view.Running || !running.At.Equal(noon) || running.Phase != schedule.Running || running.Attempt != 1 || running.Missed != 3 ||
		running.Node != "node" || running.Began.IsZero() {
		t.Errorf("claimed: %+v", view)
	}
	must(t, s.Renew(t.Context(), app, fence))
	if after := look(t, s, app); after.Beat == view.Beat || after.Fence != view.Fence {
		t.Errorf("a sign of life changes %+v to %+v", view, after)
	}
	try := noon.Add(10 * time.Second)
	must(t, s.Finish(t.Context(), &schedule.Finish{App: app, Fence: fence, Cron: hourly, Try: try, Attempt: 1, Record: record(noon, queue.Failed)}))
	view = look(t, s, app)
	if waits := state(t, view, hourly); view.Running || waits.Phase != schedule.Waiting || !waits.Try.Equal(try) || waits.Attempt != 1 || !waits.At.Equal(noon) {
		t.Errorf("waiting: %+v", view)
	}
	fence, err = s.Claim(t.Context(), claimOf(view, hourly, noon, 2))
	must(t, err)
	must(t, s.Finish(t.Context(), &schedule.Finish{App: app, Fence: fence, Cron: hourly, Attempt: 2, Record: record(noon, queue.OK)}))
	if done := state(t, look(t, s, app), hourly); done.Phase != schedule.Done || !done.Try.IsZero() || done.Attempt != 2 {
		t.Errorf("done: %+v", done)
	}
	if kept := runs(app, hourly); len(kept) != 2 || kept[0].Outcome != queue.Failed || kept[1].Outcome != queue.OK {
		t.Errorf("kept: %+v", kept)
	}
	if other := state(t, look(t, s, app), daily); !other.At.IsZero() {
		t.Errorf("the other cron: %+v", other)
	}
	if _, err := s.Claim(t.Context(), claimOf(look(t, s, app), "1 1 * * *", noon, 1)); !errors.Is(err, schedule.ErrTaken) {
		t.Errorf("a cron that is not declared: %v", err)
	}
	if look(t, s, app).Running {
		t.Error("a refused claim holds the app")
	}
}

// fence: whatever happened since a view, or since a claim, makes it void.
func fence(t *testing.T, open Open) {
	s, runs := open(t)
	must(t, s.Declare(t.Context(), app, []string{hourly, daily}))
	old := look(t, s, app)
	first, err := s.Claim(t.Context(), claimOf(old, hourly, noon, 1))
	must(t, err)
	running := look(t, s, app)
	refused := func(when string, view *schedule.View) {
		t.Helper()
		if _, err := s.Claim(t.Context(), claimOf(view, daily, noon, 1)); !errors.Is(err, schedule.ErrTaken) {
			t.Errorf("a claim %s: %v", when, err)
		}
	}
	refused("on a view from before another claim", old)
	must(t, s.Renew(t.Context(), app, first))
	refused("on a view from before a sign of life", running)
	alive := look(t, s, app)
	must(t, s.Finish(t.Context(), &schedule.Finish{App: app, Fence: first, Cron: hourly, Attempt: 1, Record: record(noon, queue.OK)}))
	refused("on a view from before the end", alive)
	late := func(when string) {
		t.Helper()
		if err := s.Renew(t.Context(), app, first); !errors.Is(err, schedule.ErrTaken) {
			t.Errorf("a sign of life %s: %v", when, err)
		}
		err := s.Finish(t.Context(), &schedule.Finish{App: app, Fence: first, Cron: hourly, Try: noon, Attempt: 9, Record: record(noon, queue.Failed)})
		if !errors.Is(err, schedule.ErrTaken) {
			t.Errorf("an end %s: %v", when, err)
		}
	}
	late("after the end")
	second, err := s.Claim(t.Context(), claimOf(look(t, s, app), daily, noon, 1))
	must(t, err)
	late("of a run that is over, during another")
	must(t, s.Renew(t.Context(), app, second))
	must(t, s.Forget(t.Context(), app, []string{daily}))
	r := record(noon, queue.OK)
	r.Cron = daily
	must(t, s.Finish(t.Context(), &schedule.Finish{App: app, Fence: second, Cron: daily, Attempt: 1, Record: r}))
	if view := look(t, s, app); view.Running || len(view.Crons) != 1 {
		t.Errorf("after the end of a run whose cron was forgotten: %+v", view)
	}
	if n := len(runs(app, hourly)); n != 1 {
		t.Errorf("%d runs kept; want 1", n)
	}
	if n := len(runs(app, daily)); n != 1 {
		t.Errorf("%d runs of the forgotten one kept; want 1", n)
	}
}

// lost: a run whose node says nothing can be taken over, by who saw its last sign of life.
func lost(t *testing.T, open Open) {
	s, runs := open(t)
	must(t, s.Declare(t.Context(), app, []string{hourly}))
	first, err := s.Claim(t.Context(), claimOf(look(t, s, app), hourly, noon, 1))
	must(t, err)
	c := claimOf(look(t, s, app), hourly, noon, 2)
	c.Lost = record(noon, queue.Lost)
	second, err := s.Claim(t.Context(), c)
	must(t, err)
	if err := s.Renew(t.Context(), app, first); !errors.Is(err, schedule.ErrTaken) {
		t.Errorf("a sign of life of the lost run: %v", err)
	}
	must(t, s.Finish(t.Context(), &schedule.Finish{App: app, Fence: second, Cron: hourly, Attempt: 2, Record: record(noon, queue.OK)}))
	if kept := runs(app, hourly); len(kept) != 2 || kept[0].Outcome != queue.Lost || kept[1].Outcome != queue.OK {
		t.Errorf("kept: %+v", kept)
	}
}

// race: of many nodes with the same view, one gets the occurrence; each occurrence is got.
func race(t *testing.T, open Open) {
	const nodes, rounds = 4, 20
	s, _ := open(t)
	must(t, s.Declare(t.Context(), app, []string{hourly}))
	stores := make([]schedule.Store, nodes)
	for i := range stores {
		stores[i], _ = open(t)
	}
	for round := range rounds {
		at := noon.Add(time.Duration(round) * time.Hour)
		view := look(t, s, app)
		var won atomic.Int32
		var wg sync.WaitGroup
		for _, store := range stores {
			wg.Go(func() {
				fence, err := store.Claim(context.Background(), claimOf(view, hourly, at, 1))
				switch {
				case err == nil:
					won.Add(1)
					err = store.Finish(context.Background(), &schedule.Finish{App: app, Fence: fence, Cron: hourly, Attempt: 1, Record: record(at, queue.OK)})
					if err != nil {
						t.Error(err)
					}
				case !errors.Is(err, schedule.ErrTaken):
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 {
			t.Fatalf("round %d: %d nodes got it", round, won.Load())
		}
	}
}

func record(at time.Time, outcome queue.Outcome) *schedule.Record {
	return &schedule.Record{App: app, Cron: hourly, At: at, Attempt: 1, Node: "node", Start: at, Outcome: outcome}
}

// records: what is kept is what was recorded, whatever it says.
func records(t *testing.T, open Open) {
	s, runs := open(t)
	must(t, s.Declare(t.Context(), app, []string{hourly}))
	want := []schedule.Record{
		{
			App: app, Cron: hourly, At: noon, Attempt: 2, Version: "abc", Node: "node", Start: noon.Add(time.Millisecond), Duration: 1234 * time.Microsecond,
			Outcome: queue.Failed, Missed: 7, Error: &schedule.Exception{Name: "Error", Message: "a\x00b\nü", Location: "a.ts:1:2", Stack: "at a"},
			Retry: noon.Add(time.Minute),
		},
		{App: app, Cron: hourly, At: noon, Node: "node", Start: noon, Outcome: schedule.Missed, Missed: 1, Reason: "too late\x00"},
		{App: app, Cron: hourly, At: noon, Attempt: 1, Start: noon, Outcome: queue.OK, Manual: true},
	}
	for i := range want {
		must(t, s.Keep(t.Context(), &want[i]))
	}
	// Databases keep no NUL in a text.
	want[0].Error.Message, want[1].Reason = "a�b\nü", "too late�"
	got := runs(app, hourly)
	if len(got) != len(want) {
		t.Fatalf("%d runs kept: %+v", len(got), got)
	}
	for i := range got {
		if !equal(&got[i], &want[i]) {
			t.Errorf("kept %+v (%+v), want %+v (%+v)", got[i], got[i].Error, want[i], want[i].Error)
		}
	}
}

func equal(a, b *schedule.Record) bool {
	x, y := *a, *b
	for _, r := range []*schedule.Record{&x, &y} {
		r.At, r.Start = r.At.UTC(), r.Start.UTC()
		if !r.Retry.IsZero() {
			r.Retry = r.Retry.UTC()
		}
	}
	return reflect.DeepEqual(x, y)
}

// apps: what happens to one app is nothing to another.
func apps(t *testing.T, open Open) {
	s, runs := open(t)
	for i := range 3 {
		must(t, s.Declare(t.Context(), fmt.Sprint("app", i), []string{hourly}))
	}
	view := look(t, s, "app1")
	c := claimOf(view, hourly, noon, 1)
	c.App = "app1"
	_, err := s.Claim(t.Context(), c)
	must(t, err)
	must(t, s.Forget(t.Context(), "app2", []string{hourly}))
	for name, want := range map[string]int{"app0": 1, "app1": 1, "app2": 0} {
		got := look(t, s, name)
		if len(got.Crons) != want || got.Running != (name == "app1") {
			t.Errorf("%s: %+v", name, got)
		}
	}
	r := record(noon, queue.OK)
	r.App = "app0"
	must(t, s.Keep(t.Context(), r))
	if len(runs("app0", hourly)) != 1 || len(runs("app1", hourly)) != 0 {
		t.Error("a record is kept of another app")
	}
}

// byHand is a run without an occurrence: it takes the app as every run does, and changes no cron.
func byHand(t *testing.T, open Open) {
	s, runs := open(t)
	must(t, s.Declare(t.Context(), app, nil))
	first := look(t, s, app)
	fence, err := s.Claim(t.Context(), claimOf(first, "", time.Time{}, 0))
	must(t, err)
	must(t, s.Renew(t.Context(), app, fence))
	must(t, s.Declare(t.Context(), app, []string{hourly}))
	view := look(t, s, app)
	if !view.Running || view.Fence != fence || state(t, view, hourly).Phase != schedule.Done {
		t.Errorf("during a run by hand: %+v", view)
	}
	if _, err := s.Claim(t.Context(), claimOf(first, "", time.Time{}, 0)); !errors.Is(err, schedule.ErrTaken) {
		t.Errorf("a second run by hand: %v", err)
	}
	kept := record(noon, queue.OK)
	kept.Manual = true
	must(t, s.Finish(t.Context(), &schedule.Finish{App: app, Fence: fence, Record: kept}))
	if view := look(t, s, app); view.Running || !state(t, view, hourly).At.IsZero() {
		t.Errorf("after a run by hand: %+v", view)
	}
	if list := runs(app, kept.Cron); len(list) != 1 || !list[0].Manual {
		t.Errorf("kept: %+v", list)
	}
}
