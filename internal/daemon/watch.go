package daemon

import (
	"context"
	"errors"
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
		for _, h := range d.hosts {
			all = append(all, h.files...)
		}
		if err := watcher.Set(all, began); err != nil {
			d.o.Observer.Notice(err.Error())
		}
		select {
		case <-ctx.Done():
			return nil
		case changed := <-watcher.Changes():
			began = time.Now()
			for _, h := range d.hosts {
				if slices.ContainsFunc(changed, func(file string) bool { return slices.Contains(h.files, file) }) {
					h.reload(ctx)
				}
			}
			d.retryRefused(ctx)
		}
	}
}

// retryRefused reloads what was refused a queue that is free now, and what waits for a queue that this frees.
func (d *Daemon) retryRefused(ctx context.Context) {
	waits := func(h *host) bool { return h.refused != nil && d.free(h, h.refused) }
	for i := slices.IndexFunc(d.hosts, waits); i >= 0; i = slices.IndexFunc(d.hosts, waits) {
		d.hosts[i].reload(ctx)
	}
}

// reload builds the app anew and makes it live. On failure the version before goes on, and the next change tries again.
func (h *host) reload(ctx context.Context) {
	before := h.live
	h.refused = nil
	v, files, err := h.load(ctx)
	h.files = files
	if err == nil {
		err = h.deploy(ctx, v)
	}
	if f, ok := errors.AsType[*fault.Error](err); ok && f.Code == consumerExists {
		h.refused = v.manifest
	}
	switch {
	case err == nil && h.broken && h.live == before:
		h.d.o.Observer.Notice(h.name() + " is again what runs: version " + v.id)
	case err != nil && ctx.Err() == nil:
		h.d.o.Observer.Failed(h.name(), err)
	}
	h.broken = err != nil
}
