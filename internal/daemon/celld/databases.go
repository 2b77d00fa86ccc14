package celld

import (
	"context"

	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/daemon/node"
	"github.com/runlot/runlot/internal/daemon/pulls"
	"github.com/runlot/runlot/internal/daemon/removals"
	"github.com/runlot/runlot/internal/engine/broker/store"
	"github.com/runlot/runlot/internal/server/cloudflare/queues"
)

// databases implements queues.Queues over the databases of a node.
type databases struct {
	*node.Node

	pulls    *pulls.Keeper
	removals *removals.Remover
}

var _ queues.Queues = databases{}

// Database implements queues.Queues.
func (d databases) Database(ctx context.Context, name string) (queues.Database, error) {
	if name == app.DefaultDatabase {
		// Cloudflare's tools make queues that no app names yet.
		if err := d.Open(ctx, name); err != nil {
			return queues.Database{}, err
		}
	}
	db, err := d.Node.Database(ctx, name)
	if err != nil {
		return queues.Database{}, err
	}
	return queues.Database{Broker: db.Broker, Puller: d.pulls.Engine(ctx, db.Broker)}, nil
}

// RemoveQueue implements queues.Queues.
func (d databases) RemoveQueue(ctx context.Context, database, queueName string) (store.Count, error) {
	return d.removals.RemoveQueue(ctx, database, queueName)
}
