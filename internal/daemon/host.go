package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/runlot/runlot/internal/adapter/esbuild"
	"github.com/runlot/runlot/internal/adapter/workerd"
	"github.com/runlot/runlot/internal/config"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/core/sourcemap"
	"github.com/runlot/runlot/internal/daemon/crons"
	"github.com/runlot/runlot/internal/engine/supervise"
	"github.com/runlot/runlot/internal/server/binding"
	"github.com/runlot/runlot/internal/server/ingress"
	"github.com/runlot/runlot/internal/server/trigger"
)

// version is one build of an app, immutable.
type version struct {
	id       string
	manifest *app.Manifest
	bundle   *app.Bundle
	secrets  map[string]string
	file     string
}

// host runs one app: it builds versions from the project folder, keeps the live one running and its queues delivered.
// Its methods are called by one goroutine at a time; the supervisor's callbacks come from another.
type host struct {
	d      *Daemon
	dir    string
	log    *slog.Logger
	listen net.Listener
	door   *ingress.Ingress
	served chan struct{} // closed when the door is closed
	// sup is nil before the first version.
	sup  *supervise.Supervisor[*version, *workerd.Process]
	runs *crons.App
	// files are what the version was built from, for the watcher; live is the version that serves.
	files []string
	live  *version
	// broken says that the last reload failed.
	broken bool

	mu        sync.Mutex
	process   *workerd.Process     // what serves now, nil while nothing does; guarded by mu
	serving   *version             // the version of process; guarded by mu
	consumers map[string]*consumer // by queue; guarded by mu
}

func newHost(d *Daemon, dir string, listen net.Listener) *host {
	h := &host{d: d, dir: dir, listen: listen, log: d.o.Log.With("dir", dir), consumers: map[string]*consumer{}, runs: d.crons.App()}
	h.door, h.served = ingress.New(h.log), make(chan struct{})
	if d.o.Watch {
		h.door.Handle(trigger.Path, trigger.New(h.runs.Fire, h.log))
	}
	go func() {
		defer close(h.served)
		h.door.Serve(listen)
	}()
	return h
}

// name is the app's name, once it is known.
func (h *host) name() string {
	if h.live != nil {
		return h.live.manifest.Name
	}
	return filepath.Base(h.dir)
}

func (h *host) url() string { return "http://" + h.listen.Addr().String() }

// load builds the app as its folder stands now: configuration, bundle, probe. Nothing that runs is touched. files are
// what a watcher has to look at, as far as the build got.
func (h *host) load(ctx context.Context) (v *version, files []string, err error) {
	choice := config.Choice{File: h.d.o.Config, Env: h.d.o.Env}
	files = config.Watched(h.dir, choice)
	loaded, err := config.Load(h.dir, choice)
	if err != nil {
		return nil, append(files, h.files...), err
	}
	m := loaded.Manifest
	h.d.o.Observer.Warnings(m.Name, loaded.Warnings)
	bundle, err := esbuild.Bundle(ctx, esbuild.Options{Dir: loaded.Dir(), Main: m.Main, NodeEnv: h.d.o.nodeEnv(), Color: h.d.o.Colour})
	if bundle != nil {
		files = append(files, bundle.Inputs...)
	}
	if err != nil {
		return nil, files, err
	}
	mapStack, err := stackMapper(bundle)
	if err != nil {
		return nil, files, err
	}
	handlers, err := h.d.runtime.Probe(ctx, m, bundle, mapStack)
	if err != nil {
		return nil, files, err
	}
	if len(m.Consumers) > 0 && !handlers.Has("queue") {
		way := "add `async queue(batch, env, ctx) { … }` to its default export"
		if handlers.ServiceWorker {
			way = "add `addEventListener(\"queue\", (event) => { … })`"
		}
		return nil, files, fault.New(fault.Invalid, "queue_handler_missing", "%s consumes the queue %s, but %s has no queue handler",
			m.Name, m.Consumers[0].Queue, m.Main).
			WithHint("%s, or remove the consumer from %s", way, filepath.Base(loaded.File))
	}
	if err := crons.CheckHandler(m, handlers, loaded.File); err != nil {
		return nil, files, err
	}
	return &version{
		id: versionID(m, bundle, loaded.Secrets), manifest: m, bundle: bundle, secrets: loaded.Secrets, file: loaded.File,
	}, files, nil
}

// versionID names what runs: equal code, configuration and secrets have the same name.
func versionID(m *app.Manifest, b *app.Bundle, secrets map[string]string) string {
	sum := sha256.New()
	part := func(text string) { fmt.Fprintf(sum, "%d:%s", len(text), text) }
	part(m.Digest())
	for i := range b.Modules {
		part(b.Modules[i].Name)
		part(string(b.Modules[i].Kind))
		part(string(b.Modules[i].Body))
	}
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		part(name)
		part(secrets[name])
	}
	return hex.EncodeToString(sum.Sum(nil))[:8]
}

// deploy makes a version live: its queues are declared, its process is started, then the traffic and the queues switch
// to it. On failure nothing has changed.
func (h *host) deploy(ctx context.Context, v *version) error {
	if h.live != nil && h.live.id == v.id {
		return nil
	}
	began := time.Now()
	db, err := h.d.databaseOf(ctx, v.manifest)
	if err != nil {
		return err
	}
	if err := h.d.claim(h, v.manifest); err != nil {
		return err
	}
	if db != nil {
		err = db.Declare(ctx, v.manifest.Queues())
	}
	if err == nil {
		err = h.supervisor(v.manifest.Name).Deploy(ctx, v)
	}
	if err != nil {
		h.d.release(h, h.live)
		return err
	}
	reload := h.live != nil
	h.live = v
	h.updateConsumers(ctx, v.manifest, db)
	h.d.release(h, v)
	h.d.o.Observer.Live(v.manifest.Name, v.id, time.Since(began), reload)
	return nil
}

