package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// Broker is the one owner of a database's queues, from Start to Stop or to the loss of the ownership. A Broker runs once;
// whoever wants to go on after a loss makes a new one.
//
// Order of locks: settleGate, appendGate, reserveGate, mu, backlog.mu, then the locks of sends, settles, readers and wheel.
type Broker struct {
	store  store.Store
	log    *slog.Logger
	bounds Bounds

	// settleGate is held by whoever changes or deletes rows (the settler, retention), appendGate by whoever commits rows
	// with a new Seq (the flusher, and the settler when it moves messages), each from before the commit until the lanes
	// know of it, retries included. Holding both, nothing is between the store and the lanes.
	settleGate, appendGate gate
	// reserveGate keeps the reservations in order.
	reserveGate gate

	// lastSeq is the highest Seq assigned. appendGate guards it.
	lastSeq int64
	// highestDueMark is the highest DueMark recorded. It is written with both gates held.
	highestDueMark int64
	// reserved is the limit of the last reservation: Seqs below it may be assigned.
	reserved    atomic.Int64
	reserveKick chan struct{}

	sends   sendList
	waiting *semaphore.Weighted
	settles settleList
	readers readList
	wheel   wheel

	mu sync.RWMutex
	// byName and byID hold every queue that is known; mu guards them and started.
	byName  map[string]*backlog
	byID    map[int32]*backlog
	started bool
	// exact is set, and counted closed, when the messages that were there at the start are in the counts of the queues.
	exact   atomic.Bool
	counted chan struct{}
	// lanes is the number of queues with an open lane; what a lane may hold in memory depends on it.
	lanes atomic.Int64

	own  store.Ownership
	work context.Context //nolint:containedctx // the lifetime of the goroutines, ended by Stop or by the loss of ownership
	end  context.CancelCauseFunc
	// stopping is closed when the flusher and the settler shall finish what waits and return.
	stopping  chan struct{}
	committer sync.WaitGroup
	others    sync.WaitGroup

	done     chan struct{}
	failOnce sync.Once
	err      error
	stopOnce sync.Once
	stopErr  error
}

// New makes a broker. It does nothing until Start.
func New(o Options) *Broker {
	log := o.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	bounds := o.Bounds.orDefaults()
	b := &Broker{
		store: o.Store, log: log, bounds: bounds,
		settleGate: make(gate, 1), appendGate: make(gate, 1), reserveGate: make(gate, 1),
		reserveKick: make(chan struct{}, 1),
		sends:       sendList{kick: make(chan struct{}, 1)},
		waiting:     semaphore.NewWeighted(int64(bounds.GroupWaiting)),
		settles:     settleList{kick: make(chan struct{}, 1)},
		readers:     readList{kick: make(chan struct{}, queue.LaneReaders)},
		wheel:       wheel{kick: make(chan struct{}, 1)},
		byName:      map[string]*backlog{}, byID: map[int32]*backlog{},
		counted: make(chan struct{}), stopping: make(chan struct{}), done: make(chan struct{}),
	}
	b.work, b.end = context.WithCancelCause(context.Background())
	b.sends.closed = errNotRunning
	b.settles.closed = errNotRunning
	return b
}

// Codes of faults that no producer sees.
const (
	codeStarted   = "broker_started"
	codeLeaseOver = "lease_over"
	codeDecisions = "decisions_mismatch"
)

var (
	errNotRunning = fault.New(fault.Unavailable, queue.CodeOverloaded, "the queues are not being served here at the moment").
			WithHint("try again shortly")
	errOwnershipLost = fault.New(fault.Unavailable, queue.CodeOverloaded, "the queues are moving to another owner").
				WithHint("try again shortly")
)

// Start takes the ownership, waiting for an earlier owner until ctx ends, loads the queues and begins to serve them.
func (b *Broker) Start(ctx context.Context) error {
	b.mu.Lock()
	again := b.started
	b.started = true
	b.mu.Unlock()
	if again {
		return fault.New(fault.Conflict, codeStarted, "the broker was started before").WithHint("make a new one")
	}
	own, err := b.store.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("become the owner of the queues: %w", err)
	}
	b.own = own
	b.lastSeq = own.NextSeq - 1
	b.reserved.Store(own.NextSeq)
	infos, err := b.store.Queues(ctx)
	if err == nil {
		b.know(infos)
		for i := range infos {
			b.highestDueMark = max(b.highestDueMark, infos[i].DueMark)
		}
		err = b.reserve(ctx, time.Now(), own.NextSeq+1, queue.SeqReserve)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("load the queues: %w", err), b.release(ctx))
	}
	b.sends.reopen()
	b.settles.reopen()
	b.committer.Go(b.flushLoop)
	b.committer.Go(b.settleLoop)
	b.others.Go(b.reserveLoop)
	b.others.Go(b.wheelLoop)
	b.others.Go(b.sweepLoop)
	b.others.Go(b.watch)
	for range queue.LaneReaders {
		b.others.Go(b.readLoop)
	}
	return nil
}

// watch turns the loss of the ownership into the end of the broker.
func (b *Broker) watch() {
	select {
	case <-b.own.Lost:
		b.fail(errOwnershipLost)
	case <-b.work.Done():
	}
}

// fail ends the broker at once: callers get err, lanes close.
func (b *Broker) fail(err error) {
	b.failOnce.Do(func() {
		b.err = err
		b.sends.close(err)
		b.settles.close(err)
		b.end(err)
		close(b.done)
		b.closeLanes(err)
	})
}

