package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"time"

	"github.com/runlot/runlot/internal/adapter/esbuild"
	"github.com/runlot/runlot/internal/adapter/workerd"
	"github.com/runlot/runlot/internal/config"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/daemon/node"
	"github.com/runlot/runlot/internal/daemon/probe"
	"github.com/runlot/runlot/internal/server/trigger"
)

// build is what a project folder made.
type build struct {
	id       string
	manifest *app.Manifest
	bundle   *app.Bundle
	secrets  map[string]string
	file     string
}

// version is the build as a node runs it.
func (b *build) version() *node.Version {
	return &node.Version{ID: b.id, Manifest: b.manifest, Load: func(context.Context) (*node.Loaded, error) {
		return &node.Loaded{Bundle: b.bundle, Secrets: b.secrets}, nil
	}}
}

// project is one app that is built from a folder and served at an address of its own. Its methods are called by one
// goroutine at a time.
type project struct {
	o       *Options
	runtime *workerd.Runtime
	dir     string
	log     *slog.Logger
	listen  net.Listener
	served  chan struct{} // closed when the door is closed
	// app is nil before the first build.
	app *node.App
	// files are what the build was made from, for the watcher; live is the build that serves.
	files []string
	live  *build
	// broken says that the last reload failed; refused is what it wanted to run when another app consumes one of its queues.
	broken  bool
	refused *app.Manifest
}

// name is the app's name, once it is known.
func (p *project) name() string {
	if p.live != nil {
		return p.live.manifest.Name
	}
	return filepath.Base(p.dir)
}

func (p *project) url() string { return "http://" + p.listen.Addr().String() }

// load builds the app as its folder stands now: configuration, bundle, probe. Nothing that runs is touched. files are
// what a watcher has to look at, as far as the build got.
func (p *project) load(ctx context.Context) (b *build, files []string, err error) {
	choice := config.Choice{File: p.o.Config, Env: p.o.Env}
	files = config.Watched(p.dir, choice)
	loaded, err := config.Load(p.dir, choice)
	if err != nil {
		return nil, append(files, p.files...), err
	}
	m := loaded.Manifest
	p.o.Observer.Warnings(m.Name, loaded.Warnings)
	bundle, err := esbuild.Bundle(ctx, esbuild.Options{Dir: loaded.Dir(), Main: m.Main, NodeEnv: p.o.nodeEnv(), Color: p.o.Colour})
	if bundle != nil {
		files = append(files, bundle.Inputs...)
	}
	if err != nil {
		return nil, files, err
	}
	if err := probe.Check(ctx, p.runtime, m, bundle, filepath.Base(loaded.File)); err != nil {
		return nil, files, err
	}
	return &build{
		id: buildID(m, bundle, loaded.Secrets), manifest: m, bundle: bundle, secrets: loaded.Secrets, file: loaded.File,
	}, files, nil
}

// buildID names what runs: equal code, configuration and secrets have the same name.
func buildID(m *app.Manifest, b *app.Bundle, secrets map[string]string) string {
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

// deploy makes a build live. On failure nothing has changed.
func (p *project) deploy(ctx context.Context, n *node.Node, b *build) error {
	if p.live != nil && p.live.id == b.id {
		return nil
	}
	began := time.Now()
	if p.app == nil {
		p.app = n.NewApp(b.manifest.Name)
		p.served = make(chan struct{})
		if p.o.Watch {
			p.app.Door().Handle(trigger.Path, trigger.New(p.app.Fire, p.log))
		}
		go func() {
			defer close(p.served)
			p.app.Door().Serve(p.listen)
		}()
	}
	if err := p.app.Deploy(ctx, b.version(), nil); err != nil {
		return err
	}
	reload := p.live != nil
	p.live = b
	p.o.Observer.Live(b.manifest.Name, b.id, time.Since(began), reload)
	for _, hint := range n.D1().Hints(ctx, b.manifest, filepath.Dir(b.file)) {
		p.o.Observer.Notice(hint)
	}
	return nil
}

// stop ends the app.
func (p *project) stop() {
	if p.app == nil {
		_ = p.listen.Close()
		return
	}
	p.app.Stop()
	<-p.served
}
