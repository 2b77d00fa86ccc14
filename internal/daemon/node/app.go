package node

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/runlot/runlot/internal/adapter/workerd"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/daemon/crons"
	"github.com/runlot/runlot/internal/daemon/history"
	"github.com/runlot/runlot/internal/daemon/numbers"
	"github.com/runlot/runlot/internal/daemon/probe"
	"github.com/runlot/runlot/internal/daemon/state"
	"github.com/runlot/runlot/internal/daemon/witness"
	"github.com/runlot/runlot/internal/engine/schedule"
	"github.com/runlot/runlot/internal/engine/supervise"
	"github.com/runlot/runlot/internal/server/binding"
	"github.com/runlot/runlot/internal/server/ingress"
)

// Version is one version of an app, immutable.
type Version struct {
	// ID is what records and logs name it by.
	ID       string
	Manifest *app.Manifest
	// Load fetches the rest when a process is started.
	Load func(ctx context.Context) (*Loaded, error)
}

// Loaded is what a process is started with.
type Loaded struct {
	Bundle  *app.Bundle
	Secrets map[string]string
}

// supervisor keeps an app's process running.
type supervisor = supervise.Supervisor[*Version, *workerd.Process]

// State is what an app does.
type State = supervise.State[*Version]

// App runs one app: its process, its queues' consumers and its door. Deploy, Resume and Stop are called by one goroutine at
// a time; the supervisor's callbacks come from another.
type App struct {
	n    *Node
	name string
	log  *slog.Logger
	door *ingress.Ingress
	sup  *supervisor
	runs *crons.App
	// starts and crashes count processes.
	starts, crashes atomic.Int64

	mu        sync.Mutex
	live      *Version             // what was deployed last; guarded by mu
	process   *workerd.Process     // what serves now, nil while nothing does; guarded by mu
	serving   *Version             // the version of process; guarded by mu
	resting   bool                 // the app is parked; guarded by mu
	consumers map[string]*consumer // by queue; guarded by mu
}

// NewApp returns an app of which nothing runs yet. The caller stops it.
func (n *Node) NewApp(name string) *App {
	a := &App{n: n, name: name, log: n.o.Log.With("app", name), consumers: map[string]*consumer{}}
	a.door = ingress.New(a.log)
	a.runs = n.crons.App(name)
	a.sup = supervise.New(supervise.Options[*Version, *workerd.Process]{
		App: name, Start: a.start, Alone: func(v *Version) bool { return v.Manifest.Stored() }, OnLive: a.onLive, OnDown: a.onDown, Log: a.log,
	})
	return a
}

// Door takes the app's requests.
func (a *App) Door() *ingress.Ingress { return a.door }

// Fire runs the scheduled handler now, see schedule.Scheduler.Fire.
func (a *App) Fire(ctx context.Context, cron string, at time.Time) (*schedule.Record, error) {
	return a.runs.Fire(ctx, cron, at)
}

// Name is the app's name, as the version says that was deployed last.
func (a *App) Name() string {
	if v := a.Live(); v != nil {
		return v.Manifest.Name
	}
	return a.name
}

// Live is the version that was deployed last; nil before the first.
func (a *App) Live() *Version {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.live
}

// State says what the app does.
func (a *App) State() State { return a.sup.State() }

// PID is the id of the app's process; 0 when there is none.
func (a *App) PID() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.process == nil {
		return 0
	}
	return a.process.PID()
}

// Deploy makes a version live: its queues are declared, its process is started, commit is called unless it is nil, then
// the traffic and the queues switch to it. On failure nothing has changed, unless commit had succeeded: then the version
// is the one to run, and is started until it does.
func (a *App) Deploy(ctx context.Context, v *Version, commit func(context.Context) error) error {
	committed := false
	return a.adopt(ctx, v, func(ctx context.Context) error {
		return a.sup.DeployCommitted(ctx, v, func(ctx context.Context) error {
			if commit != nil {
				if err := commit(ctx); err != nil {
					return err
				}
			}
			committed = true
			return nil
		})
	}, &committed)
}

// Resume makes a version that was live before this program started the one to run, and does not wait for it. A parked one
// starts with the first request or message.
func (a *App) Resume(ctx context.Context, v *Version, parked bool) error {
	committed := false
	return a.adopt(ctx, v, func(ctx context.Context) error {
		if parked && !v.Manifest.Stored() {
			a.rest(v)
			return a.sup.ResumeParked(ctx, v)
		}
		return a.sup.Resume(ctx, v)
	}, &committed)
}

