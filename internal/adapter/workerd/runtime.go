package workerd

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/runlot/runlot/internal/adapter/workerd/place"
	"github.com/runlot/runlot/internal/adapter/workerd/reason"
	"github.com/runlot/runlot/internal/adapter/workerd/render"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/tail"
)

// BindingHeader is the header of every request that Spec.Host gets. It names the queue binding that the call was made
// on; workerd sets it, and user code cannot.
const BindingHeader = render.BindingHeader

// MapStack rewrites a stack from the bundle to the user's sources.
type MapStack = reason.MapStack

// Database is a PostgreSQL database that a worker may connect to.
type Database = render.Database

// Spec is what one worker process runs.
type Spec struct {
	// App and Version name the process in logs.
	App, Version string
	Manifest     *app.Manifest
	Bundle       *app.Bundle
	// Secrets are values of env that no file may hold; they win over a variable of the same name. A value has at most
	// queue.MaxSecret bytes and no NUL.
	Secrets map[string]string
	// Public says that the worker takes requests for its fetch handler, by Process.RoundTrip.
	Public bool
	// Host answers the calls of the queue bindings, which carry BindingHeader. Nil is right for a worker without producers.
	Host http.Handler
	// Database is what env.<Manifest.DatabaseBinding> connects to; nil leaves the binding out.
	Database *Database
	// AllowPrivate lets the worker reach private and loopback addresses too, not only public ones.
	AllowPrivate bool
	// Develop is for the person who writes the worker: each public request is a line of level "debug" in Log, and a fetch
	// handler that throws answers with the error and its place in the source, as text. It costs each request another hop.
	Develop bool
	// Trace, unless it is "", makes producers say which code sends, see render.Worker.
	Trace string
	// Log takes what the worker logs and what it does not catch, from several goroutines. It must not block for long: the
	// text of a delivery's exception is behind it. Nil drops the lines.
	Log func(Line)
	// Logged is called when everything that a delivery logged is in Log, with Develop only, and not for every delivery: the
	// logs of one may not come. It must not block. Nil is fine.
	Logged func(delivery string)
	// Invoked takes every invocation that has ended, while Process.Watch is on. It must not block. Nil drops them.
	Invoked func(*tail.Invocation)
	// MapStack is nil when the bundle has no source map.
	MapStack MapStack
	// Objects is the folder of what Durable Objects store, which the process has for itself; "" is right for an app without
	// them.
	Objects string
	// Dir is a folder for the configuration of the process. It has to exist and should be readable by its owner only. Each
	// process makes a folder of its own in it and removes it at the end; after a crash the caller may empty Dir.
	Dir string
}

// Line is one log line or uncaught exception of a worker.
type Line struct {
	Time time.Time
	// Level is "debug", "info", "warn" or "error".
	Level string
	Text  string
	// Event is the kind of invocation that the line belongs to: "queue", "fetch", "scheduled"; "start" while the worker's
	// modules are loaded; "" when unknown.
	Event string
	// Queue and Delivery are set for deliveries; Delivery is "" when the delivery is no longer known.
	Queue, Delivery string
	// Uncaught marks what no handler caught.
	Uncaught bool
	// Location is file:line:column in the user's code of the exception, or of the first error that was logged; else "".
	Location string
}

// Runtime starts worker processes. It holds no resources of its own.
type Runtime struct {
	binary string
	log    *slog.Logger
	// Patience and memory, less in tests; exceptionWait is more in them, where the machine may be busy.
	startTime, probeTime, pingEvery, pingTime, cancelGrace time.Duration
	heapMiB, processMiB, wallMiB                           int
	exceptionWait                                          time.Duration
}

// New returns a runtime that uses the workerd binary at this path. The binary is not touched before the first start.
func New(binary string, log *slog.Logger) *Runtime {
	return &Runtime{
		binary: binary, log: log,
		startTime: queue.StartTime, probeTime: queue.ProbeTime,
		pingEvery: queue.PingEvery, pingTime: queue.PingTime, cancelGrace: queue.CancelGrace,
		heapMiB: queue.HeapMiB, processMiB: queue.ProcessMiB, wallMiB: queue.ProcessWallMiB,
		exceptionWait: queue.ExceptionWait,
	}
}

// Start starts a process and returns when it listens. It takes at most queue.StartTime; ctx bounds the start only, not
// the life of the process. A failure is a fault that carries workerd's reason and, where the user's code is the cause,
// file:line:column. Start does not refuse experimental compatibility flags, since the router needs one; Probe does.
func (r *Runtime) Start(ctx context.Context, spec Spec) (*Process, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	where, err := place.New(spec.Dir, routerSocket)
	if err != nil {
		return nil, err
	}
	p := r.newProcess(&spec, where)
	if err := p.start(ctx); err != nil {
		p.end() //nolint:contextcheck // cleaning up does not depend on the context that may have ended
		return nil, err
	}
	return p, nil
}

// check looks whether the binary is there, so that its absence is named before anything is made.
func (r *Runtime) check() error {
	info, err := os.Stat(r.binary)
	if err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0 {
		return nil
	}
	return fault.New(fault.Environment, "workerd_missing", "the workerd program is not at %s, or cannot be executed", r.binary).
		WithHint("install it with: npm ci").WithCause(err)
}
