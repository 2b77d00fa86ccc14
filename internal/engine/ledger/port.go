package ledger

import (
	"context"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

// Store keeps records. Its methods may be called from several goroutines. An error of fault kind Unavailable is worth
// another try. The contract is written as tests in package ledgertest.
type Store interface {
	// Write adds records in one transaction and returns how many their queues then hold. A record that is there already
	// is skipped, so that a Write whose end is in doubt may be repeated; so is a record of a queue that does not exist.
	Write(ctx context.Context, records []Record) ([]Held, error)
	// Overdue returns the queues that hold more than keep records, or may hold one with a number below before.
	Overdue(ctx context.Context, keep int, before int64) ([]string, error)
	// Prune deletes the oldest records of a queue, at most rows of them in one transaction: those above keep in number,
	// then those with a number below before. It reports whether there may be more to delete.
	Prune(ctx context.Context, queueName string, keep int, before int64, rows int) (more bool, err error)
	// List returns the newest records that the query asks for, newest first, without their fates, acks, lines and stacks.
	List(ctx context.Context, q *Query) ([]Record, error)
	// Get returns one record. Fault: NotFound (record_not_found).
	Get(ctx context.Context, id ID) (*Record, error)
	// Of returns the newest records of some queues that name a message and have a number of at least from, newest first, each
	// with the fates and acks of that message alone, and without lines and stacks.
	Of(ctx context.Context, queues []string, message queue.ID, from int64, limit int) ([]Record, error)
	// Settled returns the newest records of a queue with a number below before that name messages which left it, because they
	// were acked, dead or dropped, newest first, without lines and stacks.
	Settled(ctx context.Context, queueName string, before int64, limit int) ([]Record, error)
	// Last returns the newest record of a handler call of each queue that has one, by name of the queue, without fates,
	// acks, lines and stacks.
	Last(ctx context.Context) ([]Record, error)
}

// Held is how many records a queue holds.
type Held struct {
	Queue   string
	Records int
}

// Filter chooses records. The zero Filter is for all.
type Filter struct {
	Queues   []string
	App      string
	Outcomes []queue.Outcome
	// Since and Until bound when the record was made, to the millisecond; Until is exclusive. Zero is no bound.
	Since, Until time.Time
}

// Query is what a Store is asked for. Lists that are empty ask for any.
type Query struct {
	Queues   []string
	App      string
	Outcomes []queue.Outcome
	// From and To bound the number, To exclusive.
	From, To int64
	// Before, when its number is not 0, is the record before which the list begins, in the order of the list: by number,
	// then by queue, both falling.
	Before ID
	Limit  int
}

// Follows reports whether a record with this id comes after Before in the order of the list.
func (q *Query) Follows(id ID) bool {
	return q.Before.Number == 0 || id.Number < q.Before.Number || id.Number == q.Before.Number && id.Queue < q.Before.Queue
}

// Page is a part of a list.
type Page struct {
	Records []Record
	// Next continues the list; "" at its end.
	Next string
}

// NotFound is the fault for a record that is not there: it never was, or it was pruned.
func NotFound(id ID) *fault.Error {
	return fault.New(fault.NotFound, "record_not_found", "there is no record of the batch %s", id).
		WithHint("the last %d records of a queue are kept, for %d days", queue.RecordsKept, int(queue.RecordAge/(24*time.Hour)))
}
