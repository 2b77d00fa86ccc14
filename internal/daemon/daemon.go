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
	"github.com/runlot/runlot/internal/adapter/postgres"
	"github.com/runlot/runlot/internal/adapter/workerd"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/daemon/crons"
	"github.com/runlot/runlot/internal/daemon/servers"
	"github.com/runlot/runlot/internal/engine/dispatch"
	"github.com/runlot/runlot/internal/server/binding"
)

// Daemon is everything that runs in one process.
type Daemon struct {
	o       Options
	workerd string // the program
	runtime *workerd.Runtime
	servers *servers.Servers
	gate    *binding.Gate
	budget  *dispatch.Budget
	crons   *crons.Keeper
	hosts   []*host
	began   time.Time
	// lock is held while the state folder is in use; leftover says that the process that used it before was killed.
	lock     *os.File
	leftover bool

	isolations map[string]*dispatch.Isolation // by app

	mu        sync.Mutex
	databases map[string]*database // by name; guarded by mu
	holders   map[string]*host     // who consumes "database/queue"; guarded by mu
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
	d := &Daemon{o: o, runtime: workerd.New(program, o.Log)}
	h := &host{dir: o.Dirs[0], d: d, log: o.Log}
	v, _, err := h.load(ctx)
	if err != nil {
		return nil, err
	}
	return &Checked{Manifest: v.manifest, File: v.file, Version: v.id}, nil
}

func newDaemon(o Options) (*Daemon, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	program, err := binaries.Workerd(o.searched()...)
	if err != nil {
		return nil, err
	}
	state, err := filepath.Abs(o.State)
	if err != nil {
		return nil, err
	}
	o.State = state
	d := &Daemon{
		o: o, workerd: program, runtime: workerd.New(program, o.Log),
		gate: binding.NewGate(), budget: dispatch.NewBudget(queue.DispatchBytes),
		isolations: map[string]*dispatch.Isolation{}, databases: map[string]*database{}, holders: map[string]*host{},
	}
	d.servers = servers.New(servers.Options{
		Install: func() (string, error) { return binaries.Postgres(o.searched()...) }, Dir: state, URLs: o.DatabaseURLs, Log: o.Log,
		Progress: o.Observer.Progress, Notice: o.Observer.Notice,
	})
	scheduled := crons.Options{Recorder: o.Observer, Log: o.Log}
	if o.Store == nil {
		scheduled.URL = d.url
	}
	d.crons = crons.New(scheduled)
	return d, nil
}

// url returns the address of a database.
func (d *Daemon) url(ctx context.Context, database string) (string, error) {
	a, err := d.servers.Open(ctx, database)
	return a.URL, err
}

// start brings every app to life, in the order given.
func (d *Daemon) start(ctx context.Context) error {
	for _, dir := range d.o.Dirs {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return fault.New(fault.Invalid, "not_a_folder", "%s is not a folder", dir).
				WithHint("name the folder that holds runlot.json or wrangler.json")
		}
	}
	if err := d.prepareState(); err != nil {
		return err
	}
	names := map[string]string{}
	for i, dir := range d.o.Dirs {
		h, err := d.newHost(ctx, dir, i)
		if err != nil {
			return err
		}
		d.hosts = append(d.hosts, h)
		v, files, err := h.load(ctx)
		h.files = files
		if err != nil {
			return err
		}
		if other, twice := names[v.manifest.Name]; twice {
			return fault.New(fault.Conflict, "app_twice", "the projects in %s and %s are both named %s", other, dir, v.manifest.Name).
				WithHint("an app is known by its name: change one of them")
		}
		names[v.manifest.Name] = dir
		if err := h.deploy(ctx, v); err != nil {
			return err
		}
	}
	return nil
}

