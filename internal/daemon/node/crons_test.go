package node

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/runlot/runlot/internal/adapter/postgres/cluster/clustertest"
	"github.com/runlot/runlot/internal/adapter/workerd"
	"github.com/runlot/runlot/internal/adapter/workerd/workerdtest"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	folder "github.com/runlot/runlot/internal/daemon/state"
	"github.com/runlot/runlot/internal/engine/dispatch"
	"github.com/runlot/runlot/internal/engine/schedule"
	"github.com/runlot/runlot/internal/engine/supervise"
)

// runs is an observer that hands on how scheduled runs ended.
type runs chan *schedule.Record

func (r runs) Run(record *schedule.Record) { r <- record }
func (runs) Batch(*dispatch.Record)        {}
func (runs) Progress(string)               {}
func (runs) Down(string, string)           {}
func (runs) Line(string, *workerd.Line)    {}
func (runs) Notice(string)                 {}

// TestACronWakesAParkedApp does not wait for a whole minute: what is remembered of the cron is put back by two.
func TestACronWakesAParkedApp(t *testing.T) {
	state := clustertest.Dir(t)
	if err := os.Mkdir(folder.RunDir(state), 0o700); err != nil {
		t.Fatal(err)
	}
	ended := make(runs, 100)
	n := New(Options{
		Workerd: workerdtest.Binary(t), Postgres: clustertest.Install, State: state, StopTime: time.Second, Log: slog.New(slog.DiscardHandler), Observer: ended,
	})
	defer n.Stop()
	a := n.NewApp("clock")
	defer a.Stop()
	v := &Version{
		ID: "v", Manifest: &app.Manifest{Name: "clock", Database: app.DefaultDatabase, CompatibilityDate: "2026-11-17", Crons: []string{"* * * * *"}},
		Load: func(context.Context) (*Loaded, error) {
			module := app.Module{Name: "main.mjs", Kind: app.ESModule, Body: []byte(`export default { scheduled() {} }`)}
			return &Loaded{Bundle: &app.Bundle{Modules: []app.Module{module}}}, nil
		},
	}
	if err := a.Resume(t.Context(), v, true); err != nil {
		t.Fatal(fault.Detail(err))
	}
	if phase := a.State().Phase; phase != supervise.Parked {
		t.Fatalf("the app is %s", phase)
	}
	// A person who asks for a run wakes it.
	if r, err := a.Fire(t.Context(), "by hand", time.Now()); err != nil || r.Outcome != queue.OK {
		t.Fatalf("%+v, %v", r, err)
	}
	if a.Park(time.Hour) {
		t.Error("an app that has just run is parked")
	}
	address, err := n.servers.Open(t.Context(), app.DefaultDatabase)
	if err != nil {
		t.Fatal(fault.Detail(err))
	}
	conn, err := pgx.Connect(t.Context(), address.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	bound := time.After(4 * time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var parking time.Time
	for { // a cron may run at this very moment
		putBack(t, conn)
		parking = time.Now()
		if a.Park(0) {
			break
		}
		select {
		case <-tick.C:
		case <-bound:
			t.Fatal("an app without work is not parked")
		}
	}
	for {
		select {
		case r := <-ended:
			if r.Manual || r.Start.Before(parking) {
				continue
			}
			if r.Outcome != queue.OK || r.Cron != "* * * * *" || r.Version != "v" {
				t.Errorf("%+v", r)
			}
			return
		case <-bound:
			t.Fatalf("no cron came; the app is %s", a.State().Phase)
		}
	}
}

// putBack makes an occurrence of each cron due that does not run.
func putBack(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), `UPDATE runlot_queue.cron SET since = since - interval '2 minutes', occurrence = NULL WHERE phase = 'done'`); err != nil {
		t.Fatal(err)
	}
}
