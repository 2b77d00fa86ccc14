package queue

import (
	"time"

	"github.com/runlot/runlot/internal/core/fault"
)

// Batch is a set of messages of one queue under lease to one handler call.
type Batch struct {
	Queue    string
	Messages []Message
	// Metrics is the backlog behind the batch, as the handler sees it.
	Metrics Metrics
}

// Holder is who has a batch under lease.
type Holder struct {
	// App and Version are whose handler was called, and Delivery the call. They are "" for who pulled.
	App, Version, Delivery string
	// Until is when the lease ends at the latest.
	Until time.Time
}

// Acked names a message that a handler is done with.
type Acked struct {
	ID ID
	// Attempt is the delivery that it was acked in, counted from 1.
	Attempt int
}

// CheckDecisions checks that decisions are those of a batch, in its order.
func CheckDecisions(batch *Batch, decisions []Decision) error {
	const code = "decisions_mismatch"
	if len(decisions) != len(batch.Messages) {
		return fault.New(fault.Internal, code, "a batch of %d messages got %d decisions", len(batch.Messages), len(decisions))
	}
	for i := range decisions {
		if decisions[i].Seq != batch.Messages[i].Seq {
			return fault.New(fault.Internal, code, "decision %d is for message %d instead of %d", i, decisions[i].Seq, batch.Messages[i].Seq)
		}
	}
	return nil
}
