package queue

import (
	"fmt"
	"time"

	"github.com/runlot/runlot/internal/core/span"
)

// Outcome is how a batch ended. Every batch has exactly one.
type Outcome string

// The outcomes of a batch.
const (
	// OK: the handler returned; every message is settled by the rule of Settle.
	OK Outcome = "ok"
	// Failed: the handler threw, or a promise given to waitUntil rejected. Spends a retry, except of what was acked.
	Failed Outcome = "failed"
	// TimedOut: the handler outlived its time and was cancelled. Spends a retry.
	TimedOut Outcome = "timeout"
	// Lost: the process or the node died or was redeployed in the middle of the batch. Spends no retry.
	Lost Outcome = "lost"
	// Errored: the batch could not run at all: no live version, a worker that does not start, no handler. Spends no retry.
	Errored Outcome = "error"
)

// Report is what a handler asked for by its calls of ack, retry, ackAll and retryAll, whether it returned or threw.
type Report struct {
	AckAll   bool
	RetryAll bool
	// RetryAllDelay is the delay given to retryAll, nil when it gave none.
	RetryAllDelay *time.Duration
	Acked         map[ID]struct{}
	// Retried holds the delay given to each retry call, nil when it gave none.
	Retried map[ID]*time.Duration
}

// Verdict is what happens to one message of a batch.
type Verdict string

// The verdicts.
const (
	// Ack: done; the message is deleted.
	Ack Verdict = "acked"
	// Retry: the message is delivered again after Decision.Delay.
	Retry Verdict = "retried"
	// DeadLetter: out of retries; the message moves to the dead-letter queue.
	DeadLetter Verdict = "dead"
	// Drop: out of retries without a dead-letter queue; the message is deleted.
	Drop Verdict = "dropped"
)

// Decision settles one message.
type Decision struct {
	Seq     int64
	Verdict Verdict
	// Delay, Failures and Losses are the message's state from now on; they count for Retry only.
	Delay    time.Duration
	Failures int
	Losses   int
	// Reason is why the last delivery failed, for a person to read, and Outcome how its batch ended; they count for DeadLetter,
	// which keeps the reason alone, and for Retry. "" is not known.
	Reason  string
	Outcome Outcome
}

const (
	// LossesBeforeAlone is the number of Lost deliveries in a row after which a message is delivered by itself, so that
	// one that kills its process is found.
	LossesBeforeAlone = 2
	// LossesAlone is the number of further Lost deliveries, alone in its batch, from which on a loss counts as a failure.
	LossesAlone = 3
)

// Alone reports whether the message has to be delivered in a batch of its own: it was in flight each of the last
// LossesBeforeAlone times that its process died.
func (m *Message) Alone() bool { return m.Losses >= LossesBeforeAlone }

// ErrorBackoff is the wait of a queue's messages after the given number of Errored batches in a row, counted from 1.
func ErrorBackoff(inARow int) time.Duration {
	return Backoff{First: ErrorBackoffFirst, Max: ErrorBackoffMax}.Delay(inARow)
}

// LossBackoff is the pause of a queue after the given number of Lost batches in a row, counted from 1.
func LossBackoff(inARow int) time.Duration {
	return Backoff{First: LossBackoffFirst, Max: LossBackoffMax}.Delay(inARow)
}

// Settle decides every message of a batch, in the order given. First match wins: explicitly acked → ack; explicitly
// retried → retry; ackAll → ack; retryAll → retry; the handler returned → ack; else retry. What is to be retried after
// its last retry is dead-lettered or dropped. The delay of a retry is the message's own, else retryAll's, else the
// consumer's; an explicit 0 beats every default. A delay outside 0–24 h is clamped and named in warnings.
//
// errorsInARow counts the Errored batches of this queue up to and including this one; it only matters for Errored.
func Settle(c *Consumer, messages []Message, outcome Outcome, report *Report, errorsInARow int) (decisions []Decision, warnings []string) {
	decisions = make([]Decision, len(messages))
	for i := range messages {
		m := &messages[i]
		switch outcome {
		case Lost:
			decisions[i] = settleLost(c, m, len(messages) == 1)
		case Errored:
			decisions[i] = Decision{Seq: m.Seq, Verdict: Retry, Delay: ErrorBackoff(errorsInARow), Failures: m.Failures, Losses: m.Losses}
		case OK, Failed, TimedOut:
			retry, asked := report.retries(m.ID, outcome)
			if !retry {
				decisions[i] = Decision{Seq: m.Seq, Verdict: Ack}
				continue
			}
			d := fail(c, m)
			if asked != nil && d.Verdict == Retry {
				var clamped bool
				if d.Delay, clamped = ClampDelay(*asked); clamped {
					warnings = append(warnings, fmt.Sprintf("retry delay of %d seconds for message %s is outside 0 to %d; %s is used",
						int64(*asked/time.Second), m.ID, int64(MaxDelay/time.Second), span.Text(d.Delay)))
				}
			}
			decisions[i] = d
		}
	}
	return decisions, warnings
}

// retries applies the settle rule to one message and returns the delay that the handler asked for, if any.
func (r *Report) retries(id ID, outcome Outcome) (retry bool, delay *time.Duration) {
	if r == nil {
		return outcome != OK, nil
	}
	if _, ok := r.Acked[id]; ok {
		return false, nil
	}
	if own, ok := r.Retried[id]; ok {
		if own == nil && r.RetryAll {
			own = r.RetryAllDelay
		}
		return true, own
	}
	switch {
	case r.AckAll:
		return false, nil
	case r.RetryAll:
		return true, r.RetryAllDelay
	default:
		return outcome != OK, nil
	}
}

// fail spends one retry of m.
func fail(c *Consumer, m *Message) Decision {
	failures := m.Failures + 1
	switch {
	case failures <= c.MaxRetries:
		return Decision{Seq: m.Seq, Verdict: Retry, Delay: c.Backoff.Delay(failures), Failures: failures}
	case c.DeadLetterQueue != "":
		return Decision{Seq: m.Seq, Verdict: DeadLetter, Failures: failures}
	default:
		return Decision{Seq: m.Seq, Verdict: Drop, Failures: failures}
	}
}

// settleLost counts a loss; from the third loss alone on, the message is taken for the cause and spends a retry.
func settleLost(c *Consumer, m *Message, alone bool) Decision {
	losses := m.Losses + 1
	if alone && losses >= LossesBeforeAlone+LossesAlone {
		d := fail(c, m)
		d.Losses = losses
		return d
	}
	return Decision{
		Seq: m.Seq, Verdict: Retry, Failures: m.Failures, Losses: losses,
		Delay: LossBackoff(losses),
	}
}

// Release gives every message of a batch back as it came: visible at once, with no retry spent and no loss counted. It is
// for a batch that no handler saw, and for a Lost one whose process ended on purpose (a stop, a newer version), which is
// no evidence against its messages.
func Release(messages []Message) []Decision {
	decisions := make([]Decision, len(messages))
	for i := range messages {
		m := &messages[i]
		decisions[i] = Decision{Seq: m.Seq, Verdict: Retry, Failures: m.Failures, Losses: m.Losses}
	}
	return decisions
}

// ClampDelay brings a delay into 0–24 h and reports whether it had to.
func ClampDelay(d time.Duration) (time.Duration, bool) {
	c := min(max(d, 0), MaxDelay)
	return c, c != d
}
