package node

import (
	"context"
	"slices"

	"github.com/runlot/runlot/internal/adapter/workerd"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
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
	handled := slices.IndexFunc(m.Consumers, func(c queue.Consumer) bool { return !c.Pull })
	if handled < 0 || handlers.Has("queue") {
		return crons.CheckHandler(m, handlers, file)
	}
	way := "add `async queue(batch, env, ctx) { … }` to its default export"
	if handlers.ServiceWorker {
		way = "add `addEventListener(\"queue\", (event) => { … })`"
	}
	return fault.New(fault.Invalid, "queue_handler_missing", "%s consumes the queue %s, but %s has no queue handler",
		m.Name, m.Consumers[handled].Queue, m.Main).
		WithHint("%s, or remove the consumer from %s", way, file)
}

// Runtime starts processes, and probes.
func (n *Node) Runtime() *workerd.Runtime { return n.runtime }
