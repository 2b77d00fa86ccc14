// Package witness lets somebody see what happens to the queues of a node, with the database that it happens in.
package witness

import (
	"time"

	"github.com/runlot/runlot/internal/daemon/caps"
	"github.com/runlot/runlot/internal/engine/broker/usage"
	"github.com/runlot/runlot/internal/engine/dispatch"
)

// Witness is told what happens. Its methods are called on the way of settlements and must not wait.
type Witness interface {
	// Batch is the end of a batch; deadLetterQueue is that of its consumer, "" for none.
	Batch(database, deadLetterQueue string, record *dispatch.Record)
	// Operations says that a database came to a part of its daily cap.
	Operations(database string, at time.Time, alert usage.Alert)
	// Left says that the queues of a database are not delivered here, for now or for good.
	Left(database string)
}

// Nobody sees nothing.
type Nobody struct{}

// Batch implements Witness.
func (Nobody) Batch(string, string, *dispatch.Record) {}

// Operations implements Witness.
func (Nobody) Operations(string, time.Time, usage.Alert) {}

// Left implements Witness.
func (Nobody) Left(string) {}

// Batches is a recorder that lets a witness see the batches of one queue, before the next recorder.
type Batches struct {
	Next                      dispatch.Recorder
	Witness                   Witness
	Database, DeadLetterQueue string
}

// Batch implements dispatch.Recorder.
func (b Batches) Batch(r *dispatch.Record) {
	b.Witness.Batch(b.Database, b.DeadLetterQueue, r)
	b.Next.Batch(r)
}

// Bounds tells of a database's bounds in words, and lets a witness see its operations.
type Bounds struct {
	caps.Teller

	Witness Witness
}

// OperationsAlert implements usage.Observer.
func (b Bounds) OperationsAlert(alert usage.Alert) {
	b.Witness.Operations(b.Database, time.Now(), alert)
	b.Teller.OperationsAlert(alert)
}
