// Package outsiders sends messages that are no app's: events of R2 buckets, and of event subscriptions.
package outsiders

import (
	"context"
	"slices"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/server/api/reach"
)

// Node is what has the queues.
type Node interface {
	Databases() []string
	// Known reports whether a database is there, so that Open would not make it.
	Known(database string) bool
	Open(ctx context.Context, database string) error
	Database(ctx context.Context, database string) (reach.Database, error)
}

// Send sends messages within queue.SendTimeout, and returns when they are stored. A database that is there and that no app uses
// is opened for it; none is made. Faults: NotFound (queue.CodeQueueNotFound), Unavailable, and those of a send.
func Send(ctx context.Context, n Node, database, queueName string, drafts []queue.Draft) error {
	ctx, cancel := context.WithTimeout(ctx, queue.SendTimeout)
	defer cancel()
	if !slices.Contains(n.Databases(), database) && n.Known(database) {
		if err := n.Open(ctx, database); err != nil {
			return err
		}
	}
	db, err := n.Database(ctx, database)
	if err != nil {
		return err
	}
	_, err = db.Broker.Send(ctx, queueName, drafts)
	return err
}
