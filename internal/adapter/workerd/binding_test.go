package workerd

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/queue"
)

func TestProducersReachTheHost(t *testing.T) {
	h := &host{}
	w := run(t, `export default {
  async fetch(request, env) {
    const out = [];
    out.push(await env.JOBS.send({ a: 1 }), await env.OTHER.send("x", { contentType: "text" }));
    out.push(await env.JOBS.sendBatch([{ body: 1 }, { body: 2 }]), await env.JOBS.metrics());
    return Response.json(out);
  }, queue() {},
};`, func(_ *Runtime, spec *Spec) {
		spec.Host = h
		spec.Manifest.Producers = append(spec.Manifest.Producers, app.Producer{Binding: "OTHER", Queue: "other"})
	})
	metrics := `{"backlogCount":3,"backlogBytes":99,"oldestMessageTimestamp":"1970-01-01T00:16:40.000Z"}`
	sent := `{"metadata":{"metrics":` + metrics + `}}`
	if diff := cmp.Diff("["+strings.Join([]string{sent, sent, sent, metrics}, ",")+"]", w.get(t, "/")); diff != "" {
		t.Error(diff)
	}
	want := []string{"JOBS POST /message json", "OTHER POST /message text", "JOBS POST /batch ", "JOBS GET /metrics "}
	if diff := cmp.Diff(want, h.requests); diff != "" {
		t.Error(diff)
	}
}

func TestProducerErrorsKeepTheirCode(t *testing.T) {
	code := `import { QueueLimitError } from "runlot:queues";
export default {
  async fetch(request, env) {
    const call = { "/send": () => env.JOBS.send(1), "/batch": () => env.JOBS.sendBatch([{ body: 1 }]), "/metrics": () => env.JOBS.metrics(), "/undefined": () => env.JOBS.send(undefined) };
    try { await call[new URL(request.url).pathname](); return new Response("sent"); }
    catch (e) { return Response.json([e.name, e.code, e.message, e instanceof Error, e instanceof QueueLimitError]); }
  }, queue() {},
};`
	for _, date := range []string{"2026-11-17", "2024-01-01"} {
		h := &host{}
		w := run(t, code, func(_ *Runtime, spec *Spec) {
			spec.Host, spec.Manifest.CompatibilityDate = h, date
			spec.Manifest.CompatibilityFlags = []string{"no_queue_expose_error_codes"}
		})
		for _, test := range []struct{ path, code, want string }{
			{"/send", "10204", `["Error","10204","the cause (10204)",true,false]`},
			{"/batch", "10205", `["Error","10205","the cause (10205)",true,false]`},
			{"/metrics", "10104", `["Error","10104","the cause (10104)",true,false]`},
			{"/send", "queue_ops_cap", `["QueueLimitError","queue_ops_cap","the cause",true,true]`},
			{"/batch", "database_full", `["QueueLimitError","database_full","the cause",true,true]`},
		} {
			h.code, h.cause = test.code, "the cause"
			if got := w.get(t, test.path); got != test.want {
				t.Errorf("%s: %s %s: %s", date, test.path, test.code, got)
			}
		}
		h.code = ""
		if got := w.get(t, "/undefined"); !strings.Contains(got, `"TypeError"`) {
			t.Errorf("%s: send(undefined): %s", date, got)
		}
	}
}

