package supervise

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/core/span"
)

// Reasons of OnDown that are on purpose.
var (
	// ErrStopped is the reason at a stop, and the error of a deployment to a stopped supervisor.
	ErrStopped = errors.New("the app was stopped")
	// ErrParked is the reason when the app is parked.
	ErrParked = errors.New("the app is parked")
	// ErrReplaced is the reason when the process makes way for one that has to be alone.
	ErrReplaced = errors.New("the app is being replaced")
)

var (
	errEnded     = errors.New("the worker process ended by itself")
	errStartTime = errors.New("the start outlived its time")
)

// Supervisor keeps one version of one app running. Its methods may be called from several goroutines.
type Supervisor[V any, P Process] struct {
	options Options[V, P]
	// working is the lifetime of everything that the supervisor starts; stop ends it. cut ends draining, the time of which
	// may be the rest of a stop.
	working  context.Context //nolint:containedctx // the supervisor's own lifetime, from New to Stop; no caller's context
	stop     context.CancelFunc
	draining context.Context //nolint:containedctx // the lifetime of processes that drain; it outlives working
	cut      context.CancelFunc
	// deploying is held by the deployment under way.
	deploying   chan struct{}
	deployments chan deployment[V, P]
	parking     chan bool // true parks, false wakes
	holding     chan chan leaving
	releasing   chan struct{}
	ended       chan struct{}
	tasks       sync.WaitGroup

	mu      sync.Mutex
	stopped bool
	state   State[V]
}

// deployment asks the loop to take over a version: with the process that was started for it, or, when resume is set, by
// starting one, or, when parked is set too, by starting one at the next Wake. A committed one is taken over although its
// process has died.
type deployment[V any, P Process] struct {
	version   V
	process   P
	committed bool
	resume    bool
	parked    bool
	done      chan error
}

// New returns a supervisor that runs nothing yet. Stop has to be called to end its goroutine.
func New[V any, P Process](o Options[V, P]) *Supervisor[V, P] {
	o.Log = o.Log.With("app", o.App)
	s := &Supervisor[V, P]{
		options: o, deploying: make(chan struct{}, 1), deployments: make(chan deployment[V, P]), parking: make(chan bool), holding: make(chan chan leaving), releasing: make(chan struct{}), ended: make(chan struct{}),
		state: State[V]{Phase: Stopped, Since: time.Now()},
	}
	s.working, s.stop = context.WithCancel(context.Background()) //nolint:gosec // Stop calls it
	s.draining, s.cut = context.WithCancel(context.Background()) //nolint:gosec // Stop calls it
	go newLoop(s).run()
	return s
}

// Deploy makes a version live: it starts its process beside the one that serves, switches, and drains the old process in
// the background, for at most queue.DrainTime. When the new process does not start within queue.StartTime, or ctx ends
// first, nothing has changed and the error says why. A deployment during a back-off does not wait for it. Deployments
// take turns. After Stop it fails with ErrStopped.
func (s *Supervisor[V, P]) Deploy(ctx context.Context, version V) error {
	return s.DeployCommitted(ctx, version, nil)
}

// DeployCommitted is Deploy with a step between the start of the new process and the switch. When commit fails, nothing
// has changed. When it succeeded, the version is the one to run: an error after that says why it does not run yet, and it
// is started again until it does.
func (s *Supervisor[V, P]) DeployCommitted(ctx context.Context, version V, commit func(context.Context) error) error {
	done, err := s.turn(ctx)
	if err != nil {
		return err
	}
	defer done()
	first := s.firstStarts(version)
	err = s.deploy(ctx, version, commit)
	if err != nil && first {
		s.firstFailed(err)
	}
	return err
}

// deploy starts the new process, beside the old one or alone, and hands it to the loop.
func (s *Supervisor[V, P]) deploy(ctx context.Context, version V, commit func(context.Context) error) error {
	if !s.alone(version) {
		return s.launch(ctx, version, commit)
	}
	if err := s.makeRoom(ctx); err != nil {
		s.release()
		return err
	}
	err := s.launch(ctx, version, commit)
	if err != nil {
		s.release()
	}
	return err
}

func (s *Supervisor[V, P]) launch(ctx context.Context, version V, commit func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.working, cancel)() //nolint:contextcheck // both the caller and Stop may end the start
	process, err := s.start(ctx, version)
	switch {
	case s.working.Err() != nil:
		if err == nil {
			s.drain(s.draining, process) //nolint:contextcheck // the caller's context may have ended; draining has its own
		}
		return ErrStopped
	case err != nil:
		return err
	}
	if commit != nil {
		if err := commit(ctx); err != nil {
			s.drain(s.draining, process) //nolint:contextcheck // the caller's context may have ended; draining has its own
			return err
		}
	}
	return s.hand(deployment[V, P]{version: version, process: process, committed: commit != nil, done: make(chan error, 1)})
}

