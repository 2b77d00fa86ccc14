// Package preview is the part of the client that lists messages without reading their whole bodies.
package preview

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/runlot/runlot/client"
)

// Options choose a page of messages. State and Filter exclude each other, as for the calls Peek and Search.
type Options struct {
	State, Filter, Cursor string
	// Limit is the most messages, and Bytes the most bytes of each body, above 0. A body that is longer is a text or base64, and
	// shorter than the size of its message.
	Limit, Bytes int
	// Within ends a search after about this time, in whole milliseconds; 0 takes the time that it takes.
	Within time.Duration
}

// Messages looks at a page of the messages of a queue.
func Messages(ctx context.Context, c *client.Client, database, queue string, o *Options) (*client.Messages, error) {
	q := url.Values{"limit": {strconv.Itoa(o.Limit)}, "preview": {strconv.Itoa(o.Bytes)}, "within": {milliseconds(o.Within)}}
	for name, value := range map[string]string{"state": o.State, "filter": o.Filter, "cursor": o.Cursor} {
		if value != "" {
			q.Set(name, value)
		}
	}
	var page client.Messages
	err := c.Call(ctx, http.MethodGet, path(database, queue), q, nil, &page)
	if err != nil {
		return nil, err
	}
	return &page, nil
}

// Count counts the messages that match a filter, for about a time at most; 0 takes the time that it takes.
func Count(ctx context.Context, c *client.Client, database, queue, filter string, within time.Duration) (*client.Count, error) {
	var n client.Count
	q := url.Values{"filter": {filter}, "within": {milliseconds(within)}}
	if err := c.Call(ctx, http.MethodGet, path(database, queue)+"/count", q, nil, &n); err != nil {
		return nil, err
	}
	return &n, nil
}

func path(database, queue string) string {
	return "/v1/databases/" + url.PathEscape(database) + "/queues/" + url.PathEscape(queue) + "/messages"
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
