package workerd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptrace"
	"regexp"
	"sync/atomic"
	"time"

	"github.com/runlot/runlot/internal/adapter/workerd/calls"
	"github.com/runlot/runlot/internal/adapter/workerd/envelope"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/dispatch"
)

// Run is how a scheduled handler ended.
type Run struct {
	// Outcome is queue.OK or queue.Failed.
	Outcome queue.Outcome
	// NoRetry is set when the handler asked not to be run again for this time.
	NoRetry bool
	// Error is what the handler threw, when it did.
	Error *dispatch.Exception
}

// result is the router's answer.
type result struct {
	Outcome    string `json:"outcome"`
	AckAll     bool   `json:"ackAll"`
	RetryBatch struct {
		Retry        bool     `json:"retry"`
		DelaySeconds *float64 `json:"delaySeconds"`
	} `json:"retryBatch"`
	ExplicitAcks  []string `json:"explicitAcks"`
	RetryMessages []struct {
		ID           string   `json:"msgId"`
		DelaySeconds *float64 `json:"delaySeconds"`
	} `json:"retryMessages"`
	Undecodable []string `json:"undecodable"`
	NoRetry     bool     `json:"noRetry"`
}

// errEnvelope is the router's answer to a request that is not JSON: a body that is said to be JSON is not.
var errEnvelope = errors.New("the router could not parse the delivery")

// routerError is the router's answer when the call of the handler itself failed; its text is JavaScript's.
type routerError struct{ text string }

func (e *routerError) Error() string { return "the handler could not be called: " + e.text }

// plainError is the name of an exception that has none of its own.
const plainError = "Error"

// hung is the error of a failed invocation that threw nothing: workerd ends one that waits while nothing is under way.
const hung = "the handler, or what it gave to waitUntil, waits for a promise that nothing can settle any more"

// noHandler is what workerd throws when a worker has no handler for an event.
var noHandler = regexp.MustCompile(`does not export an? \w+\(\) function|No event listener registered for`)

// Deliver calls the queue handler with a batch and implements dispatch.Runtime. It returns when the handler and what it
// gave to waitUntil are done (without waitUntil under the flag queue_consumer_no_wait_for_wait_until). When ctx ends first,
// the handler is cancelled and ctx's error is returned; a handler that does not let go within queue.CancelGrace ends with
// its process.
//
// A message whose body cannot be decoded is kept from the handler and named in Result.Undecodable; the others are delivered.
func (p *Process) Deliver(ctx context.Context, d *dispatch.Delivery) (*dispatch.Result, error) {
	messages := d.Batch.Messages
	if len(messages) == 0 {
		return nil, fmt.Errorf("%w: a batch without messages", dispatch.ErrCannotRun)
	}
	entry := p.calls.Begin(marks(messages), d.ID)
	defer func() { p.calls.End(entry) }()
	var answer result
	var malformed []queue.ID
	err := p.call(ctx, "/queue", envelope.Encode(d.Batch, messages), &answer)
	if errors.Is(err, errEnvelope) {
		var rest []queue.Message
		if rest, malformed = splitMalformed(messages); len(malformed) == 0 {
			return nil, fmt.Errorf("%w: %w", dispatch.ErrCannotRun, err)
		}
		answer, err = result{Outcome: "exception"}, nil
		if len(rest) > 0 {
			p.calls.End(entry)
			entry = p.calls.Begin(marks(rest), d.ID)
			err = p.call(ctx, "/queue", envelope.Encode(d.Batch, rest), &answer)
		}
	}
	if err != nil {
		if failed, ok := errors.AsType[*routerError](err); ok {
			return &dispatch.Result{Outcome: queue.Failed, Error: &dispatch.Exception{Name: plainError, Message: failed.text}}, nil
		}
		return nil, err
	}
	return p.settle(ctx, entry, &answer, malformed, len(messages))
}

// Scheduled calls the scheduled handler. Its errors are those of Deliver.
func (p *Process) Scheduled(ctx context.Context, cron string, at time.Time) (*Run, error) {
	entry := p.calls.Begin([]string{calls.CronMark(cron, at.UnixMilli())}, "")
	defer p.calls.End(entry)
	body, err := json.Marshal(map[string]any{"cron": cron, "scheduledTime": at.UnixMilli()})
	if err != nil {
		return nil, fmt.Errorf("scheduled event: %w", err)
	}
	var answer result
	if err := p.call(ctx, "/scheduled", body, &answer); err != nil {
		if failed, ok := errors.AsType[*routerError](err); ok {
			return &Run{Outcome: queue.Failed, Error: &dispatch.Exception{Name: plainError, Message: failed.text}}, nil
		}
		return nil, err
	}
	run := &Run{Outcome: queue.OK, NoRetry: answer.NoRetry}
	if answer.Outcome != "ok" {
		run.Outcome = queue.Failed
		if run.Error, err = p.exception(ctx, entry, answer.Outcome); err != nil {
			return nil, err
		}
	}
	return run, nil
}

