// Package preview is the part of the client that lists messages without reading their whole bodies.
package preview

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/runlot/runlot/client"
)

// Options choose a page of messages. State and Filter exclude each other, as for the calls Peek and Search.
type Options struct {
	State, Filter, Cursor string
	// Limit is the most messages, and Bytes the most bytes of each body, above 0. A body that is longer is a text or base64, and
	// shorter than the size of its message.
	Limit, Bytes int
}

// Messages looks at a page of the messages of a queue.
func Messages(ctx context.Context, c *client.Client, database, queue string, o *Options) (*client.Messages, error) {
	q := url.Values{"limit": {strconv.Itoa(o.Limit)}, "preview": {strconv.Itoa(o.Bytes)}}
	for name, value := range map[string]string{"state": o.State, "filter": o.Filter, "cursor": o.Cursor} {
		if value != "" {
			q.Set(name, value)
		}
	}
	var page client.Messages
	err := c.Call(ctx, http.MethodGet, "/v1/databases/"+url.PathEscape(database)+"/queues/"+url.PathEscape(queue)+"/messages", q, nil, &page)
	if err != nil {
		return nil, err
	}
	return &page, nil
}
