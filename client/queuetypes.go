package client

import (
	"encoding/json"
	"time"

	"github.com/runlot/runlot/client/delivery"
)

// Queue is a queue and how it is doing. A number of -1 is not known.
type Queue struct {
	Database string `json:"database"`
	Name     string `json:"name"`
	// Unsettled counts the messages, and Bytes those of their bodies. Visible, Delayed and InFlight are its parts.
	Unsettled int64 `json:"unsettled" doc:"-1 when it is not known."`
	Bytes     int64 `json:"bytes"`
	Visible   int64 `json:"visible"`
	Delayed   int64 `json:"delayed"`
	InFlight  int64 `json:"in_flight"`
	// Oldest is the send time of the oldest message that is visible or in flight.
	Oldest *time.Time `json:"oldest,omitempty"`
	// PausedSince is nil while the queue is delivered.
	PausedSince *time.Time `json:"paused_since,omitempty"`
	// RetentionSeconds is how long messages stay unsettled; RetentionSet says that an operator set it.
	RetentionSeconds int64           `json:"retention_seconds"`
	RetentionSet     bool            `json:"retention_set"`
	Producers        []QueueProducer `json:"producers"`
	// Consumer is nil while no app drains the queue.
	Consumer *QueueConsumer `json:"consumer,omitempty"`
	// DeadLetters counts the messages of the consumer's dead-letter queue; 0 without one.
	DeadLetters int64 `json:"dead_letters"`
	// DeadLettersOf are the queues whose dead letters come here.
	DeadLettersOf []string `json:"dead_letters_of"`
	// LastBatch is the newest batch, without its fates and lines; nil when none is kept.
	LastBatch *Batch `json:"last_batch,omitempty"`
}

// QueueProducer is a binding of an app that sends to a queue.
type QueueProducer struct {
	App     string `json:"app"`
	Binding string `json:"binding"`
}

// QueueConsumer is the app whose handler drains a queue, and how.
type QueueConsumer struct {
	// App is "" for a consumer over HTTP that an operator gave the queue.
	App string `json:"app"`
	// Pull says that the queue is drained over HTTP, by whoever holds a token.
	Pull                bool    `json:"pull,omitempty"`
	BatchSize           int     `json:"batch_size"`
	BatchTimeoutSeconds float64 `json:"batch_timeout_seconds"`
	MaxRetries          int     `json:"max_retries"`
	// MaxConcurrency is 0 when it is automatic.
	MaxConcurrency  int    `json:"max_concurrency"`
	DeadLetterQueue string `json:"dead_letter_queue,omitempty"`
}

