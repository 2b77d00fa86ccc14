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

// Removable implements removals.Node.
func (n *Node) Removable(ctx context.Context, databaseName, queueName string) error {
	_, done, err := n.withdraw(ctx, databaseName, queueName)
	if err == nil {
		done()
	}
	return err
}

// RemoveQueue implements removals.Node.
func (n *Node) RemoveQueue(ctx context.Context, databaseName, queueName string) (store.Count, error) {
	b, done, err := n.withdraw(ctx, databaseName, queueName)
	if err != nil {
		return store.Count{}, err
	}
	defer done()
	db, _ := n.databases.Find(databaseName) // what was in use stays so
	return db.remove(ctx, b, queueName)
}

// withdraw takes a queue away from the apps, until done is called. Faults: NotFound (queue.CodeQueueNotFound); Conflict for a
// queue that somebody uses.
func (n *Node) withdraw(ctx context.Context, databaseName, queueName string) (b *broker.Broker, done func(), err error) {
	db, err := n.Database(ctx, databaseName)
	if err == nil {
		_, err = db.Broker.Settings(queueName)
	}
	if err == nil {
		err = n.r2.Unfed(ctx, databaseName, queueName)
	}
	if err == nil {
		done, err = n.claims.Remove(databaseName, queueName, n.Manifests)
	}
	return db.Broker, done, err
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
