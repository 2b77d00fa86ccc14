package daemon

import (
	"context"
	"slices"
	"time"

	"github.com/runlot/runlot/internal/adapter/watch"
	"github.com/runlot/runlot/internal/core/fault"
)

// watch rebuilds an app whenever one of its files changes, and one that was refused a queue when its consumer lets go,
// until ctx ends. It is the only goroutine that reloads.
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
					d.reload(ctx, p)
				}
			}
			d.retryRefused(ctx)
		}
	}
}

// retryRefused reloads what was refused a queue that is free now, and what waits for a queue that this frees.
func (d *Daemon) retryRefused(ctx context.Context) {
	waits := func(p *project) bool { return p.refused != nil && d.node.Claimable(p.refused) == nil }
	for i := slices.IndexFunc(d.projects, waits); i >= 0; i = slices.IndexFunc(d.projects, waits) {
		d.reload(ctx, d.projects[i])
	}
}

// named refuses a build that has the name of another app, by which apps are known.
func (d *Daemon) named(p *project, b *build) error {
	for _, other := range d.projects {
		if other != p && other.live != nil && other.live.manifest.Name == b.manifest.Name {
			return fault.New(fault.Conflict, "app_twice", "the projects in %s and %s are both named %s", other.dir, p.dir, b.manifest.Name).
				WithHint("an app is known by its name: change one of them")
		}
	}
	return nil
}

// reload builds the app anew and makes it live. On failure the version before goes on, and the next change tries again.
func (d *Daemon) reload(ctx context.Context, p *project) {
	before := p.live
	p.refused = nil
	b, files, err := p.load(ctx)
	p.files = files
	if err == nil {
		err = d.named(p, b)
	}
	if err == nil {
		if err = p.deploy(ctx, d.node, b); err != nil && d.node.Claimable(b.manifest) != nil {
			p.refused = b.manifest
		}
	}
	switch {
	case err == nil && p.broken && p.live == before:
		p.o.Observer.Notice(p.name() + " is again what runs: version " + b.id)
	case err != nil && ctx.Err() == nil:
		p.o.Observer.Failed(p.name(), err)
	}
	p.broken = err != nil
}
