// Package store is what the broker asks of a database: the rows that it keeps, and the port that a store implements. The
// contract behind it is written as tests in package storetest.
package store

import (
	"context"
	"time"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/core/trace"
)

// Row is one message as the store keeps it. Times are whole milliseconds since 1970 UTC.
type Row struct {
	Queue int32
	// Seq orders the messages of a queue by acceptance. The owner assigns it, unique within the database and rising: the
	// upper bits are the time of acceptance in milliseconds (SeqAt), so that age and retention are ranges of Seq.
	Seq int64
	// Origin is the Seq under which the message was first accepted, for one that moved between queues; 0 for the rest.
	Origin   int64
	Format   queue.Format
	Failures int16
	Losses   int16
	SentAt   int64
	// VisibleAt is when the message may be delivered. 0 is at once: only a message that has never been delayed or tried
	// has it. A row with VisibleAt 0 is found by ReadReady, every other by ReadDue.
	VisibleAt int64
	Body      []byte
	// Trace is the span that sent the message; nil for none. It stays through retries and moves.
	Trace *trace.Context
}

// Due is the place of a delayed message in the order of its queue.
func (r *Row) Due() Due { return Due{VisibleAt: r.VisibleAt, Seq: r.Seq} }

// SeqBits is the number of low bits of a Seq that count within one millisecond.
const SeqBits = 20

// SeqAt returns the lowest Seq of the millisecond of t.
func SeqAt(t time.Time) int64 { return t.UnixMilli() << SeqBits }

// Due is a place in the order of a queue's delayed messages.
type Due struct {
	VisibleAt int64
	Seq       int64
}

// Before reports whether d comes before e.
func (d Due) Before(e Due) bool {
	return d.VisibleAt < e.VisibleAt || d.VisibleAt == e.VisibleAt && d.Seq < e.Seq
}

// Key names one message.
type Key struct {
	Queue int32
	Seq   int64
}

// Retry is the new state of a message that stays in its queue. VisibleAt is above 0: a message that was tried is found by
// ReadDue from then on.
type Retry struct {
	Key
	Failures  int16
	Losses    int16
	VisibleAt int64
	Cause
}

// Cause is why a message was given back: how the batch ended, "" where that is not known, and a text for a person, valid UTF-8
// without NUL. A message keeps that of its last retry until it moves.
type Cause struct {
	Outcome queue.Outcome
	Reason  string
}

// Move takes a message to another queue under a new Seq, with failures and losses back at 0 and visible at once.
// Its origin, format, body and send time stay. The new Seq is above the old one.
type Move struct {
	From Key
	To   Key
	// Source is the queue that a dead letter comes from and Reason why its last delivery there failed; the message keeps
	// both until it moves again. 0 and "" for a message that is no dead letter where it goes. A reason is valid UTF-8 without
	// NUL.
	Source int32
	Reason string
}

// Change is a group of settlements that the store applies in one transaction. A key that no longer exists is skipped:
// settling twice does no harm.
type Change struct {
	Delete []Key
	Retry  []Retry
	Move   []Move
	// Usage, if it is not nil, is the entry of the operation count that the change brings about.
	Usage *Usage
	// Note, if it is not nil, has what was deleted, retried and moved noted, to be undone. A change with Return or Forget has
	// nothing else.
	Note   *Note
	Return []Return
	Forget []Forget
}

// QueueInfo is a queue as the store knows it.
type QueueInfo struct {
	ID   int32
	Name string
	// Created is when it was declared, in milliseconds.
	Created int64
	// ReadyMark is a Seq below which no message with VisibleAt 0 is left, and DueMark a time below which no other is:
	// reading from there on skips what was deleted long ago. Both may lag.
	ReadyMark int64
	DueMark   int64
	Settings
}

// Mark is a new ReadyMark and DueMark of a queue.
type Mark struct {
	Queue     int32
	ReadyMark int64
	DueMark   int64
}

// Count is the number and the body bytes of a queue's messages.
type Count struct {
	Messages int64
	Bytes    int64
}

