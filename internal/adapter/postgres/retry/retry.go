// Package retry is how a message keeps why it was given back.
package retry

import (
	"slices"

	"github.com/runlot/runlot/internal/core/queue"
)

// outcomes are stored as their place in this list, from 1. The order never changes.
var outcomes = []queue.Outcome{queue.OK, queue.Failed, queue.TimedOut, queue.Lost, queue.Errored}

// Number is how an outcome is stored; 0 for none.
func Number(o queue.Outcome) int16 { return int16(slices.Index(outcomes, o) + 1) }

// Outcome is the one that is stored as a number; "" for none.
func Outcome(n int16) queue.Outcome {
	if n < 1 || int(n) > len(outcomes) {
		return ""
	}
	return outcomes[n-1]
}

// Statement gives messages back. The texts are "", and the outcomes 0, where they are not known.
const Statement = `UPDATE runlot_queue.message m SET failures = k.failures, losses = k.losses, visible_at = k.visible_at,
			retry_outcome = nullif(k.outcome, 0), retry_reason = nullif(k.reason, '')
		FROM unnest($1::int[], $2::bigint[], $3::smallint[], $4::smallint[], $5::timestamptz[], $6::smallint[], $7::text[])
			AS k (queue_id, seq, failures, losses, visible_at, outcome, reason)
		WHERE m.queue_id = k.queue_id AND m.seq = k.seq`
