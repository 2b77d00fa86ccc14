// Package delivery is what celld's API tells of the deliveries of one message: why it waits, who is at work on it, and how it left
// its queue.
package delivery

import "time"

// Causes of a Wait.
const (
	Sent    = "sent"
	Asked   = "asked"
	Failed  = "failed"
	Timeout = "timeout"
	Lost    = "lost"
	Errored = "error"
)

// Wait is why a message is delayed.
type Wait struct {
	// Cause is "sent" for a message that was sent with a delay. The others tell of its last delivery: "asked" when the handler
	// asked for a retry, or the outcome of a batch that did not end well, whose messages are tried again after a back-off.
	Cause string `json:"cause" enum:"sent,asked,failed,timeout,lost,error"`
	// Reason is what the handler threw, or why it did not run or end.
	Reason string `json:"reason,omitempty"`
}

// Lease is who is at work on a message.
type Lease struct {
	// App, Version and Delivery are the handler's, and Delivery the call of it, which the record of the batch has too. They are ""
	// for who pulled it over HTTP.
	App      string `json:"app,omitempty"`
	Version  string `json:"version,omitempty"`
	Delivery string `json:"delivery,omitempty"`
	// Messages is the size of the batch.
	Messages int `json:"messages"`
	// Until is when the lease ends at the latest: the message is delivered again then.
	Until time.Time `json:"until"`
}

// Settled is how a message left its queue.
type Settled struct {
	// As is what became of it: "acked", "dead" for one that went to the dead-letter queue, or "dropped".
	As string `json:"as" enum:"acked,dead,dropped"`
	// Batch is the record of its last delivery, Delivered when that began and At when it ended.
	Batch     string    `json:"batch"`
	Delivered time.Time `json:"delivered"`
	At        time.Time `json:"at"`
	App       string    `json:"app,omitempty"`
}
