package pull

import (
	"context"
	"time"

	"github.com/runlot/runlot/internal/core/queue"
)

// Retry asks for a message to be delivered again.
type Retry struct {
	Lease string
	// Delay is the wait before it; nil is that of the consumer.
	Delay *time.Duration
}

// Done is what became of acks and retries.
type Done struct {
	// Acked counts the messages that are no longer in the queue, Retried those that are delivered again as asked.
	Acked   int
	Retried int
	// Warnings say what a lease was no longer good for, by its id.
	Warnings map[string]string
}

// The warnings.
const (
	warnForeign = "this is no lease of a message of this queue"
	warnTwice   = "the lease is named twice; the first time counts"
	warnGone    = "the message was no longer in the queue"
	warnLate    = "the lease was over; the message is deleted"
	warnTaken   = "the message is being delivered again, and stays until that is settled"
	warnOver    = "the lease was over; the message is delivered again, or was, without regard to this retry"
)

// answer is one lease that waits for its settlement.
type answer struct {
	lease
	text string
	hold *hold
}

// Ack settles messages by their leases, and returns after the commit. With an error, some may be settled; to call again
// does no harm. Faults: Unavailable while the queues are not served, and those of Broker.Acknowledge.
func (e *Engine) Ack(ctx context.Context, queueName string, acks []string, retries []Retry) (Done, error) {
	d := Done{Warnings: map[string]string{}}
	seen := make(map[string]bool, len(acks)+len(retries))
	signed := newSigner(e.o.Key, queueName)
	known := func(text string) (l lease, ok bool) {
		switch l, ok = signed.parse(text); {
		case !ok:
			d.Warnings[text] = warnForeign
		case seen[text]:
			d.Warnings[text], ok = warnTwice, false
		}
		seen[text] = true
		return l, ok
	}
	var waiting, late []answer
	for _, text := range acks {
		l, ok := known(text)
		if !ok {
			continue
		}
		one := answer{lease: l, text: text, hold: e.held(queueName, &l)}
		switch {
		case one.hold == nil:
			late = append(late, one)
			continue
		case e.claim(one.hold):
			if one.hold.delivery != l.delivery || e.term != l.term {
				d.Warnings[text] = warnLate
			}
			one.hold.settle(e, &one.hold.consumer, queue.OK, nil, "")
			waiting = append(waiting, one)
			continue
		}
		// What became of it otherwise decides.
		if err := one.wait(ctx); err != nil {
			return d, err
		}
		late = append(late, one)
	}
	asked := make([]answer, 0, len(retries))
	for i := range retries {
		r := &retries[i]
		l, ok := known(r.Lease)
		if !ok {
			continue
		}
		one := answer{lease: l, text: r.Lease, hold: e.held(queueName, &l)}
		if one.hold == nil || one.hold.delivery != l.delivery || e.term != l.term || !e.claim(one.hold) {
			d.Warnings[r.Lease] = warnOver
			continue
		}
		report := &queue.Report{Retried: map[queue.ID]*time.Duration{l.id: r.Delay}}
		one.hold.settle(e, &one.hold.consumer, queue.OK, report, "who pulled it asked for a retry")
		asked = append(asked, one)
	}
	for i := range waiting {
		if err := waiting[i].wait(ctx); err != nil {
			return d, err
		}
		d.Acked++
	}
	for i := range asked {
		if err := asked[i].wait(ctx); err != nil {
			return d, err
		}
		d.Retried++
	}
	return d, e.ackLate(ctx, queueName, late, &d)
}

// held is the message of a lease, if it is under lease now, by this one or by another.
func (e *Engine) held(queueName string, l *lease) *hold {
	e.mu.Lock()
	defer e.mu.Unlock()
	if q := e.queues[queueName]; q != nil {
		if h := q.held[l.seq]; h != nil && h.message().ID == l.id {
			return h
		}
	}
	return nil
}

// wait returns when a settlement is committed.
func (a *answer) wait(ctx context.Context) error {
	select {
	case <-a.hold.settled:
		return a.hold.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// ackLate deletes messages whose lease is over.
func (e *Engine) ackLate(ctx context.Context, queueName string, late []answer, d *Done) error {
	if len(late) == 0 {
		return nil
	}
	receipts := make([]Receipt, len(late))
	for i := range late {
		receipts[i] = Receipt{ID: late[i].id, Seq: late[i].seq}
	}
	leased, missing, err := e.o.Broker.Acknowledge(ctx, queueName, receipts)
	if err != nil {
		return err
	}
	said := map[queue.ID]string{}
	for _, id := range leased {
		said[id] = warnTaken
	}
	for _, id := range missing {
		said[id] = warnGone
	}
	for i := range late {
		warning, ok := said[late[i].id]
		if !ok {
			warning = warnLate
		}
		d.Warnings[late[i].text] = warning
		if warning != warnTaken {
			d.Acked++
		}
	}
	return nil
}
