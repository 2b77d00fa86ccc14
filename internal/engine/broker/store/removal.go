package store

import "context"

// CodeQueueBusy is the code of the fault, of kind Conflict, of a Remove that has to wait for a transaction of somebody else.
const CodeQueueBusy = "queue_busy"

// Removal is the part of a Store that ends queues. Its writes need the ownership, as those of Store do.
type Removal interface {
	// Remove ends a queue in one transaction, with what SQL enqueued for it and no Drain has moved yet, which it counts. From
	// its commit on SQL can send nothing to it, and a queue that is declared under its name is another one, with another
	// number, which sees nothing of it. Its messages stay where they are, under its number, until Scrap deletes them. It never
	// runs beside an Append or a Drain, nor beside an Apply that moves messages to the queue. Without the queue it does
	// nothing. Fault: Conflict (CodeQueueBusy), with nothing changed, while a transaction that enqueued for the queue has not
	// ended.
	Remove(ctx context.Context, queueID int32) (Count, error)
	// Scrap deletes up to limit messages and records of queues that were removed, and reports whether there may be more.
	Scrap(ctx context.Context, limit int) (more bool, err error)
}
