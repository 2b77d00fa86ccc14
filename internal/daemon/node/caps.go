package node

import (
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/queue"
)

// bound sets the daily caps by the apps that use each database from now on. m is what a runs; nil is nothing any more.
func (n *Node) bound(a *App, m *app.Manifest) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.uses, a)
	if m != nil {
		n.uses[a] = m
	}
	dialects := map[string][]queue.Dialect{}
	for _, used := range n.uses {
		dialects[used.Database] = append(dialects[used.Database], used.Dialect)
	}
	for name, db := range n.databases.All() {
		db.SetDailyOperations(n.o.Caps.Daily(name, dialects[name]))
	}
}
