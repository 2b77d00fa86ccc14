package deploy

import (
	"context"
	"encoding/json"
	"fmt"

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
// was declared before. A change that changes nothing deploys nothing. Fault: NotFound (CodeAppUnknown) for an app without a
// live version, and those of Add and Deploy.
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
	uploaded, err := e.Add(ctx, &Upload{Manifest: m, Bundle: live.Bundle, ConfigFile: live.ConfigFile, Author: r.Author, Message: r.Message})
	if err != nil {
		return err
	}
	_, err = e.deploy(ctx, &Request{App: r.App, Version: uploaded.Version.ID, Author: r.Author, Message: r.Message})
	return err
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
