package pull

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"math"
	"sync"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/order"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/core/span"
)

// Lane is one queue's supply of messages.
type Lane interface {
	// Take leases up to n messages that are visible, each in a batch of its own. With wait it returns when there is at least
	// one, else also when it is known that there is none. It fails only when ctx ends or the lane closes.
	Take(ctx context.Context, n int, wait bool) ([]*queue.Batch, error)
	// Held tells until when a batch is held.
	Held(batch *queue.Batch, holder *queue.Holder)
	// Settle carries the decisions for a batch out and ends its lease. It does not wait: done is called once, from another
	// goroutine, after the commit, with an error only when nothing was or will be changed.
	Settle(batch *queue.Batch, decisions []queue.Decision, deadLetterQueue string, done func(error))
	// Close ends the leases that nobody has settled: their messages are delivered again without a retry spent.
	Close()
}

// Receipt names a message as it was delivered: with the Seq that it had in its queue then.
type Receipt struct {
	ID  queue.ID
	Seq int64
}

// Broker serves the queues of one database.
type Broker interface {
	// Lane opens a lane of a queue. The caller closes it.
	Lane(queueName string) (Lane, error)
	// Acknowledge deletes messages that are not under lease. It returns those that are, and those that the queue no longer
	// holds under the Seq of the receipt.
	Acknowledge(ctx context.Context, queueName string, receipts []Receipt) (leased, missing []queue.ID, err error)
}

// Options are what an Engine is made of; all fields are required.
type Options struct {
	Broker Broker
	// Key signs the ids of leases. Nodes that serve the same database have the same.
	Key []byte
}

// Engine hands out messages of the queues of one broker, from Start to Stop. Its methods may be called from several
// goroutines.
type Engine struct {
	o    Options
	term uint64
	kick chan struct{}
	// waiting is full when the most calls wait for a message.
	waiting chan struct{}

	mu       sync.Mutex
	queues   map[string]*pulled // those that were pulled from; guarded by mu
	until    order.Heap[*hold]  // what is not being settled, by the end of its lease; guarded by mu
	bytes    int                // of the bodies that are held; guarded by mu
	delivery uint64             // the last one's number; guarded by mu
	stopped  bool               // guarded by mu

	stop context.CancelFunc
	done chan struct{} // closed when run has returned
}

// pulled is a queue that was pulled from. The engine's lock guards it.
type pulled struct {
	lane Lane
	held map[int64]*hold // by Seq
	// asked is how many messages are being taken.
	asked int
}

// hold is a message under lease.
type hold struct {
	q        *pulled
	batch    *queue.Batch
	consumer queue.Consumer
	time     time.Duration
	end      int64 // of the lease, in nanoseconds
	place    int
	delivery uint64
	// counted says that its body is in Engine.bytes.
	counted bool
	// settling is set once it is decided what becomes of the message. settled is closed when that is committed, or will
	// never be: err says so.
	settling bool
	settled  chan struct{}
	err      error
}

// Key and Place implement order.Entry.
func (h *hold) Key() int64  { return h.end }
func (h *hold) Place() *int { return &h.place }

// message is the one that is held.
func (h *hold) message() *queue.Message { return &h.batch.Messages[0] }

// New makes an engine.
func New(o Options) *Engine {
	random := make([]byte, 8)
	_, _ = rand.Read(random) // it never fails
	return &Engine{
		o: o, term: binary.BigEndian.Uint64(random), kick: make(chan struct{}, 1), waiting: make(chan struct{}, queue.PullWaiting),
		queues: map[string]*pulled{},
	}
}

// Start begins to watch the leases.
func (e *Engine) Start(ctx context.Context) {
	runCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	e.stop, e.done = stop, make(chan struct{})
	go e.run(runCtx)
}

// Stop ends every lease: what is not settled is delivered again without a retry spent.
func (e *Engine) Stop() {
	e.stop()
	<-e.done
	e.mu.Lock()
	e.stopped = true
	names := make([]string, 0, len(e.queues))
	for name := range e.queues {
		names = append(names, name)
	}
	e.mu.Unlock()
	for _, name := range names {
		e.Close(name)
	}
}

// Close ends the leases of a queue, as when it has no consumer over HTTP any more.
func (e *Engine) Close(queueName string) { e.close(queueName, nil) }

// close ends the leases of a queue, if it is still the one that is given; nil is any.
func (e *Engine) close(queueName string, only *pulled) {
	e.mu.Lock()
	q := e.queues[queueName]
	if only != nil && q != only {
		e.mu.Unlock()
		return
	}
	delete(e.queues, queueName)
	if q != nil {
		for _, h := range q.held {
			e.forget(h)
		}
	}
	e.mu.Unlock()
	if q != nil {
		q.lane.Close()
	}
}

// forget takes a message out of the books. mu is held.
func (e *Engine) forget(h *hold) {
	e.until.Remove(h)
	if h.counted {
		h.counted = false
		e.bytes -= len(h.message().Body)
	}
	// After a retry it may be under its next lease already.
	if seq := h.message().Seq; h.q.held[seq] == h {
		delete(h.q.held, seq)
	}
}

// run ends the leases whose time is over.
func (e *Engine) run(ctx context.Context) {
	defer close(e.done)
	timer := time.NewTimer(math.MaxInt64)
	defer timer.Stop()
	for {
		timer.Reset(e.expire(time.Now()))
		select {
		case <-timer.C:
		case <-e.kick:
		case <-ctx.Done():
			return
		}
	}
}

// expire settles what was held for too long, and returns the time until the next look.
func (e *Engine) expire(now time.Time) time.Duration {
	var over []*hold
	pause := time.Duration(math.MaxInt64)
	e.mu.Lock()
	for {
		h, ok := e.until.First()
		if !ok {
			break
		}
		if pause = time.Duration(h.end - now.UnixNano()); pause > 0 {
			break
		}
		pause = math.MaxInt64
		e.until.Remove(h)
		h.settling = true
		over = append(over, h)
	}
	e.mu.Unlock()
	for _, h := range over {
		again := h.consumer
		again.Backoff = queue.Backoff{} // its time was its wait
		h.settle(e, &again, queue.TimedOut, nil, "its lease of "+span.Text(h.time)+" ran out")
	}
	return pause
}

// settle has a message settled that is marked as settling. mu is not held.
func (h *hold) settle(e *Engine, c *queue.Consumer, outcome queue.Outcome, report *queue.Report, reason string) {
	decisions, _ := queue.Settle(c, h.batch.Messages, outcome, report, 0)
	decisions[0].Reason, decisions[0].Outcome = reason, outcome
	h.carryOut(e, decisions)
}

func (h *hold) carryOut(e *Engine, decisions []queue.Decision) {
	h.q.lane.Settle(h.batch, decisions, h.consumer.DeadLetterQueue, func(err error) {
		e.mu.Lock()
		e.forget(h)
		e.mu.Unlock()
		h.err = err
		close(h.settled)
	})
}

func overloaded(format string, args ...any) *fault.Error {
	return fault.New(fault.Unavailable, queue.CodeOverloaded, format, args...)
}
