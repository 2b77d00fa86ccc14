package workerd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/runlot/runlot/internal/adapter/workerd/calls"
	"github.com/runlot/runlot/internal/adapter/workerd/inflight"
	"github.com/runlot/runlot/internal/adapter/workerd/objects"
	"github.com/runlot/runlot/internal/adapter/workerd/place"
	"github.com/runlot/runlot/internal/adapter/workerd/reach"
	"github.com/runlot/runlot/internal/adapter/workerd/reason"
	"github.com/runlot/runlot/internal/adapter/workerd/render"
	"github.com/runlot/runlot/internal/adapter/workerd/resident"
	"github.com/runlot/runlot/internal/adapter/workerd/uncaught"
	"github.com/runlot/runlot/internal/adapter/workerd/untold"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/core/span"
)

// Process is one running worker. Its methods may be called from several goroutines.
type Process struct {
	runtime *Runtime
	spec    Spec
	log     *slog.Logger
	place   *place.Place
	child   *child
	calls   *calls.Calls
	// failures are those that workerd reports on stderr.
	failures *reason.Failures
	// said and warned are what the worker wrote to its console and the tail has not told of yet.
	said, warned untold.Lines
	// uncaught are errors of fetch handlers that an answer waits for.
	uncaught *uncaught.Errors
	// host serves what workerd calls back: queue bindings and the tail.
	host   *http.Server
	client *http.Client
	// public takes the requests for the fetch handler whose methods may be repeated, fresh all others.
	public, fresh *http.Client
	// inFlight counts calls and requests, so that a drain waits for those that the process may not have read yet.
	inFlight *inflight.Counter
	// watched has a connection of its own, so that a ping never waits for one.
	watched *http.Client

	// stop ends the background work; tasks are the goroutines that Done waits for.
	stop  context.CancelFunc
	alive context.Context //nolint:containedctx // the life of the process, which no call's context is
	// over is closed when the end and its reason are known; done follows when everything is cleaned up.
	over, done chan struct{}

	tasks    sync.WaitGroup
	mu       sync.Mutex
	ended    bool
	draining bool
	checking bool
	// reason is why the process was killed, and after its end why it ended; "" when it was asked to.
	reason string
	err    error
	// once are the lines that are not said again.
	once map[string]struct{}
}

// The sockets of a process: router takes the deliveries, public the requests for the fetch handler, host takes what
// workerd calls back.
const (
	publicSocket = "public.sock"
	routerSocket = "router.sock"
	hostSocket   = "host.sock"
)

// newProcess makes everything that a process needs but the process.
func (r *Runtime) newProcess(spec *Spec, where *place.Place) *Process {
	p := &Process{
		runtime: r, spec: *spec, place: where, calls: calls.New(), inFlight: inflight.New(), failures: reason.NewFailures(), uncaught: uncaught.New(), once: map[string]struct{}{}, over: make(chan struct{}), done: make(chan struct{}),
		log:     r.log.With("app", spec.App, "version", spec.Version),
		client:  reach.Client(where.Socket(routerSocket), queue.RuntimeConnections),
		watched: reach.Client(where.Socket(routerSocket), 1),
		public:  reach.Client(where.Socket(publicSocket), queue.RuntimeConnections),
		fresh:   reach.Fresh(where.Socket(publicSocket)),
	}
	p.alive, p.stop = context.WithCancel(context.Background())
	p.host = &http.Server{
		Handler: http.HandlerFunc(p.callback), ReadHeaderTimeout: queue.SendTimeout,
		ErrorLog: slog.NewLogLogger(p.log.Handler(), slog.LevelDebug),
	}
	return p
}

