package binding

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/internal/adapter/workerd/workerdtest"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

// script calls the producer in the ways that its URL names and answers with what came of it.
const script = `
const calls = {
  single: q => q.send({ a: [1, "ä"] }),
  text: q => q.send("", { contentType: "text", delaySeconds: 0 }),
  bytes: q => q.send(new Uint8Array([0, 255]), { contentType: "bytes", delaySeconds: 7 }),
  v8: q => q.send(new Map([["k", 1n]]), { contentType: "v8" }),
  nothing: q => q.send(() => 1),
  surrogate: q => q.send("\ud800", { contentType: "text" }),
  late: q => q.send(1, { delaySeconds: 86401 }),
  early: q => q.send(1, { delaySeconds: -1 }),
  batch: q => q.sendBatch([{ body: "one" }, { body: "two", contentType: "text", delaySeconds: 1 }, { body: new Uint8Array([1, 2, 3, 4]), contentType: "bytes" },
    { body: new Date(5), contentType: "v8", delaySeconds: 0 }], { delaySeconds: 9 }),
  batchDelay: q => q.sendBatch([{ body: 1 }], { delaySeconds: 1e9 }),
  many: q => q.sendBatch(Array.from({ length: 101 }, () => ({ body: 1 }))),
  manyLarge: q => q.sendBatch(Array.from({ length: 200 }, () => ({ body: "x".repeat(10000) }))),
  large: q => q.send("x".repeat(200000), { contentType: "text" }),
  huge: q => q.send(new Uint8Array(30 << 20), { contentType: "bytes" }),
  largeBatch: q => q.sendBatch([1, 2, 3].map(() => ({ body: "x".repeat(100000) }))),
  hugeBatch: q => q.sendBatch([1, 2, 3].map(() => ({ body: new Uint8Array(10 << 20), contentType: "bytes" }))),
  metrics: q => q.metrics(),
  load: q => Promise.all(Array.from({ length: 4 }, async () => {
    const messages = Array.from({ length: 100 }, (_, id) => ({ body: { id, text: "x".repeat(180) } }));
    for (let i = 0; i < 25; i++) await q.sendBatch(messages);
  })),
};
export default {
  async fetch(request, env) {
    const url = new URL(request.url);
    try { return Response.json(await calls[url.pathname.slice(1)](env[url.searchParams.get("q") ?? "JOBS"])); }
    catch (e) { return new Response(e.name + ": " + e.message); }
  },
};`

// startWorkerd runs the script with the handler behind its binding and returns the script's address.
func startWorkerd(t testing.TB, h http.Handler) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "binding")
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
	config := fmt.Sprintf(`using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "user", worker = (modules = [(name = "main.mjs", esModule = embed "main.mjs")], compatibilityDate = "2026-11-01",
      bindings = [(name = "JOBS", queue = "jobs"), (name = "LATE", queue = "late"), (name = "GONE", queue = "gone")])),
    (name = "jobs", external = (address = "unix:%[1]s", http = (injectRequestHeaders = [(name = "Runlot-Binding", value = "JOBS")]))),
    (name = "late", external = (address = "unix:%[1]s", http = (injectRequestHeaders = [(name = "Runlot-Binding", value = "LATE")]))),
    (name = "gone", external = (address = "unix:%[1]s", http = (injectRequestHeaders = [(name = "Runlot-Binding", value = "GONE")])))],
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "user")]);`, socket)
	if err := os.WriteFile(filepath.Join(dir, "main.mjs"), []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	return workerdtest.Serve(t, dir, config)
}

