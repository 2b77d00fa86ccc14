package daemon

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/runlot/runlot/internal/adapter/binaries"
	"github.com/runlot/runlot/internal/daemon/crons"
)

// countTime is how long the start waits for the messages to be counted, so that the first screen shows their number.
const countTime = 2 * time.Second

// summary describes what runs. A version that cannot be asked for is left out.
func (d *Daemon) summary(ctx context.Context, took time.Duration) *Summary {
	s := &Summary{State: d.o.State, Took: took, Postgres: d.node.PostgresVersions()}
	if version, err := binaries.WorkerdVersion(ctx, d.workerd); err == nil {
		s.Workerd = version
	}
	queues := map[string]*QueueSummary{}
	find := func(database, name string) *QueueSummary {
		key := database + "/" + name
		if queues[key] == nil {
			queues[key] = &QueueSummary{Database: database, Name: name}
		}
		return queues[key]
	}
	for _, p := range d.projects {
		m := p.live.manifest
		s.Apps = append(s.Apps, AppSummary{Name: m.Name, Dir: p.dir, File: p.live.file, Version: p.live.id, URL: p.url(), Crons: crons.Upcoming(m, time.Now())})
		a := &s.Apps[len(s.Apps)-1]
		for _, store := range m.Stores() {
			a.Stores = append(a.Stores, fmt.Sprintf("%s env.%s → %s", store.Kind, store.Binding, store.Name))
		}
		for i := range m.Producers {
			q := find(m.Database, m.Producers[i].Queue)
			q.Producers = append(q.Producers, m.Name+": env."+m.Producers[i].Binding)
		}
		for i := range m.Consumers {
			c := &m.Consumers[i]
			q := find(m.Database, c.Queue)
			q.App, q.Consumer = m.Name, c
			if c.DeadLetterQueue != "" {
				dead := find(m.Database, c.DeadLetterQueue)
				dead.DeadLettersOf = append(dead.DeadLettersOf, c.Queue)
			}
		}
	}
	countCtx, cancel := context.WithTimeout(ctx, countTime)
	defer cancel()
	for _, q := range queues {
		q.Waiting = d.node.Waiting(countCtx, q.Database, q.Name)
		s.Queues = append(s.Queues, *q)
	}
	slices.SortFunc(s.Queues, func(a, b QueueSummary) int {
		return cmp.Or(cmp.Compare(a.Database, b.Database), cmp.Compare(a.Name, b.Name))
	})
	return s
}
