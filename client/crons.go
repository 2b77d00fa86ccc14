package client

import (
	"context"
	"time"
)

// Cron is a cron of an app's live version and how it is doing.
type Cron struct {
	Cron string `json:"cron"`
	// Description says it in words.
	Description string `json:"description"`
	// Next is its next occurrence.
	Next time.Time `json:"next"`
	// RetryAt is when the last occurrence is tried again; nil when it is not.
	RetryAt *time.Time `json:"retry_at,omitempty"`
	// RunningSince is when the run under way began; nil when there is none.
	RunningSince *time.Time `json:"running_since,omitempty"`
	// FailingSince is when the first run began that went wrong after the last that did not; nil while it does not fail. Runs
	// by hand do not count.
	FailingSince *time.Time `json:"failing_since,omitempty"`
	// Last is the newest run, which may have been one by hand; nil when none is kept.
	Last *Run `json:"last,omitempty"`
}

// Run is how one run of a scheduled handler ended, or that an occurrence was missed.
type Run struct {
	// ID is 0 in the answer of RunCron.
	ID   int64  `json:"id,omitempty"`
	App  string `json:"app"`
	Cron string `json:"cron"`
	// At is the time that the handler was told. Attempt counts the runs of this occurrence, from 1; 0 of one that was missed.
	At      time.Time `json:"at"`
	Attempt int       `json:"attempt"`
	Version string    `json:"version,omitempty"`
	// Node is the machine.
	Node         string    `json:"node"`
	Start        time.Time `json:"start"`
	Milliseconds float64   `json:"milliseconds"`
	Outcome      string    `json:"outcome" enum:"ok,failed,timeout,lost,error,missed"`
	// Missed counts the occurrences before it that were not run.
	Missed int `json:"missed"`
	// Manual marks a run that a person asked for.
	Manual bool `json:"manual"`
	// Retry is when the occurrence is tried again; nil when it is not.
	Retry *time.Time `json:"retry,omitempty"`
	// Error is what the handler threw; Reason is why it did not run or end.
	Error  *Exception `json:"error,omitempty"`
	Reason string     `json:"reason,omitempty"`
}

// Runs is a page of runs, newest first. Next is the cursor of the next one; "" at the end.
type Runs struct {
	Items []Run  `json:"items"`
	Next  string `json:"next,omitempty"`
}

// RunFilter chooses runs of an app. The zero value is all.
type RunFilter struct {
	// Cron is an expression, and Outcome that of a Run.
	Cron, Outcome string
	// Cursor is Runs.Next of the page before.
	Cursor string
	// Limit is the most of the page; 0 is the server's choice.
	Limit int
}

// RunCron asks for a run of an app's scheduled handler.
type RunCron struct {
	// Cron is one of the app's expressions; "" is its only one.
	Cron string `json:"cron,omitempty" maxLength:"256"`
	// At is the time that the handler is told; nil is now.
	At *time.Time `json:"at,omitempty"`
}

// Crons lists the crons of an app that runs, in the order of its configuration.
func (c *Client) Crons(ctx context.Context, app string) ([]Cron, error) {
	return items[Cron](ctx, c, at("apps", app, "crons"), nil)
}

// Runs returns a page of the runs of an app's scheduled handler, newest first.
func (c *Client) Runs(ctx context.Context, app string, f *RunFilter) (*Runs, error) {
	q := paged(0, f.Limit)
	for name, value := range map[string]string{"cron": f.Cron, "outcome": f.Outcome, "cursor": f.Cursor} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return get[Runs](ctx, c, at("apps", app, "runs"), q)
}

// RunCron runs an app's scheduled handler now and waits for the end of the run, which is no error when it went wrong. A run
// that began goes on when ctx ends. While another run of the app is under way, it fails with the code "run_under_way".
func (c *Client) RunCron(ctx context.Context, app string, r *RunCron) (*Run, error) {
	return post[Run](ctx, c, at("apps", app, "crons", "run"), r)
}
