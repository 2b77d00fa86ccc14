package model

import (
	"time"

	"github.com/runlot/runlot/internal/core/queue"
)

// Ending is how a handler call ended.
type Ending struct {
	Outcome queue.Outcome
	Report  *queue.Report
	// Undecodable are messages that the handler did not get.
	Undecodable map[queue.ID]bool
}

// Allows reports whether a decision on a message is the one that the documents promise after this ending, in a batch of so
// many messages.
func (e *Ending) Allows(c *queue.Consumer, m *queue.Message, batch int, d *queue.Decision) bool {
	switch e.Outcome {
	case queue.Errored:
		return again(d, m.Failures, m.Losses) && d.Delay >= time.Second && d.Delay <= time.Minute
	case queue.Lost:
		if batch == 1 && m.Losses+1 >= 5 {
			return spent(c, m, d, nil, m.Losses+1)
		}
		return again(d, m.Failures, m.Losses+1) && d.Delay > 0 && d.Delay <= 10*time.Second
	case queue.OK, queue.Failed, queue.TimedOut:
	}
	r := e.Report
	if r == nil {
		r = &queue.Report{}
	}
	_, acked := r.Acked[m.ID]
	own, retried := r.Retried[m.ID]
	if own == nil && r.RetryAll {
		own = r.RetryAllDelay
	}
	switch {
	case e.Undecodable[m.ID]:
		return spent(c, m, d, nil, 0)
	case acked, !retried && r.AckAll, !retried && !r.RetryAll && e.Outcome == queue.OK:
		return d.Verdict == queue.Ack
	case retried, r.RetryAll:
		return spent(c, m, d, own, 0)
	}
	return spent(c, m, d, nil, 0)
}

// Returned reports whether a decision gives a message back as it came.
func Returned(m *queue.Message, d *queue.Decision) bool {
	return again(d, m.Failures, m.Losses) && d.Delay == 0
}

func again(d *queue.Decision, failures, losses int) bool {
	return d.Verdict == queue.Retry && d.Failures == failures && d.Losses == losses
}

// spent reports whether a decision spends one retry, after the delay that was asked for or the consumer's.
func spent(c *queue.Consumer, m *queue.Message, d *queue.Decision, asked *time.Duration, losses int) bool {
	failures := m.Failures + 1
	switch {
	case failures > c.MaxRetries && c.DeadLetterQueue == "":
		return d.Verdict == queue.Drop
	case failures > c.MaxRetries:
		return d.Verdict == queue.DeadLetter
	}
	delay := min(c.Backoff.First<<(failures-1), c.Backoff.Max)
	if asked != nil {
		delay = *asked
	}
	return again(d, failures, losses) && d.Delay == delay
}
