package esbuild

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/evanw/esbuild/pkg/api"

	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/queue"
)

// requireNamespace holds the small modules that stand for what CommonJS code gets from require("node:…").
const requireNamespace = "runlot-require"

// builtins are the modules of Node.js that are imported without "node:" by code from before that prefix.
var builtins = func() map[string]bool {
	names := map[string]bool{}
	for name := range strings.FieldsSeq(`assert assert/strict async_hooks buffer child_process cluster console constants crypto
		dgram diagnostics_channel dns dns/promises domain events fs fs/promises http http2 https inspector inspector/promises
		module net os path path/posix path/win32 perf_hooks process punycode querystring readline readline/promises repl
		stream stream/consumers stream/promises stream/web string_decoder sys timers timers/promises tls trace_events tty url
		util util/types v8 vm wasi worker_threads zlib`) {
		names[name] = true
	}
	return names
}()

// kinds are the files that stay modules of their own, by extension.
var kinds = map[string]app.ModuleKind{
	".wasm": app.Wasm, ".txt": app.Text, ".html": app.Text, ".sql": app.Text, ".bin": app.Data,
}

// collector is the esbuild plugin of one build: it decides what is left out of the main module and remembers what went
// in. esbuild calls it from several goroutines.
type collector struct {
	// ctx is the build's; esbuild's callbacks have none of their own.
	ctx    context.Context //nolint:containedctx // lives exactly as long as the one build
	script bool

	mu      sync.Mutex
	size    int
	modules map[string]app.Module
	inputs  map[string]bool
}

func (c *collector) setup(build api.PluginBuild) {
	build.OnResolve(api.OnResolveOptions{Filter: `^(node|cloudflare|workerd):`}, func(args api.OnResolveArgs) (api.OnResolveResult, error) {
		return c.external(args, args.Path)
	})
	build.OnResolve(api.OnResolveOptions{Filter: `^[a-z][a-z0-9_/]*$`}, func(args api.OnResolveArgs) (api.OnResolveResult, error) {
		if !builtins[args.Path] || args.Kind == api.ResolveEntryPoint {
			return api.OnResolveResult{}, nil
		}
		return c.external(args, "node:"+args.Path)
	})
	build.OnResolve(api.OnResolveOptions{Filter: `\.(wasm|wasm\?module|txt|html|sql|bin)$`}, func(args api.OnResolveArgs) (api.OnResolveResult, error) {
		return c.asset(build, args)
	})
	build.OnLoad(api.OnLoadOptions{Filter: `.*`, Namespace: requireNamespace}, loadRequired)
	build.OnLoad(api.OnLoadOptions{Filter: `.*`, Namespace: "file"}, c.load)
}

// external leaves a module of the runtime alone. A require call cannot reach one from an ES module: it gets a small
// module that imports it and passes on what require would give.
func (c *collector) external(args api.OnResolveArgs, path string) (api.OnResolveResult, error) {
	switch {
	case c.script:
		return refuse("%q cannot be imported by service-worker code: export the handlers instead of calling addEventListener", args.Path), nil
	case args.Kind == api.ResolveJSRequireCall:
		return api.OnResolveResult{Path: path, Namespace: requireNamespace}, nil
	default:
		return api.OnResolveResult{Path: path, External: true}, nil
	}
}

func loadRequired(args api.OnLoadArgs) (api.OnLoadResult, error) {
	code := fmt.Sprintf("import value from %q;\nmodule.exports = value;\n", args.Path)
	if !strings.HasPrefix(args.Path, "node:") { // only Node.js's modules are sure to have a default export
		code = fmt.Sprintf("import * as value from %q;\nmodule.exports = value;\n", args.Path)
	}
	return api.OnLoadResult{Contents: &code, Loader: api.LoaderJS}, nil
}

// load notes a file that goes into the bundle and leaves reading it to esbuild, which would wait for ever for the writer
// of a named pipe.
func (c *collector) load(args api.OnLoadArgs) (api.OnLoadResult, error) {
	c.note(args.Path)
	if notFile(args.Path) {
		return api.OnLoadResult{Errors: []api.Message{{Text: filepath.Base(args.Path) + " is not a file"}}}, nil
	}
	return api.OnLoadResult{}, c.ctx.Err()
}

// notFile reports what is there and is no file.
func notFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.Mode().IsRegular()
}

func (c *collector) note(path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inputs[path] = true
}

// asset turns an import of a file that is not code into an import of a module of its own, whose name says what is in
// it. The mark in PluginData keeps the inner resolution from coming here again.
func (c *collector) asset(build api.PluginBuild, args api.OnResolveArgs) (api.OnResolveResult, error) {
	type inner struct{}
	if _, again := args.PluginData.(inner); again || args.Kind == api.ResolveEntryPoint {
		return api.OnResolveResult{}, nil
	}
	found := build.Resolve(strings.TrimSuffix(args.Path, "?module"), api.ResolveOptions{
		Importer: args.Importer, Namespace: args.Namespace, ResolveDir: args.ResolveDir, Kind: args.Kind, PluginData: inner{},
	})
	if len(found.Errors) > 0 || found.External || found.Namespace != "file" {
		return api.OnResolveResult{}, nil // esbuild says it better, with the place
	}
	kind, ok := kinds[filepath.Ext(found.Path)]
	if !ok {
		return api.OnResolveResult{}, nil
	}
	c.note(found.Path)
	if c.script {
		return refuse("%q cannot be imported by service-worker code: export the handlers instead of calling addEventListener", args.Path), nil
	}
	if args.Kind == api.ResolveJSRequireCall {
		return refuse("%q cannot be loaded by require: write an import", args.Path), nil
	}
	body, err := c.read(found.Path)
	if err != nil {
		return refuse("%q: %s", args.Path, err), nil
	}
	sum := sha256.Sum256(body)
	name := hex.EncodeToString(sum[:8]) + "-" + unusual.ReplaceAllString(filepath.Base(found.Path), "_")
	c.mu.Lock()
	defer c.mu.Unlock()
	c.modules[name] = app.Module{Name: name, Kind: kind, Body: body}
	return api.OnResolveResult{Path: "./" + name, External: true}, nil
}

// unusual are the characters of a file name that a module name goes without.
var unusual = regexp.MustCompile(`[^A-Za-z0-9._-]`)

// read reads a file while all files of the bundle together stay within MaxBundle.
func (c *collector) read(path string) ([]byte, error) {
	if notFile(path) {
		return nil, errors.New("it is not a file")
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	body, err := io.ReadAll(io.LimitReader(file, queue.MaxBundle+1))
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.size += len(body); c.size > queue.MaxBundle {
		return nil, fmt.Errorf("with this file the bundle has more than %d bytes", queue.MaxBundle)
	}
	return body, nil
}

func refuse(format string, args ...any) api.OnResolveResult {
	return api.OnResolveResult{Errors: []api.Message{{Text: fmt.Sprintf(format, args...)}}}
}

// watch returns the files that the bundle was made of, without installed packages, and those that steer the build.
func (c *collector) watch(dir string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	set := map[string]bool{filepath.Join(dir, "package.json"): true, filepath.Join(dir, "tsconfig.json"): true}
	for path := range c.inputs {
		if !strings.Contains(filepath.ToSlash(path), "/node_modules/") {
			set[path] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// watchAfterFailure adds the folders: the mend of a failed build may be a file that does not exist yet.
func (c *collector) watchAfterFailure(dir string) []string {
	set := map[string]bool{}
	for _, path := range c.watch(dir) {
		set[path] = true
		set[filepath.Dir(path)] = true
	}
	return slices.Sorted(maps.Keys(set))
}