// newHost takes the app's port.
func (d *Daemon) newHost(ctx context.Context, dir string, number int) (*host, error) {
	port := d.o.Port
	if port != 0 {
		port += number
	}
	address := net.JoinHostPort(d.o.Host, strconv.Itoa(port))
	listener, err := d.listen(ctx, address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fault.New(fault.Conflict, "port_in_use", "port %d is in use", port).
			WithHint("stop what listens there, or choose another port with --port N (0 picks a free one)").WithCause(err)
	case err != nil:
		return nil, fault.New(fault.Environment, "cannot_listen", "cannot listen on %s: %s", address, listenReason(err)).
			WithHint("choose another address with --host or another port with --port").WithCause(err)
	}
	return newHost(d, dir, listener), nil
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

// databaseOf returns the app's database, opened if it has to be; nil when the app has none.
func (d *Daemon) databaseOf(ctx context.Context, m *app.Manifest) (*database, error) {
	if m.Database == "" {
		return nil, nil //nolint:nilnil // an app without queues has no database, and that is no error
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if db := d.databases[m.Database]; db != nil {
		return db, nil
	}
	db := newDatabase(m.Database, d.o.Log, d.o.Observer.Notice, d.opener(m.Database))
	if err := db.Start(ctx); err != nil {
		return nil, err
	}
	d.databases[m.Database] = db
	return db, nil
}

// opener returns what opens the store of a database. The embedded server may have moved after a restart, and one of the
// user's may have changed, so that it is asked for and judged each time.
func (d *Daemon) opener(name string) func(context.Context) (Store, workerd.Database, error) {
	if d.o.Store != nil {
		return func(ctx context.Context) (Store, workerd.Database, error) {
			store, err := d.o.Store(ctx, name)
			return store, workerd.Database{}, err
		}
	}
	return func(ctx context.Context) (Store, workerd.Database, error) {
		a, err := d.servers.Open(ctx, name)
		if err != nil {
			return nil, workerd.Database{}, err
		}
		node, err := os.Hostname()
		if err != nil {
			node = "unknown"
		}
		store, err := postgres.Open(ctx, postgres.Options{URL: a.URL, AppRole: a.AppRole, Node: node, Log: d.o.Log})
		if err != nil {
			return nil, workerd.Database{}, err
		}
		return store, a.App, nil
	}
}

// isolation returns what the queues of an app share to find a message that kills its process.
func (d *Daemon) isolation(appName string) *dispatch.Isolation {
	if d.isolations[appName] == nil {
		d.isolations[appName] = dispatch.NewIsolation()
	}
	return d.isolations[appName]
}

// runDir is where running processes keep their files; it is emptied at each start.
func (d *Daemon) runDir() string { return filepath.Join(d.o.State, "run") }

// claim makes h the holder of every queue that the manifest consumes. A queue has one consumer: one that is held by
// another app is refused and then nothing is claimed.
func (d *Daemon) claim(h *host, m *app.Manifest) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range m.Consumers {
		key := m.Database + "/" + m.Consumers[i].Queue
		if other := d.holders[key]; other != nil && other != h {
			return fault.New(fault.Conflict, "consumer_exists", "%s cannot consume the queue %s of database %s: %s consumes it already",
				m.Name, m.Consumers[i].Queue, m.Database, other.name()).
				WithHint("a queue has one consumer; remove it from one of the two apps")
		}
	}
	for i := range m.Consumers {
		d.holders[m.Database+"/"+m.Consumers[i].Queue] = h
	}
	return nil
}

// release gives up the queues that h holds and that the version it runs does not consume.
func (d *Daemon) release(h *host, runs *version) {
	d.mu.Lock()
	defer d.mu.Unlock()
	keep := map[string]bool{}
	if runs != nil {
		for i := range runs.manifest.Consumers {
			keep[runs.manifest.Database+"/"+runs.manifest.Consumers[i].Queue] = true
		}
	}
	for key, holder := range d.holders {
		if holder == h && !keep[key] {
			delete(d.holders, key)
		}
	}
}

// request asks for the paths that are to set the first app to work.
func (d *Daemon) request(ctx context.Context) {
	for _, path := range d.o.Requests {
		reqCtx, cancel := context.WithTimeout(ctx, queue.SendTimeout)
		req, err := http.NewRequestWithContext(reqCtx, http.MethodGet, d.hosts[0].url()+path, nil)
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
	for _, h := range d.hosts {
		wg.Go(h.stop)
	}
	wg.Wait()
	d.crons.Close()
	for _, db := range d.databases {
		db.Stop()
	}
	d.servers.Stop()
	if d.lock != nil {
		_ = d.lock.Close()
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
