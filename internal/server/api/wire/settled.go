package wire

import (
	"time"

	"github.com/runlot/runlot/client"
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
		Settled: &client.Settled{
			As: string(s.Kind), Batch: r.ID.String(), Delivered: r.Start.UTC(), At: r.Start.Add(r.Duration).UTC(), App: r.App,
		},
	}
	if s.Kind != ledger.Acked {
		m.Reason = why(r)
	}
	return m
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