func TestTooManyProducerCallsAreRefusedBeforeTheyConnect(t *testing.T) {
	h := &host{}
	w := run(t, `export default {
  async fetch(request, env) {
    const all = (call) => Promise.allSettled(Array.from({ length: 20000 }, call));
    const [sends, metrics] = await Promise.all([all(() => env.JOBS.send(1)), all(() => env.JOBS.metrics())]);
    await env.JOBS.send(2); // what has ended counts no more
    return Response.json([sends, metrics].map((results) => {
      const refused = results.filter((r) => r.status === "rejected");
      return [results.length - refused.length, refused[0].reason.code, refused[0].reason.message];
    }));
  }, queue() {},
};`, func(_ *Runtime, spec *Spec) { spec.Host = h })
	one := fmt.Sprintf(`[%d,"10250","Queue is overloaded. Please back off. (10250)"]`, queue.MaxProducerCalls)
	if diff := cmp.Diff("["+one+","+one+"]", w.get(t, "/")); diff != "" {
		t.Error(diff)
	}
	if got, want := len(h.requests), 2*queue.MaxProducerCalls+1; got != want {
		t.Errorf("%d calls reached the host, want %d", got, want)
	}
}

func TestUserCodeCannotImportInternalModules(t *testing.T) {
	_, err := tryRun(t, `import "runlot-internal:errors"; export default { queue() {} };`, nil)
	if err == nil {
		t.Error("an internal module can be imported")
	}
}

func TestVarsAndSecrets(t *testing.T) {
	var dir string
	secret := "s3cret \"\\\n ü " + strings.Repeat("x", 1000)
	w := run(t, `export default { fetch(request, env) { return Response.json(env); }, queue() {} };`, func(_ *Runtime, spec *Spec) {
		dir = spec.Dir
		spec.Manifest.Producers = nil
		spec.Manifest.Vars = map[string]json.RawMessage{
			"TEXT": json.RawMessage(`"v"`), "NUMBER": json.RawMessage(`1`), "NULL": json.RawMessage(`null`),
			"OBJECT": json.RawMessage(`{"a":[1,"x"]}`), "BOTH": json.RawMessage(`"var"`),
		}
		spec.Secrets = map[string]string{"KEY": secret, "BOTH": "secret", "EMPTY": ""}
	})
	var got map[string]any
	if err := json.Unmarshal([]byte(w.get(t, "/")), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"TEXT": "v", "NUMBER": 1.0, "NULL": nil, "OBJECT": map[string]any{"a": []any{1.0, "x"}}, "KEY": secret, "BOTH": "secret", "EMPTY": "",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	files := 0
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil || !info.Mode().IsRegular() {
			return err
		}
		files++
		body, err := os.ReadFile(path)
		if strings.Contains(string(body), "s3cret") {
			t.Errorf("%s holds a secret", path)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %s", path, info.Mode())
		}
		return err
	})
	if err != nil || files == 0 {
		t.Fatalf("%d files, %v", files, err)
	}
}

