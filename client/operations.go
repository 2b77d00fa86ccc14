package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// StartOperation asks for something to be done to many messages in the background.
type StartOperation struct {
	Kind     string `json:"kind" enum:"redrive,delete,retry_now"`
	Database string `json:"database" maxLength:"63"`
	Queue    string `json:"queue" maxLength:"63"`
	// Filter chooses the messages, of what the queue holds when it begins; "" is all of them. IDs name them instead.
	Filter string   `json:"filter,omitempty" maxLength:"2000"`
	IDs    []string `json:"ids,omitempty" maxItems:"1000"`
	// To is the queue that a redrive moves messages to; "" is the one that each came from.
	To string `json:"to,omitempty" maxLength:"63"`
	// Rate is the most messages a second; 0 is as many as go.
	Rate int `json:"rate,omitempty" minimum:"0"`
}

// Operation is something done to many messages in the background.
type Operation struct {
	ID       int64  `json:"id"`
	Kind     string `json:"kind" enum:"redrive,delete,retry_now"`
	Database string `json:"database"`
	Queue    string `json:"queue"`
	Filter   string `json:"filter,omitempty"`
	// Named is how many messages were named by their ids; 0 where a filter chooses them.
	Named int    `json:"named,omitempty"`
	To    string `json:"to,omitempty"`
	Rate  int    `json:"rate,omitempty"`
	State string `json:"state" enum:"waiting,running,done,cancelled,failed"`
	// Looked counts the messages that were looked at, Matched those that were chosen, and Done those that it was done to.
	Looked  int64 `json:"looked"`
	Matched int64 `json:"matched"`
	Done    int64 `json:"done"`
	// Undo is the name under which it can be undone for an hour after its end, as far as it is among the last; "" while nothing
	// was done.
	Undo string `json:"undo,omitempty"`
	// Skipped counts those that were chosen and left alone, by reason: in_flight, changed, missing, unchanged, no_source, forbidden.
	Skipped map[string]int64 `json:"skipped"`
	Author  string           `json:"author"`
	Created time.Time        `json:"created"`
	Ended   *time.Time       `json:"ended,omitempty"`
	// Error says why it failed.
	Error string `json:"error,omitempty"`
}

// Over reports whether nothing more will happen.
func (o *Operation) Over() bool { return o.State != "waiting" && o.State != "running" }

// StartOperation begins something in the background.
func (c *Client) StartOperation(ctx context.Context, o *StartOperation) (*Operation, error) {
	return post[Operation](ctx, c, at("operations"), o)
}

// Operations returns the newest operations, newest first, of one queue or, for "", of all: those with ids below before, unless
// that is 0. A limit of 0 is the server's choice.
func (c *Client) Operations(ctx context.Context, database, queue string, before int64, limit int) ([]Operation, error) {
	q := paged(before, limit)
	if database != "" {
		q.Set("database", database)
	}
	if queue != "" {
		q.Set("queue", queue)
	}
	return items[Operation](ctx, c, at("operations"), q)
}

// Operation returns one operation.
func (c *Client) Operation(ctx context.Context, id int64) (*Operation, error) {
	return get[Operation](ctx, c, at("operations", strconv.FormatInt(id, 10)), nil)
}

// CancelOperation ends an operation within one step and returns it as it ended.
func (c *Client) CancelOperation(ctx context.Context, id int64) (*Operation, error) {
	var o Operation
	if err := c.call(ctx, http.MethodPost, at("operations", strconv.FormatInt(id, 10), "cancel"), nil, nil, &o); err != nil {
		return nil, err
	}
	return &o, nil
}

// Search returns a page of the messages of a queue that match a filter, in order of acceptance. A page may be empty and not
// the last: Next says.
func (c *Client) Search(ctx context.Context, database, queue, filter, cursor string, limit int) (*Messages, error) {
	q := paged(0, limit)
	q.Set("filter", filter)
	if cursor != "" {
		q.Set("cursor", cursor)
	}
	return get[Messages](ctx, c, queueAt(database, queue, "messages"), q)
}

// CountMessages counts the messages of a queue that match a filter, within bounds.
func (c *Client) CountMessages(ctx context.Context, database, queue, filter string) (*Count, error) {
	return get[Count](ctx, c, queueAt(database, queue, "messages", "count"), url.Values{"filter": {filter}})
}

// History returns what is recorded of a message.
func (c *Client) History(ctx context.Context, database, queue, id string) (*History, error) {
	return get[History](ctx, c, queueAt(database, queue, "messages", id, "history"), nil)
}
