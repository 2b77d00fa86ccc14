package workerd

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// develop runs a worker that is being developed.
func develop(tb testing.TB, code string, serviceWorker bool) *world {
	tb.Helper()
	return run(tb, code, func(_ *Runtime, spec *Spec) { spec.Develop, spec.Bundle.ServiceWorker = true, serviceWorker })
}

// answer requests a path and returns status and body.
func (w *world) answer(tb testing.TB, method, path, body string) (int, string) {
	tb.Helper()
	req, err := http.NewRequestWithContext(tb.Context(), method, w.url+path, strings.NewReader(body))
	if err != nil {
		tb.Fatal(err)
	}
	resp, err := plain.Do(req)
	if err != nil {
		tb.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		tb.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

const throws = `function boom(path) {
  throw new RangeError("boom " + path);
}
`

func TestAnUncaughtErrorOfFetchIsTheAnswer(t *testing.T) {
	for name, test := range map[string]struct {
		code          string
		serviceWorker bool
		want          string
	}{
		"module":         {code: throws + `export default { fetch(request) { boom(new URL(request.url).pathname); } };`, want: "RangeError: boom /x\n    at boom (main.mjs:2:9)\n    at Object.fetch (main.mjs:4:"},
		"late":           {code: throws + `export default { async fetch(request) { await scheduler.wait(5); boom("late"); } };`, want: "RangeError: boom late\n    at boom (main.mjs:2:9)\n    at Object.fetch (main.mjs:4:"},
		"service worker": {code: throws + `addEventListener("fetch", (event) => event.respondWith((async () => boom("sw"))()));`, serviceWorker: true, want: "RangeError: boom sw\n    at boom (main.mjs:2:9)\n    at main.mjs:4:"},
		"text":           {code: `export default { fetch() { throw "just text"; } };`, want: "Error: just text\n"},
		"no handler":     {code: `export default { queue() {} };`, want: "Error: Handler does not export a fetch() function."},
		"a reason":       {code: `export default { async fetch() { await fetch("http://127.0.0.1:1/"); } };`, want: "Error: connecting to 127.0.0.1:1 is not allowed: it is a private address"},
		// The trace comes when the work after the answer is done, for which nobody waits.
		"long work behind it": {code: `export default { fetch(request, env, ctx) { ctx.waitUntil(scheduler.wait(1e8)); throw new Error("boom"); } };`, want: "Error: boom\n"},
	} {
		t.Run(name, func(t *testing.T) {
			w := develop(t, test.code, test.serviceWorker)
			for range 2 {
				status, body := w.answer(t, http.MethodGet, "/x", "")
				if status != http.StatusInternalServerError || !strings.HasPrefix(body, test.want) || strings.Contains(body, "runlot") {
					t.Errorf("%d %q", status, body)
				}
			}
		})
	}
}

func TestErrorsAreNotShownToThePublic(t *testing.T) {
	w := run(t, throws+`export default { fetch() { boom(""); } };`, nil)
	if status, body := w.answer(t, http.MethodGet, "/", ""); status != http.StatusInternalServerError || strings.Contains(body, "boom") {
		t.Errorf("%d %q", status, body)
	}
	w.logs.find(t, "RangeError: boom")
	for _, line := range w.logs.all {
		if strings.HasPrefix(line.Text, "GET ") {
			t.Errorf("line %+v", line)
		}
	}
}

func TestEachRequestIsALine(t *testing.T) {
	w := develop(t, `export default { async fetch(request) {
  const { pathname } = new URL(request.url);
  if (pathname === "/moved") return Response.redirect(new URL("/", request.url), 302);
  if (pathname === "/broken") throw new Error("no");
  return new Response([request.method, request.url, request.headers.get("x-runlot"), await request.text()].join(), { status: 201 });
} };`, false)
	for _, test := range []struct {
		method, path, body, want, line string
	}{
		{http.MethodPost, "/a?b=c", "hello", "POST," + w.url + "/a?b=c,,hello", `^POST /a\?b=c 201 \d+ ms$`},
		{http.MethodGet, "/moved", "", "GET," + w.url + "/,,", `^GET /moved 302 \d+ ms$`},
		{http.MethodGet, "/broken", "", "Error: no\n    at Object.fetch (main.mjs:4:37)\n", `^GET /broken 500 \d+ ms$`},
		{http.MethodGet, "/" + strings.Repeat("x", 1000), "", "GET," + w.url + "/" + strings.Repeat("x", 1000) + ",,", `^GET /x{299} 201 \d+ ms$`},
	} {
		_, body := w.answer(t, test.method, test.path, test.body)
		if diff := cmp.Diff(test.want, body); diff != "" {
			t.Error(diff)
		}
		line := w.logs.find(t, test.method+" "+test.path[:min(len(test.path), 20)])
		if !regexp.MustCompile(test.line).MatchString(line.Text) || line.Level != "debug" || line.Event != "fetch" || line.Delivery != "" {
			t.Errorf("line %+v", line)
		}
	}
}

func TestUpgradesPassTheFront(t *testing.T) {
	w := develop(t, `export default { fetch() {
  const { 0: client, 1: server } = new WebSocketPair();
  server.accept();
  server.send("hello");
  return new Response(null, { status: 101, webSocket: client });
} };`, false)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
	} {
		req.Header.Set(name, value)
	}
	resp, err := plain.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	frame := make([]byte, 7)
	if _, err := io.ReadFull(resp.Body, frame); err != nil || resp.StatusCode != http.StatusSwitchingProtocols || string(frame) != "\x81\x05hello" {
		t.Errorf("%s, frame %q, %v", resp.Status, frame, err)
	}
}
