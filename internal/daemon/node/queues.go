package node

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker"
	"github.com/runlot/runlot/internal/engine/ledger"
)

// Databases are the names of the databases that are in use, in order.
func (n *Node) Databases() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Sorted(maps.Keys(n.databases))
}

// Queues are the queues of a database and the records of their batches. The broker is the one that serves now: after a
// loss of the database it ends, and the next call returns its successor. Faults: NotFound (queue.CodeQueueNotFound) for a
// database that no app uses; Unavailable while it does not answer.
func (n *Node) Queues(ctx context.Context, databaseName string) (*broker.Broker, *ledger.Ledger, error) {
	n.mu.Lock()
	db := n.databases[databaseName]
	n.mu.Unlock()
	if db == nil {
		return nil, nil, fault.New(fault.NotFound, queue.CodeQueueNotFound, "no app uses a database %q", databaseName).
			WithHint("a database is there from the first deployment that names it")
	}
	ctx, cancel := context.WithTimeout(ctx, queue.SendTimeout)
	defer cancel()
	b, err := db.live(ctx)
	if err != nil {
		return nil, nil, err
	}
	return b, db.records, nil
}

// Manifests are those of the versions that run, by name of the app.
func (n *Node) Manifests() []*app.Manifest {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.SortedFunc(maps.Values(n.uses), func(x, y *app.Manifest) int { return strings.Compare(x.Name, y.Name) })
}
