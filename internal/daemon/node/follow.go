package node

import (
	"context"

	"github.com/runlot/runlot/internal/adapter/workerd"
	"github.com/runlot/runlot/internal/engine/tail"
)

// launch starts a process that tells those who follow its app of its invocations.
func (n *Node) launch(ctx context.Context, spec *workerd.Spec) (*workerd.Process, error) {
	if n.o.Tails == nil {
		return n.runtime.Start(ctx, *spec)
	}
	app, version := spec.App, spec.Version
	spec.Invoked = func(i *tail.Invocation) {
		i.App, i.Version = app, version
		n.o.Tails.Publish(i)
	}
	p, err := n.runtime.Start(ctx, *spec)
	if err == nil {
		n.o.Tails.Started(ctx, app, p)
	}
	return p, err
}
