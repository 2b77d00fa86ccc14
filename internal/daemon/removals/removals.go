// Package removals deletes queues of a node, for whoever asks: with the operations on their messages that go on in the
// background.
package removals

import (
	"context"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/daemon/claims"
	"github.com/runlot/runlot/internal/engine/broker/store"
	"github.com/runlot/runlot/internal/engine/operations"
	"github.com/runlot/runlot/internal/engine/subscribe"
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
	// Subscriptions are those to events; nil where there are none.
	Subscriptions func(ctx context.Context) ([]subscribe.Subscription, error)
}

// unsubscribed refuses a queue that a subscription sends events to, or tells of.
func (r *Remover) unsubscribed(ctx context.Context, place subscribe.Place) error {
	if r.Subscriptions == nil {
		return nil
	}
	all, err := r.Subscriptions(ctx)
	for i := range all {
		if s := &all[i]; s.Target == place || s.Source.Queue == place {
			return fault.New(fault.Conflict, claims.CodeQueueUsed, "the queue %s cannot be deleted: the event subscription %s names it", place.Queue, s.Name).
				WithHint("`runlot subscription delete %s` ends that", s.ID)
		}
	}
	return err
}

// RemoveQueue deletes a queue with all that it holds, and returns what that was. What goes on with its messages is cancelled
// before: another queue of its name is none of it. Faults: NotFound (queue.CodeQueueNotFound); Conflict, naming who uses the
// queue; Unavailable.
func (r *Remover) RemoveQueue(ctx context.Context, database, queueName string) (store.Count, error) {
	if err := r.Node.Removable(ctx, database, queueName); err != nil {
		return store.Count{}, err
	}
	if err := r.unsubscribed(ctx, subscribe.Place{Database: database, Queue: queueName}); err != nil {
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