// adopt puts what a version needs around its start.
func (a *App) adopt(ctx context.Context, v *Version, start func(context.Context) error, committed *bool) error {
	db, err := a.n.databaseOf(ctx, v.Manifest)
	if err != nil {
		return err
	}
	before := a.Live()
	if before != nil {
		if err := v.Manifest.Follows(before.Manifest); err != nil {
			return err
		}
	}
	if err := a.n.claims.Claim(a, v.Manifest); err != nil {
		return err
	}
	if db != nil {
		err = db.Declare(ctx, v.Manifest.Queues())
	}
	if err == nil {
		err = start(ctx)
	}
	if err != nil && !*committed {
		a.n.release(a, before)
		return err
	}
	a.mu.Lock()
	a.live = v
	a.mu.Unlock()
	a.n.bound(a, v.Manifest)
	a.updateConsumers(ctx, v.Manifest, db)
	a.keep(ctx, v.Manifest, db)
	a.n.release(a, v)
	if err == nil {
		a.deleteObjects(v.Manifest)
	}
	a.n.r2.Tell() // the queue of an event may be here now
	return err
}

// start begins a process for the supervisor.
func (a *App) start(ctx context.Context, v *Version) (*workerd.Process, error) {
	m := v.Manifest
	loaded, err := v.Load(ctx)
	if err != nil {
		return nil, err
	}
	spec := workerd.Spec{
		App: m.Name, Version: v.ID, Manifest: m, Bundle: loaded.Bundle, Secrets: loaded.Secrets,
		Public: true, AllowPrivate: a.n.o.AllowPrivate, Develop: a.n.o.Develop, Dir: state.RunDir(a.n.o.State),
		Log: func(line workerd.Line) { a.n.o.Observer.Line(m.Name, &line) },
	}
	if a.n.inOrder != nil {
		spec.Logged = a.n.inOrder.Logged
	}
	if spec.MapStack, err = probe.StackMapper(loaded.Bundle); err != nil {
		return nil, err
	}
	db, err := a.n.databaseOf(ctx, m)
	if err != nil {
		return nil, err
	}
	if db != nil {
		spec.Log = history.Lines(db.records, spec.Log)
		sends := a.n.tracing.Sends()
		if sends != nil {
			spec.Trace = sends.Secret
		}
		spec.Host = binding.New(binding.Options{Manifest: m, Queues: db, Gate: a.n.gate, Trace: sends, Log: a.log})
		if m.DatabaseBinding != "" {
			spec.Database = db.app.Load()
		}
	}
	spec.Objects = a.n.objects(m)
	spec.Host = a.n.r2.Handler(m, a.n.kv.Handler(m, a.n.d1.Handler(m, spec.Host)))
	p, err := a.n.launch(ctx, &spec)
	if err == nil {
		a.starts.Add(1)
	}
	return p, err
}

// onLive sends the queues to the new process. A consumer whose settings the version changed is held back until
// updateConsumers has replaced it.
func (a *App) onLive(p *workerd.Process, v *Version) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.process, a.serving, a.resting = p, v, false
	a.door.Set(a.n.tracing.Door(v.Manifest.Name, v.ID, p))
	a.runs.Live(a.n.tracing.Scheduled(v.Manifest.Name, v.ID, p), v.ID, v.Manifest)
	wanted := wantedConsumers(v.Manifest)
	for queueName, c := range a.consumers {
		if settings, ok := wanted[queueName]; ok && c.serves(v.Manifest.Database, &settings) {
			c.SetRuntime(p, v.ID)
		} else {
			c.ClearRuntime()
		}
	}
}

// onDown holds the queues back.
func (a *App) onDown(reason error) {
	if errors.Is(reason, supervise.ErrParked) {
		a.mu.Lock()
		v := a.serving
		a.mu.Unlock()
		a.rest(v)
		return
	}
	a.mu.Lock()
	a.process = nil
	a.door.Set(nil)
	a.runs.Hold()
	for _, c := range a.consumers {
		c.ClearRuntime()
	}
	v := a.serving
	a.mu.Unlock()
	if !errors.Is(reason, supervise.ErrStopped) && !errors.Is(reason, supervise.ErrReplaced) {
		a.crashes.Add(1)
		a.n.o.Observer.Down(v.Manifest.Name, fault.From(reason).Error())
	}
}

// rest makes the next request, message or cron wake the app, which is parked with this version.
func (a *App) rest(v *Version) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.process, a.resting = nil, true
	a.door.Rest(a.wake)
	a.runs.Rest(v.ID, v.Manifest, a.wake)
	for _, c := range a.consumers {
		c.Rest(a.wake)
	}
}

