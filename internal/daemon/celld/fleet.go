package celld

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/runlot/runlot/internal/adapter/prometheus"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/daemon/node"
	"github.com/runlot/runlot/internal/daemon/probe"
	"github.com/runlot/runlot/internal/daemon/servers"
	"github.com/runlot/runlot/internal/engine/deploy"
	"github.com/runlot/runlot/internal/engine/supervise"
	"github.com/runlot/runlot/internal/server/api/apps"
	"github.com/runlot/runlot/internal/server/ingress"
)

// fleet is the apps that run here. It implements deploy.Runner and apps.Instance.
type fleet struct {
	node      *node.Node
	pattern   pattern
	parkAfter time.Duration
	log       *slog.Logger

	mu   sync.Mutex
	apps map[string]*node.App // by name; guarded by mu
	out  map[string]outside   // those that were not resumed, by name; guarded by mu
}

// outside is why an app does not run that was live before this program started, and since when.
type outside struct {
	since  time.Time
	reason error
}

// note notes whether an app runs, or why it does not.
func (f *fleet) note(appName string, reason error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	had, is := f.out[appName]
	switch {
	case reason == nil:
		delete(f.out, appName)
	case is:
		f.out[appName] = outside{had.since, reason}
	default:
		f.out[appName] = outside{time.Now(), reason}
	}
}

var (
	_ deploy.Runner = (*fleet)(nil)
	_ apps.Instance = (*fleet)(nil)
)

// Check implements deploy.Runner.
func (f *fleet) Check(ctx context.Context, v *deploy.Version) ([]string, error) {
	if v.Manifest.Database == servers.ControlDatabase {
		return nil, fault.New(fault.Invalid, "database_reserved", "no app may have the database %s", servers.ControlDatabase).
			WithHint("give it another name in %s", v.ConfigFile)
	}
	if err := f.node.Claimable(v.Manifest); err != nil {
		return nil, err
	}
	if err := f.unpulled(ctx, v.Manifest); err != nil {
		return nil, err
	}
	return nil, probe.Check(ctx, f.node.Runtime(), v.Manifest, v.Bundle, v.ConfigFile)
}

// unpulled refuses a manifest that consumes a queue which an operator gave a consumer over HTTP.
func (f *fleet) unpulled(ctx context.Context, m *app.Manifest) error {
	if len(m.Consumers) == 0 || !slices.Contains(f.node.Databases(), m.Database) {
		return nil
	}
	db, err := f.node.Database(ctx, m.Database)
	if err != nil {
		return err
	}
	for i := range m.Consumers {
		name := m.Consumers[i].Queue
		if kept, err := db.Broker.Settings(name); err == nil && kept.Pull != nil {
			return fault.New(fault.Conflict, "consumer_exists", "%s cannot consume the queue %s of database %s: it has a consumer over HTTP", m.Name, name, m.Database).
				WithHint("a queue has one consumer; remove that one with `wrangler queues consumer http remove %s`", name)
		}
	}
	return nil
}

func runnable(v *deploy.Runnable) *node.Version {
	return &node.Version{ID: v.ID, Manifest: v.Manifest, Load: func(ctx context.Context) (*node.Loaded, error) {
		loaded, err := v.Load(ctx)
		if err != nil {
			return nil, err
		}
		return &node.Loaded{Bundle: loaded.Bundle, Secrets: loaded.Secrets}, nil
	}}
}

// app returns an app, made if it is new.
func (f *fleet) app(name string) (a *node.App, isNew bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if a = f.apps[name]; a != nil {
		return a, false
	}
	a = f.node.NewApp(name)
	f.apps[name] = a
	return a, true
}

// Switch implements deploy.Runner.
func (f *fleet) Switch(ctx context.Context, v *deploy.Runnable, commit func(context.Context) error) error {
	a, isNew := f.app(v.App)
	committed := false
	err := a.Deploy(ctx, runnable(v), func(ctx context.Context) error {
		if err := commit(ctx); err != nil {
			return err
		}
		committed = true
		return nil
	})
	if err != nil && isNew && !committed {
		return errors.Join(err, f.Remove(ctx, v.App))
	}
	if err == nil || committed {
		f.note(v.App, nil)
	}
	return err
}

