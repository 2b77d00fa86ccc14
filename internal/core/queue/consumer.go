package queue

import "time"

// Consumer is what an app declares about a queue that its queue handler drains, with every default filled in.
type Consumer struct {
	Queue string
	// BatchSize is the most messages in one batch.
	BatchSize int
	// BatchTimeout is how long a partial batch waits to fill, from when its first message became visible.
	BatchTimeout time.Duration
	// MaxRetries is the number of redeliveries before a message leaves the queue.
	MaxRetries int
	Backoff    Backoff
	// DeadLetterQueue receives what is out of retries; "" deletes it.
	DeadLetterQueue string
	// MaxConcurrency is the most batches that run at the same time; 0 is automatic.
	MaxConcurrency int
	// HandlerTime is how long the handler may take for one batch.
	HandlerTime time.Duration
	// Retention is how long a message stays in the queue unsettled.
	Retention time.Duration
	// Pull says that the queue is drained over HTTP, by whoever holds a token, and not by the handler: only BatchSize,
	// MaxRetries, Backoff, DeadLetterQueue and Retention count then. Visibility is how long a pull that names no time leases
	// a message.
	Pull       bool          `json:",omitempty"`
	Visibility time.Duration `json:",omitempty"`
}

// Backoff is the wait before a retry for which the handler named no delay: First after the first failure, doubled after
// each further one, at most Max. A constant wait has First equal to Max.
type Backoff struct {
	First time.Duration
	Max   time.Duration
}

// Delay returns the wait after the given number of failures, counted from 1.
func (b Backoff) Delay(failures int) time.Duration {
	d := b.First
	for range failures - 1 {
		if d == 0 {
			return 0
		}
		if d >= b.Max-d {
			return b.Max
		}
		d *= 2
	}
	return min(d, b.Max)
}
