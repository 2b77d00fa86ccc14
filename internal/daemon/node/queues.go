package node

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/store"
	"github.com/runlot/runlot/internal/engine/series"
	"github.com/runlot/runlot/internal/server/api/reach"
)

// Databases implements reach.Queues.
func (n *Node) Databases() []string {
	return slices.Sorted(maps.Keys(n.databases.All()))
}

var _ reach.Queues = (*Node)(nil)

// Database implements reach.Queues. The broker is the one that serves now: after a loss of the database it ends, and the
// next call returns its successor.
func (n *Node) Database(ctx context.Context, databaseName string) (reach.Database, error) {
	db, ok := n.databases.Find(databaseName)
	if !ok {
		return reach.Database{}, fault.New(fault.NotFound, queue.CodeQueueNotFound, "no app uses a database %q", databaseName).
			WithHint("a database is there from the first deployment that names it")
	}
	ctx, cancel := context.WithTimeout(ctx, queue.SendTimeout)
	defer cancel()
	b, err := db.live(ctx)
	if err != nil {
		return reach.Database{}, err
	}
	return reach.Database{Broker: b, Records: db.records}, nil
}

// Known implements outsiders.Node.
func (n *Node) Known(name string) bool { return n.o.Store != nil || n.servers.Known(name) }

// Withdraw implements removals.Node.
func (n *Node) Withdraw(ctx context.Context, databaseName, queueName string) (done func(), err error) {
	if err := n.r2.Unfed(ctx, databaseName, queueName); err != nil {
		return nil, err
	}
	return n.claims.Remove(databaseName, queueName, n.Manifests)
}

// RemoveQueue implements removals.Node.
func (n *Node) RemoveQueue(ctx context.Context, databaseName, queueName string) (store.Count, error) {
	db, ok := n.databases.Find(databaseName)
	if !ok {
		return store.Count{}, fault.New(fault.NotFound, queue.CodeQueueNotFound, "no app uses a database %q", databaseName)
	}
	return db.remove(ctx, queueName)
}

// DatabaseURL is how a database is reached, made if it is new.
func (n *Node) DatabaseURL(ctx context.Context, databaseName string) (string, error) {
	a, err := n.servers.Open(ctx, databaseName)
	return a.URL, err
}

// Series implements reach.Queues.
func (n *Node) Series(databaseName string) *series.Recorder {
	if db, ok := n.databases.Find(databaseName); ok {
		return db.series
	}
	return nil
}

// Open makes sure that a database is in use that no app names.
func (n *Node) Open(ctx context.Context, databaseName string) error {
	_, err := n.databaseOf(ctx, &app.Manifest{Database: databaseName, Dialect: queue.Wrangler})
	return err
}

// Manifests implements reach.Queues.
func (n *Node) Manifests() []*app.Manifest {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.SortedFunc(maps.Values(n.uses), func(x, y *app.Manifest) int { return strings.Compare(x.Name, y.Name) })
}
