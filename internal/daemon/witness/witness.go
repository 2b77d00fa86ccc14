// Package witness tells who sends notices of what happens to queues, on the way to those who are told of it anyway.
package witness

import (
	"time"

	"github.com/runlot/runlot/internal/daemon/caps"
	"github.com/runlot/runlot/internal/engine/broker/usage"
	"github.com/runlot/runlot/internal/engine/dispatch"
)

// Facts is told what happens to queues, with the database that it happens in. Its methods are called on the way of settlements
// and must not wait.
type Facts interface {
	// Batch is the end of a batch; deadLetterQueue is that of its consumer, "" for none.
	Batch(database, deadLetterQueue string, record *dispatch.Record)
	// Operations says that a database came to a part of its daily cap.
	Operations(database string, at time.Time, alert usage.Alert)
	// Left says that the queues of a database are not delivered here, for now or for good.
	Left(database string)
	// Removed says that a queue was deleted.
	Removed(database, queueName string)
}

// batches is a recorder that tells of batches too.
type batches struct {
	dispatch.Recorder

	facts                     Facts
	database, deadLetterQueue string
}

// Batch implements dispatch.Recorder.
func (b batches) Batch(r *dispatch.Record) {
	b.facts.Batch(b.database, b.deadLetterQueue, r)
	b.Recorder.Batch(r)
}

// Recorder is next, with the batches of a consumer told to facts first. Facts may be nil.
func Recorder(facts Facts, next dispatch.Recorder, database, deadLetterQueue string) dispatch.Recorder {
	if facts == nil {
		return next
	}
	return batches{Recorder: next, facts: facts, database: database, deadLetterQueue: deadLetterQueue}
}

// alarm tells of a database's bounds in words, and of its operations as facts too.
type alarm struct {
	caps.Teller

	facts Facts
}

// OperationsAlert implements usage.Observer.
func (a alarm) OperationsAlert(alert usage.Alert) {
	a.facts.Operations(a.Database, time.Now(), alert)
	a.Teller.OperationsAlert(alert)
}

// Observer is told of the bounds of a database. Facts may be nil.
func Observer(facts Facts, teller caps.Teller) usage.Observer {
	if facts == nil {
		return teller
	}
	return alarm{Teller: teller, facts: facts}
}
