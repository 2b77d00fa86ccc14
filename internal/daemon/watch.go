package daemon

import (
	"context"
	"slices"
	"time"

	"github.com/runlot/runlot/internal/adapter/watch"
	"github.com/runlot/runlot/internal/daemon/node"
)

// watch rebuilds an app whenever one of its files changes, until ctx ends. It is the only goroutine that reloads.
func (d *Daemon) watch(ctx context.Context) error {
	watcher, err := watch.New(d.o.Log)
	if err != nil {
		return err
	}
	defer watcher.Stop()
	began := d.began
	for {
		var all []string
		for _, p := range d.projects {
			all = append(all, p.files...)
		}
		if err := watcher.Set(all, began); err != nil {
			d.o.Observer.Notice(err.Error())
		}
		select {
		case <-ctx.Done():
			return nil
		case changed := <-watcher.Changes():
			began = time.Now()
			for _, p := range d.projects {
				if slices.ContainsFunc(changed, func(file string) bool { return slices.Contains(p.files, file) }) {
					p.reload(ctx, d.node)
				}
			}
		}
	}
}

// reload builds the app anew and makes it live. On failure the version before goes on, and the next change tries again.
func (p *project) reload(ctx context.Context, n *node.Node) {
	before := p.live
	b, files, err := p.load(ctx)
	p.files = files
	if err == nil {
		err = p.deploy(ctx, n, b)
	}
	switch {
	case err == nil && p.broken && p.live == before:
		p.o.Observer.Notice(p.name() + " is again what runs: version " + b.id)
	case err != nil && ctx.Err() == nil:
		p.o.Observer.Failed(p.name(), err)
	}
	p.broken = err != nil
}
