package dispatch

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

// Options are what a Dispatcher needs. All fields but Budget and Isolation are required, and the consumer is complete:
// every default filled in.
type Options struct {
	// App is the app's name, for records and the log.
	App      string
	Consumer queue.Consumer
	Lane     Lane
	Recorder Recorder
	Log      *slog.Logger
	// Budget is shared by every dispatcher of the process; nil takes one of queue.DispatchBytes for this queue alone.
	Budget *Budget
	// Isolation is shared by every dispatcher of the app; nil takes one for this queue alone.
	Isolation *Isolation
}

// Dispatcher delivers the messages of one queue to one app. It takes batches while a runtime is set, and holds back
// without taking any while none is: what cannot be handled yet waits in its queue and costs nothing.
type Dispatcher struct {
	app       string
	consumer  queue.Consumer
	lane      Lane
	recorder  Recorder
	log       *slog.Logger
	budget    *Budget
	isolation *Isolation

	prefix string
	serial atomic.Uint64
	// first is the one batch of this queue that needs no part of the budget: a queue always has a call to run, however
	// much the others hold.
	first chan struct{}
	// wake tells the taking goroutine to look at the state again.
	wake chan struct{}

	mu      sync.Mutex
	runtime Runtime
	// waker is called for the next message while the app rests; nil while it does not.
	waker   func()
	version string
	// generation counts the runtimes, and changed is closed when it rises.
	generation uint64
	changed    chan struct{}
	// round counts the setbacks. Calls of one round ran together: the first of them that fails ends the round, and the
	// others add nothing to it.
	round       uint64
	concurrency concurrency
	running     int
	// most is the highest number of calls at a time since Calls was asked last.
	most      int
	unsettled int
	// lastEnded is when a call ended last.
	lastEnded   time.Time
	errors      int
	losses      int
	pausedUntil time.Time
	interrupt   context.CancelFunc

	started    bool
	stopped    bool
	stopTaking context.CancelFunc
	stopCalls  context.CancelCauseFunc
	taken      chan struct{}
	calls      sync.WaitGroup
	// finished: nothing is taken and no handler runs any more. settled is closed when its settlements have committed too.
	finished   bool
	allSettled bool
	settled    chan struct{}
}

// Reasons for which a handler's context ends.
var (
	errHandlerTime = errors.New("the handler outlived its time")
	errStopped     = errors.New("the dispatcher was stopped")
)

// New returns a dispatcher that is not started yet.
func New(o Options) *Dispatcher {
	d := &Dispatcher{
		app: o.App, consumer: o.Consumer, lane: o.Lane, recorder: o.Recorder, budget: o.Budget, isolation: o.Isolation,
		log:    o.Log.With("app", o.App, "queue", o.Consumer.Queue),
		prefix: rand.Text()[:16] + "-",
		first:  make(chan struct{}, 1), wake: make(chan struct{}, 1), changed: make(chan struct{}),
		concurrency: newConcurrency(o.Consumer.MaxConcurrency),
		taken:       make(chan struct{}), settled: make(chan struct{}),
	}
	if d.budget == nil {
		d.budget = NewBudget(queue.DispatchBytes)
	}
	if d.isolation == nil {
		d.isolation = NewIsolation()
	}
	return d
}

// Start begins to deliver, as soon as a runtime is set. It returns at once. When ctx ends, the dispatcher stops as if
// Stop had been called with no time left; Stop still has to be called to wait for it. A dispatcher starts once.
func (d *Dispatcher) Start(ctx context.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.started || d.stopped {
		return
	}
	d.started = true
	working, stopCalls := context.WithCancelCause(ctx)
	taking, stopTaking := context.WithCancel(working)
	d.stopCalls, d.stopTaking = stopCalls, stopTaking
	go d.take(taking, working)
}