// TestAnyTextIsQuoted sends texts through the configuration into a worker and back.
func TestAnyTextIsQuoted(t *testing.T) {
	vars := map[string]json.RawMessage{}
	want := map[string]string{}
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.StringOf(rapid.OneOf(rapid.RuneFrom([]rune("\x01\t\n\r\"\\'\x1f\x7f\u0080\u2028ü😀a0x")), rapid.Rune())).Draw(rt, "text")
		text = strings.ReplaceAll(text, "\x00", "") // a Cap'n Proto text has no NUL
		name := fmt.Sprintf("V%d", len(want))
		encoded, err := json.Marshal(text)
		if err != nil {
			rt.Fatal(err)
		}
		vars[name], want[name] = encoded, text
	})
	w := run(t, `export default { fetch(request, env) { return Response.json(env); }, queue() {} };`, func(_ *Runtime, spec *Spec) {
		spec.Manifest.Producers, spec.Manifest.Vars = nil, vars
	})
	var got map[string]string
	if err := json.Unmarshal([]byte(w.get(t, "/")), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestEveryKindOfModule(t *testing.T) {
	wasm := "\x00asm\x01\x00\x00\x00\x01\x05\x01\x60\x00\x01\x7f\x03\x02\x01\x00\x07\x05\x01\x01f\x00\x00\x0a\x06\x01\x04\x00\x41\x2a\x0b"
	for _, date := range []string{"2026-11-17", "2023-01-01"} {
		w := run(t, "", func(_ *Runtime, spec *Spec) {
			spec.Manifest.CompatibilityDate = date
			spec.Bundle = &app.Bundle{Modules: []app.Module{
				{Name: "src/index.mjs", Kind: app.ESModule, Body: []byte(`import text from "./a b-ü.txt"; import data from "../x.bin"; import wasm from "./m.wasm"; import { n } from "./lib.mjs";
export default { async fetch() { const i = new WebAssembly.Instance(wasm); return Response.json([text, [...new Uint8Array(data)], i.exports.f(), n]); }, queue() {} };`)},
				{Name: "src/lib.mjs", Kind: app.ESModule, Body: []byte(`export const n = 7;`)},
				{Name: "src/a b-ü.txt", Kind: app.Text, Body: []byte("ü\n")},
				{Name: "x.bin", Kind: app.Data, Body: []byte("\x00\xff")},
				{Name: "src/m.wasm", Kind: app.Wasm, Body: []byte(wasm)},
			}}
		})
		if got := w.get(t, "/"); got != `["ü\n",[0,255],42,7]` {
			t.Errorf("%s: %s", date, got)
		}
		w.deliver(t, "d", jsons(`1`)...)
	}
}

func TestProbe(t *testing.T) {
	r := newRuntime(t)
	for name, test := range map[string]struct {
		code string
		want app.Handlers
		date string
	}{
		"object": {code: `export default { fetch() {}, async queue() {} };`, want: app.Handlers{Exports: map[string]app.Export{
			"default": {Kind: "object", Handlers: []string{"fetch", "queue"}},
		}}},
		"old date": {date: "2022-01-01", code: `export default { fetch() {}, async queue() {} };`, want: app.Handlers{Exports: map[string]app.Export{
			"default": {Kind: "object", Handlers: []string{"fetch", "queue"}},
		}}},
		"instance with a getter": {code: `class Base { scheduled() {} } class A extends Base { get queue() { throw 1; } } export default new A();`, want: app.Handlers{Exports: map[string]app.Export{
			"default": {Kind: "object", Handlers: []string{"queue", "scheduled"}},
		}}},
		"classes": {
			code: `import { WorkerEntrypoint, DurableObject, WorkflowEntrypoint } from "cloudflare:workers";
class Base extends WorkerEntrypoint { fetch() {} }
export default class extends Base { queue() {} }
export class Counter extends DurableObject { alarm() {} }
export class Flow extends WorkflowEntrypoint { run() {} }
export class Plain { x() {} }
export const text = "x";`,
			want: app.Handlers{Exports: map[string]app.Export{
				"default": {Kind: "WorkerEntrypoint", Handlers: []string{"fetch", "queue"}},
				"Counter": {Kind: "DurableObject", Handlers: []string{"alarm"}},
				"Flow":    {Kind: "WorkflowEntrypoint", Handlers: []string{"run"}},
				"Plain":   {Kind: "class", Handlers: []string{}},
			}},
		},
		"listeners": {code: `addEventListener("fetch", () => {}); self.addEventListener("queue", () => {});`, want: app.Handlers{
			ServiceWorker: true,
			Exports:       map[string]app.Export{"default": {Kind: "object", Handlers: []string{"fetch", "queue"}}},
		}},
		"nothing": {code: `export const x = 1;`, want: app.Handlers{Exports: map[string]app.Export{}}},
	} {
		t.Run(name, func(t *testing.T) {
			m, b := manifest(), bundle(test.code)
			b.ServiceWorker = test.want.ServiceWorker
			if test.date != "" {
				m.CompatibilityDate = test.date
			}
			got, err := r.Probe(t.Context(), m, b, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&test.want, got); diff != "" {
				t.Error(diff)
			}
			if test.want.Exports["default"].Handlers != nil && !got.Has("queue") {
				t.Error("the queue handler is not found")
			}
		})
	}
}
