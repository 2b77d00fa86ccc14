// Package operations carries out in the background what a person asked to be done to many messages: one operation for each
// queue at a time, a few for the whole instance, with progress, a rate, and cancellation. What is open goes on after a
// restart, from the place that was stored last; that does nothing twice, because what was done to a message is one
// transaction after which it is not found again.
package operations

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
)

// Kind is what is done to the messages.
type Kind string

// The kinds.
const (
	// Redrive moves messages to the queue that each came from, or to another.
	Redrive Kind = "redrive"
	// Delete deletes messages.
	Delete Kind = "delete"
	// RetryNow makes delayed messages visible.
	RetryNow Kind = "retry_now"
)

// Kinds are all of them.
var Kinds = []Kind{Redrive, Delete, RetryNow}

// State is how far an operation is.
type State string

// The states.
const (
	// Waiting: its queue has another under way, or the instance as many as it runs at a time. It is stored as Running.
	Waiting State = "waiting"
	Running State = "running"
	// Done: every message had its turn.
	Done State = "done"
	// Cancelled: a person ended it. What was done stays done, and the rest is as it was.
	Cancelled State = "cancelled"
	// Failed: it cannot go on, for the reason in Error.
	Failed State = "failed"
)

// Ended reports whether nothing more will happen.
func (s State) Ended() bool { return s == Done || s == Cancelled || s == Failed }

// Spec says what is done, and to which messages.
type Spec struct {
	Kind            Kind
	Database, Queue string
	// IDs are the messages; none are those that match Filter, of what the queue held at the begin. A Filter of "" is all.
	IDs    []string
	Filter string
	// To is where a redrive moves messages; "" is where each came from.
	To string
	// Rate is the most messages a second; 0 is as many as go.
	Rate int
	// Author is who asked for it, and App the only app whose queues it may touch; "" is any.
	Author, App string
}

// Counts are what an operation has done. A crash may lose the counts of about the last second, not what was done.
type Counts struct {
	Looked, Matched, Done int64
	// Skipped counts the messages that matched and were left alone, by reason.
	Skipped map[string]int64
}

// add adds the counts of a step.
func (c *Counts) add(more *Counts) {
	c.Looked += more.Looked
	c.Matched += more.Matched
	c.Done += more.Done
	for reason, n := range more.Skipped {
		if n == 0 {
			continue
		}
		if c.Skipped == nil {
			c.Skipped = map[string]int64{}
		}
		c.Skipped[reason] += n
	}
}

// Operation is something done to many messages.
type Operation struct {
	Spec
	Counts

	// ID is given by the store, and rises.
	ID    int64
	State State
	// Created is when it was asked for, and Ended, unless it is zero, when it ended. Both are in whole microseconds.
	Created, Ended time.Time
	// Place is where it goes on, "" at the begin. Runs knows its meaning.
	Place string
	// Error says why it failed.
	Error string
}

// Action is the name under which what it did can be undone: the same after a restart, and another than that of any operation
// of another instance.
func (o *Operation) Action() string {
	return "operation-" + strconv.FormatInt(o.ID, 10) + "-" + strconv.FormatInt(o.Created.UnixMicro(), 36)
}

// clone copies what its owner goes on to change.
func (o *Operation) clone() *Operation {
	c := *o
	c.IDs = slices.Clone(o.IDs)
	c.Skipped = nil
	c.Counts = Counts{Looked: o.Looked, Matched: o.Matched, Done: o.Done}
	c.add(&Counts{Skipped: o.Skipped})
	return &c
}

// Codes of the faults of this package.
const (
	CodeUnknown = "operation_unknown"
	CodeEnded   = "operation_ended"
	CodeTooMany = "operation_count"
)

// Unknown is the fault for an operation that is not there: it never was, or it ended long ago.
func Unknown(id int64) *fault.Error {
	return fault.New(fault.NotFound, CodeUnknown, "there is no operation %d", id).WithHint("`runlot queue operations` lists them")
}

// Query chooses operations. The zero values of its fields choose all.
type Query struct {
	Database, Queue string
	// Before is an ID that the first has to be below.
	Before int64
	Limit  int
}

// Store keeps operations. A method that returns nil has committed. Fault: Unavailable for what is worth another try. The
// contract is written as tests in package storetest.
type Store interface {
	// AddOperation stores a new operation, and fills in ID.
	AddOperation(ctx context.Context, o *Operation) error
	// SaveOperation stores state, counts, place and end of one, and forgets the oldest that ended beyond keep.
	SaveOperation(ctx context.Context, o *Operation, keep int) error
	// Operation returns one. Fault: NotFound (CodeUnknown).
	Operation(ctx context.Context, id int64) (*Operation, error)
	// Operations returns the newest that the query asks for, newest first.
	Operations(ctx context.Context, q Query) ([]Operation, error)
	// OpenOperations returns those that have not ended, oldest first.
	OpenOperations(ctx context.Context) ([]Operation, error)
}

// Runs carries operations out.
type Runs interface {
	// Begin begins an operation, or goes on at its place. An error that is not of kind Unavailable fails the operation.
	Begin(ctx context.Context, o *Operation) (Run, error)
}

// Run is an operation under way. It belongs to one goroutine.
type Run interface {
	// Step does it to at most rows messages, and says what it did; it may find none and not be at the end. A step that returns
	// an error has done nothing.
	Step(ctx context.Context, rows int) (Counts, error)
	// Place is where an operation goes on behind the last step, and Over reports whether there is nothing more.
	Place() string
	Over() bool
}

// Observer is told of operations. It is called from their goroutines.
type Observer interface {
	// Began is called when an operation does its first step ever, and Ended after its end is stored.
	Began(o *Operation)
	Ended(o *Operation)
}
