package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/runlot/runlot/internal/adapter/binaries"
	"github.com/runlot/runlot/internal/adapter/workerd"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/daemon/desk"
	"github.com/runlot/runlot/internal/daemon/node"
	"github.com/runlot/runlot/internal/daemon/state"
)

// Daemon is everything that runs in one process.
type Daemon struct {
	o        Options
	workerd  string // the program
	node     *node.Node
	projects []*project
	began    time.Time
	state    *state.Folder // nil before it is opened
	desk     *desk.Desk    // nil unless the commands about queues are served
}

// Run starts everything, runs until ctx ends, and stops everything. It fails when an app cannot go live at the start.
func Run(ctx context.Context, o Options) error {
	d, err := newDaemon(o)
	if err != nil {
		return err
	}
	d.began = time.Now()
	defer d.stop()
	if err := d.start(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // a stop that comes during the start is still a clean stop
		}
		return err
	}
	d.o.Observer.Started(d.summary(ctx, time.Since(d.began)))
	d.request(ctx)
	if d.o.Watch {
		err = d.watch(ctx)
	} else {
		<-ctx.Done()
	}
	d.o.Observer.Stopping()
	return err
}

// Checked is a project that is fit to run.
type Checked struct {
	Manifest *app.Manifest
	File     string
	Version  string
}

// Check builds and probes the first project of the options without running it.
func Check(ctx context.Context, o Options) (*Checked, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	program, err := binaries.Workerd(o.searched()...)
	if err != nil {
		return nil, err
	}
	p := &project{o: &o, runtime: workerd.New(program, o.Log), dir: o.Dirs[0], log: o.Log}
	b, _, err := p.load(ctx)
	if err != nil {
		return nil, err
	}
	return &Checked{Manifest: b.manifest, File: b.file, Version: b.id}, nil
}

func newDaemon(o Options) (*Daemon, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	program, err := binaries.Workerd(o.searched()...)
	if err != nil {
		return nil, err
	}
	if o.State, err = filepath.Abs(o.State); err != nil {
		return nil, err
	}
	d := &Daemon{o: o, workerd: program}
	d.node = node.New(node.Options{
		Workerd: program, Postgres: func() (string, error) { return binaries.Postgres(o.searched()...) }, State: o.State,
		DatabaseURLs: o.DatabaseURLs, Caps: o.Caps, Store: o.Store, AllowPrivate: o.AllowPrivate, Develop: o.Watch, StopTime: o.stopTime(),
		Log: o.Log, Observer: o.Observer,
	})
	return d, nil
}

// start brings every app to life, in the order given.
func (d *Daemon) start(ctx context.Context) error {
	for _, dir := range d.o.Dirs {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return fault.New(fault.Invalid, "not_a_folder", "%s is not a folder", dir).
				WithHint("name the folder that holds runlot.json or wrangler.json")
		}
	}
	var err error
	if d.state, err = state.Open(d.o.State, d.o.Clean); err != nil {
		return err
	}
	builds := make([]*build, len(d.o.Dirs))
	for i, dir := range d.o.Dirs {
		p, err := d.newProject(ctx, dir, i)
		if err != nil {
			return err
		}
		d.projects = append(d.projects, p)
		builds[i], p.files, err = p.load(ctx)
		if err != nil {
			return err
		}
	}
	if err := d.o.unused(builds); err != nil {
		return err
	}
	for i, p := range d.projects {
		if err := d.named(p, builds[i]); err != nil {
			return err
		}
		if err := p.deploy(ctx, d.node, builds[i]); err != nil {
			return err
		}
	}
	if d.o.Watch {
		d.desk, err = desk.Open(ctx, d.o.State, d.node, d.o.Log)
	}
	return err
}

// newProject takes the app's port.
func (d *Daemon) newProject(ctx context.Context, dir string, number int) (*project, error) {
	port := d.o.Port
	if port != 0 {
		port += number
	}
	address := net.JoinHostPort(d.o.Host, strconv.Itoa(port))
	listener, err := d.state.Listen(ctx, address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fault.New(fault.Conflict, "port_in_use", "port %d is in use", port).
			WithHint("stop what listens there, or choose another port with --port N (0 picks a free one)").WithCause(err)
	case err != nil:
		return nil, fault.New(fault.Environment, "cannot_listen", "cannot listen on %s: %s", address, listenReason(err)).
			WithHint("choose another address with --host or another port with --port").WithCause(err)
	}
	return &project{o: &d.o, runtime: d.node.Runtime(), dir: dir, log: d.o.Log.With("dir", dir), listen: listener}, nil
}

// listenReason is why a listener could not be had, without what the sentence around it says already.
func listenReason(err error) string {
	if reason, ok := errors.AsType[syscall.Errno](err); ok {
		return reason.Error()
	}
	if reason, ok := errors.AsType[*net.AddrError](err); ok {
		return reason.Err
	}
	if reason, ok := errors.AsType[*net.DNSError](err); ok {
		return reason.Err
	}
	return err.Error()
}

// request asks for the paths that are to set the first app to work.
func (d *Daemon) request(ctx context.Context) {
	for _, path := range d.o.Requests {
		reqCtx, cancel := context.WithTimeout(ctx, queue.SendTimeout)
		req, err := http.NewRequestWithContext(reqCtx, http.MethodGet, d.projects[0].url()+path, nil)
		if err == nil {
			var res *http.Response
			if res, err = http.DefaultClient.Do(req); err == nil {
				_ = res.Body.Close()
			}
			if err == nil && !d.o.Watch { // else it is a line like that of any request
				d.o.Observer.Notice(fmt.Sprintf("GET %s → %s", path, res.Status))
			}
		}
		if err != nil {
			d.o.Observer.Notice(fmt.Sprintf("GET %s failed: %s", path, err))
		}
		cancel()
	}
}

// stop ends everything in reverse order of its start.
func (d *Daemon) stop() {
	var wg sync.WaitGroup
	for _, p := range d.projects {
		wg.Go(p.stop)
	}
	wg.Wait()
	d.desk.Close()
	d.node.Stop()
	if d.state != nil {
		d.state.Close()
	}
}

// VersionsOfParts asks workerd and PostgreSQL for their versions.
func VersionsOfParts(ctx context.Context) (Versions, error) {
	paths, err := binaries.Find(".")
	if err != nil {
		return Versions{}, err
	}
	return paths.Version(ctx)
}