// settle reads the router's answer for a batch of this size.
func (p *Process) settle(ctx context.Context, entry *calls.Call, answer *result, undecodable []queue.ID, size int) (*dispatch.Result, error) {
	report := queue.Report{
		AckAll: answer.AckAll, RetryAll: answer.RetryBatch.Retry, RetryAllDelay: seconds(answer.RetryBatch.DelaySeconds),
		Acked: make(map[queue.ID]struct{}, len(answer.ExplicitAcks)), Retried: make(map[queue.ID]*time.Duration, len(answer.RetryMessages)),
	}
	for _, text := range answer.ExplicitAcks {
		if id, err := queue.ParseID(text); err == nil {
			report.Acked[id] = struct{}{}
		}
	}
	for i := range answer.RetryMessages {
		if id, err := queue.ParseID(answer.RetryMessages[i].ID); err == nil {
			report.Retried[id] = seconds(answer.RetryMessages[i].DelaySeconds)
		}
	}
	for _, text := range answer.Undecodable {
		if id, err := queue.ParseID(text); err == nil {
			undecodable = append(undecodable, id)
		}
	}
	for _, id := range undecodable {
		report.Retried[id] = nil
	}
	r := &dispatch.Result{Outcome: queue.OK, Report: report, Undecodable: undecodable}
	if answer.Outcome == "ok" {
		return r, nil
	}
	r.Outcome = queue.Failed
	if len(undecodable) == size {
		r.Error = &dispatch.Exception{Name: "DataCloneError", Message: "the body of message " + undecodable[0].String() + " cannot be decoded"}
		return r, nil
	}
	var err error
	if r.Error, err = p.exception(ctx, entry, answer.Outcome); err != nil {
		return nil, err
	}
	return r, nil
}

// exception waits for what the tail says about a failed invocation, which comes just after its result.
func (p *Process) exception(ctx context.Context, entry *calls.Call, outcome string) (*dispatch.Exception, error) {
	patience := time.NewTimer(p.runtime.exceptionWait)
	defer patience.Stop()
	var thrown *dispatch.Exception
	traced := false
	select {
	case thrown = <-entry.Exception:
		traced = true
	case <-patience.C:
	case <-p.done:
		select {
		case thrown = <-entry.Exception:
		default:
		}
	case <-ctx.Done():
	}
	if thrown == nil && traced && outcome == "exception" {
		return &dispatch.Exception{Name: plainError, Message: hung}, nil
	}
	if thrown == nil {
		return &dispatch.Exception{Name: plainError, Message: "the handler failed without saying why (outcome " + outcome + ")"}, nil
	}
	if noHandler.MatchString(thrown.Message) {
		return nil, fmt.Errorf("%w: %s", dispatch.ErrCannotRun, thrown.Message)
	}
	return thrown, nil
}

// seconds reads a delay that JavaScript named. What no Duration holds is far outside the limits, and clamped by the caller.
func seconds(s *float64) *time.Duration {
	if s == nil {
		return nil
	}
	const most = float64(math.MaxInt64 / int64(time.Second))
	d := time.Duration(min(max(*s, -most), most)) * time.Second
	return &d
}

// call posts to the router and decodes its answer.
func (p *Process) call(ctx context.Context, path string, body []byte, answer *result) error {
	if err := p.enter(); err != nil {
		return err
	}
	defer p.inFlight.Leave()
	var sent atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }})
	req, err := http.NewRequestWithContext(traced, http.MethodPost, "http://worker"+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("request to the router: %w", err)
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return p.broken(ctx, sent.Load(), err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, queue.MaxResultBody+1))
	switch {
	case err != nil:
		return p.broken(ctx, true, err)
	case resp.StatusCode == http.StatusUnprocessableEntity:
		return errEnvelope
	case resp.StatusCode != http.StatusOK:
		return &routerError{text: string(text[:min(len(text), 1000)])}
	case len(text) > queue.MaxResultBody:
		return &routerError{text: fmt.Sprintf("its result exceeds the limit of %d bytes", queue.MaxResultBody)}
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return &routerError{text: "its result cannot be read: " + err.Error()}
	}
	return nil
}

// broken explains a request without an answer.
func (p *Process) broken(ctx context.Context, sent bool, err error) error {
	if ctx.Err() != nil {
		if sent {
			p.checkCancelled() //nolint:contextcheck // the check comes after the end of the context
		}
		return ctx.Err()
	}
	// The connection breaks a moment before the process is reaped, and only then the reason is known.
	patience := time.NewTimer(p.runtime.exceptionWait)
	defer patience.Stop()
	lost := dispatch.ErrCannotRun
	select {
	case <-p.over:
		lost = dispatch.ErrGone
	case <-patience.C:
	case <-ctx.Done():
	}
	if sent {
		lost = dispatch.ErrLost
	}
	return fmt.Errorf("%w: %s", lost, p.why(err.Error()))
}

// why returns the reason of the process's end, or other when it is not known.
func (p *Process) why(other string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended && p.reason != "" {
		return p.reason
	}
	return other
}

// marks are the names under which the tail can mention the delivery: after its first message, or, when bodies may turn
// out undecodable and the handler gets the rest, after any.
func marks(messages []queue.Message) []string {
	list := []string{calls.MessageMark(&messages[0])}
	for i := range messages {
		if messages[i].Format == queue.V8 {
			for j := range messages[1:] {
				list = append(list, calls.MessageMark(&messages[1+j]))
			}
			break
		}
	}
	return list
}

// splitMalformed sets the messages aside whose body says that it is JSON and is not.
func splitMalformed(messages []queue.Message) (rest []queue.Message, malformed []queue.ID) {
	for i := range messages {
		if messages[i].Format == queue.JSON && !json.Valid(messages[i].Body) {
			malformed = append(malformed, messages[i].ID)
		} else {
			rest = append(rest, messages[i])
		}
	}
	return rest, malformed
}
