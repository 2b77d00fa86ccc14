package schedule

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/runlot/runlot/internal/core/cron"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/core/span"
)

// Options are what a Scheduler needs. All fields are required.
type Options struct {
	// App is the app's name, Node the name of this machine, for a person to read.
	App, Node string
	Recorder  Recorder
	// Now is the clock of the machine, which may jump.
	Now func() time.Time
	Log *slog.Logger
}

// Target is what a Scheduler runs.
type Target struct {
	// Runtime is nil while nothing serves: occurrences wait then.
	Runtime Runtime
	// Wake, where Runtime is nil, is called when one is due; it brings the next Set. It must not wait for that.
	Wake    func()
	Version string
	Crons   []*cron.Schedule
	// Store remembers what was run; it may be nil when there are no crons.
	Store Store
}

// errStopped is why runs are cut off at the end of a Stop.
var errStopped = errors.New("the app was stopped")

// Scheduler runs the crons of one app on this node. Its methods may be called from several goroutines.
type Scheduler struct {
	o Options
	// taking ends when no run is to begin any more; working when those under way are cut off.
	taking, working context.Context //nolint:containedctx // the scheduler's own lifetime, from New to Stop
	stopTaking      context.CancelFunc
	stopWorking     context.CancelCauseFunc
	done            chan struct{} // closed when the loop has returned
	requests        chan *request

	mu         sync.Mutex
	target     Target
	calls      int           // handlers that are called now; guarded by mu
	last       time.Time     // when the last call ended; guarded by mu
	generation int           // counts changes of the runtime; guarded by mu
	changed    chan struct{} // closed and replaced at every change of target; guarded by mu
}

// request is a run that a person asks for.
type request struct {
	ctx    context.Context //nolint:containedctx // a request that nobody waits for any more is not begun
	cron   string
	at     time.Time
	answer chan fired // buffered
}

// fired is what came of a request.
type fired struct {
	record *Record
	err    error
}

// New returns a scheduler that has nothing to run yet. Stop has to be called to end its goroutine.
func New(o Options) *Scheduler {
	o.Log = o.Log.With("app", o.App)
	s := &Scheduler{o: o, done: make(chan struct{}), requests: make(chan *request), changed: make(chan struct{})}
	s.taking, s.stopTaking = context.WithCancel(context.Background())
	s.working, s.stopWorking = context.WithCancelCause(context.Background())
	go (&loop{Scheduler: s}).run()
	return s
}

// Set makes target what runs from now on. A run under way goes on in the process that it is in.
func (s *Scheduler) Set(target Target) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.target = target
	s.generation++
	s.change()
}

// Hold lets occurrences wait until the next Set.
func (s *Scheduler) Hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.target.Runtime, s.target.Wake = nil, nil
	s.generation++
	s.change()
}

func (s *Scheduler) change() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *Scheduler) now() (target Target, generation int, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.target, s.generation, s.changed
}

// CodeUnderWay is the code of the fault for a run by hand while another run of the app is under way.
const CodeUnderWay = "run_under_way"

func (s *Scheduler) underWay() *fault.Error {
	return fault.New(fault.Conflict, CodeUnderWay, "a run of %s is under way, and an app has one at a time", s.o.App).
		WithHint("try again when it has ended; one takes at most %s", span.Text(queue.CronTime))
}

// elsewhere is the same for a run of another node, of which is not known yet whether it lives.
func (s *Scheduler) elsewhere() *fault.Error {
	return s.underWay().WithHint("another node does it; try again when it has ended, or in %s, should that node have died", span.Text(queue.CronLease))
}

// FireNow does as Fire, and refuses while a run of the app is under way here.
func (s *Scheduler) FireNow(ctx context.Context, cronText string, at time.Time) (*Record, error) {
	s.mu.Lock()
	busy := s.calls > 0
	s.mu.Unlock()
	if busy {
		return nil, s.underWay()
	}
	return s.Fire(ctx, cronText, at)
}

// Fire runs the handler now, as if cron, which may be any text, came at a time. It waits for its turn among the app's runs
// on this node and for the end of its own; when ctx ends before the run begins, it does not begin. A run that fails is not
// tried again. Faults: Conflict (CodeUnderWay) when another node runs one, Unavailable.
func (s *Scheduler) Fire(ctx context.Context, cronText string, at time.Time) (*Record, error) {
	if target, _, _ := s.now(); target.Wake != nil {
		target.Wake()
	}
	r := &request{ctx: ctx, cron: cronText, at: at, answer: make(chan fired, 1)}
	select {
	case s.requests <- r:
	case <-ctx.Done():
		return nil, fault.New(fault.Unavailable, "app_not_running", "the run did not begin: the app was busy or not running").WithCause(ctx.Err())
	case <-s.taking.Done():
		return nil, fault.New(fault.Unavailable, "app_not_running", "the run did not begin: %s", errStopped)
	}
	done := <-r.answer
	return done.record, done.err
}

// Idle reports whether no handler has been called for a time.
func (s *Scheduler) Idle(idle time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls == 0 && time.Since(s.last) >= idle
}

// Stop begins no further run, lets the one under way finish until ctx ends, cuts it off then (it is run again by the next
// node, or after the next start), and waits. Twice is fine.
func (s *Scheduler) Stop(ctx context.Context) {
	s.stopTaking()
	defer context.AfterFunc(ctx, func() { s.stopWorking(errStopped) })()
	<-s.done
	s.stopWorking(errStopped)
}

