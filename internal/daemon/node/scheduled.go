package node

import (
	"context"
	"time"

	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/engine/schedule"
	"github.com/runlot/runlot/internal/server/api/crons"
)

// Crons implements crons.Instance.
func (n *Node) Crons(ctx context.Context, appName string) ([]crons.Cron, error) {
	_, m, err := n.running(appName)
	if err != nil {
		return nil, err
	}
	return n.crons.Crons(ctx, m)
}

var _ crons.Instance = (*Node)(nil)

// Runs implements crons.Instance.
func (n *Node) Runs(ctx context.Context, f *schedule.Filter, limit int) ([]schedule.Kept, error) {
	_, m, err := n.running(f.App)
	if err != nil {
		return nil, err
	}
	return n.crons.Runs(ctx, m, f, limit)
}

// Fire implements crons.Instance.
func (n *Node) Fire(ctx context.Context, appName, cron string, at time.Time) (*schedule.Record, error) {
	a, _, err := n.running(appName)
	if err != nil {
		return nil, err
	}
	return a.runs.FireNow(ctx, cron, at)
}

// running finds an app that runs here, parked or not, and what it runs. Fault: NotFound (crons.CodeNotRunning).
func (n *Node) running(appName string) (*App, *app.Manifest, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for a, m := range n.uses {
		if m.Name == appName {
			return a, m, nil
		}
	}
	return nil, nil, fault.New(fault.NotFound, crons.CodeNotRunning, "no app %q runs here", appName).
		WithHint("`runlot ps` lists the apps; one that was uploaded runs when a version is deployed")
}
