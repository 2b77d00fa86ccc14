// Package crons wires the scheduled runs of the apps of one process: schedulers over worker processes and databases.
package crons

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	pgcrons "github.com/runlot/runlot/internal/adapter/postgres/crons"
	"github.com/runlot/runlot/internal/adapter/workerd"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/cron"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/engine/dispatch"
	"github.com/runlot/runlot/internal/engine/schedule"
	"github.com/runlot/runlot/internal/server/trigger"
)

// Options are what a Keeper needs.
type Options struct {
	// URL returns the address of a database by name; nil when there is no PostgreSQL, and then nothing is scheduled.
	URL      func(ctx context.Context, database string) (string, error)
	Recorder schedule.Recorder
	Log      *slog.Logger
}

// TriggerPath is where a project in development runs its scheduled handler on request; Answer is what it answers.
const TriggerPath = trigger.Path

// Answer is how such a run ended.
type Answer = trigger.Answer

// Keeper holds what the schedulers of several apps share.
type Keeper struct {
	o    Options
	node string

	mu     sync.Mutex
	stores map[string]*pgcrons.Store // by database; guarded by mu
}

// New returns a keeper, which connects to nothing yet.
func New(o Options) *Keeper {
	node, err := os.Hostname()
	if err != nil {
		node = "unknown"
	}
	return &Keeper{o: o, node: node, stores: map[string]*pgcrons.Store{}}
}

// Close ends the connections, after every App was stopped.
func (k *Keeper) Close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, store := range k.stores {
		store.Close()
	}
}

// Pools are the connections by database.
func (k *Keeper) Pools() map[string]*pgxpool.Pool {
	k.mu.Lock()
	defer k.mu.Unlock()
	pools := make(map[string]*pgxpool.Pool, len(k.stores))
	for name, store := range k.stores {
		pools[name] = store.Pool()
	}
	return pools
}

// store returns what remembers the runs in a database; nil when there is none.
func (k *Keeper) store(database string) (schedule.Store, error) {
	store, err := k.open(database)
	if store == nil {
		return nil, err
	}
	return store, nil
}

func (k *Keeper) open(database string) (*pgcrons.Store, error) {
	if database == "" || k.o.URL == nil {
		return nil, nil //nolint:nilnil // an app without a database has no crons
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if store := k.stores[database]; store != nil {
		return store, nil
	}
	store, err := pgcrons.New(context.Background(), pgcrons.Options{
		URL: func(ctx context.Context) (string, error) { return k.o.URL(ctx, database) }, Log: k.o.Log,
	})
	if err != nil {
		return nil, err
	}
	k.stores[database] = store
	return store, nil
}

// Forget removes what is remembered of the crons of an app that is gone: one of the same name begins anew.
func (k *Keeper) Forget(ctx context.Context, m *app.Manifest) error {
	store, err := k.store(m.Database)
	if err != nil || store == nil {
		return err
	}
	return store.Forget(ctx, m.Name, m.Crons)
}

// App is the scheduled runs of one app.
type App struct {
	*schedule.Scheduler
	keeper *Keeper
}

// App returns the scheduled runs of an app, which has no process yet. Stop ends them.
func (k *Keeper) App(name string) *App {
	return &App{keeper: k, Scheduler: schedule.New(schedule.Options{App: name, Node: k.node, Recorder: k.o.Recorder, Now: time.Now, Log: k.o.Log})}
}

// Process is a worker process.
type Process interface {
	Scheduled(ctx context.Context, cron string, at time.Time) (*workerd.Run, error)
}

// Live runs the crons of a version in its process from now on.
func (a *App) Live(p Process, version string, m *app.Manifest) {
	a.set(schedule.Target{Runtime: runtime{p}, Version: version}, m)
}

// Rest lets a cron of a version that is due call wake, which brings the next Live.
func (a *App) Rest(version string, m *app.Manifest, wake func()) {
	a.set(schedule.Target{Wake: wake, Version: version}, m)
}

func (a *App) set(target schedule.Target, m *app.Manifest) {
	var err error
	if target.Crons, err = parse(m); err == nil {
		target.Store, err = a.keeper.store(m.Database)
	}
	if err != nil {
		a.keeper.o.Log.Error("the crons of a version cannot run", "version", target.Version, "error", fault.Detail(err))
	}
	a.Set(target)
}

func parse(m *app.Manifest) ([]*cron.Schedule, error) {
	list := make([]*cron.Schedule, len(m.Crons))
	for i, text := range m.Crons {
		var err error
		if list[i], err = cron.Parse(text); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// CheckHandler refuses an app with crons and without the handler for them. file is its configuration.
func CheckHandler(m *app.Manifest, handlers *app.Handlers, file string) error {
	if len(m.Crons) == 0 || handlers.Has("scheduled") {
		return nil
	}
	way := "add `async scheduled(controller, env, ctx) { … }` to its default export"
	if handlers.ServiceWorker {
		way = "add `addEventListener(\"scheduled\", (event) => { … })`"
	}
	return fault.New(fault.Invalid, "scheduled_handler_missing", "%s has the cron %s, but %s has no scheduled handler", m.Name, m.Crons[0], m.Main).
		WithHint("%s, or remove the crons from %s", way, filepath.Base(file))
}

// Next is a cron and when it comes next.
type Next struct {
	// Cron is the expression, Words says it for a person.
	Cron, Words string
	At          time.Time
}

// Upcoming lists the crons of a version in its order, as of now. A cron that cannot be read, which no compiled manifest
// has, is left out.
func Upcoming(m *app.Manifest, now time.Time) []Next {
	list, err := parse(m)
	if err != nil {
		return nil
	}
	next := make([]Next, len(list))
	for i, s := range list {
		next[i] = Next{Cron: s.String(), Words: s.Describe(), At: s.Next(now)}
	}
	return next
}

// runtime lets an engine call the scheduled handler of a process.
type runtime struct{ process Process }

// Scheduled implements schedule.Runtime.
func (r runtime) Scheduled(ctx context.Context, cronText string, at time.Time) (*schedule.Result, error) {
	run, err := r.process.Scheduled(ctx, cronText, at)
	if err != nil {
		for theirs, ours := range map[error]error{
			dispatch.ErrLost: schedule.ErrLost, dispatch.ErrGone: schedule.ErrGone, dispatch.ErrCannotRun: schedule.ErrCannotRun,
		} {
			if errors.Is(err, theirs) {
				return nil, fmt.Errorf("%w%s", ours, strings.TrimPrefix(err.Error(), theirs.Error()))
			}
		}
		return nil, err
	}
	result := &schedule.Result{Outcome: run.Outcome, NoRetry: run.NoRetry}
	if e := run.Error; e != nil {
		result.Error = &schedule.Exception{Name: e.Name, Message: e.Message, Location: e.Location, Stack: e.Stack}
	}
	return result, nil
}
