package client

import (
	"context"
	"net/url"
	"strconv"
	"time"
)

// Series is how a queue did over time: points one behind the other, without a gap.
type Series struct {
	Database string `json:"database"`
	Queue    string `json:"queue"`
	// StepSeconds is the time that each point stands for.
	StepSeconds int           `json:"step_seconds"`
	Points      []SeriesPoint `json:"points"`
	// Known is until when the numbers are there: the last point ends then, where its span is not over.
	Known time.Time `json:"known"`
}

// SeriesPoint is a queue in a span of time. The counts are sums; depths, age and calls are the highest of the time.
type SeriesPoint struct {
	// Time is when the span begins.
	Time time.Time `json:"time"`
	// Sent counts messages that were sent, SentBytes the bytes of their bodies, and Arrived those that came from another
	// queue. Left counts messages that are gone, for whatever reason.
	Sent      int64 `json:"sent"`
	SentBytes int64 `json:"sent_bytes"`
	Arrived   int64 `json:"arrived"`
	Left      int64 `json:"left"`
	// Delivered is what handlers were given, each time again. What became of it is counted when it is settled.
	Delivered   int64 `json:"delivered"`
	Acked       int64 `json:"acked"`
	Retried     int64 `json:"retried"`
	Redelivered int64 `json:"redelivered"`
	Dead        int64 `json:"dead"`
	Dropped     int64 `json:"dropped"`
	Expired     int64 `json:"expired"`
	// Batches counts those that ended, FailedBatches those of them that did not end well.
	Batches       int64 `json:"batches"`
	FailedBatches int64 `json:"failed_batches"`
	// Handler is how long handler calls took; nil when none ended.
	Handler *HandlerTimes `json:"handler,omitempty"`
	Visible int64         `json:"visible"`
	Delayed int64         `json:"delayed"`
	// InFlight counts messages in the hands of handlers.
	InFlight int64 `json:"in_flight"`
	// OldestSeconds is the age of the oldest message that was visible or in flight.
	OldestSeconds float64 `json:"oldest_seconds"`
	// Running is how many handler calls ran at a time, Allowed how many might.
	Running int `json:"running"`
	Allowed int `json:"allowed"`
}

// HandlerTimes are how long the handler calls of a time took, as far as the buckets tell that they are counted in.
type HandlerTimes struct {
	MeanMilliseconds float64 `json:"mean_milliseconds"`
	P50Milliseconds  float64 `json:"p50_milliseconds"`
	P95Milliseconds  float64 `json:"p95_milliseconds"`
	P99Milliseconds  float64 `json:"p99_milliseconds"`
}

// QueueRates is how fast messages came and went of late, in messages a second.
type QueueRates struct {
	Database string `json:"database"`
	Queue    string `json:"queue"`
	// From is when the first span begins. What is before Known is not known, and 0.
	From        time.Time `json:"from"`
	Known       time.Time `json:"known"`
	StepSeconds int       `json:"step_seconds"`
	// In counts messages that were sent or came from another queue, Out those that are gone. The newest is the last.
	In  []float64 `json:"in"`
	Out []float64 `json:"out"`
}

// SeriesRange is what Series asks for. The zero value is the last 15 minutes.
type SeriesRange struct {
	// From and To bound the time; a zero To is now, a zero From 15 minutes before To.
	From, To time.Time
	// Step is the time of a point, in whole seconds, 10 s to 1 h; 0 is the server's choice.
	Step time.Duration
}

// Series returns how a queue did over time. The step of the answer can be longer than what was asked for.
func (c *Client) Series(ctx context.Context, database, queue string, r SeriesRange) (*Series, error) {
	q := url.Values{}
	if !r.From.IsZero() {
		q.Set("from", r.From.UTC().Format(time.RFC3339Nano))
	}
	if !r.To.IsZero() {
		q.Set("to", r.To.UTC().Format(time.RFC3339Nano))
	}
	if r.Step != 0 {
		q.Set("step", strconv.FormatInt(int64(r.Step/time.Second), 10))
	}
	return get[Series](ctx, c, queueAt(database, queue, "series"), q)
}

// Rates returns how fast messages came and went in the last 15 minutes, of the queues of an app or, for "", all, in one
// database or, for "", all. Points is how many numbers of each; 0 is the server's choice.
func (c *Client) Rates(ctx context.Context, app, database string, points int) ([]QueueRates, error) {
	q := url.Values{}
	if app != "" {
		q.Set("app", app)
	}
	if database != "" {
		q.Set("database", database)
	}
	if points != 0 {
		q.Set("points", strconv.Itoa(points))
	}
	return items[QueueRates](ctx, c, at("series"), q)
}
