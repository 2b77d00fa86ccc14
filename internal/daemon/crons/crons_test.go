package crons

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/runlot/runlot/internal/adapter/workerd"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/dispatch"
	"github.com/runlot/runlot/internal/engine/schedule"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCheckHandler(t *testing.T) {
	m := &app.Manifest{Name: "shop", Main: "a.js", Crons: []string{"* * * * *"}}
	has := func(handler string, script bool) *app.Handlers {
		return &app.Handlers{Exports: map[string]app.Export{"default": {Handlers: []string{handler}}}, ServiceWorker: script}
	}
	if err := CheckHandler(m, has("scheduled", false), "x/runlot.json"); err != nil {
		t.Errorf("with a handler: %v", err)
	}
	if err := CheckHandler(&app.Manifest{}, has("fetch", false), "x/runlot.json"); err != nil {
		t.Errorf("without crons: %v", err)
	}
	for script, way := range map[bool]string{false: "default export", true: "addEventListener"} {
		err := CheckHandler(m, has("fetch", script), "x/runlot.json")
		if f := fault.From(err); f == nil || f.Kind != fault.Invalid || !strings.Contains(f.Hint, way) || !strings.Contains(f.Hint, "from runlot.json") {
			t.Errorf("service worker %t: %v", script, err)
		}
	}
}

func TestUpcoming(t *testing.T) {
	noon := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	got := Upcoming(&app.Manifest{Crons: []string{"0 9 * * *", "*/5 * * * *"}}, noon)
	want := []Next{{"0 9 * * *", "at 09:00 UTC", noon.Add(21 * time.Hour)}, {"*/5 * * * *", "every 5 minutes", noon.Add(5 * time.Minute)}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := Upcoming(&app.Manifest{Crons: []string{"no"}}, noon); got != nil {
		t.Errorf("of a manifest that was not compiled: %v", got)
	}
}

// process is a worker process of one function.
type process func() (*workerd.Run, error)

func (p process) Scheduled(context.Context, string, time.Time) (*workerd.Run, error) { return p() }

func TestRuntimeSpeaksOfRuns(t *testing.T) {
	for theirs, ours := range map[error]error{
		dispatch.ErrLost: schedule.ErrLost, dispatch.ErrGone: schedule.ErrGone, dispatch.ErrCannotRun: schedule.ErrCannotRun,
	} {
		_, err := runtime{process(func() (*workerd.Run, error) { return nil, fmt.Errorf("%w: signal: killed", theirs) })}.Scheduled(t.Context(), "", time.Now())
		if !errors.Is(err, ours) || err.Error() != ours.Error()+": signal: killed" {
			t.Errorf("%v is %v", theirs, err)
		}
	}
	other := errors.New("other")
	if _, err := (runtime{process(func() (*workerd.Run, error) { return nil, other })}).Scheduled(t.Context(), "", time.Now()); !errors.Is(err, other) {
		t.Errorf("another error is %v", err)
	}
	result, err := runtime{process(func() (*workerd.Run, error) {
		return &workerd.Run{Outcome: queue.Failed, NoRetry: true, Error: &dispatch.Exception{Name: "Error", Message: "no", Location: "a:1", Stack: "at a"}}, nil
	})}.Scheduled(t.Context(), "", time.Now())
	if err != nil || result.Outcome != queue.Failed || !result.NoRetry || *result.Error != (schedule.Exception{Name: "Error", Message: "no", Location: "a:1", Stack: "at a"}) {
		t.Errorf("%+v, %v", result, err)
	}
}

type nobody struct{}

func (nobody) Run(*schedule.Record) {}

// TestAnAppWithoutADatabase can be fired, also before it has a process and while it rests.
func TestAnAppWithoutADatabase(t *testing.T) {
	keeper := New(Options{Recorder: nobody{}, Log: slog.New(slog.DiscardHandler)})
	defer keeper.Close()
	a := keeper.App("shop")
	defer a.Stop(t.Context())
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.Fire(gone, "x", time.Now()); err == nil {
		t.Error("an app without a process runs")
	}
	m := &app.Manifest{Name: "shop"}
	a.Rest("v", m, func() {
		go a.Live(process(func() (*workerd.Run, error) { return &workerd.Run{Outcome: queue.OK}, nil }), "v", m)
	})
	if r, err := a.Fire(t.Context(), "x", time.Now()); err != nil || r.Outcome != queue.OK || r.Version != "v" || r.App != "shop" {
		t.Errorf("%+v, %v", r, err)
	}
	if a.Idle(time.Hour) {
		t.Error("an app that has just run is idle")
	}
}
