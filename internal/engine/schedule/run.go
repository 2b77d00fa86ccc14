package schedule

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/core/span"
)

// Causes of the end of a run's context, beside errStopped.
var (
	errRunTime = errors.New("the handler outlived its time")
	errAway    = errors.New("the database did not answer, so that another node may have taken the run over")
)

// ending is how a call of the handler ended.
type ending struct {
	outcome   queue.Outcome
	exception *Exception
	reason    string
	noRetry   bool
	// blameless marks a Lost run whose process ended on purpose: it is run again at once.
	blameless bool
	// unseen marks a run that came to a process which was gone: it is as if it had not been claimed.
	unseen bool
}

// claim claims an occurrence and runs it. It returns how long nothing is to be done after it.
func (l *loop) claim(target *Target, generation int, view *View, o *occurrence) time.Duration {
	if l.taking.Err() != nil {
		return never
	}
	c := &Claim{
		App: l.o.App, Node: l.o.Node, Fence: view.Fence, Beat: view.Beat, Cron: o.cron.String(),
		At: o.at, Attempt: o.attempt, Missed: o.missed, Lost: l.lostRecord(o, view.Now),
	}
	fence, err := target.Store.Claim(l.working, c)
	switch {
	case errors.Is(err, ErrTaken):
		return 0
	case err != nil:
		return l.failed("an occurrence could not be claimed", err)
	}
	if c.Lost != nil {
		l.o.Recorder.Run(c.Lost)
	}
	f := &Finish{App: l.o.App, Fence: fence, Cron: c.Cron, Attempt: c.Attempt}
	switch {
	case !o.late:
		l.runClaimed(target, generation, o, f)
	case o.attempt == 1:
		f.Record = &Record{
			App: l.o.App, Cron: c.Cron, At: o.at, Node: l.o.Node, Start: view.Now, Outcome: Missed, Missed: o.missed + 1,
			Reason: fmt.Sprintf("it was found more than %s after its time", span.Text(queue.CronLate)),
		}
	}
	l.finish(target.Store, f)
	return 0
}

// lostRecord is the record of a run whose node died.
func (l *loop) lostRecord(o *occurrence, now time.Time) *Record {
	if o.lost == nil {
		return nil
	}
	r := &Record{
		App: l.o.App, Cron: o.lost.Cron, At: o.lost.At, Attempt: o.lost.Attempt, Missed: o.lost.Missed, Node: o.lost.Node, Start: o.lost.Began,
		Duration: max(0, now.Sub(o.lost.Began)), Outcome: queue.Lost, Reason: "the node died during the run, or lost its database",
	}
	if o.again && !o.late {
		r.Retry = now
	}
	return r
}

// runClaimed runs an occurrence under its claim and says in f what is to become of it.
func (l *loop) runClaimed(target *Target, generation int, o *occurrence, f *Finish) {
	r, e := l.callClaimed(target, generation, f.Fence, f.Cron, o.at)
	now := l.o.Now().Round(0).Add(l.offset)
	if e.unseen {
		f.Try, f.Attempt = now, f.Attempt-1
		return
	}
	r.Attempt, r.Missed = o.attempt, o.missed
	switch {
	case e.outcome == queue.OK || e.noRetry:
	case e.blameless:
		f.Try = now
	default:
		f.Try = retryAt(o.cron, o.at, o.attempt, now)
	}
	r.Retry, f.Record = f.Try, r
}

// callClaimed calls the handler under a claim.
func (l *loop) callClaimed(target *Target, generation int, fence int64, cronText string, at time.Time) (*Record, ending) {
	ctx, cancel := context.WithCancelCause(l.working)
	defer cancel(nil)
	var keeper sync.WaitGroup
	ended := make(chan struct{})
	keeper.Go(func() { l.keep(ctx, target.Store, fence, ended, cancel) })
	r, e := l.call(ctx, target, generation, cronText, at)
	close(ended)
	keeper.Wait()
	return r, e
}

// keep gives signs of life until the run ends. It cuts the run off when that belongs to another node, or may do so soon.
func (l *loop) keep(ctx context.Context, store Store, fence int64, ended <-chan struct{}, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(queue.CronRenewEvery)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-ended:
			return
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		asked := time.Now()
		renew, stop := context.WithDeadline(ctx, last.Add(queue.CronRenewTime))
		err := store.Renew(renew, l.o.App, fence)
		stop()
		switch {
		case err == nil:
			last = asked
		case errors.Is(err, ErrTaken):
			cancel(ErrTaken)
			return
		case time.Since(last) >= queue.CronRenewTime:
			cancel(errAway)
			return
		}
	}
}