// start renders the configuration, starts the process and waits until it listens.
func (p *Process) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.runtime.startTime)
	defer cancel()
	config, err := render.Process(&render.Worker{
		Manifest: p.spec.Manifest, Bundle: p.spec.Bundle, Secrets: p.spec.Secrets, Database: p.spec.Database,
		AllowPrivate: p.spec.AllowPrivate, Public: p.spec.Public, Develop: p.spec.Develop, Trace: p.spec.Trace,
		HostSocket: p.place.Socket(hostSocket), Objects: p.spec.Objects, HeapMiB: p.runtime.heapMiB,
	})
	if err != nil {
		return err
	}
	if err := config.Write(p.place.Dir); err != nil {
		return err
	}
	if b := p.spec.Bundle; b.ServiceWorker {
		p.spec.MapStack = reason.Script(p.spec.MapStack, b.Modules[0].Name, config.Prefix)
	}
	p.spec.Secrets = nil
	callbacks, err := p.place.Listen(hostSocket)
	if err != nil {
		return err
	}
	p.tasks.Go(func() { _ = p.host.Serve(callbacks) })
	router, err := p.place.Inherit(routerSocket)
	if err != nil {
		return err
	}
	defer router.Close()
	sockets := []socket{{"router", router}}
	if p.spec.Public {
		public, err := p.place.Inherit(publicSocket)
		if err != nil {
			return err
		}
		defer public.Close()
		sockets = append(sockets, socket{"http", public})
	}
	if p.spec.Objects != "" {
		lock, err := objects.Take(ctx, p.spec.Objects)
		if err != nil {
			return err
		}
		defer lock.Close() // the process has it from its start on
		sockets = append(sockets, socket{file: lock})
	}
	c, err := p.runtime.launch(ctx, p.place.Dir, config.Env, sockets, "--experimental")
	if err != nil {
		return startError(err, c, p.spec.MapStack)
	}
	p.child = c
	stdout, stderr := c.stdout.Take(), c.stderr.Take()
	c.stdout.Keep(&p.said)
	c.stderr.Keep(&p.warned)
	c.stdout.Close()
	c.stderr.Follow(p.reported)
	if p.spec.Log != nil {
		for _, line := range startLines(stdout, stderr) {
			p.spec.Log(line)
		}
	}
	p.log.Info("worker started", "pid", c.cmd.Process.Pid)
	p.tasks.Go(p.watch)
	p.tasks.Go(p.watchMemory)
	go p.wait() //nolint:contextcheck // the process outlives the context of its start
	return nil
}

// startError explains a failed launch.
func startError(err error, c *child, m MapStack) error {
	switch {
	case errors.Is(err, errNotListening):
		return reason.Start(c.stderr.Take(), c.state, m).WithCause(err)
	case errors.Is(err, context.DeadlineExceeded):
		return fault.New(fault.Timeout, "worker_start_time", "the worker did not start in time: its modules did not finish loading").
			WithHint("look for a loop at the top level of a module").WithCause(err)
	case errors.Is(err, context.Canceled):
		return err
	default:
		return fault.New(fault.Environment, "workerd_start", "the workerd program could not be started").WithCause(err)
	}
}

// callback serves a request that workerd makes of the host.
func (p *Process) callback(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Header.Get(render.TailHeader) == "":
		p.bound(w, r)
	case r.URL.Path == "/invocation":
		p.serveInvocation(r)
	case r.URL.Path == "/request":
		p.serveRequest(w, r)
	case r.URL.Path == "/uncaught":
		p.serveUncaught(w, r)
	default:
		p.serveTail(w, r)
	}
}

// bound serves a call of a queue binding.
func (p *Process) bound(w http.ResponseWriter, r *http.Request) {
	if p.spec.Host == nil {
		http.NotFound(w, r)
		return
	}
	p.spec.Host.ServeHTTP(w, r)
}

// wait notes the end of the process and cleans up after it.
func (p *Process) wait() {
	<-p.child.exited
	p.mu.Lock()
	asked := p.draining && p.reason == ""
	p.mu.Unlock()
	if p.spec.Log != nil && !asked {
		p.untold()
	}
	why := reason.Exit(p.child.stderr.Take(), p.child.state, p.runtime.heapMiB)
	p.mu.Lock()
	p.ended = true
	if p.reason == "" && !p.draining {
		p.reason = why
	}
	if p.reason != "" {
		p.err = fault.New(fault.Unavailable, "worker_ended", "the worker process ended: %s", p.reason)
		p.log.Warn("worker ended", "pid", p.child.cmd.Process.Pid, "reason", p.reason)
	} else {
		p.log.Info("worker ended", "pid", p.child.cmd.Process.Pid)
	}
	p.mu.Unlock()
	p.inFlight.Close()
	close(p.over)
	p.end()
}

