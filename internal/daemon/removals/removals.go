// Package removals deletes queues of a node, for whoever asks: with the operations on their messages that go on in the
// background.
package removals

import (
	"context"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/store"
	"github.com/runlot/runlot/internal/engine/operations"
)

// Node has the queues.
type Node interface {
	// Removable refuses a queue that cannot be deleted now, without touching it.
	Removable(ctx context.Context, database, queueName string) error
	// RemoveQueue deletes a queue, and returns what it held. Its faults are those of Removable, and the broker's.
	RemoveQueue(ctx context.Context, database, queueName string) (store.Count, error)
}

// Remover deletes queues.
type Remover struct {
	Node       Node
	Operations *operations.Engine
}

// RemoveQueue deletes a queue with all that it holds, and returns what that was. What goes on with its messages is cancelled
// before: another queue of its name is none of it. Faults: NotFound (queue.CodeQueueNotFound); Conflict, naming who uses the
// queue; Unavailable.
func (r *Remover) RemoveQueue(ctx context.Context, database, queueName string) (store.Count, error) {
	if err := r.Node.Removable(ctx, database, queueName); err != nil {
		return store.Count{}, err
	}
	list, err := r.Operations.List(ctx, operations.Query{Database: database, Queue: queueName, Limit: 2 * queue.OperationsKept})
	if err != nil {
		return store.Count{}, err
	}
	for i := range list {
		if list[i].State.Ended() {
			continue
		}
		if _, err := r.Operations.Cancel(ctx, list[i].ID); err != nil && fault.KindOf(err) != fault.Conflict {
			return store.Count{}, err
		}
	}
	return r.Node.RemoveQueue(ctx, database, queueName)
}
