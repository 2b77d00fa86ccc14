package daemon

import (
	"context"
	"os"

	"github.com/runlot/runlot/internal/adapter/esbuild"
	"github.com/runlot/runlot/internal/config"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
)

// Built is a project that is ready to be uploaded.
type Built struct {
	Manifest *app.Manifest
	// File is the configuration file, and Config its text.
	File     string
	Config   []byte
	Bundle   *app.Bundle
	Warnings []string
}

// Size is the number of bytes of the code.
func (b *Built) Size() int64 {
	var n int64
	for i := range b.Bundle.Modules {
		n += int64(len(b.Bundle.Modules[i].Body))
	}
	return n
}

// Build validates and bundles the first project of the options for production. Nothing of it runs.
func Build(ctx context.Context, o Options) (*Built, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	loaded, err := config.Load(o.Dirs[0], config.Choice{File: o.Config, Env: o.Env, NoSecrets: true})
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(loaded.File)
	if err != nil {
		return nil, fault.New(fault.Environment, config.CodeUnreadable, "%s cannot be read any more", loaded.File).WithCause(err)
	}
	b := &Built{Manifest: loaded.Manifest, File: loaded.File, Config: text}
	for i := range loaded.Warnings {
		b.Warnings = append(b.Warnings, loaded.Warnings[i].String())
	}
	b.Bundle, err = esbuild.Bundle(ctx, esbuild.Options{Dir: loaded.Dir(), Main: loaded.Manifest.Main, NodeEnv: o.nodeEnv(), Color: o.Colour})
	if err != nil {
		return nil, err
	}
	return b, nil
}
