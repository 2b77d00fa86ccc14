package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/core/span"
)

// ending is how a handler call ended.
type ending struct {
	outcome   queue.Outcome
	report    *queue.Report
	exception *Exception
	reason    string
	// undecodable are the messages whose bodies the handler could not see.
	undecodable []queue.ID
	// blameless marks a Lost batch whose process ended on purpose.
	blameless bool
	// unseen marks a batch that came to a process which was gone: it is as if it had not been taken.
	unseen bool
}

// run delivers one batch and hands its settlement to the lane.
func (d *Dispatcher) run(taking, working context.Context, c *call) {
	leave := func() {}
	if len(c.batch.Messages) == 1 && c.batch.Messages[0].Alone() {
		var ok bool
		if leave, ok = d.isolate(taking, c); !ok {
			d.settle(c, queue.Release(c.batch.Messages), nil)
			return
		}
		defer leaveAfter(leave).Stop()
	}
	delivery := &Delivery{ID: d.newID(), Batch: c.batch}
	ctx, cancel := context.WithTimeoutCause(working, d.consumer.HandlerTime, errHandlerTime)
	start := time.Now()
	d.lane.Held(c.batch, &queue.Holder{App: d.app, Version: c.version, Delivery: delivery.ID, Until: start.Add(d.consumer.HandlerTime)})
	result, err := c.runtime.Deliver(ctx, delivery)
	duration := time.Since(start)
	e := d.judge(ctx, delivery, result, err)
	cancel()
	leave()
	errorsInARow := d.ended(c, &e, duration)
	if e.unseen {
		d.settle(c, queue.Release(c.batch.Messages), nil)
		return
	}

	var decisions []queue.Decision
	var warnings []string
	if e.blameless {
		decisions = queue.Release(c.batch.Messages)
	} else {
		decisions, warnings = queue.Settle(&d.consumer, c.batch.Messages, e.outcome, e.report, errorsInARow)
	}
	record := &Record{
		App: d.app, Queue: d.consumer.Queue, Delivery: delivery.ID, Version: c.version, Start: start, Duration: duration,
		Outcome: e.outcome, Delivered: len(decisions), Error: e.exception, Reason: e.reason, Warnings: warnings,
	}
	if !e.blameless {
		record.explain(decisions)
		blameBodies(c.batch.Messages, decisions, e.undecodable)
	}
	d.settle(c, decisions, record)
}

// isolate waits for a suspect's turn in the app's process and binds the call to the runtime that is there then.
func (d *Dispatcher) isolate(taking context.Context, c *call) (leave func(), ok bool) {
	leave, ok = d.isolation.enter(taking.Done())
	if !ok {
		return nil, false
	}
	for {
		d.mu.Lock()
		d.bind(c)
		changed := d.changed
		d.mu.Unlock()
		if c.runtime != nil {
			return leave, true
		}
		select {
		case <-changed:
		case <-taking.Done():
			leave()
			return nil, false
		}
	}
}

// judge says how a call ended. A result that comes after the handler's time changes nothing; one that comes while the
// dispatcher is stopping counts.
func (d *Dispatcher) judge(ctx context.Context, delivery *Delivery, result *Result, err error) ending {
	switch cause := context.Cause(ctx); {
	case errors.Is(err, ErrGone):
		return ending{unseen: true}
	case errors.Is(cause, errHandlerTime):
		return ending{outcome: queue.TimedOut, reason: fmt.Sprintf("the handler did not finish within %s and was cancelled", span.Text(d.consumer.HandlerTime))}
	case err == nil && result != nil:
		e := ending{outcome: queue.Failed, report: &result.Report, exception: result.Error, undecodable: result.Undecodable}
		if result.Outcome == queue.OK {
			e.outcome = queue.OK
		}
		failUndecodable(e.report, delivery.Batch.Messages, result.Undecodable, &d.consumer.Backoff)
		return e
	case cause != nil:
		return ending{outcome: queue.Lost, blameless: true, reason: "the app was stopped before the handler finished"}
	case errors.Is(err, ErrCannotRun):
		return ending{outcome: queue.Errored, reason: reason(err)}
	case errors.Is(err, ErrLost):
		return ending{outcome: queue.Lost, reason: reason(err)}
	default:
		// What the runtime does not explain is treated as a loss, so that a message that brings it about every time is
		// found and ends.
		d.log.Error("a delivery broke", "delivery", delivery.ID, "error", err)
		return ending{outcome: queue.Lost, reason: "internal error; the log has the details"}
	}
}

// reason is the text for a person in an error of Runtime.Deliver.
func reason(err error) string {
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f.Error()
	}
	return err.Error()
}

