package supervise

import (
	"context"
	"slices"
	"time"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/core/span"
)

// loop is the one goroutine that decides which process serves.
type loop[V any, P Process] struct {
	*Supervisor[V, P]
	has      bool
	version  V
	live     bool
	parked   bool
	process  P
	since    time.Time
	restarts int
	// failures counts the deaths and failed starts since a process last ran for queue.RestartReset.
	failures int
	reason   error
	retry    *time.Timer
	// try is the start under way; abandon ends it, and what it starts all the same is drained.
	try     chan attempt[P]
	abandon context.CancelFunc
	tried   <-chan struct{} // closed when nothing of the start under way is left
	// abandoned are the starts that were given up, each until it is closed.
	abandoned []<-chan struct{}
	drains    []drainJob
	// held says that nothing is started: a deployment has the app for itself.
	held bool
}

type attempt[P Process] struct {
	process P
	err     error
}

type drainJob struct {
	cut  context.CancelFunc
	done chan struct{}
}

func newLoop[V any, P Process](s *Supervisor[V, P]) *loop[V, P] {
	l := &loop[V, P]{Supervisor: s, retry: time.NewTimer(time.Hour), abandon: func() {}}
	l.retry.Stop()
	return l
}

func (l *loop[V, P]) run() {
	defer close(l.ended)
	for l.working.Err() == nil {
		var died <-chan struct{}
		if l.live {
			died = l.process.Done()
		}
		select {
		case d := <-l.deployments:
			d.done <- l.takeOver(d)
		case <-died:
			l.died()
		case on := <-l.parking:
			l.park(on)
		case answer := <-l.holding:
			answer <- l.hold()
		case <-l.releasing:
			l.unhold()
		case <-l.retry.C:
			l.startAgain()
		case a := <-l.try:
			l.ready(a)
		case <-l.working.Done():
		}
	}
	if l.live {
		l.options.OnDown(ErrStopped)
		l.drainInBackground(l.process)
	}
	l.become(State[V]{Phase: Stopped, Version: l.version, Restarts: l.restarts, Reason: l.reason})
}

// takeOver makes a deployment's version the one to run.
func (l *loop[V, P]) takeOver(d deployment[V, P]) error {
	if d.resume {
		if !l.has {
			l.has, l.version = true, d.version
			if d.parked {
				l.rest()
				return nil
			}
			l.become(State[V]{Phase: Starting, Version: l.version})
			l.startAgain()
		}
		return nil
	}
	died := false
	select {
	case <-d.process.Done():
		if !d.committed {
			return endOf(d.process)
		}
		died = true
	default:
	}
	l.forgetTry()
	l.held = false
	old, replaces := l.process, l.live
	l.has, l.version, l.restarts, l.failures, l.reason, l.parked = true, d.version, 0, 0, nil, false
	if died {
		l.live = false
		reason := endOf(d.process)
		if replaces {
			l.options.OnDown(reason)
			l.drainInBackground(old)
		}
		l.backOff(reason)
		return reason
	}
	l.serve(d.process)
	if replaces {
		l.drainInBackground(old)
	}
	return nil
}

// park ends the process that serves, or starts one for a version that is parked.
func (l *loop[V, P]) park(on bool) {
	switch {
	case on && l.live:
		l.live = false
		l.options.OnDown(ErrParked)
		l.drainInBackground(l.process)
		l.rest()
	case !on && l.parked && l.held:
		l.parked = false // what is started when the deployment fails
	case !on && l.parked:
		l.parked = false
		l.become(State[V]{Phase: Starting, Version: l.version})
		l.startAgain()
	}
}

// rest is the state of a version that waits for a Wake.
func (l *loop[V, P]) rest() {
	l.parked, l.restarts, l.failures, l.reason = true, 0, 0, nil
	l.become(State[V]{Phase: Parked, Version: l.version})
}

func (l *loop[V, P]) serve(process P) {
	l.live, l.process, l.since = true, process, time.Now()
	l.become(State[V]{Phase: Live, Version: l.version, Restarts: l.restarts, Reason: l.reason})
	l.options.OnLive(process, l.version)
}

func (l *loop[V, P]) died() {
	l.live = false
	if time.Since(l.since) >= queue.RestartReset {
		l.failures = 0
	}
	reason := endOf(l.process)
	l.options.OnDown(reason)
	l.backOff(reason)
}

// backOff plans the next start after a death or a start that failed.
func (l *loop[V, P]) backOff(reason error) {
	l.failures++
	l.reason = reason
	wait := queue.Backoff{First: queue.RestartFirst, Max: queue.RestartMax}.Delay(l.failures)
	l.retry.Reset(wait)
	l.become(State[V]{Phase: Restarting, Version: l.version, Restarts: l.restarts, NextTry: time.Now().Add(wait), Reason: reason})
	l.options.Log.Warn("the worker is not running", "reason", reason, "retry_in", span.Text(wait))
}

// startAgain starts the version's process in the background.
func (l *loop[V, P]) startAgain() {
	ctx, abandon := context.WithCancel(l.working) //nolint:gosec // forgetTry cancels it, or the end of working
	try, done := make(chan attempt[P]), make(chan struct{})
	l.try, l.abandon, l.tried = try, abandon, done
	version, left := l.version, l.leaving()
	l.tasks.Go(func() {
		defer close(done)
		if l.alone(version) && left.wait(ctx) != nil {
			return
		}
		process, err := l.start(ctx, version)
		select {
		case try <- attempt[P]{process, err}:
		case <-ctx.Done():
			if err == nil {
				l.drain(l.draining, process) //nolint:contextcheck // the try's context has ended; draining has its own
			}
		}
	})
}

// ready takes what the start under way has come to.
func (l *loop[V, P]) ready(a attempt[P]) {
	l.forgetTry()
	if a.err != nil {
		l.backOff(a.err)
		return
	}
	if l.reason != nil {
		l.restarts++
	}
	l.serve(a.process)
}

// forgetTry ends the wait for the next start and the start under way.
func (l *loop[V, P]) forgetTry() {
	l.retry.Stop()
	l.abandon()
	l.abandoned = slices.DeleteFunc(l.abandoned, closed)
	if l.try != nil {
		l.abandoned = append(l.abandoned, l.tried)
	}
	l.try = nil
}

// drainInBackground drains a process that serves no more. When too many drain already, the oldest is cut short.
func (l *loop[V, P]) drainInBackground(process P) {
	l.drains = slices.DeleteFunc(l.drains, func(d drainJob) bool { return closed(d.done) })
	if len(l.drains) >= queue.DrainingVersions {
		l.drains[0].cut()
		l.abandoned = append(l.abandoned, l.drains[0].done) // it ends soon
		l.drains = slices.Delete(l.drains, 0, 1)
	}
	ctx, cut := context.WithCancel(l.draining)
	d := drainJob{cut: cut, done: make(chan struct{})}
	l.drains = append(l.drains, d)
	l.tasks.Go(func() {
		defer close(d.done)
		defer cut()
		l.drain(ctx, process)
	})
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// endOf says why a process ended.
func endOf(process Process) error {
	if err := process.Err(); err != nil {
		return err
	}
	return errEnded
}
