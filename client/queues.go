package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Queues lists the queues that a token may see, of one app or, for "", of all.
func (c *Client) Queues(ctx context.Context, app string) ([]Queue, error) {
	q := url.Values{}
	if app != "" {
		q.Set("app", app)
	}
	return items[Queue](ctx, c, at("queues"), q)
}

func queueAt(database, queue string, rest ...string) string {
	return at(append([]string{"databases", database, "queues", queue}, rest...)...)
}

// Queue describes one queue.
func (c *Client) Queue(ctx context.Context, database, queue string) (*Queue, error) {
	return get[Queue](ctx, c, queueAt(database, queue), nil)
}

// Peek returns a page of the messages of a queue, without taking them: of one state ("visible", "delayed", "in_flight")
// or, for "", of all three; or, for "settled", of those that left it lately. A limit of 0 is the server's choice.
func (c *Client) Peek(ctx context.Context, database, queue, state, cursor string, limit int) (*Messages, error) {
	q := paged(0, limit)
	if state != "" {
		q.Set("state", state)
	}
	if cursor != "" {
		q.Set("cursor", cursor)
	}
	return get[Messages](ctx, c, queueAt(database, queue, "messages"), q)
}

// Message returns one message of a queue, also one that left it lately, as far as that is recorded.
func (c *Client) Message(ctx context.Context, database, queue, id string) (*Message, error) {
	return get[Message](ctx, c, queueAt(database, queue, "messages", id), nil)
}

// Send stores messages, all or none.
func (c *Client) Send(ctx context.Context, database, queue string, messages []Draft) (*Sent, error) {
	return post[Sent](ctx, c, queueAt(database, queue, "messages"), &Send{messages})
}

// DeleteMessages deletes messages that nobody is at work on.
func (c *Client) DeleteMessages(ctx context.Context, database, queue string, ids []string) (*Chosen, error) {
	var done Chosen
	if err := c.call(ctx, http.MethodDelete, queueAt(database, queue, "messages"), nil, &MessageIDs{ids}, &done); err != nil {
		return nil, err
	}
	return &done, nil
}

// RetryMessages makes delayed messages visible now.
func (c *Client) RetryMessages(ctx context.Context, database, queue string, ids []string) (*Chosen, error) {
	return post[Chosen](ctx, c, queueAt(database, queue, "messages", "retry"), &MessageIDs{ids})
}

// DeleteQueue deletes a queue that no running app names, with all that it holds.
func (c *Client) DeleteQueue(ctx context.Context, database, queue string) (*DeletedQueue, error) {
	var gone DeletedQueue
	if err := c.call(ctx, http.MethodDelete, queueAt(database, queue), nil, nil, &gone); err != nil {
		return nil, err
	}
	return &gone, nil
}

// Pause stops the delivery of a queue until Resume.
func (c *Client) Pause(ctx context.Context, database, queue string) error {
	return c.call(ctx, http.MethodPost, queueAt(database, queue, "pause"), nil, nil, nil)
}

// Resume takes a Pause back.
func (c *Client) Resume(ctx context.Context, database, queue string) error {
	return c.call(ctx, http.MethodPost, queueAt(database, queue, "resume"), nil, nil, nil)
}

// SetRetention sets how long messages of a queue stay unsettled, in whole seconds; 0 gives the consumer its say again.
func (c *Client) SetRetention(ctx context.Context, database, queue string, retention time.Duration) error {
	return c.call(ctx, http.MethodPut, queueAt(database, queue, "retention"), nil, &Retention{int64(retention / time.Second)}, nil)
}

// Purge deletes all that a queue holds. It calls progress, which may be nil, now and then. From the first call on the purge
// is made, also when ctx ends.
func (c *Client) Purge(ctx context.Context, database, queue string, progress func(Progress)) (*Progress, error) {
	return c.follow(ctx, queueAt(database, queue, "purge"), struct{}{}, progress)
}

// Redrive moves messages to the queues that they came from, or to another. It calls progress, which may be nil, now and
// then. When ctx ends it stops between two steps: what was moved stays moved, and the rest stays.
func (c *Client) Redrive(ctx context.Context, database, queue string, r *Redrive, progress func(Progress)) (*Progress, error) {
	return c.follow(ctx, queueAt(database, queue, "redrive"), r, progress)
}

// follow makes a call whose answer is lines of progress. It is made once: whether a call without an answer had an effect
// is not known.
func (c *Client) follow(ctx context.Context, path string, body any, progress func(Progress)) (*Progress, error) {
	var done *Progress
	err := c.caller.Follow(ctx, path, body, func(text []byte) (over bool, err error) {
		var line ProgressLine
		if err := json.Unmarshal(text, &line); err != nil {
			return false, &Error{Code: "answer_invalid", Message: "the server's answer cannot be read"}
		}
		switch {
		case line.Error != nil:
			return false, line.Error
		case line.Done != nil:
			done = line.Done
		case line.Progress != nil && progress != nil:
			progress(*line.Progress)
		}
		return done != nil, nil
	})
	return done, err
}

// Batches returns a page of batches, newest first.
func (c *Client) Batches(ctx context.Context, f *BatchFilter) (*Batches, error) {
	q := paged(0, f.Limit)
	for name, value := range map[string]string{"database": f.Database, "queue": f.Queue, "app": f.App, "outcome": f.Outcome, "cursor": f.Cursor} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if !f.Since.IsZero() {
		q.Set("since", f.Since.UTC().Format(time.RFC3339Nano))
	}
	if f.Detail {
		q.Set("detail", strconv.FormatBool(true))
	}
	return get[Batches](ctx, c, at("batches"), q)
}

// Batch returns one batch with its fates and what its handler logged.
func (c *Client) Batch(ctx context.Context, database, id string) (*Batch, error) {
	return get[Batch](ctx, c, at("batches", database, id), nil)
}

// Usage says what the queues of a database have used of their operations.
func (c *Client) Usage(ctx context.Context, database string) (*Usage, error) {
	return get[Usage](ctx, c, at("databases", database, "usage"), nil)
}
