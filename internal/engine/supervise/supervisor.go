// Package supervise keeps one version of one app running: it starts a new version before it ends the old one, starts a
// process that died again with back-off, and drains what it replaces.
package supervise

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

// Process is a running process of one version.
type Process interface {
	comparable
	// Done is closed when the process has ended, however it did.
	Done() <-chan struct{}
	// Err says why it ended; it is read after Done is closed. Nil is an end without an error.
	Err() error
	// Drain lets what is in flight finish until ctx ends, ends the process then, and returns when it is gone. An error is
	// what a person should know about the end; the process is gone all the same.
	Drain(ctx context.Context) error
}

// Options are what a Supervisor of processes P of versions V needs. All fields are required. The callbacks are called
// one at a time, in the order of events; they must return soon and must not call the supervisor.
type Options[V any, P Process] struct {
	App string
	// Start starts a process and returns when it is ready to serve. When ctx ends first, nothing of it may stay.
	Start func(ctx context.Context, version V) (P, error)
	// OnLive: from now on this process serves.
	OnLive func(process P, version V)
	// OnDown: the process that served does so no more, and none has taken its place yet. The reason is ErrStopped when it
	// is on purpose.
	OnDown func(reason error)
	Log    *slog.Logger
}

// Phase is what a supervisor is doing.
type Phase string

// The phases of a supervisor.
const (
	// Stopped: nothing runs, because nothing was deployed yet or Stop was called.
	Stopped Phase = "stopped"
	// Starting: the first process of the version is being started, and no other serves.
	Starting Phase = "starting"
	// Live: a process serves.
	Live Phase = "live"
	// Restarting: the process died or did not start; it is tried again at State.NextTry.
	Restarting Phase = "restarting"
)

// State is a supervisor's state, for display.
type State[V any] struct {
	Phase Phase
	// Version is the version that is live or is to be; its zero value when there is none.
	Version V
	// Since is when the phase began.
	Since time.Time
	// Restarts counts the processes of this version that were started again after one died.
	Restarts int
	// NextTry is when the next start is tried; zero while one is under way or none is needed.
	NextTry time.Time
	// Reason is why the version is not live, or why its last process ended; nil when nothing went wrong.
	Reason error
}

// Errors of a supervisor.
var (
	// ErrStopped is the reason of OnDown at a stop, and the error of a deployment to a stopped supervisor.
	ErrStopped = errors.New("the app was stopped")
	errEnded   = errors.New("the worker process ended by itself")
)

// Supervisor keeps one version of one app running.
type Supervisor[V any, P Process] struct {
	options Options[V, P]
	// working ends when the supervisor stops.
	stop context.CancelFunc
	// deploying is held by the deployment under way: one at a time.
	deploying chan struct{}
	requests  chan request[V, P]
	stopping  chan struct{}
	ended     chan struct{}
	tasks     sync.WaitGroup

	mu        sync.Mutex
	stopped   bool
	limit     context.Context //nolint:containedctx // the bound of the last drains is known only when Stop is called
	state     State[V]
	drainings []context.CancelFunc
}

// request asks the loop to make a version the one to run: with its process, or, when process is nil, by starting one.
type request[V any, P Process] struct {
	version V
	process P
	started bool
	done    chan struct{}
}

// New returns a supervisor that runs nothing yet. Its goroutines end with Stop.
func New[V any, P Process](o Options[V, P]) *Supervisor[V, P] {
	o.Log = o.Log.With("app", o.App)
	s := &Supervisor[V, P]{
		options: o, deploying: make(chan struct{}, 1), requests: make(chan request[V, P]),
		stopping: make(chan struct{}), ended: make(chan struct{}),
	}
	s.state = State[V]{Phase: Stopped, Since: time.Now()}
	working, stop := context.WithCancel(context.Background())
	s.stop = stop
	go s.loop(working)
	return s
}
