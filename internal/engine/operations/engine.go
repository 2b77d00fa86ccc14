package operations

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

// Options are what an Engine is made of. Every field is required.
type Options struct {
	Store    Store
	Runs     Runs
	Observer Observer
	Log      *slog.Logger
}

// Engine runs operations, from Start to Stop.
type Engine struct {
	o Options

	work context.Context //nolint:containedctx // the lifetime of the goroutines, ended by Stop
	stop context.CancelFunc
	jobs sync.WaitGroup

	mu sync.Mutex
	// open are the operations that have not ended, oldest first. mu guards it, and what the jobs say of themselves.
	open []*job
}

// job is an operation that has not ended.
type job struct {
	op Operation
	// started says that a goroutine runs it. cancelled says that a person ended it, and cancel ends its step.
	started, cancelled bool
	cancel             context.CancelFunc
	// ended is closed when its end is stored, or the engine has stopped.
	ended chan struct{}
}

// New makes an engine. It does nothing until Start.
func New(o Options) *Engine {
	e := &Engine{o: o}
	e.work, e.stop = context.WithCancel(context.Background())
	return e
}

// Start goes on with the operations that were open when the program ended.
func (e *Engine) Start(ctx context.Context) error {
	open, err := e.o.Store.OpenOperations(ctx)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range open {
		e.open = append(e.open, &job{op: open[i], ended: make(chan struct{})})
	}
	e.dispatch()
	return nil
}

// Stop ends the steps under way, and waits. Operations go on with the next engine over the same store. Twice is fine.
func (e *Engine) Stop() {
	e.stop()
	e.jobs.Wait()
}

// Add begins an operation, at once or when its turn comes. Fault: Limit (CodeTooMany).
func (e *Engine) Add(ctx context.Context, spec *Spec) (*Operation, error) {
	j := &job{op: Operation{Spec: *spec, State: Running, Created: time.Now().UTC().Truncate(time.Microsecond)}, ended: make(chan struct{})}
	e.mu.Lock()
	full := len(e.open) >= queue.OperationsOpen
	e.mu.Unlock()
	if full {
		return nil, fault.New(fault.Limit, CodeTooMany, "there are %d operations that run or wait, and more are not possible", queue.OperationsOpen).
			WithHint("wait for one to end, or cancel one")
	}
	if err := e.o.Store.AddOperation(ctx, &j.op); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.open = append(e.open, j)
	e.dispatch()
	return j.shown(), nil
}

// shown is the operation as others see it. mu is held.
func (j *job) shown() *Operation {
	o := j.op.clone()
	if !j.started && o.State == Running {
		o.State = Waiting
	}
	return o
}

// dispatch starts the operations whose turn it is. mu is held.
func (e *Engine) dispatch() {
	if e.work.Err() != nil {
		return
	}
	busy, running := map[[2]string]bool{}, 0
	for _, j := range e.open {
		if j.started {
			busy[j.queue()] = true
			running++
		}
	}
	for _, j := range e.open {
		if j.started || busy[j.queue()] || running >= queue.OperationsRunning {
			continue
		}
		ctx, cancel := context.WithCancel(e.work)
		j.started, j.cancel = true, cancel
		busy[j.queue()] = true
		running++
		e.jobs.Go(func() {
			defer cancel()
			e.run(ctx, j)
		})
	}
}

func (j *job) queue() [2]string { return [2]string{j.op.Database, j.op.Queue} }

// find returns an open job. mu is held.
func (e *Engine) find(id int64) *job {
	for _, j := range e.open {
		if j.op.ID == id {
			return j
		}
	}
	return nil
}

// Get returns an operation. Fault: NotFound (CodeUnknown).
func (e *Engine) Get(ctx context.Context, id int64) (*Operation, error) {
	e.mu.Lock()
	if j := e.find(id); j != nil {
		defer e.mu.Unlock()
		return j.shown(), nil
	}
	e.mu.Unlock()
	return e.o.Store.Operation(ctx, id)
}

// List returns the newest operations that the query asks for, newest first.
func (e *Engine) List(ctx context.Context, q Query) ([]Operation, error) {
	list, err := e.o.Store.Operations(ctx, q)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range list {
		if j := e.find(list[i].ID); j != nil {
			list[i] = *j.shown()
		}
	}
	return list, nil
}

