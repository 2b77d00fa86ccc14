package pull

import (
	"context"
	"errors"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

// Request says what to pull. The caller has checked it.
type Request struct {
	// Size is the most messages.
	Size int
	// Visibility is how long they are leased, and Wait how long to wait for the first of them.
	Visibility time.Duration
	Wait       time.Duration
}

// Message is a message under lease.
type Message struct {
	*queue.Message

	// Lease is the id of the lease.
	Lease string
}

// Pull leases messages of the queue of a consumer; none when none is visible in time. Faults: Unavailable
// (queue.CodeOverloaded) while too much is held or too many calls wait, and what a lane fails with. When ctx ends first,
// nothing stays leased.
func (e *Engine) Pull(ctx context.Context, c *queue.Consumer, r Request) ([]Message, error) {
	list, err := e.pull(ctx, c, r)
	if fault.KindOf(err) == fault.NotFound {
		return e.pull(ctx, c, r) // the queue of the open lane was deleted; there may be another of its name
	}
	return list, err
}

func (e *Engine) pull(ctx context.Context, c *queue.Consumer, r Request) ([]Message, error) {
	if r.Wait > 0 {
		select {
		case e.waiting <- struct{}{}:
			defer func() { <-e.waiting }()
		default:
			return nil, overloaded("%d calls wait for messages already", cap(e.waiting)).WithHint("pull without wait_ms, or try again shortly")
		}
	}
	q, n, err := e.enter(c.Queue, r.Size)
	if err != nil {
		return nil, err
	}
	patience := queue.OperateReadTime
	if r.Wait > 0 {
		patience = r.Wait
	}
	takeCtx, cancel := context.WithTimeoutCause(ctx, patience, errPatience)
	batches, err := q.lane.Take(takeCtx, n, r.Wait > 0)
	cancel()
	holds, ok := e.hold(c, q, n, batches, r.Visibility)
	switch {
	case errors.Is(err, errPatience):
		return nil, nil
	case fault.KindOf(err) == fault.NotFound:
		e.close(c.Queue, q)
		return nil, err
	case err != nil:
		return nil, err
	case !ok:
		return nil, overloaded("the queue %s has no consumer over HTTP any more", c.Queue)
	}
	if ctx.Err() != nil {
		e.release(holds)
		return nil, context.Cause(ctx)
	}
	list, signed := make([]Message, len(holds)), newSigner(e.o.Key, c.Queue)
	for i, h := range holds {
		m := h.message()
		l := lease{id: m.ID, seq: m.Seq, term: e.term, delivery: h.delivery}
		h.q.lane.Held(h.batch, &queue.Holder{Until: time.Unix(0, h.end)})
		list[i] = Message{Message: m, Lease: signed.text(&l)}
	}
	return list, nil
}

var errPatience = errors.New("no message came in time")

// enter opens the lane of a queue, if it is not open yet, and takes room for up to size messages.
func (e *Engine) enter(queueName string, size int) (*pulled, int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stopped {
		return nil, 0, overloaded("the queues are not being served here at the moment").WithHint("try again shortly")
	}
	q := e.queues[queueName]
	if q == nil {
		lane, err := e.o.Broker.Lane(queueName)
		if err != nil {
			return nil, 0, err
		}
		q = &pulled{lane: lane, held: map[int64]*hold{}}
		e.queues[queueName] = q
	}
	n := min(size, queue.PullHeld-len(q.held)-q.asked)
	if n <= 0 || e.bytes >= queue.PullHeldBytes {
		return nil, 0, overloaded("too many messages of queue %s are pulled and not acked: %d, with %d bytes in all queues", queueName, len(q.held), e.bytes).
			WithHint("ack what was handled; a lease ends by itself after its visibility timeout")
	}
	q.asked += n
	return q, n, nil
}

// hold notes what was taken, and gives room for n back. It reports false when the queue was closed meanwhile.
func (e *Engine) hold(c *queue.Consumer, q *pulled, n int, batches []*queue.Batch, visibility time.Duration) ([]*hold, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	q.asked -= n
	if e.queues[c.Queue] != q {
		return nil, false
	}
	end := time.Now().Add(visibility).UnixNano() // and a nanosecond more for each, so that they come back in their order
	list := make([]*hold, len(batches))
	first := false
	for i, batch := range batches {
		e.delivery++
		h := &hold{
			q: q, batch: batch, consumer: *c, time: visibility, end: end + int64(i), place: -1, delivery: e.delivery, counted: true, settled: make(chan struct{}),
		}
		q.held[h.message().Seq] = h
		e.bytes += len(h.message().Body)
		first = e.until.Push(h) || first
		list[i] = h
	}
	if first {
		select {
		case e.kick <- struct{}{}:
		default:
		}
	}
	return list, true
}

// release gives back what nobody was told of, without a retry spent.
func (e *Engine) release(holds []*hold) {
	for _, h := range holds {
		if e.claim(h) {
			h.carryOut(e, queue.Release(h.batch.Messages))
		}
	}
}

// claim marks a message as being settled; false when it is already.
func (e *Engine) claim(h *hold) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if h.settling {
		return false
	}
	h.settling = true
	e.until.Remove(h)
	return true
}
