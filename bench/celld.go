package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/runlot/runlot/bench/measure"
	"github.com/runlot/runlot/bench/project"
	"github.com/runlot/runlot/bench/report"
	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/daemon/celld"
)

// celldCommand is the first argument of a copy of this program that runs the daemon.
const celldCommand = "celld"

const (
	// steadyRate is the load in messages a second under which the page is looked at.
	steadyRate = 20_000
	// loadEvery is the time between two loads of a page.
	loadEvery = 50 * time.Millisecond
)

// runCelld is the program behind celldCommand: a daemon on free ports, with its data in the folder that is its only
// argument. It prints a line of JSON when it runs.
func runCelld(args []string) (err error) {
	f := flag.NewFlagSet(celldCommand, flag.ContinueOnError)
	profile := f.String("profile", "", "file for a CPU profile")
	if err := f.Parse(args); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if *profile != "" {
		file, err := os.Create(*profile)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		if err := pprof.StartCPUProfile(file); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	return celld.Run(ctx, &celld.Settings{
		Data: f.Arg(0), Listen: "127.0.0.1:0", Operator: "127.0.0.1:0", AllowPrivate: true, Version: "bench",
		Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Ready: func(r celld.Ready) {
			if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		},
	})
}

// instance is a daemon that runs, with an app that sends and one that receives.
type instance struct {
	*worker
	ready celld.Ready
	token string
	// views are the pages that an operator keeps open: all queues, the busy one and its messages.
	views []string
}

// launched is a daemon that runs.
type launched struct {
	ready celld.Ready
	token string
	*copied
}

// launch starts a daemon over a folder of its own. name is that of the folder, and of the profile where one is wanted.
func (b *bench) launch(ctx context.Context, name string, args ...string) (*launched, error) {
	l := &launched{}
	var err error
	if l.copied, err = b.copy(ctx, &l.ready, append(append([]string{celldCommand}, args...), filepath.Join(b.tmp, name))...); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(l.ready.TokenFile)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the daemon does not start: %w", err), l.stop())
	}
	l.token = strings.TrimSpace(string(text))
	return l, nil
}

func (b *bench) startCelld(ctx context.Context) (_ *instance, err error) {
	l, err := b.launch(ctx, "celld")
	if err != nil {
		return nil, err
	}
	i, stop := &instance{ready: l.ready, token: l.token}, l.stop
	public, err := url.Parse(i.ready.Public)
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	i.worker = newWorker(batches, i.address("sender"), i.address("receiver"), l.pid(), stop)
	// The apps' names are those of no resolver.
	i.client.Transport = &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, public.Host)
		},
		MaxIdleConnsPerHost: 2 * i.clients, IdleConnTimeout: 10 * time.Second,
	}
	if err := i.deploy(ctx, filepath.Join(b.tmp, "deployed")); err != nil {
		return nil, errors.Join(err, i.Close(ctx))
	}
	return i, nil
}

func (i *instance) address(app string) string { return strings.ReplaceAll(i.ready.Apps, "{app}", app) }

// deploy deploys the two apps and finds the pages of their queue.
func (i *instance) deploy(ctx context.Context, dir string) error {
	api, err := client.New(i.ready.Operator, i.token)
	if err != nil {
		return err
	}
	for _, o := range []project.Options{{Name: "receiver", Receives: true}, {Name: "sender", Sends: true}} {
		at := filepath.Join(dir, o.Name)
		if err := project.Write(at, o); err != nil {
			return err
		}
		u := &client.Upload{App: o.Name, ConfigFile: project.ConfigFile}
		if u.Config, err = os.ReadFile(filepath.Join(at, project.ConfigFile)); err != nil {
			return err
		}
		code, err := os.ReadFile(filepath.Join(at, project.CodeFile))
		if err != nil {
			return err
		}
		u.Modules = []client.Module{{Name: project.CodeFile, Kind: "esModule", Body: code}}
		uploaded, err := api.Upload(ctx, u)
		if err != nil {
			return err
		}
		if _, err := api.Deploy(ctx, o.Name, &client.Deploy{Version: uploaded.Version.ID}); err != nil {
			return err
		}
	}
	queues, err := api.Queues(ctx, "")
	if err != nil {
		return err
	}
	for k := range queues {
		if q := &queues[k]; q.Name == jobs {
			at := "/databases/" + url.PathEscape(q.Database) + "/queues/" + jobs
			i.views = []string{"/queues", at, at + "/messages"}
			return nil
		}
	}
	return fmt.Errorf("the daemon has no queue %q", jobs)
}

