package esbuild

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/runlot/runlot/internal/adapter/workerd/workerdtest"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/core/sourcemap"
)

// files is a project: content by slash-separated path.
type files map[string]string

func (f files) write(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range f {
		path = filepath.Join(dir, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func bundle(t *testing.T, options Options) *app.Bundle {
	t.Helper()
	b, err := Bundle(t.Context(), options)
	if err != nil {
		t.Fatalf("%s", fault.Detail(err))
	}
	return b
}

// wasm is a module whose export "add" adds two numbers.
const wasm = "\x00asm\x01\x00\x00\x00\x01\x07\x01\x60\x02\x7f\x7f\x01\x7f\x03\x02\x01\x00\x07\x07\x01\x03add\x00\x00\x0a\x09\x01\x07\x00\x20\x00\x20\x01\x6a\x0b"

var everything = files{
	"package.json":  `{"name":"everything"}`,
	"tsconfig.json": `{"compilerOptions":{"jsx":"react","jsxFactory":"h"}}`,
	"src/index.ts": `import pkg, { which } from "conditional";
import legacy from "legacy";
import data from "./data.json";
import add from "./add.wasm";
import addToo from "./add.wasm?module";
import note from "./note.txt";
import page from "./page.html";
import query from "pack/query.sql";
import raw from "./raw data.bin";
import { EventEmitter } from "events";
import path from "node:path/posix";
import { WorkerEntrypoint } from "cloudflare:workers";
import { view } from "./view";

enum Colour { Red = "red", Blue = "blue" }
const enum Size { Big = 7 }

function logged(value: Function, context: ClassMethodDecoratorContext) {
  return function (this: unknown, ...args: unknown[]) { return [String(context.name), value.apply(this, args)]; };
}

class Service {
  @logged
  greet(name: string) { return "hello " + name; }
}

export class Other extends WorkerEntrypoint {}

export default {
  async fetch(request: Request): Promise<Response> {
    const { exports } = await WebAssembly.instantiate(add);
    const later = await import("./later");
    if (request.url.endsWith("/throw")) later.fail();
    return Response.json({
      pkg, which, legacy: legacy(), data: data.answer, wasm: (exports as any).add(2, 3), same: add === addToo,
      note, page, query, raw: [raw instanceof ArrayBuffer, ...new Uint8Array(raw)],
      emitter: typeof new EventEmitter().on, joined: path.join("a", "b"), colour: Colour.Blue, size: Size.Big,
      decorated: new Service().greet("you"), view: view(), env: process.env.NODE_ENV,
    });
  },
};
`,
	"src/later.ts":                           "interface Unused { a: string }\n\nexport function fail(): never {\n  throw new RangeError(\"too far\");\n}\n",
	"src/view.tsx":                           `const h = (tag: string, _: unknown, ...children: unknown[]) => "<" + tag + ">" + children.join("");` + "\nexport const view = () => <b>hi</b>;\n",
	"src/data.json":                          `{"answer":42}`,
	"src/add.wasm":                           wasm,
	"src/note.txt":                           "a note: ä",
	"src/page.html":                          "<p>page</p>",
	"src/raw data.bin":                       "\x00\xff\x10",
	"node_modules/pack/package.json":         `{"name":"pack","version":"1.0.0"}`,
	"node_modules/pack/query.sql":            "select 1",
	"node_modules/conditional/package.json":  `{"name":"conditional","version":"1.0.0","exports":{".":{"node":"./node.js","workerd":"./workerd.js","default":"./default.js"}}}`,
	"node_modules/conditional/node.js":       `export default "node"; export const which = 1;`,
	"node_modules/conditional/workerd.js":    `export default "workerd"; export const which = 2;`,
	"node_modules/conditional/default.js":    `export default "default"; export const which = 3;`,
	"node_modules/legacy/package.json":       `{"name":"legacy","version":"1.0.0","main":"index.js"}`,
	"node_modules/legacy/index.js":           "const EventEmitter = require('events'); const { Buffer } = require('node:buffer'); const w = require('cloudflare:workers');\nclass E extends EventEmitter {}\nmodule.exports = () => [typeof new E().emit, Buffer.from('a').toString('hex'), typeof w.WorkerEntrypoint];",
	"node_modules/conditional/unused/big.js": "",
}

func TestModules(t *testing.T) {
	dir := everything.write(t)
	b := bundle(t, Options{Dir: dir, Main: "src/index.ts"})
	got := map[string]app.ModuleKind{}
	for _, m := range b.Modules {
		_, name, ok := strings.Cut(m.Name, "-")
		if !ok {
			name = m.Name
		} else if !strings.Contains(string(b.Modules[0].Body), `from "./`+m.Name+`"`) {
			t.Errorf("the main module does not import %s", m.Name)
		}
		got[name] = m.Kind
	}
	want := map[string]app.ModuleKind{
		"main.mjs": app.ESModule, "add.wasm": app.Wasm, "note.txt": app.Text, "page.html": app.Text, "query.sql": app.Text, "raw_data.bin": app.Data,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if b.Modules[0].Name != MainModule || b.ServiceWorker {
		t.Errorf("main module %q, service worker %v", b.Modules[0].Name, b.ServiceWorker)
	}
	inputs := make([]string, 0, len(b.Inputs))
	for _, path := range b.Inputs {
		rel, err := filepath.Rel(dir, path)
		if err != nil || !filepath.IsAbs(path) {
			t.Errorf("input %q", path)
		}
		inputs = append(inputs, filepath.ToSlash(rel))
	}
	if diff := cmp.Diff([]string{
		"package.json", "src/add.wasm", "src/data.json", "src/index.ts", "src/later.ts", "src/note.txt", "src/page.html",
		"src/raw data.bin", "src/view.tsx", "tsconfig.json",
	}, inputs); diff != "" {
		t.Error(diff)
	}
	if again := bundle(t, Options{Dir: dir, Main: "src/index.ts"}); !cmp.Equal(b, again) {
		t.Error("a second build differs")
	}
}

func TestRunsOnWorkerd(t *testing.T) {
	for _, minify := range []bool{false, true} {
		b := bundle(t, Options{Dir: everything.write(t), Main: "./src/index.ts", Minify: minify, NodeEnv: "development"})
		url := serve(t, b)
		want := `{"pkg":"workerd","which":2,"legacy":["function","61","function"],"data":42,"wasm":5,"same":true,` +
			`"note":"a note: ä","page":"<p>page</p>","query":"select 1","raw":[true,0,255,16],` +
			`"emitter":"function","joined":"a/b","colour":"blue","size":7,"decorated":["greet","hello you"],"view":"<b>hi","env":"development"}`
		if diff := cmp.Diff(want, workerdtest.Get(t, url)); diff != "" {
			t.Error(diff)
		}
	}
}

// TestStackOfWorkerd lets real code throw and follows the stack back to the user's line.
func TestStackOfWorkerd(t *testing.T) {
	dir := files{
		"src/index.ts": "import { fail } from \"./deep/fail\";\nimport { call } from \"pack\";\n\nenum E { A }\n" +
			"export default {\n  async fetch() {\n    try { return call(() => fail(E.A)); } catch (e) { return new Response((e as Error).stack); }\n  },\n};\n",
		"src/deep/fail.ts":               "type T = number;\nexport function fail(n: T): never {\n  throw new RangeError(\"ä😀\" + n);\n}\n",
		"node_modules/pack/package.json": `{"name":"pack","main":"index.js"}`,
		"node_modules/pack/index.js":     "exports.call = (f) => {\n  return f();\n};\n",
	}.write(t)
	for _, minify := range []bool{false, true} {
		b := bundle(t, Options{Dir: dir, Main: "src/index.ts", Minify: minify})
		m, err := sourcemap.Parse(MainModule, b.SourceMap)
		if err != nil {
			t.Fatal(err)
		}
		stack, location := m.Stack(workerdtest.Get(t, serve(t, b)))
		if location != "src/deep/fail.ts:3:9" {
			t.Errorf("location %q of\n%s", location, stack)
		}
		for _, want := range []string{"src/deep/fail.ts:3:9", "src/index.ts:7:29", "node_modules/pack/index.js:2:10", "src/index.ts:7:18"} {
			if !strings.Contains(stack, want) {
				t.Errorf("%s is missing in\n%s", want, stack)
			}
		}
	}
}

// TestPostgresClient bundles an installed package that reaches for Node.js from CommonJS code.
func TestPostgresClient(t *testing.T) {
	dir := files{"index.js": `import pg from "pg"; import postgres from "postgres";
export default { fetch() { return new Response(typeof new pg.Client({ host: "127.0.0.1" }).query + typeof postgres); } };`}.write(t)
	if err := os.Symlink(filepath.Join(root(t), "node_modules"), filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	b := bundle(t, Options{Dir: dir, Main: "index.js"})
	if len(b.Warnings) > 0 {
		t.Errorf("warnings: %q", b.Warnings)
	}
	if got := workerdtest.Get(t, serve(t, b)); got != "functionfunction" {
		t.Errorf("got %q", got)
	}
	if len(b.Inputs) != 3 {
		t.Errorf("inputs %q", b.Inputs)
	}
}

func TestServiceWorker(t *testing.T) {
	dir := files{
		"index.ts":  "import { text } from './text';\naddEventListener('fetch', (e: any) => e.respondWith(new Response(text)));\n",
		"text.ts":   "export const text: string = 'from a script';\n",
		"cjs.js":    "module.exports = { fetch() { return new Response(typeof addEventListener) } };\n",
		"throws.ts": "type A = 1;\naddEventListener('fetch', (e: any) => e.respondWith(new Response(new Error('x').stack)));\n",
		"none.ts":   "console.log(1);\n",
	}.write(t)
	b := bundle(t, Options{Dir: dir, Main: "index.ts"})
	if !b.ServiceWorker || len(b.SourceMap) == 0 {
		t.Errorf("service worker %v, source map of %d bytes", b.ServiceWorker, len(b.SourceMap))
	}
	if got := workerdtest.Get(t, serve(t, b)); got != "from a script" {
		t.Errorf("got %q", got)
	}
	// workerd names a script after its service.
	throws := bundle(t, Options{Dir: dir, Main: "throws.ts"})
	m, err := sourcemap.Parse("user", throws.SourceMap)
	if err != nil {
		t.Fatal(err)
	}
	if stack, location := m.Stack(workerdtest.Get(t, serve(t, throws))); location != "throws.ts:2:66" {
		t.Errorf("location %q of %s", location, stack)
	}
	if b := bundle(t, Options{Dir: dir, Main: "cjs.js"}); b.ServiceWorker || workerdtest.Get(t, serve(t, b)) != "function" {
		t.Error("module.exports was not taken for an export")
	}
	if b := bundle(t, Options{Dir: dir, Main: "none.ts"}); b.ServiceWorker {
		t.Error("code that listens to nothing is no service worker")
	}
}

func TestSourceMapNamesTheUsersFiles(t *testing.T) {
	dir := files{
		"project/src/index.ts": "import { shared } from '../../shared/pick';\nexport default { fetch() { return shared } };\n",
		"shared/pick.ts":       "export const shared: number = 1;\n",
	}.write(t)
	link := filepath.Join(dir, "link")
	if err := os.Symlink("project", link); err != nil {
		t.Fatal(err)
	}
	b := bundle(t, Options{Dir: link, Main: "src/index.ts"})
	for _, want := range []string{`"../shared/pick.ts"`, `"src/index.ts"`, `"sourcesContent"`, `shared: number`} {
		if !strings.Contains(string(b.SourceMap), want) {
			t.Errorf("%s is missing in %s", want, b.SourceMap)
		}
	}
}

func TestErrors(t *testing.T) {
	long := strings.Repeat("a", 300)
	project := files{
		"syntax.ts":  "export default {\n\tfetch() { return 1 +; },\n};\n",
		"missing.ts": "import x from './nowhere';\nimport y from 'no-package';\nexport default { x, y };\n",
		"export.ts":  "import { nope } from './lib';\nexport default { nope };\n",
		"lib.ts":     "export const yes = 1;\n",
		"twice.ts":   "const a = 1;\nconst a = 2;\nexport default a;\n",
		"long.ts":    "export default '" + long + "'+; '" + long + "';\n",
		"asset.ts":   "import w from './gone.wasm';\nexport default w;\n",
		"require.js": "module.exports = require('./add.wasm');\n",
		"add.wasm":   wasm,
		"style.ts":   "import './style.scss';\nexport default {};\n",
		"style.scss": "a { b: c }",
		"css.ts":     "import './style.css';\nexport default {};\n",
		"style.css":  "a { color: red }",
		"script.js":  "import fs from 'fs';\nimport w from './add.wasm';\naddEventListener('fetch', () => fs + w);\n",
	}
	for i := range 30 {
		project["many.ts"] += fmt.Sprintf("import './missing%d';\n", i)
	}
	for name, want := range map[string]string{
		"syntax.ts": `the build failed with an error

syntax.ts:2:22: error: Unexpected ";"
    2 │   fetch() { return 1 +; },
      │                       ^`,
		"missing.ts": `the build failed with 2 errors

missing.ts:1:15: error: Could not resolve "./nowhere"
    1 │ import x from './nowhere';
      │               ^~~~~~~~~~~

missing.ts:2:15: error: Could not resolve "no-package"
    2 │ import y from 'no-package';
      │               ^~~~~~~~~~~~
note: It is not installed: add it with npm install, or correct the name in "no-package"`,
		"export.ts": `the build failed with an error

export.ts:1:10: error: No matching export in "lib.ts" for import "nope"
    1 │ import { nope } from './lib';
      │          ^~~~`,
		"twice.ts": `the build failed with an error

twice.ts:2:7: error: The symbol "a" has already been declared
    2 │ const a = 2;
      │       ^
twice.ts:1:7: note: The symbol "a" was originally declared here:
    1 │ const a = 1;
      │       ^`,
		"long.ts": `the build failed with an error

long.ts:1:319: error: Unexpected ";"
    1 │ …` + strings.Repeat("a", 58) + `'+; '` + strings.Repeat("a", 56) + `…
      │ ` + strings.Repeat(" ", 61) + `^`,
		"asset.ts": `the build failed with an error

asset.ts:1:15: error: Could not resolve "./gone.wasm"
    1 │ import w from './gone.wasm';
      │               ^~~~~~~~~~~~~`,
		"require.js": `the build failed with an error

require.js:1:26: error: "./add.wasm" cannot be loaded by require: write an import
    1 │ module.exports = require('./add.wasm');
      │                          ^~~~~~~~~~~~`,
		"script.js": `the build failed with 2 errors

script.js:1:16: error: "fs" cannot be imported by service-worker code: export the handlers instead of calling addEventListener
    1 │ import fs from 'fs';
      │                ^~~~

script.js:2:15: error: "./add.wasm" cannot be imported by service-worker code: export the handlers instead of calling addEventListener
    2 │ import w from './add.wasm';
      │               ^~~~~~~~~~~~`,
		"style.ts": `the build failed with an error

style.ts:1:8: error: No loader is configured for ".scss" files: style.scss
    1 │ import './style.scss';
      │        ^~~~~~~~~~~~~~
note: JavaScript, TypeScript, .json, .wasm, .txt, .html, .sql and .bin files can be imported`,
		"css.ts": `the build failed with an error

css.ts:1:8: error: No loader is configured for ".css" files: style.css
    1 │ import './style.css';
      │        ^~~~~~~~~~~~~
note: JavaScript, TypeScript, .json, .wasm, .txt, .html, .sql and .bin files can be imported`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := project.write(t)
			b, err := Bundle(t.Context(), Options{Dir: dir, Main: name})
			f := fault.From(err)
			if f == nil || f.Kind != fault.Invalid || f.Code != CodeBuildFailed {
				t.Fatalf("%v", err)
			}
			if diff := cmp.Diff(want, f.Message); diff != "" {
				t.Error(diff)
			}
			if !slices.Contains(b.Inputs, filepath.Join(dir, name)) || !slices.Contains(b.Inputs, dir) {
				t.Errorf("inputs %q", b.Inputs)
			}
			if _, err := Bundle(t.Context(), Options{Dir: dir, Main: name, Color: true}); !strings.Contains(err.Error(), "\x1b[31merror:\x1b[0m") {
				t.Errorf("no colour in %q", err.Error())
			}
		})
	}
	t.Run("many", func(t *testing.T) {
		_, err := Bundle(t.Context(), Options{Dir: project.write(t), Main: "many.ts"})
		if text := err.Error(); strings.Count(text, "error:") != queue.MaxBuildMessages || !strings.HasSuffix(text, "\n10 more errors are not shown") {
			t.Errorf("%s", text)
		}
	})
}

func TestWarnings(t *testing.T) {
	dir := files{"index.ts": "export default { a: 1, a: 2, fetch() { return typeof x === 'strin' } };\ndeclare const x: unknown;\n"}.write(t)
	b := bundle(t, Options{Dir: dir, Main: "index.ts"})
	if len(b.Warnings) != 2 || !strings.HasPrefix(b.Warnings[0], "index.ts:1:24: warning: Duplicate key \"a\"") || !strings.Contains(b.Warnings[0], "│") {
		t.Errorf("%q", b.Warnings)
	}
}

func TestMainMissing(t *testing.T) {
	dir := files{"src/worker.ts": "", "other/x.ts": ""}.write(t)
	for _, c := range []struct{ dir, main, want string }{
		{dir, "", `the configuration names no entry module — set "main", for example to "src/worker.ts"`},
		{dir, "src/index.ts", `the entry module "src/index.ts" ("main" in the configuration) does not exist in ` + dir + ` — did you mean "src/worker.ts"?`},
		{dir, "src", `the entry module "src" ("main" in the configuration) is not a file — set "main" to the file that exports the handlers`},
		{
			filepath.Join(dir, "other"), "index.ts", `the entry module "index.ts" ("main" in the configuration) does not exist in ` +
				filepath.Join(dir, "other") + ` — create it, or set "main" to the file that exports the handlers`,
		},
	} {
		b, err := Bundle(t.Context(), Options{Dir: c.dir, Main: c.main})
		if !slices.Contains(b.Inputs, filepath.Join(c.dir, c.main)) {
			t.Errorf("inputs %q", b.Inputs)
		}
		if f := fault.From(err); f == nil || f.Code != CodeMainMissing || f.Error() != c.want {
			t.Errorf("%v", err)
		}
	}
}

func TestTooLarge(t *testing.T) {
	dir := files{
		"index.js":  "import a from './a.bin';\nexport default { a };\n",
		"two.js":    "import a from './a.bin';\nimport b from './b.bin';\nexport default { a, b };\n",
		"a.bin":     "",
		"b.bin":     "b",
		"exact.txt": "",
	}.write(t)
	resize := func(size int64) {
		if err := os.Truncate(filepath.Join(dir, "a.bin"), size); err != nil {
			t.Fatal(err)
		}
	}
	resize(queue.MaxBundle - 4096)
	bundle(t, Options{Dir: dir, Main: "index.js"})
	resize(queue.MaxBundle)
	b, err := Bundle(t.Context(), Options{Dir: dir, Main: "index.js"})
	if !slices.Contains(b.Inputs, filepath.Join(dir, "a.bin")) {
		t.Errorf("inputs %q", b.Inputs)
	}
	if fault.From(err).Code != CodeBundleSize || fault.KindOf(err) != fault.Limit {
		t.Errorf("%v", err)
	}
	if _, err := Bundle(t.Context(), Options{Dir: dir, Main: "two.js"}); !strings.Contains(err.Error(), "with this file the bundle has more than 67108864 bytes") {
		t.Errorf("%v", err)
	}
}

func TestCancel(t *testing.T) {
	dir := files{"index.ts": "export default {}"}.write(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Bundle(ctx, Options{Dir: dir, Main: "index.ts"}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	// Cancelled while it runs: the context ends as the build loads its first file.
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	c := &collector{ctx: cancelOnErr{ctx, cancel}, inputs: map[string]bool{}}
	if _, err := run(ctx, buildOptions(Options{Dir: dir, Main: "index.ts"}, c)); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// cancelOnErr ends its context when it is first asked whether it ended.
type cancelOnErr struct {
	context.Context
	cancel context.CancelFunc
}

func (c cancelOnErr) Err() error {
	c.cancel()
	return c.Context.Err()
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