// Ownership is what Acquire gives: the right to be the only one that appends to and settles the queues of the database.
type Ownership struct {
	// Store is the identity of the database, the first half of its message IDs. It never changes.
	Store uint64
	// Epoch is the number of this ownership; every earlier owner's writes have ended before Acquire returns.
	Epoch int64
	// NextSeq is above every Seq that an earlier owner may have assigned.
	NextSeq int64
	// Lost is closed when the ownership is gone (its session ended): from then on every write fails.
	Lost <-chan struct{}
}

// CodeOwnershipLost is the code of the fault, of kind Conflict, with which every write fails that is made without the
// ownership.
const CodeOwnershipLost = "ownership_lost"

// Store keeps the messages of one database. Methods may be called from several goroutines. A method that returns nil has
// committed; one that returns an error has changed nothing, and an error with fault kind Unavailable is worth another
// try. A write whose commit is in doubt (the connection broke under it) is resolved by the store itself before it
// returns: it waits until the old session is gone and looks. When ctx ends before that is known, the store answers
// Unavailable, and takes back an Append or a Drain that turns out to be committed before it writes anything else; an Apply,
// an Expire and the rest are not taken back, but may be repeated as often as needed. A write without the ownership fails
// with CodeOwnershipLost; reads need no ownership.
type Store interface {
	Account
	Operations
	Removal
	Undo
	// Acquire makes the caller the owner, waiting for an earlier owner of the same database to let go until ctx ends. A store
	// that is the owner already gives the ownership back first.
	Acquire(ctx context.Context) (Ownership, error)
	// Reserve records that Seqs below limit may have been assigned. The owner calls it before it uses them.
	Reserve(ctx context.Context, limit int64) error
	// Declare makes sure that the queues exist and returns them, in the order given.
	Declare(ctx context.Context, names []string) ([]QueueInfo, error)
	// Queues returns every queue.
	Queues(ctx context.Context) ([]QueueInfo, error)
	// Append inserts rows in one transaction, with the entry of the operation count that they bring about; nil is none. Only
	// one Append or Drain runs at a time, so rows commit in order of Seq.
	Append(ctx context.Context, rows []Row, usage *Usage) error
	// Drain moves up to limit rows that SQL enqueued, and about queue.ReadBytes of bodies, from the inbox into their queues,
	// in one transaction, in the order in which they were enqueued, numbered from first, and returns them; none when the inbox
	// is empty. The send time is that of the call, but not after now. A delay counts from the call, and ends at now at the
	// earliest, so that the owner finds no message below a place in its order that it has already passed.
	Drain(ctx context.Context, first int64, now time.Time, limit int) ([]Row, error)
	// ReadReady returns the messages of a queue with VisibleAt 0 and after < Seq <= upTo in order of Seq, at most rows and,
	// but for the first, bytes of bodies.
	ReadReady(ctx context.Context, queueID int32, after, upTo int64, rows, bytes int) ([]Row, error)
	// ReadDue returns the messages of a queue with VisibleAt above 0 that come after a place and are visible by upTo
	// (milliseconds, inclusive), in order of (VisibleAt, Seq), bounded in the same way.
	ReadDue(ctx context.Context, queueID int32, after Due, upTo int64, rows, bytes int) ([]Row, error)
	// Apply carries a change out in one transaction.
	Apply(ctx context.Context, change *Change) error
	// Snapshot opens a consistent view: what was committed before it is in, nothing that commits later.
	Snapshot(ctx context.Context) (Snapshot, error)
	// SaveMarks stores marks. Those of an unknown queue are skipped.
	SaveMarks(ctx context.Context, marks []Mark) error
	// Expire deletes up to limit messages of a queue with after < Seq < before in order of Seq and returns what it deleted.
	Expire(ctx context.Context, queueID int32, after, before int64, limit int) ([]Expired, error)
	// Release gives the ownership back, which closes Lost: writes under way end first, as long as ctx allows; those that
	// come later fail. Calling it twice is fine.
	Release(ctx context.Context) error
}

// Expired is a message that Expire deleted.
type Expired struct {
	Seq   int64
	Bytes int
}

// Snapshot is a consistent view of the store, for counting while deliveries go on.
type Snapshot interface {
	// Counts returns the number and the size of the messages of each queue; a queue without messages may be absent.
	Counts(ctx context.Context) (map[int32]Count, error)
	// Close ends the view, which holds resources of the store until then. Calling it twice is fine.
	Close(ctx context.Context) error
}