// Resume makes a version that was live before (before this program started) the one to run. It takes its turn with
// deployments, and then returns at once; the process is started in the background, and with back-off again and again until
// it runs. It is for a supervisor that runs nothing: one that has a version keeps it.
func (s *Supervisor[V, P]) Resume(ctx context.Context, version V) error {
	return s.resume(ctx, version, false)
}

// ResumeParked is Resume for a version whose process is started by the next Wake.
func (s *Supervisor[V, P]) ResumeParked(ctx context.Context, version V) error {
	return s.resume(ctx, version, true)
}

func (s *Supervisor[V, P]) resume(ctx context.Context, version V, parked bool) error {
	done, err := s.turn(ctx)
	if err != nil {
		return err
	}
	defer done()
	return s.hand(deployment[V, P]{version: version, resume: true, parked: parked, done: make(chan error, 1)})
}

// Park ends the process of a version that is live, as a replaced one is ended, and starts none until Wake. In any other
// phase it does nothing. It does not wait for the end.
func (s *Supervisor[V, P]) Park() { s.park(true) }

// Wake starts the process of a version that is parked. It does not wait for it.
func (s *Supervisor[V, P]) Wake() { s.park(false) }

func (s *Supervisor[V, P]) park(on bool) {
	select {
	case s.parking <- on:
	case <-s.ended:
	}
}

// turn waits for the caller's turn among deployments. Stop waits until done is called.
func (s *Supervisor[V, P]) turn(ctx context.Context) (done func(), err error) {
	if !s.begin() {
		return nil, ErrStopped
	}
	select {
	case s.deploying <- struct{}{}:
		return func() { <-s.deploying; s.tasks.Done() }, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-s.working.Done():
		err = ErrStopped
	}
	s.tasks.Done()
	return nil, err
}

// hand gives a deployment to the loop and waits until it is done.
func (s *Supervisor[V, P]) hand(d deployment[V, P]) error {
	select {
	case s.deployments <- d:
		return <-d.done
	case <-s.ended:
		if !d.resume {
			s.drain(s.draining, d.process)
		}
		return ErrStopped
	}
}

// begin counts a call that Stop has to wait for; false when Stop came first.
func (s *Supervisor[V, P]) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return false
	}
	s.tasks.Add(1)
	return true
}

// Stop ends the app's process: it tells OnDown, lets what is in flight finish until ctx ends (at most queue.DrainTime),
// and returns when every process and goroutine is gone. Calling it twice is fine; each call waits, and the end of either
// context cuts the draining short.
func (s *Supervisor[V, P]) Stop(ctx context.Context) {
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	s.stop()
	defer context.AfterFunc(ctx, s.cut)()
	<-s.ended
	s.tasks.Wait()
	s.cut()
}

// State returns what the supervisor is doing.
func (s *Supervisor[V, P]) State() State[V] {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// become sets the state; the phase begins now unless it goes on.
func (s *Supervisor[V, P]) become(state State[V]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	state.Since = time.Now()
	if state.Phase == s.state.Phase {
		state.Since = s.state.Since
	}
	s.state = state
}

// firstStarts shows the start of a version while there is no other, and reports whether there is none.
func (s *Supervisor[V, P]) firstStarts(version V) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.Phase != Stopped {
		return false
	}
	s.state = State[V]{Phase: Starting, Version: version, Since: time.Now()}
	return true
}

func (s *Supervisor[V, P]) firstFailed(reason error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.Phase == Starting {
		s.state = State[V]{Phase: Stopped, Since: time.Now(), Reason: reason}
	}
}

// start starts a process within queue.StartTime.
func (s *Supervisor[V, P]) start(ctx context.Context, version V) (P, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, queue.StartTime, errStartTime)
	defer cancel()
	process, err := s.options.Start(ctx, version)
	if err != nil && errors.Is(context.Cause(ctx), errStartTime) {
		err = fault.New(fault.Timeout, "start_timeout", "the worker did not start within %s", span.Text(queue.StartTime)).WithCause(err)
	}
	return process, err
}

// drain ends a process within queue.DrainTime.
func (s *Supervisor[V, P]) drain(ctx context.Context, process P) {
	ctx, cancel := context.WithTimeout(ctx, queue.DrainTime)
	defer cancel()
	if err := process.Drain(ctx); err != nil {
		s.options.Log.Warn("a worker process did not end cleanly", "error", err)
	}
}
