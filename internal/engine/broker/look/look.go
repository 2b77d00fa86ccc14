// Package look shows the messages of a queue without taking them: pages of them in order, single ones, and those that
// match a filter. A look leases nothing and is bounded in rows, in bytes and in time, so it disturbs no delivery and works
// for a queue without a consumer.
package look

import (
	"context"
	"fmt"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/backlog"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// State is what a message waits for.
type State string

// The states of a message. Any, which no message has, asks Peek for all of them.
const (
	Any      State = ""
	Visible  State = "visible"
	Delayed  State = "delayed"
	InFlight State = "in_flight"
)

// Message is a message as an operator sees it.
type Message struct {
	ID    queue.ID
	State State
	// Attempts counts the deliveries that spent a retry, Losses those in a row in which the process died.
	Attempts int
	Losses   int
	SentAt   time.Time
	// VisibleAt is from when on it may be delivered: the send time, or the end of its delay.
	VisibleAt time.Time
	// LeasedAt is since when it is in flight, with how many in its batch, and who has it, where that is known; zero in another
	// state.
	LeasedAt time.Time
	Batch    int
	Holder   *queue.Holder
	Format   queue.Format
	// Size is that of the body, in bytes. Body has less where only its beginning was asked for.
	Size int
	Body []byte
	// Source is the queue that a dead letter came from, and Reason why its last delivery there failed; "" where it is not
	// known, and for other messages.
	Source string
	Reason string
	// Retried is why the last delivery gave it back; zero for what was not tried in this queue.
	Retried store.Cause
}

// Codes of the faults of a look.
const (
	// CodeCursor: a cursor that cannot be read, or is that of another list.
	CodeCursor = "cursor_invalid"
	// CodeMessageNotFound: no message of the queue has the ID.
	CodeMessageNotFound = "message_not_found"
)

// Looker looks at the queues of one broker. Its methods may be called from several goroutines. All of them fail with kind
// NotFound (queue.CodeQueueNotFound) for a queue that does not exist.
type Looker struct {
	store store.Store
	book  *backlog.Book
	// turn is held by a look at messages: one at a time leaves the store's connections to the lanes.
	turn chan struct{}
}

// New makes a looker.
func New(s store.Store, book *backlog.Book) *Looker {
	return &Looker{store: s, book: book, turn: make(chan struct{}, 1)}
}

// Message returns one message of a queue. Fault: NotFound (CodeMessageNotFound).
func (k *Looker) Message(ctx context.Context, queueName string, id queue.ID) (Message, error) {
	q, err := k.book.Named(queueName)
	if err != nil {
		return Message{}, err
	}
	unlock, err := k.Lock(ctx)
	if err != nil {
		return Message{}, err
	}
	defer unlock()
	heads, err := k.Find(ctx, q, []queue.ID{id})
	if err != nil {
		return Message{}, err
	}
	messages, err := k.messages(ctx, q, heads, time.Now(), 0)
	switch {
	case err != nil:
		return Message{}, err
	case len(messages) == 0:
		return Message{}, fault.New(fault.NotFound, CodeMessageNotFound, "queue %q has no message %s", q.Name, id)
	}
	return messages[0], nil
}

// Lock waits for the turn of a look, which unlock ends. Looks take turns, which leaves the store's connections to the lanes.
func (k *Looker) Lock(ctx context.Context) (unlock func(), err error) {
	select {
	case k.turn <- struct{}{}:
		return func() { <-k.turn }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Find looks messages up by ID, without those that were purged.
func (k *Looker) Find(ctx context.Context, q *backlog.Queue, ids []queue.ID) ([]store.Head, error) {
	accepted := make([]int64, 0, len(ids))
	for _, id := range ids {
		if id.Store() == k.book.Database() {
			accepted = append(accepted, id.Seq())
		}
	}
	if len(accepted) == 0 {
		return nil, nil
	}
	heads, err := k.store.Find(ctx, q.ID, accepted)
	if err != nil {
		return nil, fmt.Errorf("find messages of queue %s: %w", q.Name, err)
	}
	floor := q.Standing(time.Now()).Floor
	kept := heads[:0]
	for i := range heads {
		if heads[i].Seq >= floor {
			kept = append(kept, heads[i])
		}
	}
	return kept, nil
}

// messages adds to heads what a person wants to know, and the first bytes of their bodies, 0 for all. Those that were settled
// meanwhile are left out.
func (k *Looker) messages(ctx context.Context, q *backlog.Queue, heads []store.Head, now time.Time, bytes int) ([]Message, error) {
	if len(heads) == 0 {
		return nil, nil
	}
	seqs := make([]int64, len(heads))
	for i := range heads {
		seqs[i] = heads[i].Seq
	}
	bodies, err := k.store.Bodies(ctx, q.ID, seqs, bytes)
	if err != nil {
		return nil, err
	}
	flying := map[int64]backlog.Flight{}
	for _, f := range q.InFlight() {
		flying[f.Seq] = f
	}
	list := make([]Message, 0, len(heads))
	for i := range heads {
		h := &heads[i]
		body, ok := bodies[h.Seq]
		if !ok {
			continue
		}
		m := Message{
			ID: k.ID(h), State: Visible, Attempts: int(h.Failures), Losses: int(h.Losses), SentAt: time.UnixMilli(h.SentAt),
			VisibleAt: time.UnixMilli(h.SentAt), Format: h.Format, Size: h.Bytes, Body: body, Reason: h.Reason,
			Retried: h.Retried,
		}
		if h.VisibleAt > 0 {
			m.VisibleAt = time.UnixMilli(h.VisibleAt)
		}
		if f, ok := flying[h.Seq]; ok {
			m.State, m.LeasedAt, m.Batch, m.Holder = InFlight, f.Since, f.Batch, f.Holder
		} else if m.VisibleAt.After(now) {
			m.State = Delayed
		}
		if source := k.book.Numbered(h.Source); source != nil {
			m.Source = source.Name
		}
		list = append(list, m)
	}
	return list, nil
}

// ID is the ID of a message.
func (k *Looker) ID(h *store.Head) queue.ID {
	if h.Origin != 0 {
		return queue.NewID(k.book.Database(), h.Origin)
	}
	return queue.NewID(k.book.Database(), h.Seq)
}

// IDs are the IDs of messages.
func (k *Looker) IDs(heads []store.Head) []queue.ID {
	list := make([]queue.ID, len(heads))
	for i := range heads {
		list[i] = k.ID(&heads[i])
	}
	return list
}
