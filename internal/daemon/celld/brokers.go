package celld

import (
	"context"

	"github.com/runlot/runlot/internal/daemon/node"
	"github.com/runlot/runlot/internal/engine/broker"
	"github.com/runlot/runlot/internal/server/cloudflare/queues"
)

// brokers implements queues.Queues over the databases of a node.
type brokers struct{ *node.Node }

var _ queues.Queues = brokers{}

// Broker implements queues.Queues.
func (b brokers) Broker(ctx context.Context, database string) (*broker.Broker, error) {
	db, err := b.Database(ctx, database)
	return db.Broker, err
}
