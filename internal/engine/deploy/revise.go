package deploy

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
)

// Revision changes what the live version of an app declares.
type Revision struct {
	App     string
	Author  string
	Message string
	// Change is called with a copy of the live version's manifest.
	Change func(m *app.Manifest) error
}

// Revise deploys the code of the live version with another manifest, as a version of its own: a rollback brings back what
// was declared before. While the live version is open, what its author changes belongs to it, and amends it instead: one
// deployment whose client uploads the code first and declares the rest by calls of its own is one version. A change that
// changes nothing deploys nothing. Fault: NotFound (CodeAppUnknown) for an app without a live version, and those of Add and
// Deploy.
func (e *Engine) Revise(ctx context.Context, r *Revision) error {
	done, err := e.turn(ctx, r.App)
	if err != nil {
		return err
	}
	defer done()
	live, err := e.live(ctx, r.App)
	if err != nil {
		return err
	}
	if live == nil {
		return fault.New(fault.NotFound, CodeAppUnknown, "there is no script %s that is deployed", r.App).WithHint("deploy it first")
	}
	m, err := clone(live.Manifest)
	if err != nil {
		return err
	}
	if err := r.Change(m); err != nil {
		return err
	}
	if m.Digest() == live.Manifest.Digest() {
		return nil
	}
	if live.Author == r.Author && time.Now().Before(live.OpenUntil) {
		return e.amend(ctx, live, m, r)
	}
	uploaded, err := e.Add(ctx, &Upload{Manifest: m, Bundle: live.Bundle, ConfigFile: live.ConfigFile, Author: r.Author, Message: r.Message})
	if err != nil {
		return err
	}
	_, err = e.deploy(ctx, &Request{App: r.App, Version: uploaded.Version.ID, Author: r.Author, Message: r.Message})
	return err
}

// amend gives the live version another manifest, and runs it with that.
func (e *Engine) amend(ctx context.Context, live *Version, m *app.Manifest, r *Revision) error {
	v := *live
	v.Manifest, v.Digest = m, digest(m, live.Bundle)
	if _, err := e.o.Runner.Check(ctx, &v); err != nil {
		return err
	}
	committed := false
	err := e.o.Runner.Switch(ctx, e.runnable(&v), func(ctx context.Context) error {
		err := e.o.Store.AmendVersion(ctx, &v, live.Digest)
		committed = err == nil
		return err
	})
	if err != nil && !committed {
		return err
	}
	if err != nil {
		e.o.Log.Warn("an amended version does not run yet", "app", r.App, "version", v.ID, "error", fault.Detail(err))
	}
	e.note(ctx, EventAmended, r.App, r.Author, about(&v, "message", r.Message))
	return nil
}

// clone copies a manifest, so that what runs does not change.
func clone(m *app.Manifest) (*app.Manifest, error) {
	text, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("copy a manifest: %w", err)
	}
	var c app.Manifest
	if err := json.Unmarshal(text, &c); err != nil {
		return nil, fmt.Errorf("copy a manifest: %w", err)
	}
	return &c, nil
}