// wake starts the process of a parked app.
func (a *App) wake() { a.sup.Wake() }

// wantedConsumers are those of the handler, by queue.
func wantedConsumers(m *app.Manifest) map[string]queue.Consumer {
	wanted := make(map[string]queue.Consumer, len(m.Consumers))
	for i := range m.Consumers {
		if !m.Consumers[i].Pull {
			wanted[m.Consumers[i].Queue] = m.Consumers[i]
		}
	}
	return wanted
}

// keep sets the retention of the queues that are drained over HTTP: nothing runs here for them. It is stored, so that a
// broker which comes later has it too.
func (a *App) keep(ctx context.Context, m *app.Manifest, db *database) {
	for i := range m.Consumers {
		c := &m.Consumers[i]
		if !c.Pull {
			continue
		}
		b, err := db.live(ctx)
		if err == nil {
			err = b.SetRetention(ctx, c.Queue, c.Retention)
		}
		if err != nil {
			a.log.Warn("the retention of a queue was not set", "queue", c.Queue, "error", fault.Detail(err))
		}
	}
}

// updateConsumers makes the running consumers those of the manifest. One that did not change goes on.
func (a *App) updateConsumers(ctx context.Context, m *app.Manifest, db *database) {
	wanted := wantedConsumers(m)
	a.mu.Lock()
	var ended []*consumer
	for queueName, c := range a.consumers {
		if settings, ok := wanted[queueName]; !ok || !c.serves(m.Database, &settings) {
			ended = append(ended, c)
			delete(a.consumers, queueName)
		}
	}
	a.mu.Unlock()
	for _, c := range ended {
		c.Stop()
	}
	isolation := a.n.isolation(m.Name) // before the lock: the node's comes first
	a.mu.Lock()
	defer a.mu.Unlock()
	for queueName, settings := range wanted {
		if a.consumers[queueName] != nil {
			continue
		}
		c := &consumer{
			app: m.Name, settings: settings, database: db, budget: a.n.budget, isolation: isolation, stopTime: a.n.o.StopTime,
			traces: a.n.tracing.Queue(m.Name, settings.Queue),
			recorder: numbers.Batches{
				Tally: db.series.Tally(queueName), Next: history.Recorder{Observer: witness.Recorder(a.n.o.Facts, a.n.records, db.name, settings.DeadLetterQueue), Ledger: db.records},
			},
			log: a.log,
		}
		switch {
		case a.process != nil:
			c.SetRuntime(a.process, a.serving.ID)
		case a.resting:
			c.Rest(a.wake)
		}
		c.Start(ctx)
		a.consumers[queueName] = c
	}
}

// Park ends the process of an app for which nothing has happened for idle and nothing is to do: no request, no batch, no
// message that could be delivered now, no scheduled run. It reports whether it did. An app with Durable Objects goes on,
// since its process has their alarms and their connections.
func (a *App) Park(idle time.Duration) bool {
	if v := a.Live(); v == nil || v.Manifest.Stored() {
		return false
	}
	state := a.State()
	if state.Phase != supervise.Live || time.Since(state.Since) < idle {
		return false
	}
	if _, active, last := a.door.Activity(); active > 0 || time.Since(last) < idle {
		return false
	}
	if !a.runs.Idle(idle) {
		return false
	}
	a.mu.Lock()
	consumers := slices.Collect(maps.Values(a.consumers))
	a.mu.Unlock()
	for _, c := range consumers {
		if !c.Idle(idle) {
			return false
		}
	}
	a.sup.Park()
	return true
}

// Discard ends an app that does not come back.
func (a *App) Discard(ctx context.Context) error {
	a.Stop()
	if v := a.Live(); v != nil && len(v.Manifest.Crons) > 0 {
		return a.n.crons.Forget(ctx, v.Manifest)
	}
	return nil
}

// Stop ends the app: no more batches or requests are taken, those in flight finish within bounds, the process drains.
func (a *App) Stop() {
	a.mu.Lock()
	consumers := slices.Collect(maps.Values(a.consumers))
	a.mu.Unlock()
	var wg sync.WaitGroup
	for _, c := range consumers {
		wg.Go(c.Stop)
	}
	ctx, cancel := context.WithTimeout(context.Background(), a.n.o.StopTime)
	defer cancel()
	wg.Go(func() { a.door.Stop(ctx) })
	wg.Go(func() { a.runs.Stop(ctx) })
	wg.Wait()
	ctx, cancel = context.WithTimeout(context.Background(), a.n.o.StopTime)
	defer cancel()
	a.sup.Stop(ctx)
	a.n.release(a, nil)
	a.n.bound(a, nil)
}
