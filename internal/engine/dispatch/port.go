package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/runlot/runlot/internal/core/queue"
)

// Lane is one queue's supply of messages that are ready to be delivered.
type Lane interface {
	// Next waits until size messages are ready, or at least one has been ready for wait, and leases them. A message that
	// has to be alone comes alone. It never returns an empty batch. It fails only when ctx ends or the lane closes.
	Next(ctx context.Context, size int, wait time.Duration) (*queue.Batch, error)
	// Held tells who has a batch, before its handler is called.
	Held(batch *queue.Batch, holder *queue.Holder)
	// Settle carries the decisions for a batch out and ends its leases; decisions come in the order of batch.Messages. It
	// does not wait: done is called once, from another goroutine, after the commit. The lane tries again by itself while
	// the store does not answer, and calls done with an error only when it closes first: the messages are then
	// delivered again by the next owner. deadLetterQueue is where DeadLetter verdicts go.
	Settle(batch *queue.Batch, decisions []queue.Decision, deadLetterQueue string, done func(error))
	// Ready is the number of messages that could be delivered now, as far as it is known.
	Ready() int64
}

// Runtime runs the handlers of one version of an app.
type Runtime interface {
	// Deliver calls the queue handler and returns what it did. When ctx ends first, the handler is cancelled and Deliver
	// returns soon after, at the latest when its process has been killed. Errors other than ctx's: ErrLost when the process
	// ended under the delivery, ErrGone when it had ended before, ErrCannotRun when it lives and has no handler to call. A
	// runtime that has answered with ErrGone does so from then on. The report of the result belongs to the caller.
	Deliver(ctx context.Context, delivery *Delivery) (*Result, error)
}

// Delivery is one handler call.
type Delivery struct {
	// ID is unique; logs and exceptions of the call are found by it.
	ID    string
	Batch *queue.Batch
}

// Result is what a handler call did.
type Result struct {
	// Outcome is queue.OK or queue.Failed.
	Outcome queue.Outcome
	Report  queue.Report
	// Error is what the handler threw, when it did.
	Error *Exception
	// Undecodable are messages whose body could not be decoded: the handler got the batch without them. Report has each
	// as an explicit retry, so that it spends one, whatever the outcome.
	Undecodable []queue.ID
}

// Exception is an error of the user's code. Stack has the user's files and lines, one frame a line.
type Exception struct {
	Name    string
	Message string
	// Location is file:line:column of the first frame in the user's code; "" when unknown.
	Location string
	Stack    string
}

// Errors of Runtime.Deliver. They wrap, or are wrapped with, what is known of the reason.
var (
	// ErrLost: the process ended while the handler ran.
	ErrLost = errors.New("the worker process ended during the delivery")
	// ErrGone: the process has ended, or is ending, and no handler saw the delivery. Whoever runs it knows as well and sets
	// the next runtime.
	ErrGone = errors.New("the worker process is gone")
	// ErrCannotRun: the version is live and cannot run the handler.
	ErrCannotRun = errors.New("the worker cannot run")
)

// Record is how one batch ended. It is made when its settlement has committed: the counts say what is in the store.
type Record struct {
	App      string
	Queue    string
	Delivery string
	Version  string
	Start    time.Time
	// Duration is the time of the handler call, without the settlement.
	Duration time.Duration
	Outcome  queue.Outcome
	// Delivered is the size of the batch; the rest count its verdicts. What comes again is Retried when that spent a
	// retry, else Redelivered.
	Delivered, Acked, Retried, Redelivered, Dead, Dropped int
	// Error is what the handler threw; Reason is why it did not run or end, or why its result could not be saved, a
	// sentence for a person.
	Error    *Exception
	Reason   string
	Warnings []string
	// Fates are the messages that were not simply acked, and Acks those that were, both in the order of the batch. Nobody
	// changes them.
	Fates []Fate
	Acks  []queue.Acked
}

// Fate is what a batch meant for one message that was not simply acked.
type Fate struct {
	ID      queue.ID
	Verdict queue.Verdict
	// Spent says that the delivery spent a retry.
	Spent bool
	// Attempt is this delivery counted, from 1.
	Attempt int
	// Delay is the wait before the next delivery of what is retried.
	Delay time.Duration
}

// Recorder takes the record of every batch that a runtime was called for, unless its process was gone already. It must
// not block: it is called on the way of settlements, and it may be called after the dispatcher stopped, when a commit
// took longer than that.
type Recorder interface {
	Batch(record *Record)
}
