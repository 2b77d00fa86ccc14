// Package inorder brings what a person sees of a batch into its order: first what the Worker logged, then how the batch
// ended. workerd hands the logs of an invocation over when it has answered already.
package inorder

import (
	"sync"
	"time"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/dispatch"
)

// Recorder holds the record of a batch back until its logs have come, at most for queue.LogWait. No record waits for
// another one, and no settlement for any. It implements dispatch.Recorder.
type Recorder struct {
	next dispatch.Recorder

	mu   sync.Mutex
	held map[string]*held // records by delivery
	// early are deliveries whose logs came before their record; order has the same as a ring, oldest first.
	early  map[string]struct{}
	order  [queue.RecentDeliveries]string
	at     int
	closed bool
}

type held struct {
	record *dispatch.Record
	timer  *time.Timer
}

// New returns a recorder in front of another one.
func New(next dispatch.Recorder) *Recorder {
	return &Recorder{next: next, held: map[string]*held{}, early: map[string]struct{}{}}
}

// Batch implements dispatch.Recorder.
func (r *Recorder) Batch(record *dispatch.Record) {
	if r.hold(record) {
		return
	}
	r.next.Batch(record)
}

// hold keeps a record whose logs may still come, and reports whether it did.
func (r *Recorder) hold(record *dispatch.Record) bool {
	if record.Outcome == queue.Lost || record.Outcome == queue.Errored {
		return false // the logs of a process that has ended have come, and no handler ran in one that cannot
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.early[record.Delivery]; ok {
		delete(r.early, record.Delivery)
		return false
	}
	if r.closed || len(r.held) == queue.RecentDeliveries {
		return false
	}
	r.held[record.Delivery] = &held{record, time.AfterFunc(queue.LogWait, func() { r.let(record.Delivery) })}
	return true
}

// Logged says that the logs of a delivery have come, all of them.
func (r *Recorder) Logged(delivery string) {
	if r.let(delivery) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.early, r.order[r.at])
	r.order[r.at] = delivery
	r.early[delivery] = struct{}{}
	r.at = (r.at + 1) % len(r.order)
}

// let hands a record on, if it is held, and reports whether it was.
func (r *Recorder) let(delivery string) bool {
	r.mu.Lock()
	h := r.held[delivery]
	delete(r.held, delivery)
	r.mu.Unlock()
	if h == nil {
		return false
	}
	h.timer.Stop()
	r.next.Batch(h.record)
	return true
}

// Flush hands on what is held, and holds nothing any more.
func (r *Recorder) Flush() {
	r.mu.Lock()
	r.closed = true
	deliveries := make([]string, 0, len(r.held))
	for delivery := range r.held {
		deliveries = append(deliveries, delivery)
	}
	r.mu.Unlock()
	for _, delivery := range deliveries {
		r.let(delivery)
	}
}