// end lets the callbacks finish, stops the background work, waits for it, and removes what the process left.
func (p *Process) end() {
	ctx, cancel := context.WithTimeout(context.Background(), queue.SendTimeout)
	defer cancel()
	if err := p.host.Shutdown(ctx); err != nil {
		_ = p.host.Close()
	}
	p.stop()
	p.tasks.Wait()
	p.client.CloseIdleConnections()
	p.watched.CloseIdleConnections()
	p.public.CloseIdleConnections()
	p.place.Remove()
	close(p.done)
}

// Done is closed when the process has ended, whatever the reason, and everything of it is gone.
func (p *Process) Done() <-chan struct{} { return p.done }

// PID is the id of the process.
func (p *Process) PID() int { return p.child.cmd.Process.Pid }

// Err returns why the process ended: nil while it runs and after a Drain, else a fault with the reason.
func (p *Process) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// Drain lets the process finish what is in flight, ends it, and returns when it is gone. New deliveries and requests are
// refused from now on. When ctx ends first, the process is killed and Drain returns ctx's error; what was in flight is
// then lost.
func (p *Process) Drain(ctx context.Context) error {
	p.mu.Lock()
	p.draining = true
	p.mu.Unlock()
	p.inFlight.Close()
	// On SIGTERM workerd closes each connection on which it has read no request yet: one that is on its way would break.
	select {
	case <-p.inFlight.Idle():
		p.child.terminate()
	case <-p.done:
	case <-ctx.Done():
	}
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
	}
	p.kill("it did not finish in the time that it had to drain")
	<-p.done
	return ctx.Err()
}

// kill ends the process at once for a reason; the first reason counts.
func (p *Process) kill(reason string) {
	p.mu.Lock()
	if p.reason == "" && !p.ended {
		p.reason = reason
	}
	p.mu.Unlock()
	p.child.kill()
}

// watch pings the process and kills it when it does not answer: its one thread is then stuck, in a loop or in the search
// for memory, which can go on for long before V8 gives up. It rests while
// the process drains, which has its own bound.
func (p *Process) watch() {
	tick := time.NewTicker(p.runtime.pingEvery)
	defer tick.Stop()
	misses, answered := 0, time.Now()
	for {
		select {
		case <-p.alive.Done():
			return
		case <-tick.C:
		}
		if p.ping(p.runtime.pingTime) {
			misses, answered = 0, time.Now()
			continue
		}
		if misses++; misses == queue.PingMisses {
			p.kill(fmt.Sprintf("it did not answer for %s: a loop in a handler, or out of memory", span.Text(max(time.Second, time.Since(answered).Truncate(time.Second)))))
			return
		}
	}
}

// watchMemory kills the process when it has more memory than it may.
func (p *Process) watchMemory() {
	if size := resident.Watch(p.alive, p.child.cmd.Process.Pid, int64(p.runtime.processMiB)<<20, queue.MemoryEvery); size > 0 {
		p.kill(fmt.Sprintf("it used %d MiB of memory, and a worker may use %d MiB: ArrayBuffers count, and what is kept from one call to the next", size>>20, p.runtime.processMiB))
	}
}

// ping reports whether the router answers within the time, or cannot any more because the process ends.
func (p *Process) ping(patience time.Duration) bool {
	ctx, cancel := context.WithTimeout(p.alive, patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://worker/ping", http.NoBody)
	if err != nil {
		return true
	}
	resp, err := p.watched.Do(req)
	if err == nil {
		_ = resp.Body.Close()
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.draining || !errors.Is(ctx.Err(), context.DeadlineExceeded)
}

// checkCancelled makes sure that a cancelled handler lets go: workerd cancels it at its next await, and one that has none
// is killed with the process. One check at a time is enough, since it is the thread that it looks at.
func (p *Process) checkCancelled() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended || p.draining || p.checking {
		return
	}
	p.checking = true
	p.tasks.Go(func() {
		ok := p.ping(p.runtime.cancelGrace)
		p.mu.Lock()
		p.checking = false
		p.mu.Unlock()
		if !ok {
			p.kill("a cancelled handler did not let go: a loop in it, or out of memory")
		}
	})
}