// Resume implements deploy.Runner. Where idle apps are parked, an app begins parked.
func (f *fleet) Resume(ctx context.Context, v *deploy.Runnable) error {
	a, _ := f.app(v.App)
	err := a.Resume(ctx, runnable(v), f.parkAfter > 0)
	f.note(v.App, err)
	return err
}

// Remove implements deploy.Runner.
func (f *fleet) Remove(ctx context.Context, appName string) error {
	f.mu.Lock()
	a := f.apps[appName]
	delete(f.apps, appName)
	delete(f.out, appName)
	f.mu.Unlock()
	if a == nil {
		return nil
	}
	return a.Discard(ctx)
}

// Running implements deploy.Runner.
func (f *fleet) Running() []*app.Manifest { return f.node.Manifests() }

// Waiting implements deploy.Runner.
func (f *fleet) Waiting(ctx context.Context, database, queue string) int64 {
	return f.node.Waiting(ctx, database, queue)
}

// door is where the requests of an app go; nil for an app that is not here.
func (f *fleet) door(name string) *ingress.Ingress {
	f.mu.Lock()
	defer f.mu.Unlock()
	if a := f.apps[name]; a != nil {
		return a.Door()
	}
	return nil
}

func (f *fleet) all() map[string]*node.App {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.apps)
}

// URLs implements apps.Instance.
func (f *fleet) URLs(appName string) []string { return []string{f.pattern.url(appName)} }

// countTime is how long a list of apps waits for the messages to be counted.
const countTime = time.Second

// Apps implements apps.Instance.
func (f *fleet) Apps(ctx context.Context) (map[string]apps.Running, error) {
	ctx, cancel := context.WithTimeout(ctx, countTime)
	defer cancel()
	running := map[string]apps.Running{}
	for name, a := range f.all() {
		state := a.State()
		requests, _, _ := a.Door().Activity()
		r := apps.Running{
			State: string(state.Phase), Since: state.Since, Restarts: state.Restarts, MemoryBytes: memory(a.PID()), Requests: requests,
		}
		if state.Reason != nil {
			r.Reason = fault.From(state.Reason).Error()
		}
		if v := a.Live(); v != nil {
			r.Manifest = v.Manifest
			for i := range v.Manifest.Consumers {
				n := f.node.Waiting(ctx, v.Manifest.Database, v.Manifest.Consumers[i].Queue)
				if n < 0 {
					r.Messages = -1
					break
				}
				r.Messages += n
			}
		}
		running[name] = r
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, out := range f.out {
		running[name] = apps.Running{State: string(supervise.Restarting), Since: out.since, Reason: fault.From(out.reason).Error()}
	}
	return running, nil
}

// facts are what is known of the instance, but for the API.
func (f *fleet) facts(version string) *prometheus.Facts {
	known := f.node.Facts()
	known.Version = version
	for name, a := range f.all() {
		app := a.Facts()
		app.Name, app.MemoryBytes = name, memory(a.PID())
		known.Apps = append(known.Apps, app)
	}
	slices.SortFunc(known.Apps, func(a, b prometheus.App) int { return strings.Compare(a.Name, b.Name) })
	return known
}

// memory is what a process has of the machine's memory, in bytes; 0 where that cannot be told.
func memory(pid int) int64 {
	if pid == 0 {
		return 0
	}
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "statm"))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	const resident = 1
	if len(fields) <= resident {
		return 0
	}
	pages, err := strconv.ParseInt(fields[resident], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

// park parks idle apps until ctx ends.
func (f *fleet) park(ctx context.Context) {
	if f.parkAfter <= 0 {
		return
	}
	const looks = 10 // in the time of one park
	tick := time.NewTicker(max(f.parkAfter/looks, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for name, a := range f.all() {
			if a.Park(f.parkAfter) {
				f.log.Info("an idle app is parked", "app", name)
			}
		}
	}
}

// stop ends every app.
func (f *fleet) stop() {
	var wg sync.WaitGroup
	for _, a := range slices.Collect(maps.Values(f.all())) {
		wg.Go(a.Stop)
	}
	wg.Wait()
}