// over is why nothing more can be committed after a write failed with err: the ownership is lost, or the broker stopped.
// Nil while neither is so.
func (b *Broker) over(err error) error {
	select {
	case <-b.own.Lost:
		return errOwnershipLost
	case <-b.work.Done():
		return context.Cause(b.work)
	default:
	}
	if f, ok := errors.AsType[*fault.Error](err); ok && f.Code == store.CodeOwnershipLost {
		return errOwnershipLost
	}
	return nil
}

// Counted is closed when Metrics is exact: the messages that were there at the start have been counted. It stays open in
// a broker that ends before.
func (b *Broker) Counted() <-chan struct{} { return b.counted }

// Done is closed when the broker no longer serves: Stop was called, or the ownership is lost. Err says which.
func (b *Broker) Done() <-chan struct{} { return b.done }

// Err is nil until Done is closed and after a plain Stop, and the reason after a loss.
func (b *Broker) Err() error {
	select {
	case <-b.done:
		return b.err
	default:
		return nil
	}
}

// Stop refuses new sends, closes the lanes, commits what waits until ctx ends, and gives the ownership back. What is
// still under lease then is delivered again by the next owner. Calling it twice is fine; it also cleans up after a loss.
func (b *Broker) Stop(ctx context.Context) error {
	b.stopOnce.Do(func() { b.stopErr = b.stop(ctx) })
	return b.stopErr
}

func (b *Broker) stop(ctx context.Context) error {
	b.mu.Lock()
	running := b.started
	b.started = true
	b.mu.Unlock()
	b.sends.close(errNotRunning)
	b.settles.close(errNotRunning)
	b.closeLanes(errNotRunning)
	close(b.stopping)
	committed := make(chan struct{})
	go func() {
		b.committer.Wait()
		close(committed)
	}()
	select {
	case <-committed:
	case <-ctx.Done():
	}
	lost := b.Err() != nil
	b.failOnce.Do(func() {
		b.end(errNotRunning)
		close(b.done)
	})
	<-committed
	b.others.Wait()
	if !running {
		return nil
	}
	ctx, cancel := b.lastContext(ctx)
	defer cancel()
	var err error
	if !lost {
		err = b.saveMarks(ctx)
	}
	return errors.Join(err, b.release(ctx))
}

// lastContext is ctx, or a short one of its own when ctx has ended: giving back what is held is worth a last try.
func (b *Broker) lastContext(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Err() == nil {
		return ctx, func() {}
	}
	return context.WithTimeout(context.WithoutCancel(ctx), queue.ReleaseTime)
}

func (b *Broker) release(ctx context.Context) error {
	if err := b.store.Release(ctx); err != nil {
		return fmt.Errorf("give the ownership of the queues back: %w", err)
	}
	return nil
}

// Declare makes sure that queues exist. Declaring one that exists changes nothing.
func (b *Broker) Declare(ctx context.Context, names []string) error {
	for _, name := range names {
		if !queue.ValidName(name) {
			return fault.New(fault.Invalid, queue.CodeQueueNotFound, "%q is no queue name", name).WithHint("%s", queue.NameRule)
		}
	}
	infos, err := b.store.Declare(ctx, names)
	if err != nil {
		return fmt.Errorf("declare queues: %w", err)
	}
	b.know(infos)
	return nil
}

// know adds queues that are not known yet.
func (b *Broker) know(infos []store.QueueInfo) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range infos {
		if b.byID[infos[i].ID] == nil {
			q := newBacklog(b, &infos[i])
			b.byID[q.id] = q
			b.byName[q.name] = q
		}
	}
}

// named finds a queue by its name.
func (b *Broker) named(name string) (*backlog, error) {
	b.mu.RLock()
	q := b.byName[name]
	b.mu.RUnlock()
	if q == nil {
		return nil, fault.New(fault.NotFound, queue.CodeQueueNotFound, "there is no queue %q", name).
			WithHint("declare it as a producer or consumer and deploy")
	}
	return q, nil
}

// numbered finds a queue by its number, and nil when this broker has not heard of it.
func (b *Broker) numbered(id int32) *backlog {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.byID[id]
}

// all returns every known queue.
func (b *Broker) all() []*backlog {
	b.mu.RLock()
	defer b.mu.RUnlock()
	all := make([]*backlog, 0, len(b.byID))
	for _, q := range b.byID {
		all = append(all, q)
	}
	return all
}

// SetRetention sets how long messages of a queue are kept unsettled, brought into the range of core/queue. Until it is
// called, a queue keeps them for the default.
func (b *Broker) SetRetention(name string, retention time.Duration) error {
	q, err := b.named(name)
	if err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.retention = min(max(retention, queue.MinRetention), queue.MaxRetention)
	q.nextExpiry = time.Time{}
	return nil
}

// gate is a lock that can be held over a call to the store: waiting for it ends with a context.
type gate chan struct{}

func (g gate) lock(ctx context.Context) error {
	select {
	case g <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (g gate) unlock() { <-g }

// backoff is the wait between tries at a store that does not answer.
type backoff struct{ next time.Duration }

// wait pauses, longer each time, and fails when ctx ends first.
func (w *backoff) wait(ctx context.Context) error {
	timer := time.NewTimer(w.step())
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (w *backoff) step() time.Duration {
	d := max(w.next, queue.StoreRetryFirst)
	w.next = min(2*d, queue.StoreRetryMax)
	return d
}

// poke wakes the one who waits on a channel of capacity 1 or more, now or when it looks next.
func poke(kick chan struct{}) {
	select {
	case kick <- struct{}{}:
	default:
	}
}

func unavailable(err error) bool { return fault.KindOf(err) == fault.Unavailable }