// SetRuntime makes the next batches go to runtime, which runs this version of the app. Calls that are under way finish
// where they are. It ends the pause after errors or losses: there is a new reason to try.
func (d *Dispatcher) SetRuntime(runtime Runtime, version string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.version != version {
		d.errors, d.losses = 0, 0
	}
	d.version = version
	d.pausedUntil = time.Time{}
	d.replaceRuntime(runtime)
}

// ClearRuntime says that nothing runs the app's handlers now: the dispatcher takes no more batches until SetRuntime. A
// version that is live and cannot run is not this: its runtime answers with ErrCannotRun, so that the attempt and its
// reason are recorded.
func (d *Dispatcher) ClearRuntime() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.replaceRuntime(nil)
	d.hold()
}

// Rest is ClearRuntime for an app whose process is away because nothing happens: when a message is ready, without waiting
// for a batch to fill, wake is called once, and the dispatcher waits for SetRuntime.
func (d *Dispatcher) Rest(wake func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.replaceRuntime(nil)
	d.waker = wake
	d.hold()
}

// Idle reports whether no message was in a handler's hands or on its way out of them for that long, and none could be
// delivered now.
func (d *Dispatcher) Idle(idle time.Duration) bool {
	if d.lane.Ready() > 0 {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.running == 0 && d.unsettled == 0 && time.Since(d.lastEnded) >= idle
}

// Calls returns the most handler calls that ran at a time since it was called last, and how many may run.
func (d *Dispatcher) Calls() (most, allowed int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	most, d.most = max(d.most, d.running), d.running
	return most, d.concurrency.limit
}

// wakeApp says that there is a message, if the app rests.
func (d *Dispatcher) wakeApp() {
	d.mu.Lock()
	wake := d.waker
	d.waker = nil
	d.mu.Unlock()
	if wake != nil {
		wake()
	}
}

func (d *Dispatcher) replaceRuntime(runtime Runtime) {
	d.runtime, d.waker = runtime, nil
	d.generation++
	close(d.changed)
	d.changed = make(chan struct{})
	d.nudge()
}

// hold ends the lane's wait for a batch, if there is one: the dispatcher must not take any now.
func (d *Dispatcher) hold() {
	if d.interrupt != nil {
		d.interrupt()
	}
}

func (d *Dispatcher) nudge() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// Stop ends the work: no batch is taken from now on; handlers that run may finish until ctx ends and are cancelled then
// (outcome lost, without blame for their messages); their settlements are waited for, up to queue.SettleGrace after the last
// handler has ended. It returns when no handler runs and no goroutine is left. The error is a fault of kind Timeout when
// settlements had not committed by then: the messages are delivered again unless the lane still commits them. Calling it
// twice is fine; the second call waits like the first.
func (d *Dispatcher) Stop(ctx context.Context) error {
	d.mu.Lock()
	d.stopped = true
	started := d.started
	d.mu.Unlock()
	if !started {
		return nil
	}
	d.stopTaking()
	disarm := context.AfterFunc(ctx, func() { d.stopCalls(errStopped) })
	defer disarm()
	<-d.taken
	d.calls.Wait()
	d.stopCalls(errStopped)

	d.mu.Lock()
	d.finished = true
	d.closeSettled()
	d.mu.Unlock()
	return d.awaitSettled()
}

// closeSettled reports that nothing is left to settle, once nothing can be added any more.
func (d *Dispatcher) closeSettled() {
	if d.finished && d.unsettled == 0 && !d.allSettled {
		d.allSettled = true
		close(d.settled)
	}
}

func (d *Dispatcher) awaitSettled() error {
	grace := time.NewTimer(queue.SettleGrace)
	defer grace.Stop()
	select {
	case <-d.settled:
		return nil
	case <-grace.C:
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return fault.New(fault.Timeout, "settle_timeout", "%d batches of queue %s were not settled in time", d.unsettled, d.consumer.Queue).
		WithHint("the database did not answer; their messages may be delivered again")
}

// newID returns an ID that no other delivery has, of this dispatcher or another.
func (d *Dispatcher) newID() string {
	return d.prefix + strconv.FormatUint(d.serial.Add(1), 36)
}
