package notify

import (
	"context"
	"errors"
	"time"
)

// Channel sends notices: by mail, or to a webhook.
type Channel interface {
	// Ways are the receivers of the channel, each a text that is stored and shown: "mail ann@example.com". Each gets each
	// notice on its own.
	Ways() []string
	// Send sends a notice by one of the ways, within bounds of its own. An error that wraps ErrRefused is not worth another
	// try. Its text is shown to operators.
	Send(ctx context.Context, d *Delivery) error
}

// ErrRefused says that a receiver does not take a notice, now or later.
var ErrRefused = errors.New("refused for good")

// State is what became of a notice on one way. The texts are stored.
type State string

// The states.
const (
	Waiting State = "waiting"
	Sent    State = "sent"
	Failed  State = "failed"
)

// Delivery is a notice on one way.
type Delivery struct {
	// ID is that of the notice in the outbox: the same on every way and at every try.
	ID     int64
	Way    string
	Notice *Notice
	// Attempt counts the tries, this one included. Age is how long ago the notice was written.
	Attempt int
	Age     time.Duration
}

// Status is what became of a notice on one way, for a person.
type Status struct {
	Way     string
	State   State
	Attempt int
	// Next is when it is tried again, while it is Waiting; Sent is zero unless it was.
	Next, Sent time.Time
	// Problem is what went wrong at the last try.
	Problem string
}

// Stored is a notice in the outbox.
type Stored struct {
	ID     int64
	Notice *Notice
	Ways   []Status
}

// Outbox keeps notices until they were sent. Several nodes share one. Its clock is its own. Errors of kind fault.Unavailable
// are worth another try.
type Outbox interface {
	// Add keeps a notice to be sent by every way, and reports whether it did: not when there is one of the same rule, subject
	// and day. The oldest notices beyond keep are forgotten.
	Add(ctx context.Context, n *Notice, ways []string, keep int) (bool, error)
	// Claim takes the delivery by one of ways that has been due the longest; nobody else gets it for lease. Without one it
	// returns nil and how long it is until the next is due, 0 when none waits.
	Claim(ctx context.Context, ways []string, lease time.Duration) (d *Delivery, next time.Duration, err error)
	// Sent notes that a claimed delivery was sent, Retry that it is due again after a time, and Failed that it is given up.
	// All do nothing when it was claimed anew since.
	Sent(ctx context.Context, d *Delivery) error
	Retry(ctx context.Context, d *Delivery, after time.Duration, problem string) error
	Failed(ctx context.Context, d *Delivery, problem string) error
	// Notices returns up to count notices with ids below before, newest first. Before 0 is all.
	Notices(ctx context.Context, before int64, count int) ([]Stored, error)
}
