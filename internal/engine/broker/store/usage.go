package store

import (
	"context"
	"time"
)

// Source says which writer of the owner counted operations. Each source has entries of its own, so that those who commit
// at the same time never wait for each other's row.
type Source int16

// The sources. The numbers are stored and never change.
const (
	// Sends are counted in the transaction that stores the messages.
	Sends Source = 1
	// Settlements are counted in the transaction that settles the messages.
	Settlements Source = 2
	// Others are deliveries, what SQL enqueued and what expired: counted in memory and written about a second later.
	Others Source = 3
)

// Usage is how many operations a source had counted on a day when the entry was written. The counts are whole, not
// what was added, so that the entry with the highest Number of a source and day says all, and writing one twice does no
// harm.
type Usage struct {
	Source Source
	// Day is the day in UTC, in days since 1970-01-01.
	Day int32
	// Number rises with each entry of a source.
	Number int64
	// Written, Delivered and Deleted are operations as queue.Operations counts them.
	Written   int64
	Delivered int64
	Deleted   int64
	// Warned is the highest part of the cap, in percent, that was told of on that day; only Others has it.
	Warned int16
}

// Refusal is why SQL may enqueue nothing until a time.
type Refusal struct {
	// Code is that of a producer's fault, for example queue.CodeOperationsCap. There is one refusal for each code.
	Code    string
	Message string
	Hint    string
	// Until is when it ends by itself, also while nobody owns the queues. The zero time takes it back.
	Until time.Time
}

// Account is the part of a store that keeps count of operations and of space. Writes need the ownership, as those of
// Store do.
type Account interface {
	// Usage returns the newest entry of each source and day that is kept.
	Usage(ctx context.Context) ([]Usage, error)
	// SaveUsage writes entries, and deletes those that a newer one of the same source and day has replaced and those of
	// days before keep.
	SaveUsage(ctx context.Context, entries []Usage, keep int32) error
	// SetRefusal has SQL's send functions refuse calls, or takes that back.
	SetRefusal(ctx context.Context, refusal Refusal) error
	// Size returns the bytes that the whole database takes up on disk, those of other tables included.
	Size(ctx context.Context) (int64, error)
	// Compact gives the space of deleted messages back, as far as the database can while it is in use.
	Compact(ctx context.Context) error
}
