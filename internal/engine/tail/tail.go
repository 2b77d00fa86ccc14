package tail

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

// Invocation is one call of a handler that has ended. Nobody may write to it once it was published.
type Invocation struct {
	App, Version string
	// Entrypoint is the export that was called; "" for the default one.
	Entrypoint string
	// Outcome is workerd's word: "ok", "exception", "canceled", "exceededCpu" and others.
	Outcome string
	At      time.Time
	// Wall and CPU are in milliseconds.
	Wall, CPU float64
	// Truncated says that it logged more than is kept.
	Truncated  bool
	Exceptions []Exception
	Logs       []Log
	// Event is what it was called for, as JSON in Cloudflare's shape.
	Event json.RawMessage
}

// Exception is something that no handler caught. Stack has the places in the user's sources, as far as they are known.
type Exception struct {
	At                   time.Time
	Name, Message, Stack string
}

// Log is one call of the console. Level is the method that was called.
type Log struct {
	At          time.Time
	Level, Text string
}

// Process is what runs a version of an app.
type Process interface {
	// Watch makes it tell of every invocation, or only of those that have something to say.
	Watch(ctx context.Context, on bool) error
	// Done is closed when it has ended.
	Done() <-chan struct{}
}

// Hub knows who follows which app, and what runs it.
type Hub struct {
	log *slog.Logger

	mu   sync.Mutex
	apps map[string]*followed // guarded by mu; an entry stays
}

// followed is one app.
type followed struct {
	// turn is held while processes are switched, so that the last word is right.
	turn sync.Mutex

	mu        sync.Mutex
	followers map[*Follower]struct{} // guarded by mu
	processes map[Process]struct{}   // guarded by mu; those that have ended go at the next look
}

// New returns a hub of which nobody follows anything.
func New(log *slog.Logger) *Hub { return &Hub{log: log, apps: map[string]*followed{}} }

func (h *Hub) app(name string) *followed {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := h.apps[name]
	if f == nil {
		f = &followed{followers: map[*Follower]struct{}{}, processes: map[Process]struct{}{}}
		h.apps[name] = f
	}
	return f
}

// Started tells of a process that has begun and has not served yet.
func (h *Hub) Started(ctx context.Context, name string, p Process) {
	f := h.app(name)
	f.turn.Lock()
	defer f.turn.Unlock()
	f.mu.Lock()
	f.processes[p] = struct{}{}
	watched := len(f.followers) > 0
	f.mu.Unlock()
	if watched {
		h.watch(ctx, name, p, true)
	}
}

// watch switches a process. One that does not hear of it tells too little, or a little too much.
func (h *Hub) watch(ctx context.Context, name string, p Process, on bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), queue.TailSwitch)
	defer cancel()
	if err := p.Watch(ctx, on); err != nil {
		h.log.Debug("a process does not hear who follows it", "app", name, "error", fault.Detail(err))
	}
}

// running are the processes that have not ended.
func (f *followed) running() []Process {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []Process
	for p := range f.processes {
		select {
		case <-p.Done():
			delete(f.processes, p)
		default:
			list = append(list, p)
		}
	}
	return list
}

// Followed reports whether somebody follows an app.
func (h *Hub) Followed(name string) bool {
	f := h.app(name)
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.followers) > 0
}

// Publish hands an invocation to those who follow its app and want it.
func (h *Hub) Publish(i *Invocation) {
	f := h.app(i.App)
	f.mu.Lock()
	defer f.mu.Unlock()
	for one := range f.followers {
		if !one.wants(i) {
			continue
		}
		select {
		case one.invocations <- i:
		default:
			one.missed.Add(1)
		}
	}
}

// Follower is a view of an app's invocations from the moment on at which it was made.
type Follower struct {
	hub         *Hub
	app         string
	wants       func(*Invocation) bool
	invocations chan *Invocation
	missed      atomic.Int64
	closed      sync.Once
}

// Follow begins to follow an app, which need not run. wants is called on the way of whoever publishes. When it returns, the
// processes that run tell of every invocation. Whoever follows closes the follower.
func (h *Hub) Follow(ctx context.Context, appName string, wants func(*Invocation) bool) *Follower {
	one := &Follower{hub: h, app: appName, wants: wants, invocations: make(chan *Invocation, queue.TailQueue)}
	f := h.app(appName)
	f.turn.Lock()
	defer f.turn.Unlock()
	f.mu.Lock()
	first := len(f.followers) == 0
	f.followers[one] = struct{}{}
	f.mu.Unlock()
	if first {
		for _, p := range f.running() {
			h.watch(ctx, appName, p, true)
		}
	}
	return one
}

// Invocations are those that the follower wants, the oldest first.
func (f *Follower) Invocations() <-chan *Invocation { return f.invocations }

// Missed is how many were left out since the last call, because too many waited.
func (f *Follower) Missed() int64 { return f.missed.Swap(0) }

// Close ends it. Twice is fine.
func (f *Follower) Close(ctx context.Context) {
	f.closed.Do(func() {
		app := f.hub.app(f.app)
		app.turn.Lock()
		defer app.turn.Unlock()
		app.mu.Lock()
		delete(app.followers, f)
		last := len(app.followers) == 0
		app.mu.Unlock()
		if last {
			for _, p := range app.running() {
				f.hub.watch(ctx, f.app, p, false)
			}
		}
	})
}
