package wire

import (
	"time"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/client/delivery"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/look"
	"github.com/runlot/runlot/internal/engine/broker/store"
	"github.com/runlot/runlot/internal/engine/ledger"
)

// StateSettled is the state of a message that left its queue.
const StateSettled = "settled"

// Settled describes a message that left its queue. When it was sent is in its id.
func Settled(s *ledger.Settled) client.Message {
	r := s.Record
	sent := time.UnixMilli(s.ID.Seq() >> store.SeqBits).UTC()
	m := client.Message{
		ID: s.ID.String(), State: StateSettled, Attempts: s.Attempt, Sent: sent, Visible: sent,
		Settled: &delivery.Settled{
			As: string(s.Kind), Batch: r.ID.String(), Delivered: r.Start.UTC(), At: r.Start.Add(r.Duration).UTC(), App: r.App,
		},
	}
	if s.Kind != ledger.Acked {
		m.Reason = why(r)
	}
	return m
}

// wait is why a message is delayed; nil for one that is not, or was tried and does not know.
func wait(m *look.Message) *delivery.Wait {
	switch {
	case m.State != look.Delayed:
		return nil
	case m.Retried.Outcome == queue.OK:
		return &delivery.Wait{Cause: delivery.Asked}
	case m.Retried.Outcome != "":
		return &delivery.Wait{Cause: string(m.Retried.Outcome), Reason: m.Retried.Reason}
	case m.Attempts == 0 && m.Losses == 0:
		return &delivery.Wait{Cause: delivery.Sent}
	default:
		return nil
	}
}

// why says in a line why a batch did not end well.
func why(r *ledger.Record) string {
	switch {
	case r.Error != nil && r.Error.Location != "":
		return r.Error.Name + ": " + r.Error.Message + " (" + r.Error.Location + ")"
	case r.Error != nil:
		return r.Error.Name + ": " + r.Error.Message
	default:
		return r.Reason
	}
}