// failUndecodable makes sure that the report asks for a retry, with the consumer's back-off, of what the handler could not
// see: no ackAll may delete it, and no delay of retryAll is meant for it.
func failUndecodable(report *queue.Report, messages []queue.Message, ids []queue.ID, backoff *queue.Backoff) {
	if len(ids) == 0 {
		return
	}
	if report.Retried == nil {
		report.Retried = make(map[queue.ID]*time.Duration, len(ids))
	}
	for i := range messages {
		m := &messages[i]
		if slices.Contains(ids, m.ID) {
			delete(report.Acked, m.ID)
			report.Retried[m.ID] = new(backoff.Delay(m.Failures + 1))
		}
	}
}

// ended frees the call's slot and draws the conclusions from how it ended: concurrency, the pause after what went wrong,
// and whether a loss was on purpose. It returns the number of errors in a row, this one included.
func (d *Dispatcher) ended(c *call, e *ending, took time.Duration) (errorsInARow int) {
	ready := d.lane.Ready()
	d.mu.Lock()
	defer d.mu.Unlock()
	defer d.nudge()
	d.running--
	d.lastEnded = time.Now()
	replaced := d.runtime != nil && c.generation != d.generation
	switch {
	case e.unseen:
		if c.generation == d.generation {
			// The end of the process is known here before it is told.
			d.replaceRuntime(nil)
			d.hold()
		}
	case replaced:
		// It says nothing about the runtime that serves now.
		e.blameless = e.outcome == queue.Lost
	case e.blameless:
	case e.outcome == queue.OK:
		d.concurrency.succeeded(took, d.running+1, ready, &d.consumer)
		d.errors, d.losses = 0, 0
	case c.round == d.round:
		d.round++
		d.setback(e.outcome)
	}
	if d.running == 0 && ready <= 0 {
		d.concurrency.idle()
	}
	return max(1, d.errors)
}

// setback is told the outcome of the first call of a round that did not end well.
func (d *Dispatcher) setback(outcome queue.Outcome) {
	d.concurrency.setback()
	errorsBefore, lossesBefore := d.errors, d.losses
	d.errors, d.losses = 0, 0
	if outcome == queue.Errored {
		d.errors = errorsBefore + 1
		d.pause(queue.ErrorBackoff(d.errors))
	}
	if outcome == queue.Lost {
		d.losses = lossesBefore + 1
		d.pause(queue.LossBackoff(d.losses))
	}
}

func (d *Dispatcher) pause(wait time.Duration) {
	d.pausedUntil = time.Now().Add(wait)
	d.hold()
}

// giveBack returns a batch that was not launched.
func (d *Dispatcher) giveBack(c *call) {
	d.mu.Lock()
	d.unsettled++
	d.mu.Unlock()
	d.settle(c, queue.Release(c.batch.Messages), nil)
}

// settle hands the decisions to the lane. After the commit the batch's part of the budget is free and the record is made;
// record is nil for a batch that no handler saw.
func (d *Dispatcher) settle(c *call, decisions []queue.Decision, record *Record) {
	d.lane.Settle(c.batch, decisions, d.consumer.DeadLetterQueue, func(err error) {
		d.unreserve(c)
		d.mu.Lock()
		d.unsettled--
		d.closeSettled()
		d.nudge()
		d.mu.Unlock()
		if record == nil {
			return
		}
		if err == nil {
			record.count(c.batch.Messages, decisions)
		} else if record.Reason == "" {
			record.Reason = "the result could not be saved; the messages are delivered again"
		}
		d.recorder.Batch(record)
	})
}

// count adds up the decisions, which are in the order of their messages, and notes what became of each.
func (r *Record) count(messages []queue.Message, decisions []queue.Decision) {
	acked := 0
	for i := range decisions {
		if decisions[i].Verdict == queue.Ack {
			acked++
		}
	}
	if acked > 0 {
		r.Acks = make([]queue.Acked, 0, acked)
	}
	for i := range decisions {
		spent := decisions[i].Failures > messages[i].Failures
		if decisions[i].Verdict != queue.Ack {
			r.Fates = append(r.Fates, Fate{
				ID: messages[i].ID, Verdict: decisions[i].Verdict, Spent: spent, Attempt: messages[i].Attempts(), Delay: decisions[i].Delay,
			})
		}
		switch decisions[i].Verdict {
		case queue.Ack:
			r.Acked++
			r.Acks = append(r.Acks, queue.Acked{ID: messages[i].ID, Attempt: messages[i].Attempts()})
		case queue.Retry:
			if spent {
				r.Retried++
			} else {
				r.Redelivered++
			}
		case queue.DeadLetter:
			r.Dead++
		case queue.Drop:
			r.Dropped++
		}
	}
}
