package supervise

import (
	"context"
	"log/slog"
	"time"
)

// Process is a running process of one version.
type Process interface {
	// Done is closed when the process has ended, however it did.
	Done() <-chan struct{}
	// Err says why it ended, once Done is closed. Nil is an end without an error.
	Err() error
	// Drain lets what is in flight finish until ctx ends, ends the process then, and returns when it is gone. The error
	// is what an operator should know about the end; the process is gone all the same.
	Drain(ctx context.Context) error
}

// Options are what a Supervisor of processes P of versions V needs. All fields but Alone are required. The callbacks are called
// one at a time, in the order of events; they must return soon and must not call the supervisor.
type Options[V any, P Process] struct {
	// App is the app's name, for the log.
	App string
	// Start starts a process and returns when it is ready to serve. When ctx ends first, it leaves nothing behind; a
	// process that was returned does not end with ctx.
	Start func(ctx context.Context, version V) (P, error)
	// OnLive: from now on this process serves. The one before it, if any, is drained after the call.
	OnLive func(process P, version V)
	// OnDown: the process that served does so no more, and no other has taken its place. The reason is ErrStopped,
	// ErrParked or ErrReplaced when it is on purpose; the process is drained after the call then.
	OnDown func(reason error)
	Log    *slog.Logger
	// Alone reports whether a process of this version may run beside no other one of the app, whether that serves or drains.
	// Then a deployment ends the old process first, and starts it again when the new one does not start. It may be nil, which
	// is never.
	Alone func(version V) bool
}

// Phase is what a supervisor is doing.
type Phase string

// The phases of a supervisor.
const (
	// Stopped: nothing runs, because nothing was deployed yet, the first deployment failed, or Stop was called.
	Stopped Phase = "stopped"
	// Starting: the first process is being started; nothing serves yet.
	Starting Phase = "starting"
	// Live: a process serves.
	Live Phase = "live"
	// Parked: nothing runs until Wake.
	Parked Phase = "parked"
	// Restarting: the process died or did not start, and is tried again.
	Restarting Phase = "restarting"
)

// State is a supervisor's state, for display.
type State[V any] struct {
	Phase Phase
	// Version is the one that is live or is to be; its zero value when there is none.
	Version V
	// Since is when the phase began.
	Since time.Time
	// Restarts counts how often this version was brought back to life after its process had died.
	Restarts int
	// NextTry is when the next start is tried, or was when it is under way; zero unless restarting.
	NextTry time.Time
	// Reason is why the version is not live, or why its last process ended; nil when nothing went wrong.
	Reason error
}
