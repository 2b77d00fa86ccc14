package store

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"github.com/runlot/runlot/internal/core/queue"
)

// Settings are what a queue keeps for its next owner. The zero value is that of a new queue.
type Settings struct {
	// PausedAt is since when the queue gives no batch; 0 while it does.
	PausedAt int64
	// Retention is how long its messages stay unsettled, in milliseconds, as its consumer declares it, RetentionOverride the
	// same as an operator set it, which counts before the other. 0 is unset.
	Retention         int64
	RetentionOverride int64
	// DeliveryDelay is the delay of messages that are sent without one, in milliseconds, as an operator set it; 0 is none.
	DeliveryDelay int64
	// Pull is the queue's consumer over HTTP, where an operator gave it one.
	Pull Pull
	// PurgedBelow is a Seq below which every message was purged and counts as gone, although some may still have to be
	// deleted; 0 when none is left.
	PurgedBelow int64
}

// Kept is how long messages are kept.
func (s *Settings) Kept() time.Duration {
	milli := cmp.Or(s.RetentionOverride, s.Retention, queue.DefaultRetention.Milliseconds())
	return min(max(time.Duration(milli)*time.Millisecond, queue.MinRetention), queue.MaxRetention)
}

// Pull are the settings of a consumer over HTTP as a queue keeps them; the zero value is none. Times are in milliseconds.
type Pull struct {
	// Since is when the consumer was made, above 0.
	Since           int64  `json:"since"`
	BatchSize       int    `json:"batchSize"`
	MaxRetries      int    `json:"maxRetries"`
	RetryDelay      int64  `json:"retryDelay"`
	Visibility      int64  `json:"visibility"`
	DeadLetterQueue string `json:"deadLetterQueue,omitempty"`
}

// Text is how a store keeps p: JSON, and "" for none.
func (p Pull) Text() string {
	if p == (Pull{}) {
		return ""
	}
	text, err := json.Marshal(p)
	if err != nil {
		panic("store: a consumer always marshals: " + err.Error())
	}
	return string(text)
}

// ParsePull reads a Text. What is none is no consumer.
func ParsePull(text string) Pull {
	var p Pull
	if json.Unmarshal([]byte(text), &p) != nil {
		return Pull{}
	}
	return p
}

// Head is a message without its body.
type Head struct {
	// Row has no Body.
	Row
	// Bytes is the size of the body.
	Bytes int
	// Source is the queue that a dead letter came from, and Reason why its last delivery there failed, as Move said; 0 and
	// "" for other messages.
	Source int32
	Reason string
	// Retried is why the last delivery of its queue gave it back; zero for what was not tried there.
	Retried Cause
}

// Cleared is what one step of ClearInbox did.
type Cleared struct {
	// Messages and Bytes count what was deleted, as far as the store knows it.
	Count
	// Last is the place of the last row that was looked at, and Done says that there was none behind it.
	Last int64
	Done bool
}

// Operations is the part of a Store that the verbs of an operator need, for single queues. What they read is bounded in
// rows and in time: a read that takes too long fails with fault kind Unavailable. They never wait for a delivery and none
// waits for them.
type Operations interface {
	// ListReady returns the heads of the messages of a queue that ReadReady would return, at most limit.
	ListReady(ctx context.Context, queueID int32, after, upTo int64, limit int) ([]Head, error)
	// ListDue returns the heads of the messages of a queue that ReadDue would return, at most limit.
	ListDue(ctx context.Context, queueID int32, after Due, upTo int64, limit int) ([]Head, error)
	// Find returns those messages of a queue that were first accepted under one of the Seqs, in order of their own Seqs.
	Find(ctx context.Context, queueID int32, accepted []int64) ([]Head, error)
	// Bodies returns the bodies of messages of a queue by Seq, at most the first bytes of each, 0 for all; those that do not
	// exist are absent. No more is read than is returned.
	Bodies(ctx context.Context, queueID int32, seqs []int64, bytes int) (map[int64][]byte, error)
	// Configure stores the settings of a queue. Those of an unknown queue are skipped.
	Configure(ctx context.Context, queueID int32, settings Settings) error
	// ClearInbox deletes what SQL enqueued for a queue and no Drain has moved yet, among the next limit rows of the inbox
	// behind a place, 0 at first. It never runs beside a Drain or an Append.
	ClearInbox(ctx context.Context, queueID int32, after int64, limit int) (Cleared, error)
	// Search takes one step of a search, on a connection of its own that can only read.
	Search(ctx context.Context, queueID int32, q *Search) (Searched, error)
	// Replace deletes a message and adds another in its stead, which has the Source and the Reason of the first, in one
	// transaction. Nothing happens when there is no message of that key. The new Seq is above every other, as for Append.
	Replace(ctx context.Context, old Key, row *Row) error
}
