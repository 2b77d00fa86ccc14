package node

import (
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/runlot/runlot/internal/adapter/prometheus"
)

// Facts are what is known of the databases and of scheduled runs now. Nothing is asked of PostgreSQL.
func (n *Node) Facts() *prometheus.Facts {
	f := &prometheus.Facts{Runs: n.runs.Counts()}
	databases := slices.SortedFunc(maps.Values(n.databases.All()), func(a, b *database) int { return strings.Compare(a.name, b.name) })
	for _, db := range databases {
		f.Databases = append(f.Databases, db.facts(n.deadLetterQueues(db.name)))
		if pools := db.pools.Load(); pools != nil {
			for use, pool := range *pools {
				f.Pools = append(f.Pools, PoolFacts(db.name, use, pool))
			}
		}
	}
	for name, pool := range n.crons.Pools() {
		f.Pools = append(f.Pools, PoolFacts(name, "crons", pool))
	}
	return f
}

// PoolFacts are those of the connections to a database.
func PoolFacts(databaseName, use string, pool *pgxpool.Pool) prometheus.Pool {
	s := pool.Stat()
	return prometheus.Pool{
		Database: databaseName, Use: use, Busy: int64(s.AcquiredConns()), Idle: int64(s.IdleConns()), Limit: int64(s.MaxConns()),
		Waits: s.EmptyAcquireCount(), Waited: s.EmptyAcquireWaitTime(),
	}
}

// deadLetterQueues are those of a database by the queue that they belong to.
func (n *Node) deadLetterQueues(databaseName string) map[string]string {
	dead := map[string]string{}
	for _, m := range n.Manifests() {
		for i := range m.Consumers {
			if c := &m.Consumers[i]; m.Database == databaseName && c.DeadLetterQueue != "" {
				dead[c.Queue] = c.DeadLetterQueue
			}
		}
	}
	return dead
}

func (d *database) facts(deadLetterQueues map[string]string) prometheus.Database {
	f := prometheus.Database{
		Name: d.name, Queues: d.series.Watched(), DeadLetterQueues: deadLetterQueues, Sends: d.series.Sends.Read(), Settles: d.series.Settles.Read(),
	}
	d.mu.Lock()
	b := d.broker
	d.mu.Unlock()
	if b != nil && !ended(b) {
		f.Up = true
		days, limit := b.Days()
		f.Limit = limit
		if len(days) > 0 {
			f.Operations = days[0].Total()
		}
	}
	return f
}

// Facts are what is known of the app.
func (a *App) Facts() prometheus.App {
	_, active, _ := a.door.Activity()
	return prometheus.App{
		Name: a.Name(), Phase: string(a.State().Phase), Starts: a.starts.Load(), Crashes: a.crashes.Load(), Requests: a.door.Answers(), Active: active,
	}
}
