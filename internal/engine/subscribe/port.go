package subscribe

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

// Place is a queue of a database.
type Place struct{ Database, Queue string }

// Source is what a subscription is about: a script for Scripts and Builds, "" for any, or a queue for Letters.
type Source struct {
	Type   string
	Script string
	Queue  Place
}

// Subscription says which events of a source a queue is told of.
type Subscription struct {
	// ID is a UUID, which the store gives.
	ID      string
	Name    string
	Enabled bool
	Source  Source
	Events  []string
	Target  Place
	// Created and Modified are in UTC, to the microsecond.
	Created, Modified time.Time
}

// Detail is what the record of a change to it says.
func (s *Subscription) Detail() map[string]string {
	return map[string]string{"subscription": s.ID, "name": s.Name, "source": s.Source.Type, "events": strings.Join(s.Events, ", ")}
}

// Unknown is the fault that there is no subscription of an id.
func Unknown(id string) *fault.Error {
	return fault.New(fault.NotFound, CodeUnknown, "there is no event subscription %s", id).WithHint("`runlot subscription list` lists them")
}

// Fact is something that was done to a script.
type Fact struct {
	Event, Script string
	At            time.Time
	// Payload is what else there is to know, as it goes into the message.
	Payload map[string]any
}

// Event is one that a subscription is told of.
type Event struct {
	// Seq orders the events of a subscription. The store gives it.
	Seq          int64
	Subscription string
	Kind         string
	At           time.Time
	Payload      json.RawMessage
}

// Store keeps subscriptions, and the events that are still to be sent. What is raised by facts about scripts is the store's to
// do, in the transaction of the fact. Faults: NotFound (CodeUnknown), Unavailable.
type Store interface {
	// Subscriptions returns all, in the order in which they were made.
	Subscriptions(ctx context.Context) ([]Subscription, error)
	// AddSubscription stores a new one and fills in its ID. Beyond most of them, it fails with CodeCount.
	AddSubscription(ctx context.Context, s *Subscription, most int) error
	// ChangeSubscription replaces the one of the same ID.
	ChangeSubscription(ctx context.Context, s *Subscription) error
	// DeleteSubscription forgets one and what was to be sent for it.
	DeleteSubscription(ctx context.Context, id string) error
	// RaiseEvents stores events to be sent, in one transaction. Those of a subscription that is gone are left out.
	RaiseEvents(ctx context.Context, list []Event) error
	// WaitingEvents returns the oldest events that were not sent to a subscription, at most limit.
	WaitingEvents(ctx context.Context, subscription string, limit int) ([]Event, error)
	// EventsSent forgets events.
	EventsSent(ctx context.Context, seqs []int64) error
	// ExpireEvents forgets what is older than a time, and counts it.
	ExpireEvents(ctx context.Context, before time.Time) (int64, error)
}

// Death is the note of a message that became a dead letter.
type Death struct {
	// Number orders the notes of a database.
	Number int64
	// Queue is where it ran out of retries, Target where it went.
	Queue, Target string
	Message       queue.ID
	Sent, Died    time.Time
	// Attempts counts its deliveries there that spent a retry or failed at last.
	Attempts int
	// Reason is why the last one failed; "" where that is not known.
	Reason string
}

// Deaths is where the notes of dead letters are, by database. Faults: Unavailable.
type Deaths interface {
	// Watch has notes made of the dead letters of these queues, and of no others. It is stored.
	Watch(ctx context.Context, database string, queues []string) error
	// Deaths returns the oldest notes, at most limit.
	Deaths(ctx context.Context, database string, limit int) ([]Death, error)
	// Forget deletes notes.
	Forget(ctx context.Context, database string, numbers []int64) error
}

// Queues is where events go.
type Queues interface {
	// Databases are the names of the databases in use.
	Databases() []string
	// Exists fails with NotFound (queue.CodeQueueNotFound) for a queue that is not there.
	Exists(ctx context.Context, p Place) error
	// Gone reports whether a database is in use and has no such queue.
	Gone(ctx context.Context, p Place) bool
	// Send stores messages, and returns when they are.
	Send(ctx context.Context, p Place, drafts []queue.Draft) error
}