// Message is a message as an operator sees it. One that left its queue is "settled": its Format, Size, Encoding and Body are not
// kept.
type Message struct {
	ID    string `json:"id"`
	State string `json:"state" enum:"visible,delayed,in_flight,settled"`
	// Attempts counts the deliveries that spent a retry, and Losses those in a row in which the process died.
	Attempts int       `json:"attempts"`
	Losses   int       `json:"losses"`
	Sent     time.Time `json:"sent"`
	// Visible is from when on it may be delivered, and Wait why not now; nil for what is not delayed, or where that is not known.
	Visible time.Time      `json:"visible"`
	Wait    *delivery.Wait `json:"wait,omitempty"`
	// Leased is since when it is in flight, and Lease by whom; nil in another state, or while that is not known yet.
	Leased *time.Time      `json:"leased,omitempty"`
	Lease  *delivery.Lease `json:"lease,omitempty"`
	// Format is how the body was sent.
	Format string `json:"format,omitempty" enum:"json,text,bytes,v8"`
	// Size is that of the body, in bytes.
	Size int `json:"size"`
	// Encoding says what Body is: "json" is the value itself, "text" a string, and "base64" a string of bytes.
	Encoding string          `json:"encoding,omitempty" enum:"json,text,base64"`
	Body     json.RawMessage `json:"body,omitempty"`
	// Source is the queue that a dead letter came from, and Reason why its last delivery there failed.
	Source string `json:"source,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Settled is how it left its queue; nil while it is there.
	Settled *delivery.Settled `json:"settled,omitempty"`
}

// Messages is a page of messages. Next is the cursor of the next one; "" at the end.
type Messages struct {
	Items []Message `json:"items"`
	Next  string    `json:"next,omitempty"`
	// Looked counts the messages that were looked at for a page of those that match a filter; 0 without one.
	Looked int `json:"looked,omitempty" doc:"With a filter: how many messages were looked at for this page."`
}

// Count is how many messages match a filter.
type Count struct {
	Matched int `json:"matched"`
	Looked  int `json:"looked"`
	// Complete says that all of the queue was looked at. Else there may be more than Matched.
	Complete bool `json:"complete"`
}

// History is what is recorded of a message: the batches in which it was delivered, newest first, each with the fate of that
// message alone. Missing says what is not recorded.
type History struct {
	Items   []Batch  `json:"items"`
	Missing []string `json:"missing" doc:"What is not recorded, in words."`
}

// Draft is a message to send.
type Draft struct {
	// Body is any JSON value for the content type json, a string for text, and a string in base64 for bytes.
	Body        json.RawMessage `json:"body"`
	ContentType string          `json:"content_type,omitempty" enum:"json,text,bytes" default:"json"`
	// DelaySeconds is the wait before the first delivery.
	DelaySeconds float64 `json:"delay_seconds,omitempty"`
}

// Send asks for messages to be stored, all or none.
type Send struct {
	Messages []Draft `json:"messages"`
}

// Sent is the backlog of a queue after a send.
type Sent struct {
	Messages  int   `json:"messages" doc:"Those that were sent."`
	Unsettled int64 `json:"unsettled"`
	Bytes     int64 `json:"bytes"`
}

// MessageIDs names messages.
type MessageIDs struct {
	IDs []string `json:"ids" minItems:"1" maxItems:"1000"`
}

// Chosen is what became of messages that were named one by one.
type Chosen struct {
	// Done counts those that were deleted, or are visible from now on.
	Done int `json:"done"`
	// InFlight were under lease: nothing happened to them. Unchanged were visible already, and Missing are not there.
	InFlight  []string `json:"in_flight"`
	Unchanged []string `json:"unchanged"`
	Missing   []string `json:"missing"`
	// Undo is the name under which it can be undone for an hour; "" where nothing was done.
	Undo string `json:"undo,omitempty"`
}

// DeletedQueue is what a queue held that was deleted.
type DeletedQueue struct {
	Messages int64 `json:"messages"`
	Bytes    int64 `json:"bytes"`
}

// Retention is how long the messages of a queue stay unsettled.
type Retention struct {
	// Seconds of 0 give the consumer its say again.
	Seconds int64 `json:"seconds" minimum:"0"`
}

// Redrive asks for messages to be moved to other queues.
type Redrive struct {
	// IDs are the messages; none are all that the queue holds.
	IDs []string `json:"ids,omitempty" maxItems:"1000"`
	// To is the queue to move them to; "" is the one that each came from.
	To string `json:"to,omitempty"`
	// Rate is the most messages a second; 0 is as many as go.
	Rate int `json:"rate,omitempty" minimum:"0"`
	// Edit replaces the body of one message; there are no IDs then.
	Edit *Edit `json:"edit,omitempty"`
}

// Edit is another body for one message. What is redriven then is a new message with an id and a send time of its own.
type Edit struct {
	ID string `json:"id"`
	// Body and ContentType are those of a Draft.
	Body        json.RawMessage `json:"body"`
	ContentType string          `json:"content_type,omitempty" enum:"json,text,bytes" default:"json"`
}

// Progress is what a purge or a redrive has done so far.
type Progress struct {
	// Messages counts those that were deleted or moved.
	Messages int64 `json:"messages"`
	// InFlight counts those that a redrive left alone because they were being delivered.
	InFlight int64 `json:"in_flight"`
	// Missing are the ids asked for that the queue does not hold.
	Missing []string `json:"missing,omitempty"`
	// ID is that of the new message when a redrive replaced a body.
	ID string `json:"id,omitempty"`
	// Undo is the name under which a redrive that moved something can be undone for an hour.
	Undo string `json:"undo,omitempty"`
}

// ProgressLine is one line of the answer to a purge or a redrive: progress, and at the end done or an error.
type ProgressLine struct {
	Progress *Progress `json:"progress,omitempty"`
	Done     *Progress `json:"done,omitempty"`
	Error    *Error    `json:"error,omitempty"`
}

// Batch is the record of one handler call, or of what else happened to messages of a queue.
type Batch struct {
	ID       string `json:"id"`
	Database string `json:"database"`
	Queue    string `json:"queue"`
	// App, Version and Delivery are "" for what was no handler call.
	App          string    `json:"app,omitempty"`
	Version      string    `json:"version,omitempty"`
	Delivery     string    `json:"delivery,omitempty"`
	Start        time.Time `json:"start"`
	Milliseconds float64   `json:"milliseconds"`
	Outcome      string    `json:"outcome" enum:"ok,failed,timeout,lost,error,expired,gap"`
	Delivered    int       `json:"delivered"`
	Acked        int       `json:"acked"`
	Retried      int       `json:"retried"`
	Redelivered  int       `json:"redelivered" doc:"Those that come again without a spent retry."`
	Dead         int       `json:"dead"`
	Dropped      int       `json:"dropped"`
	Expired      int       `json:"expired"`
	// Missed counts the records that were not kept, of which this one stands for.
	Missed int `json:"missed"`
	// Error is what the handler threw; Reason is why it did not run or end.
	Error    *Exception `json:"error,omitempty"`
	Reason   string     `json:"reason,omitempty"`
	Warnings []string   `json:"warnings,omitempty"`
	// Fates are the messages that were not simply acked, Acks those that were, as far as they are kept, and Lines what the
	// handler logged. Lists leave them out, unless they are asked for.
	Fates []Fate    `json:"fates,omitempty"`
	Acks  []Fate    `json:"acks,omitempty"`
	Lines []LogLine `json:"lines,omitempty"`
}

// Exception is an error of the app's code.
type Exception struct {
	Name    string `json:"name"`
	Message string `json:"message"`
	// Location is file:line:column, "" when it is not known.
	Location string `json:"location,omitempty"`
	Stack    string `json:"stack,omitempty"`
}

// Fate is what became of a message of a batch.
type Fate struct {
	ID   string `json:"id"`
	Kind string `json:"kind" enum:"acked,retried,redelivered,dead,dropped"`
	// Attempt is the delivery counted, from 1.
	Attempt      int     `json:"attempt"`
	DelaySeconds float64 `json:"delay_seconds,omitempty"`
}

// LogLine is a line that a handler logged. Level "" tells how many more there were.
type LogLine struct {
	Time  time.Time `json:"time"`
	Level string    `json:"level,omitempty"`
	Text  string    `json:"text"`
}

// Batches is a page of batches, newest first. Next is the cursor of the next one; "" at the end.
type Batches struct {
	Items []Batch `json:"items"`
	Next  string  `json:"next,omitempty"`
	// Away are the databases that do not answer now: what their batches would add is missing.
	Away []string `json:"away,omitempty" doc:"Databases that do not answer now, whose batches are missing."`
}

// BatchFilter chooses batches. The zero value is all.
type BatchFilter struct {
	Database, Queue, App, Outcome string
	// Since is when they were recorded, or later.
	Since time.Time
	// Cursor is Batches.Next of the page before.
	Cursor string
	// Limit is the most of the page; 0 is the server's choice.
	Limit int
	// Detail adds fates, lines and stacks.
	Detail bool
}

// Usage is what the queues of a database have used of their operations.
type Usage struct {
	Database string `json:"database"`
	// Cap is the daily cap; 0 is none.
	Cap int64 `json:"cap" doc:"0 is none."`
	// Days are those that are kept, today's first, in UTC.
	Days []UsageDay `json:"days"`
}

// UsageDay is what was counted on one day.
type UsageDay struct {
	Day       string `json:"day" example:"2026-11-30"`
	Written   int64  `json:"written"`
	Delivered int64  `json:"delivered"`
	Deleted   int64  `json:"deleted"`
	Total     int64  `json:"total"`
}
