package client

import (
	"context"
	"time"
)

// Notice is something that operators were told, or are to be told.
type Notice struct {
	ID   int64     `json:"id"`
	At   time.Time `json:"at"`
	Rule string    `json:"rule"`
	// App, Database, Queue and Cron are what it is about; "" where it is about no such thing.
	App      string `json:"app,omitempty"`
	Database string `json:"database,omitempty"`
	Queue    string `json:"queue,omitempty"`
	Cron     string `json:"cron,omitempty"`
	// Title says it in a line.
	Title string      `json:"title"`
	Ways  []NoticeWay `json:"ways"`
}

// NoticeWay is how one receiver gets a notice.
type NoticeWay struct {
	// Way is the address of a mail, or the URL of a webhook without what may be secret in it.
	Way   string `json:"way"`
	State string `json:"state" enum:"waiting,sent,failed"`
	// Attempts counts the tries.
	Attempts int `json:"attempts"`
	// Next is when it is tried again, and Sent when it was sent.
	Next *time.Time `json:"next,omitempty"`
	Sent *time.Time `json:"sent,omitempty"`
	// Problem is why the last try failed.
	Problem string `json:"problem,omitempty"`
}

// Notices lists what operators were told, the newest first: before is the last ID of the page before, 0 for the first one.
func (c *Client) Notices(ctx context.Context, before int64, limit int) ([]Notice, error) {
	return items[Notice](ctx, c, at("notices"), paged(before, limit))
}
