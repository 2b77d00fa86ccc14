// Package esbuild builds a Workers project into the modules that workerd loads: one main module with everything that is
// JavaScript, TypeScript or JSON in it, and beside it the files that are imported as they are.
package esbuild

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evanw/esbuild/pkg/api"

	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

// Codes of the faults of Bundle.
const (
	// CodeMainMissing: the configuration names no entry module, or one that is not there.
	CodeMainMissing = "main_missing"
	// CodeBuildFailed: the project's code has errors.
	CodeBuildFailed = "build_failed"
	// CodeBundleSize: the bundle is larger than queue.MaxBundle.
	CodeBundleSize = "bundle_too_large"
)

// MainModule is the name of a bundle's main module.
const MainModule = "main.mjs"

// Options says what to build and how.
type Options struct {
	// Dir is the project folder: sources in the source map and places in messages are relative to it.
	Dir string
	// Main is the entry module, as a slash-separated path relative to Dir.
	Main string
	// Minify makes the bundle smaller; names of functions and classes are kept.
	Minify bool
	// NodeEnv is what process.env.NODE_ENV is replaced by; "" is "production".
	NodeEnv string
	// Color asks for error messages with ANSI colours.
	Color bool
}

// Bundle builds the project. When the code has errors, the fault is of kind Invalid and code CodeBuildFailed, its message
// shows each error with its file:line:column and the code around it. With every fault comes a bundle that holds nothing
// but Inputs, the files read so far and their folders, so that a watcher sees the mistake mended. When ctx ends first,
// Bundle returns its error and no bundle.
func Bundle(ctx context.Context, options Options) (*app.Bundle, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(options.Dir)
	if err != nil {
		return nil, fmt.Errorf("find the project folder: %w", err)
	}
	// esbuild names files by their real paths; only below the folder's own real path are they relative to it.
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, fmt.Errorf("find the project folder: %w", err)
	}
	if err := checkMain(dir, options.Main); err != nil {
		main := filepath.Join(dir, filepath.FromSlash(options.Main))
		return &app.Bundle{Inputs: []string{dir, filepath.Dir(main), main}}, err
	}
	options.Dir = dir
	b, err := build(ctx, options, false)
	if err != nil || !b.ServiceWorker {
		return b, err
	}
	return build(ctx, options, true)
}

// checkMain makes sure that the entry module is a file.
func checkMain(dir, main string) error {
	if main == "" {
		return fault.New(fault.Invalid, CodeMainMissing, "the configuration names no entry module").
			WithHint(`set "main", for example to %q`, guessMain(dir, "src/index.ts"))
	}
	info, err := os.Stat(filepath.Join(dir, filepath.FromSlash(main)))
	switch {
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return fault.New(fault.Invalid, CodeMainMissing, "the entry module %q (\"main\" in the configuration) cannot be read", main).WithCause(err)
	case err != nil:
		f := fault.New(fault.Invalid, CodeMainMissing, "the entry module %q (\"main\" in the configuration) does not exist in %s", main, dir)
		if guess := guessMain(dir, ""); guess != "" {
			return f.WithHint("did you mean %q?", guess)
		}
		return f.WithHint(`create it, or set "main" to the file that exports the handlers`)
	case !info.Mode().IsRegular():
		return fault.New(fault.Invalid, CodeMainMissing, "the entry module %q (\"main\" in the configuration) is not a file", main).
			WithHint(`set "main" to the file that exports the handlers`)
	}
	return nil
}

// guessMain returns the first of the usual entry modules that exists.
func guessMain(dir, otherwise string) string {
	for _, folder := range []string{"src", "."} {
		for _, base := range []string{"index", "main", "worker"} {
			for _, ext := range []string{".ts", ".js", ".mjs", ".tsx", ".jsx"} {
				path := filepath.Join(folder, base+ext)
				if info, err := os.Stat(filepath.Join(dir, path)); err == nil && info.Mode().IsRegular() {
					return filepath.ToSlash(path)
				}
			}
		}
	}
	return otherwise
}

