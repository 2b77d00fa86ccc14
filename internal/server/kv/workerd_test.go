package kv

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/runlot/runlot/internal/adapter/sqlite/kv"
	"github.com/runlot/runlot/internal/adapter/workerd/workerdtest"
	"github.com/runlot/runlot/internal/core/app"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// script runs the code of a request's query with the bindings and answers with what it returns, or throws.
const script = `
const show = (v) => JSON.stringify(v, (_, x) => x instanceof Map ? { map: [...x] } : x instanceof ArrayBuffer ? [...new Uint8Array(x)] : x);
const later = () => Math.floor(Date.now() / 1000);
const calls = {
%s
};
export default {
  async fetch(request, env) {
    try { return new Response(show(await calls[new URL(request.url).pathname.slice(1)](env.KV, env))); }
    catch (e) { return new Response(e.name + ": " + e.message); }
  },
};`

// calls are made one after the other on one namespace; each is JavaScript and what it answers with.
var calls = [][2]string{
	{`kv.get("none")`, "null"},
	{`kv.getWithMetadata("none")`, `{"value":null,"metadata":null,"cacheStatus":null}`},
	{`kv.put("a", "text")`, ""},
	{`kv.get("a")`, `"text"`},
	{`kv.get("a", "text")`, `"text"`},
	{`kv.get("a", { type: "arrayBuffer", cacheTtl: 60 })`, "[116,101,120,116]"},
	{`kv.get("a", "stream").then((s) => new Response(s).text())`, `"text"`},
	{`kv.get("a", "json")`, `SyntaxError: Unexpected token 'e', "text" is not valid JSON`},
	{`kv.get("a", { cacheTtl: 29 })`, "Error: KV GET failed: 400 Invalid cache_ttl of 29. Cache TTL must be at least 30."},
	{`kv.put("sp ce/ä?#%25", new Uint8Array([0, 255]), { metadata: { a: "é\u0000\"", b: [1, null] } })`, ""},
	{`kv.getWithMetadata("sp ce/ä?#%25", "arrayBuffer")`, `{"value":[0,255],"metadata":{"a":"é\u0000\"","b":[1,null]},"cacheStatus":null}`},
	{`kv.put("b", "1", { metadata: "a string" })`, ""},
	{`kv.getWithMetadata("b", "json")`, `{"value":1,"metadata":"a string","cacheStatus":null}`},
	{`kv.put("b", "", { metadata: null }).then(() => kv.getWithMetadata("b"))`, `{"value":"","metadata":null,"cacheStatus":null}`},
	{`kv.put("stream", new Response("one two").body).then(() => kv.get("stream"))`, `"one two"`},
	{`kv.put("json", JSON.stringify({ x: 1 }), { metadata: 0 })`, ""},
	{`kv.get(["json", "none", "json"], "json")`, `{"map":[["json",{"x":1}],["none",null]]}`},
	{`kv.get(["a", "sp ce/ä?#%25"])`, `{"map":[["a","text"],["sp ce/ä?#%25","\u0000�"]]}`},
	{`kv.getWithMetadata(["json", "a", "none"])`, `{"map":[["json",{"value":"{\"x\":1}","metadata":0}],["a",{"value":"text","metadata":null}],["none",null]]}`},
	{`kv.get(["a"], "json")`, "Error: KV GET_BULK failed: 400 At least one of the requested keys corresponds to a non-JSON value"},
	{`kv.get(["a"], "stream")`, `Error: KV GET_BULK failed: 400 "stream" is not a valid type. Use "json" or "text"`},
	{`kv.get([])`, "Error: KV GET_BULK failed: 400 You must request a minimum of 1 key"},
	{`kv.get(Array.from({ length: 101 }, (_, i) => "k" + i))`, "Error: KV GET_BULK failed: 400 You can request a maximum of 100 keys"},
	{`kv.put("b", "x", { expirationTtl: 59 })`, "Error: KV PUT failed: 400 Invalid expiration_ttl of 59. Expiration TTL must be at least 60."},
	{`kv.put("b", "x", { expiration: 5 })`, "Error: KV PUT failed: 400 Invalid expiration of 5. Please specify integer greater than the current number of seconds since the UNIX epoch."},
	{`kv.put("b", "x", { metadata: "x".repeat(1023) })`, "Error: KV PUT failed: 413 Metadata length of 1025 exceeds limit of 1024."},
	{`kv.put("x".repeat(513), "x")`, "Error: KV PUT failed: 414 UTF-8 encoded length of 513 exceeds key length limit of 512."},
	{`kv.put("b", new Uint8Array(25 * 1024 * 1024 + 1))`, "Error: KV PUT failed: 413 Value length of 26214401 exceeds limit of 26214400."},
	{`kv.put("b", new Response(new ReadableStream({ pull(c) { c.enqueue(new Uint8Array(1 << 20)); if (++this.n > 26) c.close(); }, n: 0 })).body)`, "Error: KV PUT failed: 413 Value length of 28311552 exceeds limit of 26214400."},
	{`kv.get("b")`, `""`},
	{`kv.put("large", new Uint8Array(25 * 1024 * 1024).fill(7)).then(() => kv.get("large", "arrayBuffer")).then((b) => [b.byteLength, new Uint8Array(b).every((x) => x === 7)])`, "[26214400,true]"},
	{`kv.get(["large", "a"])`, "Error: KV GET_BULK failed: 413 Total size of request exceeds the limit of 26214400 bytes."},
	{`kv.delete("large")`, ""},
	{`kv.delete("large")`, ""},
	{`kv.get("large")`, "null"},
	{`kv.list()`, `{"keys":[{"name":"a"},{"name":"b"},{"name":"json","metadata":0},{"name":"sp ce/ä?#%25","metadata":{"a":"é\u0000\"","b":[1,null]}},{"name":"stream"}],"list_complete":true,"cacheStatus":null}`},
	{`kv.list({ prefix: "s" })`, `{"keys":[{"name":"sp ce/ä?#%25","metadata":{"a":"é\u0000\"","b":[1,null]}},{"name":"stream"}],"list_complete":true,"cacheStatus":null}`},
	{`kv.list({ limit: 2 }).then((l) => [l.keys.length, l.list_complete, typeof l.cursor])`, `[2,false,"string"]`},
	{`kv.list({ limit: 2 }).then((l) => kv.list({ limit: 9, cursor: l.cursor })).then((l) => l.keys.map((k) => k.name))`, `["json","sp ce/ä?#%25","stream"]`},
	{`kv.list({ limit: 1001 })`, "Error: KV GET failed: 400 Invalid key_count_limit of 1001. Please specify an integer less than or equal to 1000."},
	{`kv.list({ cursor: "%" })`, "Error: KV GET failed: 400 Invalid cursor."},
	{`kv.put("gone", "x", { expiration: later() + 61, metadata: "m" }).then(() => kv.list({ prefix: "gone" })).then((l) => [l.keys[0].expiration - later() > 50, l.keys[0].metadata])`, `[true,"m"]`},
	{`env.SAME.get("a")`, `"text"`},
	{`env.OTHER.get("a")`, "null"},
	{`env.LOST.get("a")`, "null"},
	{`Promise.all(Array.from({ length: 100 }, (_, i) => kv.put("many" + i, "x"))).then(() => kv.list({ prefix: "many" })).then((l) => l.keys.length)`, "100"},
}