// loop is the one goroutine that decides and runs.
type loop struct {
	*Scheduler
	// store is the one whose crons were compared with known, those of the target at that time.
	store Store
	known []*cron.Schedule
	// offset is what the clock of the database is ahead of the machine's.
	offset time.Duration
	// quiet is the fence and beat of another's run, as first seen at since.
	quiet struct {
		fence, beat int64
		since       time.Time
	}
	// failures counts the calls of the store that failed in a row.
	failures int
}

// never is a wait that only a change ends.
const never = time.Duration(1<<63 - 1)

func (l *loop) run() {
	defer close(l.done)
	for l.taking.Err() == nil {
		target, generation, changed := l.now()
		wait := l.step(&target, generation)
		l.sleep(&target, generation, changed, wait)
	}
}

// sleep waits until there may be something to do: after wait, when the target or the clock changes, or at a request.
func (l *loop) sleep(target *Target, generation int, changed <-chan struct{}, wait time.Duration) {
	var requests chan *request
	if target.Runtime != nil {
		requests = l.requests
	}
	for {
		timer := time.NewTimer(min(wait, queue.CronCheckEvery))
		if wait == never {
			timer.Stop() // nothing depends on the time
		}
		began, wall := time.Now(), l.o.Now().Round(0)
		select {
		case <-timer.C:
		case <-changed:
			timer.Stop()
			return
		case r := <-requests:
			timer.Stop()
			record, err := l.fire(target, generation, r)
			r.answer <- fired{record, err}
			return
		case <-l.taking.Done():
			timer.Stop()
			return
		}
		elapsed := time.Since(began)
		if jump := l.o.Now().Round(0).Sub(wall) - elapsed; jump.Abs() > clockSlack {
			return
		}
		if wait -= elapsed; wait <= 0 {
			return
		}
	}
}

// clockSlack is what the clocks of a machine may differ by without one having been set.
const clockSlack = time.Second

// step does what is due, and returns how long nothing will be.
func (l *loop) step(target *Target, generation int) time.Duration {
	if l.store != nil && l.store != target.Store {
		l.leave()
	}
	if target.Store == nil || len(target.Crons)+len(l.known) == 0 && l.store != nil {
		return never
	}
	view, err := target.Store.Look(l.working, l.o.App)
	if err == nil && (l.store == nil || !same(l.known, target.Crons)) {
		if err = l.forget(target, view); err == nil {
			l.store, l.known = target.Store, target.Crons
		}
	}
	if err != nil {
		return l.failed("the crons could not be looked up", err)
	}
	l.offset = view.Now.Sub(l.o.Now().Round(0))
	d := decide(view, target.Crons)
	if len(d.anew) > 0 {
		if err = target.Store.Forget(l.working, l.o.App, d.anew); err == nil {
			err = target.Store.Declare(l.working, l.o.App, d.anew)
		}
		if err != nil {
			return l.failed("the crons could not be declared", err)
		}
		return 0
	}
	l.failures = 0
	switch {
	case target.Runtime == nil && target.Wake == nil:
		return never
	case view.Running && !l.silent(view):
		return queue.CronLease / 3
	case d.run != nil && target.Runtime == nil:
		target.Wake()
		return never
	case d.run != nil:
		return l.claim(target, generation, view, d.run)
	case d.wake.IsZero():
		return never
	default:
		return max(time.Millisecond, d.wake.Sub(view.Now))
	}
}

// forget removes the crons that the app does not have any more.
func (l *loop) forget(target *Target, view *View) error {
	var gone []string
	for i := range view.Crons {
		if !slices.ContainsFunc(target.Crons, func(c *cron.Schedule) bool { return c.String() == view.Crons[i].Cron }) {
			gone = append(gone, view.Crons[i].Cron)
		}
	}
	if gone == nil {
		return nil
	}
	return target.Store.Forget(l.working, l.o.App, gone)
}

// leave removes the crons from a store that the app does not use any more.
func (l *loop) leave() {
	if err := l.store.Forget(l.working, l.o.App, texts(l.known)); err != nil {
		l.o.Log.Warn("the crons stay in the database that the app does not use any more", "error", fault.Detail(err))
	}
	l.store, l.known = nil, nil
}

// silent reports whether the run under way gave no sign of life for as long as it had to.
func (l *loop) silent(view *View) bool {
	if q := &l.quiet; q.since.IsZero() || q.fence != view.Fence || q.beat != view.Beat {
		q.fence, q.beat, q.since = view.Fence, view.Beat, time.Now()
	}
	return time.Since(l.quiet.since) >= queue.CronLease
}

// failed returns how long to wait after a call of the store that failed.
func (l *loop) failed(what string, err error) time.Duration {
	if l.working.Err() != nil {
		return never
	}
	l.failures++
	level := slog.LevelDebug
	if l.failures == 1 {
		level = slog.LevelWarn
	}
	l.o.Log.Log(l.working, level, what, "error", fault.Detail(err))
	return queue.Backoff{First: queue.StoreRetryFirst, Max: queue.StoreRetryMax}.Delay(l.failures)
}

func texts(crons []*cron.Schedule) []string {
	list := make([]string, len(crons))
	for i, c := range crons {
		list[i] = c.String()
	}
	return list
}

func same(a, b []*cron.Schedule) bool { return slices.Equal(texts(a), texts(b)) }