// build runs esbuild once: as an ES module, or as a classic script for service-worker syntax.
func build(ctx context.Context, options Options, script bool) (*app.Bundle, error) {
	c := &collector{ctx: ctx, script: script, modules: map[string]app.Module{}, inputs: map[string]bool{}}
	result, err := run(ctx, buildOptions(options, c))
	if err != nil {
		return nil, err
	}
	if len(result.Errors) > 0 {
		return &app.Bundle{Inputs: c.watchAfterFailure(options.Dir)},
			fault.New(fault.Invalid, CodeBuildFailed, "%s", renderErrors(result.Errors, options.Color))
	}
	b := &app.Bundle{Inputs: c.watch(options.Dir), Warnings: renderWarnings(result.Warnings, options.Color)}
	b.Modules = append(b.Modules, app.Module{Name: MainModule, Kind: app.ESModule})
	for i := range result.OutputFiles {
		if file := &result.OutputFiles[i]; strings.HasSuffix(file.Path, ".map") {
			b.SourceMap = file.Contents
		} else {
			b.Modules[0].Body = file.Contents
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.modules)) {
		b.Modules = append(b.Modules, c.modules[name])
	}
	if b.ServiceWorker, err = isServiceWorker(result.Metafile, b.Modules[0].Body, script); err != nil {
		return nil, err
	}
	if err := checkSize(b); err != nil {
		return &app.Bundle{Inputs: c.watchAfterFailure(options.Dir)}, err
	}
	return b, nil
}

// run builds, and gives up when ctx ends.
func run(ctx context.Context, options api.BuildOptions) (api.BuildResult, error) {
	b, failed := api.Context(options)
	if failed != nil {
		return api.BuildResult{}, fmt.Errorf("esbuild refuses its options: %w", failed)
	}
	defer b.Dispose()
	cancelled := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(cancelled)
		b.Cancel()
	})
	result := b.Rebuild()
	if !stop() {
		<-cancelled
		return api.BuildResult{}, ctx.Err()
	}
	return result, nil
}

func buildOptions(options Options, c *collector) api.BuildOptions {
	env := options.NodeEnv
	if env == "" {
		env = "production"
	}
	quoted, err := json.Marshal(env)
	if err != nil {
		panic("esbuild: a string always marshals: " + err.Error())
	}
	o := api.BuildOptions{
		AbsWorkingDir:     options.Dir,
		EntryPoints:       []string{"./" + strings.TrimPrefix(options.Main, "./")},
		Outfile:           filepath.Join(options.Dir, MainModule),
		AllowOverwrite:    true, // nothing is written, but a project may have a file of that name
		Bundle:            true,
		Metafile:          true,
		LogLevel:          api.LogLevelSilent,
		Format:            api.FormatESModule,
		Platform:          api.PlatformBrowser,
		Target:            api.ESNext,
		Supported:         map[string]bool{"decorators": false},          // V8 does not have them yet
		Loader:            map[string]api.Loader{".css": api.LoaderNone}, // it would become a second output
		Conditions:        []string{"workerd", "worker", "browser"},
		Charset:           api.CharsetUTF8,
		Sourcemap:         api.SourceMapExternal,
		SourcesContent:    api.SourcesContentInclude,
		Define:            map[string]string{"process.env.NODE_ENV": string(quoted)},
		MinifyWhitespace:  options.Minify,
		MinifyIdentifiers: options.Minify,
		MinifySyntax:      options.Minify,
		KeepNames:         options.Minify,
		Plugins:           []api.Plugin{{Name: "runlot", Setup: c.setup}},
	}
	if c.script {
		o.Format = api.FormatIIFE
	}
	return o
}

// isServiceWorker reports whether the entry module exports nothing and listens instead. The script of the second build
// has no exports to look at: the first one has decided.
func isServiceWorker(metafile string, body []byte, script bool) (bool, error) {
	if script {
		return true, nil
	}
	var meta struct {
		Outputs map[string]struct {
			EntryPoint string   `json:"entryPoint"`
			Exports    []string `json:"exports"`
		} `json:"outputs"`
	}
	if err := json.Unmarshal([]byte(metafile), &meta); err != nil {
		return false, fmt.Errorf("read esbuild's metafile: %w", err)
	}
	for _, output := range meta.Outputs {
		if output.EntryPoint != "" {
			return len(output.Exports) == 0 && strings.Contains(string(body), "addEventListener"), nil
		}
	}
	return false, errors.New("esbuild's metafile has no entry point")
}

// checkSize holds the modules to MaxBundle. A source map that is larger is left out: the code runs without it.
func checkSize(b *app.Bundle) error {
	total, largest := 0, b.Modules[0]
	for _, m := range b.Modules {
		total += len(m.Body)
		if len(m.Body) > len(largest.Body) {
			largest = m
		}
	}
	if total > queue.MaxBundle {
		return fault.New(fault.Limit, CodeBundleSize, "the bundle has %d bytes; the limit is %d", total, queue.MaxBundle).
			WithHint("its largest module is %s with %d bytes", largest.Name, len(largest.Body))
	}
	if len(b.SourceMap) > queue.MaxBundle {
		b.SourceMap = nil
		b.Warnings = append(b.Warnings, "warning: the source map is too large to be kept: stack traces show places in the bundle")
	}
	return nil
}
