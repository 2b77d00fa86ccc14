package node

import (
	"context"

	"github.com/runlot/runlot/internal/adapter/workerd"
	"github.com/runlot/runlot/internal/adapter/workerd/objects"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/daemon/crons"
)

// Probe refuses code that cannot run what its manifest declares: it is loaded in a process that is thrown away. The
// configuration is in the file named.
func Probe(ctx context.Context, runtime *workerd.Runtime, m *app.Manifest, b *app.Bundle, file string) error {
	mapStack, err := StackMapper(b)
	if err != nil {
		return err
	}
	handlers, err := runtime.Probe(ctx, m, b, mapStack)
	if err != nil {
		return err
	}
	if err := objects.Check(m, handlers, file); err != nil {
		return err
	}
	if len(m.Consumers) == 0 || handlers.Has("queue") {
		return crons.CheckHandler(m, handlers, file)
	}
	way := "add `async queue(batch, env, ctx) { … }` to its default export"
	if handlers.ServiceWorker {
		way = "add `addEventListener(\"queue\", (event) => { … })`"
	}
	return fault.New(fault.Invalid, "queue_handler_missing", "%s consumes the queue %s, but %s has no queue handler",
		m.Name, m.Consumers[0].Queue, m.Main).
		WithHint("%s, or remove the consumer from %s", way, file)
}

// Runtime starts processes, and probes.
func (n *Node) Runtime() *workerd.Runtime { return n.runtime }
