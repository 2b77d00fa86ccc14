package node

import (
	"path/filepath"

	"github.com/runlot/runlot/internal/adapter/workerd/objects"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/daemon/state"
)

// objects is the folder of what an app's Durable Objects store; "" for an app that has none.
func (n *Node) objects(m *app.Manifest) string {
	if !m.Stored() {
		return ""
	}
	return filepath.Join(n.o.State, state.Objects, m.Name)
}

// deleteObjects deletes what classes have stored that the migrations of a live version delete. Its process does not know
// them.
func (a *App) deleteObjects(m *app.Manifest) {
	if m.DurableObjects == nil || len(m.DurableObjects.Deleted) == 0 {
		return
	}
	if err := objects.Remove(a.n.objects(m), m.Name, m.DurableObjects.Deleted); err != nil {
		a.log.Error("Durable Objects of a deleted class are left", "error", fault.Detail(err))
	}
}
