package queues

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/pull"
	"github.com/runlot/runlot/internal/server/cloudflare/wire"
)

// pullRequest asks for messages. Old clients name the time of the lease differently; both are in milliseconds. WaitMS is
// not Cloudflare's: how long to wait for the first message.
type pullRequest struct {
	BatchSize  *float64 `json:"batch_size"`
	Visibility *float64 `json:"visibility_timeout_ms"`
	Timeout    *float64 `json:"visibility_timeout"`
	WaitMS     *float64 `json:"wait_ms"`
}

// read makes a request of the engine out of it.
func (in *pullRequest) read(c *consumer) (r pull.Request, err error) {
	const code, unit = queue.CodeBodyInvalid, " ms"
	if r.Size, err = count(in.BatchSize, c.BatchSize); err != nil {
		return r, err
	}
	r.Visibility = c.Visibility
	visibility, err := whole(code, "visibility_timeout_ms", unit, cmp.Or(in.Visibility, in.Timeout), queue.MinVisibility, queue.MaxVisibility, time.Millisecond)
	if err != nil {
		return r, err
	}
	if visibility != nil {
		r.Visibility = *visibility
	}
	wait, err := whole(code, "wait_ms", unit, in.WaitMS, 0, queue.MaxPullWait, time.Millisecond)
	if wait != nil {
		r.Wait = *wait
	}
	return r, err
}

// pulledMessage is a message that is leased.
type pulledMessage struct {
	ID        string `json:"id"`
	Body      string `json:"body"`
	Attempts  int    `json:"attempts"`
	Timestamp int64  `json:"timestamp_ms"`
	Lease     string `json:"lease_id"`
	Metadata  struct {
		ContentType string `json:"CF-Content-Type"`
	} `json:"metadata"`
}

// pull leases messages.
func (s *service) pull(w http.ResponseWriter, c *wire.Call) error {
	t, err := s.target(c)
	if err != nil {
		return err
	}
	in, err := wire.Body[pullRequest](c)
	if err != nil {
		return err
	}
	kept, err := t.broker.Settings(t.name)
	if err != nil {
		return err
	}
	now := consumerOf(t.place, &kept, t.apps)
	switch {
	case now == nil:
		return fault.New(fault.Invalid, "pull_consumer_missing", "the queue %s has no consumer over HTTP", t.name).
			WithHint("give it one with `wrangler queues consumer http add %s`", t.name)
	case !now.Pull:
		return heldBy(t, now, "")
	case !kept.PausedAt.IsZero():
		return fault.New(fault.Conflict, wire.CodePaused, "queue_delivery_paused: the delivery of the queue %s is paused", t.name).
			WithHint("go on with `wrangler queues resume-delivery %s`", t.name)
	}
	r, err := in.read(now)
	if err != nil {
		return err
	}
	list, err := t.puller.Pull(c.Context(), &now.Consumer, r)
	if err != nil {
		return err
	}
	m, err := t.broker.Metrics(c.Context(), t.name)
	if err != nil {
		return err
	}
	messages := make([]pulledMessage, len(list))
	for i := range list {
		one := &list[i]
		messages[i] = pulledMessage{
			ID: one.ID.String(), Body: encode(one.Format, one.Body), Attempts: one.Attempts(), Timestamp: one.SentAt.UnixMilli(), Lease: one.Lease,
		}
		messages[i].Metadata.ContentType = one.Format.String()
	}
	wire.Answer(w, map[string]any{
		"message_backlog_count": m.Count, "messages": messages, "metadata": map[string]any{"metrics": wireMetrics(&m)},
	})
	return nil
}

// ackRequest settles messages.
type ackRequest struct {
	Acks []struct {
		Lease string `json:"lease_id"`
	} `json:"acks"`
	Retries []struct {
		Lease string   `json:"lease_id"`
		Delay *float64 `json:"delay_seconds"`
	} `json:"retries"`
}

// ack settles messages by their leases.
func (s *service) ack(w http.ResponseWriter, c *wire.Call) error {
	t, err := s.target(c)
	if err != nil {
		return err
	}
	in, err := wire.Body[ackRequest](c)
	if err != nil {
		return err
	}
	if n := len(in.Acks) + len(in.Retries); n > queue.PullAnswers {
		return fault.New(fault.Limit, queue.CodeBatchCount, "%d acks and retries exceed the limit of %d", n, queue.PullAnswers)
	}
	acks, retries := make([]string, len(in.Acks)), make([]pull.Retry, len(in.Retries))
	for i := range in.Acks {
		acks[i] = in.Acks[i].Lease
	}
	for i := range in.Retries {
		delay, err := seconds(queue.CodeMetadataInvalid, "delay_seconds", in.Retries[i].Delay, 0, queue.MaxDelay)
		if err != nil {
			return err
		}
		retries[i] = pull.Retry{Lease: in.Retries[i].Lease, Delay: delay}
	}
	ctx, cancel := context.WithTimeoutCause(c.Context(), queue.SendTimeout,
		fault.New(fault.Unavailable, queue.CodeOverloaded, "the acks of the queue %s were not committed in time", t.name).WithHint("send them again"))
	defer cancel()
	done, err := t.puller.Ack(ctx, t.name, acks, retries)
	if err != nil {
		return err
	}
	wire.Answer(w, map[string]any{"ackCount": done.Acked, "retryCount": done.Retried, "warnings": done.Warnings})
	return nil
}
