package broker

import (
	"context"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/backlog"
	"github.com/runlot/runlot/internal/engine/broker/usage"
)

// Lane is a consumer's access to one queue: its supply of batches, and the way to settle them.
type Lane struct {
	*backlog.Lane
	q       *backlog.Queue
	settles *settleList
	guard   *usage.Guard
}

// Lane opens a lane of a queue. The caller closes it.
func (b *Broker) Lane(queueName string) (*Lane, error) {
	q, err := b.book.Named(queueName)
	if err != nil {
		return nil, err
	}
	l, err := q.Lane()
	if err != nil {
		return nil, err
	}
	return &Lane{Lane: l, q: q, settles: &b.settles, guard: b.guard}, nil
}

// Next is that of the backlog's lane, with the delivery counted.
func (l *Lane) Next(ctx context.Context, size int, wait time.Duration) (*queue.Batch, error) {
	batch, err := l.Lane.Next(ctx, size, wait)
	if err == nil {
		l.guard.Delivered(batch)
	}
	return batch, err
}

// Take is that of the backlog's lane, with the deliveries counted.
func (l *Lane) Take(ctx context.Context, n int, wait bool) ([]*queue.Batch, error) {
	batches, err := l.Lane.Take(ctx, n, wait)
	for _, batch := range batches {
		l.guard.Delivered(batch)
	}
	return batches, err
}

// Held tells who has a batch, for whoever looks at its messages.
func (l *Lane) Held(batch *queue.Batch, holder *queue.Holder) { l.q.Held(batch, holder) }

// Settle carries the decisions for a batch out, in the order of batch.Messages, and ends its lease. It does not wait:
// done is called once, from another goroutine, after the commit; it must not block. While the store does not answer, the
// broker tries again. done gets an error only when nothing was or will be changed: the lane closed or the broker ended
// first, so that the messages are delivered again, or the batch has been settled before. deadLetterQueue is where
// DeadLetter verdicts go; it is declared when it does not exist.
func (l *Lane) Settle(batch *queue.Batch, decisions []queue.Decision, deadLetterQueue string, done func(error)) {
	s := &settlement{q: l.q, decisions: decisions, deadName: deadLetterQueue, done: done}
	var err error
	l.q.Claim(batch, func(lease *backlog.Lease) bool {
		s.lease = lease
		if lease == nil {
			s.err = fault.New(fault.Conflict, codeLeaseOver, "the batch of queue %q is no longer under lease", l.q.Name)
		} else {
			s.err = queue.CheckDecisions(batch, decisions)
		}
		err = l.settles.Add(s)
		return err == nil && s.err == nil
	})
	if err != nil {
		// Nobody is left to call it from another goroutine.
		go done(err)
	}
}

// Metrics is the backlog of a queue. Until the count at the start is done, it holds what was sent and settled since. For
// a queue without a lane the age is read from the store; it is left out when the store does not answer.
func (b *Broker) Metrics(ctx context.Context, queueName string) (queue.Metrics, error) {
	q, err := b.book.Named(queueName)
	if err != nil {
		return queue.Metrics{}, err
	}
	return q.Metrics(ctx, 0), nil
}