// Cancel ends an operation within one step and returns it as it ended. It waits for that until ctx ends. Faults: NotFound
// (CodeUnknown); Conflict (CodeEnded) for one that is done or failed.
func (e *Engine) Cancel(ctx context.Context, id int64) (*Operation, error) {
	e.mu.Lock()
	j := e.find(id)
	if j != nil {
		j.cancelled = true
		if j.started {
			j.cancel()
		} else {
			// Nobody else ends what was never started.
			j.started, j.cancel = true, func() {}
			e.jobs.Go(func() { e.finish(j, Cancelled, nil) })
		}
	}
	e.mu.Unlock()
	if j != nil {
		select {
		case <-j.ended:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	o, err := e.o.Store.Operation(ctx, id)
	switch {
	case err == nil && !o.State.Ended():
		err = fault.New(fault.Unavailable, CodeEnded, "the end of operation %d could not be stored", id).WithHint("try again shortly")
	case err == nil && o.State != Cancelled:
		err = fault.New(fault.Conflict, CodeEnded, "operation %d has ended already: it is %s", id, o.State)
	}
	return o, err
}

// run carries an operation out until it ends, or the engine is stopped.
func (e *Engine) run(ctx context.Context, j *job) {
	e.mu.Lock()
	first := j.op.Place == ""
	snapshot := j.op.clone()
	e.mu.Unlock()
	if first {
		e.o.Observer.Began(snapshot)
	}
	err := e.steps(ctx, j)
	e.mu.Lock()
	cancelled := j.cancelled
	e.mu.Unlock()
	switch {
	case err == nil:
		e.finish(j, Done, nil)
	case cancelled:
		e.finish(j, Cancelled, nil)
	case e.work.Err() != nil:
		e.save(j) // its place, for the next engine
		close(j.ended)
	default:
		e.finish(j, Failed, err)
	}
}

// steps takes steps until the end, and stores how far it is now and then.
func (e *Engine) steps(ctx context.Context, j *job) error {
	var run Run
	back := queue.Backoff{First: queue.StoreRetryFirst, Max: queue.StoreRetryMax}
	saved, failures := time.Now(), 0
	for {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		began := time.Now()
		var done Counts
		var err error
		if run == nil {
			e.mu.Lock()
			snapshot := j.op.clone()
			e.mu.Unlock()
			run, err = e.o.Runs.Begin(ctx, snapshot)
		}
		if err == nil {
			done, err = run.Step(ctx, rows(j.op.Rate))
		}
		if err != nil {
			// The database or its broker is away: another run goes on at the same place.
			run = nil
			if ctx.Err() != nil || fault.KindOf(err) != fault.Unavailable {
				return err
			}
			failures++
			e.o.Log.Debug("an operation waits for its database", "operation", j.op.ID, "error", fault.Detail(err))
			pause(ctx, back.Delay(failures))
			continue
		}
		failures = 0
		e.mu.Lock()
		j.op.add(&done)
		j.op.Place = run.Place()
		e.mu.Unlock()
		if run.Over() {
			return nil
		}
		if time.Since(saved) >= queue.OperationSave {
			e.save(j)
			saved = time.Now()
		}
		pause(ctx, rest(j.op.Rate, done.Done, time.Since(began)))
	}
}

// rows is the most messages of a step.
func rows(rate int) int {
	if rate > 0 {
		return min(rate, queue.OperateRows)
	}
	return queue.OperateRows
}

// rest is the pause after a step that did so many and took so long: what is left of their time by the rate, and at least as
// long as the step took, so that deliveries have half of the time to themselves.
func rest(rate int, done int64, took time.Duration) time.Duration {
	wait := min(took, time.Second)
	if rate > 0 {
		wait = max(wait, time.Duration(done)*time.Second/time.Duration(rate)-took)
	}
	return wait
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// save stores how far an operation is. One that cannot be stored goes on: the next one says more.
func (e *Engine) save(j *job) {
	e.mu.Lock()
	snapshot := j.op.clone()
	e.mu.Unlock()
	if err := e.store(snapshot); err != nil {
		e.o.Log.Warn("the progress of an operation was not stored", "operation", snapshot.ID, "error", fault.Detail(err))
	}
}

func (e *Engine) store(o *Operation) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.work), queue.SendTimeout)
	defer cancel()
	return e.o.Store.SaveOperation(ctx, o, queue.OperationsKept)
}

// finish stores the end of an operation, and starts those that waited for it. While the end cannot be stored the operation
// stays open; one that is open when the program ends is looked at again by the next.
func (e *Engine) finish(j *job, state State, why error) {
	e.mu.Lock()
	ended := j.op.clone()
	e.mu.Unlock()
	ended.State, ended.Ended = state, time.Now().UTC().Truncate(time.Microsecond)
	if why != nil {
		ended.Error = fault.From(why).Error()
		e.o.Log.Warn("an operation failed", "operation", ended.ID, "queue", ended.Queue, "error", fault.Detail(why))
	}
	back := queue.Backoff{First: queue.StoreRetryFirst, Max: queue.StoreRetryMax}
	err := e.store(ended)
	for failures := 1; err != nil && e.work.Err() == nil; failures++ {
		e.o.Log.Warn("the end of an operation was not stored yet", "operation", ended.ID, "error", fault.Detail(err))
		pause(e.work, back.Delay(failures))
		err = e.store(ended)
	}
	if err == nil {
		e.o.Observer.Ended(ended)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.open = slices.DeleteFunc(e.open, func(other *job) bool { return other == j })
	close(j.ended)
	e.dispatch()
}