// TestWorkerd makes every call of the binding on the real runtime and real files.
func TestWorkerd(t *testing.T) {
	namespaces := kv.New(filepath.Join(t.TempDir(), "kv"), slog.New(slog.DiscardHandler))
	t.Cleanup(namespaces.Close)
	door := NewDoor(namespaces, slog.New(slog.DiscardHandler))
	handler := door.Handler(&app.Manifest{KVNamespaces: []app.KVNamespace{
		{Binding: "KV", Namespace: "cache"}, {Binding: "SAME", Namespace: "cache"}, {Binding: "OTHER", Namespace: "other"},
	}})
	text := ""
	for i, c := range calls {
		text += fmt.Sprintf("  %d: (kv, env) => %s,\n", i, c[0])
	}
	url := serve(t, fmt.Sprintf(script, text), handler)
	for i, c := range calls {
		if got := workerdtest.Get(t, fmt.Sprint(url, i)); got != c[1] {
			t.Errorf("%s\n%s", c[0], cmp.Diff(c[1], got))
		}
	}
}

// serve runs the script with the handler behind its bindings.
func serve(t *testing.T, code string, h http.Handler) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "kv")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: h}}
	server.Start()
	t.Cleanup(server.Close)
	bindings, services := "", ""
	for _, name := range []string{"KV", "SAME", "OTHER", "LOST"} {
		bindings += fmt.Sprintf("(name = %q, kvNamespace = %q), ", name, name)
		services += fmt.Sprintf("(name = %q, external = (address = \"unix:%s\", http = (injectRequestHeaders = [(name = %q, value = %q)]))),\n", name, socket, Header, name)
	}
	config := fmt.Sprintf(`using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (services = [
  (name = "user", worker = (modules = [(name = "main.mjs", esModule = embed "main.mjs")], compatibilityDate = "2026-11-01", bindings = [%s])),
  %s],
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "user")]);`, bindings, services)
	if err := os.WriteFile(filepath.Join(dir, "main.mjs"), []byte(code), 0o600); err != nil {
		t.Fatal(err)
	}
	return workerdtest.Serve(t, dir, config)
}