// observed is the daemon while an operator has the page open.
type observed struct{ *instance }

// Measure implements subject.
func (o observed) Measure(ctx context.Context, w measure.Window) (measure.Sample, error) {
	v, err := signIn(ctx, o.ready.Operator, o.token)
	if err != nil {
		return measure.Sample{}, err
	}
	defer v.close()
	if err := v.open(ctx, o.views); err != nil {
		return measure.Sample{}, err
	}
	return o.instance.Measure(ctx, w)
}

// shared is a subject that somebody else closes.
type shared struct{ subject }

// Close implements subject.
func (shared) Close(context.Context) error { return nil }

// deployed is what a daemon does with and without the page open, and how long the page takes.
func (b *bench) deployed(ctx context.Context) (err error) {
	if !b.wants("celld") && !b.wants("celld-paged") && !b.wants("page") {
		return nil
	}
	b.progressf("starting a daemon")
	i, err := b.startCelld(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, i.Close(ctx)) }()
	err = b.rates(ctx, []entry{
		{
			name: "celld", note: "two apps that were deployed",
			open: func(context.Context) (subject, error) { return shared{i}, nil },
		},
		{
			name: "celld-paged", note: "the same with the page open in three windows",
			open:    func(context.Context) (subject, error) { return shared{observed{i}}, nil },
			targets: []report.Target{{Peer: "celld", Want: 0.97}},
		},
	})
	if err != nil || !b.wants("page") {
		return err
	}
	return b.page(ctx, i)
}

// page measures the page at rest and under a steady load.
func (b *bench) page(ctx context.Context, i *instance) error {
	long := time.Duration(b.seconds * float64(b.rounds) * float64(time.Second))
	b.progressf("the page at rest")
	rest, _, err := i.look(ctx, long)
	if err != nil {
		return err
	}
	b.addLatency("page-rest", "to load a page of the dashboard, nothing else to do", rest)
	b.progressf("the page under load")
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	before, err := i.number(ctx, i.receive+"/delivered")
	if err != nil {
		return err
	}
	stop := make(chan struct{})
	var load sync.WaitGroup
	load.Go(func() {
		if err := i.keepUp(ctx, steadyRate, stop); err != nil {
			cancel(err)
		}
	})
	began := time.Now()
	loads, updates, err := i.look(ctx, long)
	took := time.Since(began)
	close(stop)
	load.Wait()
	if err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	after, err := i.number(ctx, i.receive+"/delivered")
	if err != nil {
		return err
	}
	b.add(&report.Figure{
		Name: "page-load", Value: float64(after-before) / took.Seconds(), Unit: "msg/s", Note: "delivered while the page was looked at",
		Targets: []report.Target{{Want: 0.95 * steadyRate}},
	})
	b.addLatency("page", "to load a page of the dashboard under that load", loads)
	b.addLatency("page-update", "between two updates of a view under that load", updates)
	return nil
}

// look keeps the views open for a time and loads their pages one after the other.
func (i *instance) look(ctx context.Context, long time.Duration) (loads, updates *times, err error) {
	v, err := signIn(ctx, i.ready.Operator, i.token)
	if err != nil {
		return nil, nil, err
	}
	defer v.close()
	loads, v.updated = newTimes(1), newTimes(1)
	if err := v.open(ctx, i.views); err != nil {
		return nil, nil, err
	}
	tick := time.NewTicker(loadEvery)
	defer tick.Stop()
	end := time.NewTimer(long)
	defer end.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		case <-end.C:
			v.close()
			return loads, v.updated, nil
		case <-tick.C:
		}
		took, err := v.load(ctx, i.views[n%len(i.views)])
		if err != nil {
			return nil, nil, err
		}
		loads.add(took)
	}
}

// keepUp sends at a steady rate, in messages a second. What the clients cannot do in time is left out, not made up for.
func (i *instance) keepUp(ctx context.Context, rate int, stop <-chan struct{}) error {
	const each = 100
	tick := time.NewTicker(time.Second * each / time.Duration(rate))
	defer tick.Stop()
	slots := make(chan struct{}, i.clients)
	var calls sync.WaitGroup
	defer calls.Wait()
	var failed atomic.Pointer[error]
	for {
		select {
		case <-stop:
			return nil
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := failed.Load(); err != nil {
			return *err
		}
		select {
		case slots <- struct{}{}:
		default:
			continue
		}
		calls.Go(func() {
			defer func() { <-slots }()
			if _, err := i.number(ctx, i.send+i.path); err != nil {
				failed.CompareAndSwap(nil, &err)
			}
		})
	}
}
