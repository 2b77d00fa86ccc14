package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/backlog"
	"github.com/runlot/runlot/internal/engine/broker/operate"
	"github.com/runlot/runlot/internal/engine/broker/pace"
	"github.com/runlot/runlot/internal/engine/broker/removal"
	"github.com/runlot/runlot/internal/engine/broker/store"
	"github.com/runlot/runlot/internal/engine/broker/usage"
)

// Broker is the one owner of a database's queues, from Start to Stop or to the loss of the ownership. A Broker runs once;
// whoever wants to go on after a loss makes a new one.
//
// Order of locks: settleGate, appendGate, reserveGate, mu, those of the book in its own order, then those of sends and
// settles.
type Broker struct {
	// Operator carries out what an operator asks for.
	*operate.Operator
	// Remover ends queues.
	*removal.Remover

	store  store.Store
	log    *slog.Logger
	bounds Bounds

	// settleGate is held by whoever changes or deletes rows (the settler, retention), appendGate by whoever commits rows
	// with a new Seq (the flusher, and the settler when it moves messages), each from before the commit until the lanes
	// know of it, retries included. Holding both, nothing is between the store and the lanes.
	settleGate, appendGate pace.Gate
	// reserveGate keeps the reservations in order.
	reserveGate pace.Gate

	// lastSeq is the highest Seq assigned. appendGate guards it.
	lastSeq int64
	// highestDueMark is the highest DueMark recorded. It is written with both gates held.
	highestDueMark int64
	// reserved is the limit of the last reservation: Seqs below it may be assigned.
	reserved    atomic.Int64
	reserveKick pace.Kick

	sends   pace.List[*call]
	waiting *semaphore.Weighted
	settles settleList
	// guard counts operations and refuses sends at the bounds.
	guard *usage.Guard
	// unsettled counts the messages whose settlement was given up; it belongs to the settle goroutine until that has ended.
	unsettled int
	// book holds what is known of every queue.
	book *backlog.Book
	// counted is closed when the messages that were there at the start are in the counts of the queues.
	counted chan struct{}

	// mu guards started.
	mu      sync.Mutex
	started bool

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
		settleGate: make(pace.Gate, 1), appendGate: make(pace.Gate, 1), reserveGate: make(pace.Gate, 1),
		reserveKick: make(pace.Kick, 1),
		sends:       pace.List[*call]{Kick: make(pace.Kick, 1)},
		waiting:     semaphore.NewWeighted(int64(bounds.GroupWaiting)),
		settles:     settleList{Kick: make(pace.Kick, 1)},
		counted:     make(chan struct{}), stopping: make(chan struct{}), done: make(chan struct{}),
	}
	b.work, b.end = context.WithCancelCause(context.Background())
	b.book = backlog.New(backlog.Options{Reader: o.Store, Bounds: bounds.window(), Log: log, Refusal: b.settles.Refusal})
	b.guard = usage.New(usage.Options{Account: o.Store, Log: log, DailyOperations: o.DailyOperations, Space: o.Space, Observer: o.Observer})
	b.Operator = operate.New(operate.Options{
		Owner: owner{b}, Store: o.Store, Book: b.book, Log: log, Rows: bounds.OperateRows, ExpireRows: bounds.ExpireRows, Expired: o.Expired,
	})
	b.Remover = removal.New(removal.Options{
		Owner: owner{b}, Store: o.Store, Book: b.book, Rows: bounds.OperateRows, ScrapRows: bounds.ExpireRows,
	})
	b.sends.Close(errNotRunning)
	b.settles.Close(errNotRunning)
	return b
}

// CodeUnsettled is the code of the fault of a Stop that left results unsaved.
const CodeUnsettled = "unsettled"

// Codes of faults that no producer sees.
const (
	codeStarted   = "broker_started"
	codeLeaseOver = "lease_over"
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
	b.book.Begin(own)
	b.lastSeq = own.NextSeq - 1
	b.reserved.Store(own.NextSeq)
	infos, err := b.store.Queues(ctx)
	if err == nil {
		b.book.Know(infos)
		for i := range infos {
			b.highestDueMark = max(b.highestDueMark, infos[i].DueMark)
		}
		err = b.reserve(ctx, time.Now(), own.NextSeq+1, queue.SeqReserve)
	}
	if err == nil {
		err = b.guard.Begin(ctx)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("load the queues: %w", err), b.release(ctx))
	}
	b.sends.Reopen()
	b.settles.Reopen()
	b.committer.Go(b.flushLoop)
	b.committer.Go(b.settleLoop)
	b.others.Go(b.reserveLoop)
	b.others.Go(func() { b.book.WakeLoop(b.work) })
	b.others.Go(b.sweepLoop)
	b.others.Go(b.watch)
	b.others.Go(func() { b.guard.Loop(b.work) })
	for range queue.LaneReaders {
		b.others.Go(func() { b.book.FillLoop(b.work) })
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
		b.sends.Close(err)
		b.settles.Close(err)
		b.end(err)
		close(b.done)
		b.book.CloseLanes(err)
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
// still under lease then is delivered again by the next owner; results that could not be committed until then are named by a
// fault of kind Timeout with CodeUnsettled. Calling it twice is fine; it also cleans up after a loss.
func (b *Broker) Stop(ctx context.Context) error {
	b.stopOnce.Do(func() { b.stopErr = b.stop(ctx) })
	return b.stopErr
}

func (b *Broker) stop(ctx context.Context) error {
	b.mu.Lock()
	running := b.started
	b.started = true
	b.mu.Unlock()
	b.sends.Close(errNotRunning)
	b.settles.Close(errNotRunning)
	b.book.CloseLanes(errNotRunning)
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
		err = errors.Join(b.saveMarks(ctx), b.guard.Save(ctx))
	}
	return errors.Join(b.unsettledFault(), err, b.release(ctx))
}

// unsettledFault says what the end of the broker leaves to be delivered again although a handler was done with it.
func (b *Broker) unsettledFault() error {
	if b.unsettled == 0 {
		return nil
	}
	return fault.New(fault.Timeout, CodeUnsettled, "the results of %d messages could not be saved; they will be delivered again", b.unsettled)
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

// Declare makes sure that queues exist. Declaring one that exists changes nothing. Fault: Unavailable while one of them is
// being deleted.
func (b *Broker) Declare(ctx context.Context, names []string) error {
	for _, name := range names {
		if !queue.ValidName(name) {
			return fault.New(fault.Invalid, queue.CodeQueueNotFound, "%q is no queue name", name).WithHint("%s", queue.NameRule)
		}
	}
	for {
		err := b.Declarable(names)
		if err != nil {
			return err
		}
		infos, err := b.store.Declare(ctx, names)
		if err != nil {
			return fmt.Errorf("declare queues: %w", err)
		}
		b.book.Know(infos)
		// One that ended between the two is made anew.
		if !slices.ContainsFunc(infos, func(i store.QueueInfo) bool { return b.book.Numbered(i.ID) == nil }) {
			return nil
		}
	}
}

func unavailable(err error) bool { return fault.KindOf(err) == fault.Unavailable }