// call calls the handler and says how it ended.
func (l *loop) call(ctx context.Context, target *Target, generation int, cronText string, at time.Time) (*Record, ending) {
	ctx, cancel := context.WithTimeoutCause(ctx, queue.CronTime, errRunTime)
	defer cancel()
	start, wall := time.Now(), l.o.Now().Round(0)
	l.mu.Lock()
	l.calls++
	l.mu.Unlock()
	result, err := target.Runtime.Scheduled(ctx, cronText, at)
	e := l.judge(ctx, result, err)
	l.mu.Lock()
	l.calls--
	l.last = time.Now()
	replaced := l.generation != generation && l.target.Runtime != nil
	e.blameless = e.blameless || replaced && e.outcome == queue.Lost && errors.Is(err, ErrLost)
	l.mu.Unlock()
	if e.unseen {
		l.letGo(generation)
	}
	return &Record{
		App: l.o.App, Cron: cronText, At: at, Version: target.Version, Node: l.o.Node, Start: wall, Duration: time.Since(start),
		Outcome: e.outcome, NoRetry: e.noRetry, Error: e.exception, Reason: e.reason,
	}, e
}

// letGo holds the occurrences back after a process was found gone, which is known here before it is told.
func (l *loop) letGo(generation int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.generation == generation {
		l.target.Runtime = nil
		l.change()
	}
}

func (l *loop) judge(ctx context.Context, result *Result, err error) ending {
	switch cause := context.Cause(ctx); {
	case errors.Is(err, ErrGone):
		return ending{unseen: true}
	case errors.Is(cause, errRunTime):
		return ending{outcome: queue.TimedOut, reason: fmt.Sprintf("the handler did not finish within %s and was cancelled", queue.CronTime)}
	case err == nil && result != nil:
		return ending{outcome: result.Outcome, exception: result.Error, noRetry: result.NoRetry}
	case errors.Is(cause, errStopped):
		return ending{outcome: queue.Lost, blameless: true, reason: "the app was stopped before the handler finished"}
	case cause != nil:
		return ending{outcome: queue.Lost, reason: cause.Error()}
	case errors.Is(err, ErrCannotRun):
		return ending{outcome: queue.Errored, reason: reason(err)}
	case errors.Is(err, ErrLost):
		return ending{outcome: queue.Lost, reason: reason(err)}
	default:
		l.o.Log.Error("a scheduled run broke", "error", fault.Detail(err))
		return ending{outcome: queue.Lost, reason: "internal error; the log has the details"}
	}
}

// reason is the text for a person in an error of Runtime.Scheduled.
func reason(err error) string {
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f.Error()
	}
	return err.Error()
}

// finish tells the store how a run ended, again and again while that does not answer: at the end of a stop not much longer.
func (l *loop) finish(store Store, f *Finish) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(l.working))
	defer cancel()
	defer context.AfterFunc(l.working, func() {
		select {
		case <-time.After(queue.SettleGrace):
			cancel()
		case <-ctx.Done():
		}
	})()
	wait := queue.Backoff{First: queue.StoreRetryFirst, Max: queue.StoreRetryMax}
	for try := 1; ; try++ {
		err := store.Finish(ctx, f)
		if err == nil {
			break
		}
		if errors.Is(err, ErrTaken) || ctx.Err() != nil || fault.KindOf(err) != fault.Unavailable {
			l.o.Log.Warn("the end of a scheduled run could not be saved; it may be run again", "cron", f.Cron, "error", fault.Detail(err))
			if f.Record != nil && f.Record.Reason == "" {
				f.Record.Reason = "the result could not be saved; it may be run again"
			}
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait.Delay(try)):
		}
	}
	if f.Record != nil {
		l.o.Recorder.Run(f.Record)
	}
}

// fire runs what a person asked for, under a claim where the app has a store.
func (l *loop) fire(target *Target, generation int, r *request) (*Record, error) {
	if r.ctx.Err() != nil {
		return nil, fault.New(fault.Unavailable, "app_not_running", "the run did not begin: nobody waits for it any more")
	}
	f := &Finish{App: l.o.App}
	var e ending
	if target.Store == nil {
		f.Record, e = l.call(l.working, target, generation, r.cron, r.at)
	} else {
		var err error
		if f.Fence, err = l.take(target.Store); err != nil {
			return nil, err
		}
		f.Record, e = l.callClaimed(target, generation, f.Fence, r.cron, r.at)
	}
	if e.unseen {
		f.Record.Outcome, f.Record.Reason = queue.Lost, ErrGone.Error()
	}
	f.Record.Attempt, f.Record.Manual = 1, true
	if target.Store == nil {
		l.o.Recorder.Run(f.Record)
	} else {
		l.finish(target.Store, f)
	}
	return f.Record, nil
}

// take claims the app for a run by hand.
func (l *loop) take(store Store) (fence int64, err error) {
	if err := store.Declare(l.working, l.o.App, nil); err != nil {
		return 0, err
	}
	view, err := store.Look(l.working, l.o.App)
	if err != nil {
		return 0, err
	}
	if view.Running && !l.silent(view) {
		return 0, l.elsewhere()
	}
	fence, err = store.Claim(l.working, &Claim{App: l.o.App, Node: l.o.Node, Fence: view.Fence, Beat: view.Beat})
	if errors.Is(err, ErrTaken) {
		return 0, l.elsewhere()
	}
	return fence, err
}
