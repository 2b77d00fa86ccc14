package celld

import (
	"context"

	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/daemon/node"
	"github.com/runlot/runlot/internal/daemon/pulls"
	"github.com/runlot/runlot/internal/server/cloudflare/queues"
)

// databases implements queues.Queues over the databases of a node.
type databases struct {
	*node.Node

	pulls *pulls.Keeper
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