// stackMapper translates stacks of the bundle to the user's files; nil when the bundle has no source map.
func stackMapper(b *app.Bundle) (workerd.MapStack, error) {
	if b.SourceMap == nil {
		return nil, nil //nolint:nilnil // a bundle without a map is no error
	}
	sm, err := sourcemap.Parse(b.Modules[0].Name, b.SourceMap)
	if err != nil {
		return nil, fmt.Errorf("read the bundle's source map: %w", err)
	}
	return sm.Stack, nil
}

// supervisor returns what keeps the app's process running, made when the app's name is known.
func (h *host) supervisor(name string) *supervise.Supervisor[*version, *workerd.Process] {
	if h.sup == nil {
		h.runs.Begin(name)
		h.sup = supervise.New(supervise.Options[*version, *workerd.Process]{
			App: name, Start: h.start, OnLive: h.onLive, OnDown: h.onDown, Log: h.log,
		})
	}
	return h.sup
}

// start begins a process for the supervisor.
func (h *host) start(ctx context.Context, v *version) (*workerd.Process, error) {
	m := v.manifest
	spec := workerd.Spec{
		App: m.Name, Version: v.id, Manifest: m, Bundle: v.bundle, Secrets: v.secrets,
		Public: true, AllowPrivate: h.d.o.AllowPrivate, Develop: h.d.o.Watch, Dir: h.d.runDir(),
		Log: func(line workerd.Line) { h.d.o.Observer.Line(m.Name, &line) },
	}
	var err error
	if spec.MapStack, err = stackMapper(v.bundle); err != nil {
		return nil, err
	}
	db, err := h.d.databaseOf(ctx, m)
	if err != nil {
		return nil, err
	}
	if db != nil {
		spec.Host = binding.New(binding.Options{Manifest: m, Queues: db, Gate: h.d.gate, Log: h.log})
		if m.DatabaseBinding != "" {
			spec.Database = db.app.Load()
		}
	}
	return h.d.runtime.Start(ctx, spec)
}

// onLive sends the queues to the new process. A consumer whose settings the version changed is held back until
// updateConsumers has replaced it.
func (h *host) onLive(p *workerd.Process, v *version) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.process, h.serving = p, v
	h.door.Set(p)
	h.runs.Live(p, v.id, v.manifest)
	wanted := wantedConsumers(v.manifest)
	for queueName, c := range h.consumers {
		if settings, ok := wanted[queueName]; ok && c.serves(v.manifest.Database, &settings) {
			c.SetRuntime(p, v.id)
		} else {
			c.ClearRuntime()
		}
	}
}

// onDown holds the queues back.
func (h *host) onDown(reason error) {
	h.mu.Lock()
	h.process = nil
	h.door.Set(nil)
	h.runs.Hold()
	for _, c := range h.consumers {
		c.ClearRuntime()
	}
	v := h.serving
	h.mu.Unlock()
	if !errors.Is(reason, supervise.ErrStopped) {
		h.d.o.Observer.Down(v.manifest.Name, fault.From(reason).Error())
	}
}

func wantedConsumers(m *app.Manifest) map[string]queue.Consumer {
	wanted := make(map[string]queue.Consumer, len(m.Consumers))
	for i := range m.Consumers {
		wanted[m.Consumers[i].Queue] = m.Consumers[i]
	}
	return wanted
}

// updateConsumers makes the running consumers those of the manifest. One that did not change goes on.
func (h *host) updateConsumers(ctx context.Context, m *app.Manifest, db *database) {
	wanted := wantedConsumers(m)
	h.mu.Lock()
	var ended []*consumer
	for queueName, c := range h.consumers {
		if settings, ok := wanted[queueName]; !ok || !c.serves(m.Database, &settings) {
			ended = append(ended, c)
			delete(h.consumers, queueName)
		}
	}
	h.mu.Unlock()
	for _, c := range ended {
		c.Stop()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for queueName, settings := range wanted {
		if h.consumers[queueName] != nil {
			continue
		}
		c := &consumer{
			app: m.Name, settings: settings, database: db, budget: h.d.budget, isolation: h.d.isolation(m.Name), stopTime: h.d.o.stopTime(),
			recorder: h.d.o.Observer, log: h.log,
		}
		if h.process != nil {
			c.SetRuntime(h.process, h.serving.id)
		}
		c.Start(ctx)
		h.consumers[queueName] = c
	}
}

// stop ends the app: no more batches or requests are taken, those in flight finish within bounds, the process drains.
func (h *host) stop() {
	h.mu.Lock()
	consumers := slices.Collect(maps.Values(h.consumers))
	h.mu.Unlock()
	var wg sync.WaitGroup
	for _, c := range consumers {
		wg.Go(c.Stop)
	}
	ctx, cancel := context.WithTimeout(context.Background(), h.d.o.stopTime())
	defer cancel()
	wg.Go(func() { h.door.Stop(ctx) })
	wg.Go(func() { h.runs.Stop(ctx) })
	wg.Wait()
	<-h.served
	if h.sup == nil {
		return
	}
	ctx, cancel = context.WithTimeout(context.Background(), h.d.o.stopTime())
	defer cancel()
	h.sup.Stop(ctx)
}
