package node

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
}

// witness is a recorder that tells of batches too.
type witness struct {
	dispatch.Recorder

	facts                     Facts
	database, deadLetterQueue string
}

// Batch implements dispatch.Recorder.
func (w witness) Batch(r *dispatch.Record) {
	w.facts.Batch(w.database, w.deadLetterQueue, r)
	w.Recorder.Batch(r)
}

// recorder takes the records of a consumer's batches, before they come to the ledger.
func (n *Node) recorder(database, deadLetterQueue string) dispatch.Recorder {
	if n.o.Facts == nil {
		return n.records
	}
	return witness{Recorder: n.records, facts: n.o.Facts, database: database, deadLetterQueue: deadLetterQueue}
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

// observer is told of the bounds of the database.
func (d *database) observer() usage.Observer {
	teller := caps.Teller{Database: d.name, Notice: d.notice}
	if d.facts == nil {
		return teller
	}
	return alarm{Teller: teller, facts: d.facts}
}
