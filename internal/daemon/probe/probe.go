// Package probe looks at the code of a version before anything runs it.
package probe

import (
	"context"
	"fmt"
	"slices"

	"github.com/runlot/runlot/internal/adapter/workerd"
	"github.com/runlot/runlot/internal/adapter/workerd/objects"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/core/sourcemap"
	"github.com/runlot/runlot/internal/daemon/crons"
)

// Check refuses code that cannot run what its manifest declares: it is loaded in a process that is thrown away. The
// configuration is in the file named.
func Check(ctx context.Context, runtime *workerd.Runtime, m *app.Manifest, b *app.Bundle, file string) error {
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

// StackMapper translates stacks of the bundle to the user's files; nil when the bundle has no source map.
func StackMapper(b *app.Bundle) (workerd.MapStack, error) {
	if b.SourceMap == nil {
		return nil, nil //nolint:nilnil // a bundle without a map is no error
	}
	sm, err := sourcemap.Parse(b.Modules[0].Name, b.SourceMap)
	if err != nil {
		return nil, fmt.Errorf("read the bundle's source map: %w", err)
	}
	return sm.Stack, nil
}
