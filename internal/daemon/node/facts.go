package node

import (
	"maps"
	"slices"
	"strings"

	"github.com/runlot/runlot/internal/adapter/prometheus"
	"github.com/runlot/runlot/internal/core/app"
)

// Facts are what is known of the databases and of scheduled runs now. Nothing is asked of PostgreSQL.
func (n *Node) Facts() *prometheus.Facts {
	f := &prometheus.Facts{Runs: n.runs.Counts()}
	databases := slices.SortedFunc(maps.Values(n.databases.All()), func(a, b *database) int { return strings.Compare(a.name, b.name) })
	manifests := n.Manifests()
	for _, db := range databases {
		f.Databases = append(f.Databases, db.facts(app.DeadLetterQueues(manifests, db.name)))
		if pools := db.pools.Load(); pools != nil {
			for use, pool := range *pools {
				f.Pools = append(f.Pools, prometheus.PoolOf(db.name, use, pool))
			}
		}
	}
	for name, pool := range n.crons.Pools() {
		f.Pools = append(f.Pools, prometheus.PoolOf(name, "crons", pool))
	}
	return f
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