func TestWorkerd(t *testing.T) {
	queues := &fakeQueues{metrics: queue.Metrics{Count: 3, Bytes: 99, Oldest: at(1000000)}}
	// Every batch of workerd has to be of the form that is scanned in one pass.
	h := newHandler(queues)
	url := startWorkerd(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/batch" && r.ContentLength < queue.MaxBindingBody {
			r.Body = mustScan(t, r.Body)
		}
		h.ServeHTTP(w, r)
	}))
	const accepted = `{"metadata":{"metrics":{"backlogCount":3,"backlogBytes":99,"oldestMessageTimestamp":"1970-01-01T00:16:40.000Z"}}}`
	for _, c := range []struct {
		call, answer string
		drafts       []queue.Draft
	}{
		{"single", accepted, []queue.Draft{{Format: queue.JSON, Body: []byte(`{"a":[1,"ä"]}`)}}},
		{"single?q=LATE", accepted, []queue.Draft{{Format: queue.JSON, Body: []byte(`{"a":[1,"ä"]}`), Delay: after(60)}}},
		{"text", accepted, []queue.Draft{{Format: queue.Text, Body: []byte{}, Delay: after(0)}}},
		{"text?q=LATE", accepted, []queue.Draft{{Format: queue.Text, Body: []byte{}, Delay: after(0)}}},
		{"bytes", accepted, []queue.Draft{{Format: queue.Bytes, Body: []byte{0, 255}, Delay: after(7)}}},
		{"v8", accepted, []queue.Draft{{Format: queue.V8, Body: []byte("\xff\x0f;\"\x01kZ\x10\x01\x00\x00\x00\x00\x00\x00\x00:\x02")}}},
		{"surrogate", accepted, []queue.Draft{{Format: queue.Text, Body: []byte("\ufffd")}}},
		{"nothing", `Error: the body is undefined: content type "json" cannot carry a function, a symbol or undefined (10207)`, nil},
		{"late", "Error: delay of 86401 seconds is outside 0 to 86400 (10203)", nil},
		{"early", "Error: delay of -1 seconds is outside 0 to 86400 (10203)", nil},
		{"batch?q=LATE", accepted, []queue.Draft{
			{Format: queue.JSON, Body: []byte(`"one"`), Delay: after(9)},
			{Format: queue.Text, Body: []byte("two"), Delay: after(1)},
			{Format: queue.Bytes, Body: []byte{1, 2, 3, 4}, Delay: after(9)},
			{Format: queue.V8, Body: []byte("\xff\x0fD\x00\x00\x00\x00\x00\x00\x14@"), Delay: after(0)},
		}},
		{"batchDelay", "Error: delay of 1000000000 seconds is outside 0 to 86400 (10202)", nil},
		{"many", "Error: batch message count of 101 exceeds limit of 100 (10206)", nil},
		{"manyLarge", "Error: batch message count of 200 exceeds limit of 100 (10206)", nil},
		{"large", "Error: message length of 200000 bytes exceeds limit of 131072 (10204)", nil},
		{"huge", "Error: message length of 31457280 bytes exceeds limit of 131072 (10204)", nil},
		{"largeBatch", "Error: batch size of 300006 bytes exceeds limit of 262144 bytes (10205)", nil},
		{"hugeBatch", "Error: message length of 10485760 bytes exceeds limit of 131072 (10204)", nil},
		{"metrics", `{"backlogCount":3,"backlogBytes":99,"oldestMessageTimestamp":"1970-01-01T00:16:40.000Z"}`, nil},
		{"single?q=GONE", `Error: the app has no queue producer "GONE" (10104)`, nil},
	} {
		t.Run(c.call, func(t *testing.T) {
			queues.drafts = nil
			if got := workerdtest.Get(t, url+c.call); got != c.answer {
				t.Errorf("%s", cmp.Diff(c.answer, got))
			}
			if diff := cmp.Diff(c.drafts, queues.drafts); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("error of the broker", func(t *testing.T) {
		queues.err = fault.New(fault.Limit, queue.CodeOperationsCap, "the day’s operations are used up — at 00:00 UTC\nthey come back")
		want := "Error: the day's operations are used up - at 00:00 UTC they come back (queue_ops_cap)"
		if got := workerdtest.Get(t, url+"single"); got != want {
			t.Error(cmp.Diff(want, got))
		}
	})
}

// BenchmarkWorkerd measures 100 calls of sendBatch with 100 messages of 200 bytes, 4 at a time, through workerd.
func BenchmarkWorkerd(b *testing.B) {
	url := startWorkerd(b, newHandler(&slowQueues{entered: make(chan string, 1<<20), released: closed()}))
	for b.Loop() {
		if got := workerdtest.Get(b, url+"load"); got != "[null,null,null,null]" {
			b.Fatal(got)
		}
	}
	b.ReportMetric(float64(b.N)*100*100/b.Elapsed().Seconds(), "messages/s")
}

func closed() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}
