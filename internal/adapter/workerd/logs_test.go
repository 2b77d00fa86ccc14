package workerd

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/dispatch"
)

func TestErrorsInLogsHaveTheirStack(t *testing.T) {
	w := run(t, `export default { queue() {
  console.error("failed:", new TypeError("no"), { a: [1] });
} };`, nil)
	w.deliver(t, "d", jsons(`1`)...)
	line := w.logs.find(t, "failed:")
	if !strings.HasPrefix(line.Text, "failed: TypeError: no\n    at Object.queue (main.mjs:2:") || !strings.HasSuffix(line.Text, `) { a: [ 1 ] }`) {
		t.Errorf("text %q", line.Text)
	}
	if !strings.HasPrefix(line.Location, "main.mjs:2:") || line.Uncaught || line.Level != "error" {
		t.Errorf("line %+v", line)
	}
}

func TestFetchIsLoggedToo(t *testing.T) {
	w := run(t, `export default { fetch(request) { console.warn("seen", new URL(request.url).pathname); throw new Error("oops"); } };`, nil)
	w.get(t, "/x")
	if line := w.logs.find(t, "seen /x"); line.Event != "fetch" || line.Level != "warn" || line.Delivery != "" {
		t.Errorf("line %+v", line)
	}
	if line := w.logs.find(t, "Error: oops"); line.Event != "fetch" || !line.Uncaught || !strings.HasPrefix(line.Location, "main.mjs:1:") {
		t.Errorf("line %+v", line)
	}
}

// TestLogsShowValuesAsAPersonReadsThem: the trace alone keeps them as JSON.
func TestLogsShowValuesAsAPersonReadsThem(t *testing.T) {
	for _, serviceWorker := range []bool{false, true} {
		code := `function log() {
  const inner = new RangeError("inner");
  inner.code = 7;
  console.log("values", undefined, null, -0, 5n, [undefined], new Map([["k", { a: { b: { c: { d: 1 } } } }]]), new Set([1]), Symbol("s"), "text");
  console.info("format %s of %d", "x", 3);
  console.debug("nested", { inner });
  console.warn("long", "x".repeat(100000));
  console.error("strange", new Proxy({}, { get() { throw new Error("no"); }, ownKeys() { throw new Error("no"); } }));
}
`
		if serviceWorker {
			code += `addEventListener("queue", log);`
		} else {
			code += `export default { queue: log };`
		}
		w := run(t, code, func(_ *Runtime, spec *Spec) { spec.Bundle.ServiceWorker = serviceWorker })
		if got := w.deliver(t, "d", jsons(`1`)...); got.Outcome != queue.OK {
			t.Errorf("result %+v", got)
		}
		want := "values undefined null -0 5n [ undefined ] Map(1) { 'k' => { a: { b: [Object] } } } Set(1) { 1 } Symbol(s) text"
		if diff := cmp.Diff(want, w.logs.find(t, "values").Text); diff != "" {
			t.Error(diff)
		}
		w.logs.find(t, "format x of 3")
		if line := w.logs.find(t, "nested"); !strings.Contains(line.Text, "inner: RangeError: inner\n      at ") ||
			!strings.HasSuffix(line.Text, ") {\n    code: 7\n  }\n}") || !strings.HasPrefix(line.Location, "main.mjs:2:") || line.Level != "debug" {
			t.Errorf("line %+v", line)
		}
		if line := w.logs.find(t, "long"); !strings.HasSuffix(line.Text, "x… 34469 more characters") {
			t.Errorf("the long line ends in %q", line.Text[len(line.Text)-40:])
		}
		w.logs.find(t, "strange")
	}
}

func TestRejectionsThatNothingAwaitsAreSaid(t *testing.T) {
	for name, test := range map[string]struct {
		code          string
		serviceWorker bool
		consumers     []queue.Consumer
	}{
		"module": {code: `const forgotten = async () => {
  throw new TypeError("boom");
};
export default { queue() { forgotten(); }, fetch() { forgotten(); return new Response("x"); } };`, consumers: manifest().Consumers},
		"late": {code: `const forgotten = async () => {
  await scheduler.wait(1); throw new TypeError("boom");
};
export default { async queue() { forgotten(); await scheduler.wait(50); }, async fetch() { forgotten(); await scheduler.wait(50); return new Response("x"); } };`, consumers: manifest().Consumers},
		"no consumer": {code: `const forgotten = async () => {
  throw new TypeError("boom");
};
export default { fetch() { forgotten(); return new Response("x"); } };`},
		"service worker": {serviceWorker: true, code: `const forgotten = async () => {
  throw new TypeError("boom");
};
addEventListener("queue", () => { forgotten(); });
addEventListener("fetch", (event) => { forgotten(); event.respondWith(new Response("x")); });`, consumers: manifest().Consumers},
	} {
		t.Run(name, func(t *testing.T) {
			w := run(t, test.code, func(_ *Runtime, spec *Spec) {
				spec.Bundle.ServiceWorker, spec.Manifest.Consumers = test.serviceWorker, test.consumers
			})
			said := func(event, delivery string) {
				t.Helper()
				line := w.logs.find(t, "TypeError: boom")
				if !strings.HasPrefix(line.Text, "unhandled promise rejection (a missing await?): TypeError: boom\n    at ") || line.Level != "warn" ||
					!strings.HasPrefix(line.Location, "main.mjs:2:") || line.Event != event || line.Delivery != delivery || strings.Contains(line.Text, "runlot") {
					t.Errorf("line %+v", line)
				}
			}
			if len(test.consumers) > 0 {
				if got := w.deliver(t, "d1", jsons(`1`)...); got.Outcome != queue.OK {
					t.Errorf("result %+v", got)
				}
				said("queue", "d1")
			}
			w.logs.forget()
			w.get(t, "/")
			said("fetch", "")
		})
	}
}

// TestRejectionsInPackagesAreSaidOnce: many packages leave such promises behind, with each call.
func TestRejectionsInPackagesAreSaidOnce(t *testing.T) {
	w := run(t, `export default { queue(batch) {
  Promise.reject(batch.messages[0].body === "plain" ? "no stack" : new Error("closed"));
  console.log("done", batch.messages[0].body);
} };`, func(_ *Runtime, spec *Spec) {
		spec.MapStack = func(stack string) (string, string) {
			return strings.ReplaceAll(stack, "file:///bundle/main.mjs:2", "node_modules/lib/lib.js:1"), ""
		}
	})
	for i, text := range []string{`"one"`, `"two"`, `"plain"`, `"last"`} {
		w.deliver(t, text, message(int64(i), queue.JSON, text))
	}
	w.logs.find(t, "done last")
	if err := w.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, line := range w.logs.all {
		if first, _, _ := strings.Cut(line.Text, "\n"); strings.HasPrefix(first, "unhandled") {
			got = append(got, line.Level+" "+first)
		}
	}
	want := []string{"debug unhandled promise rejection (a missing await?): Error: closed", "warn unhandled promise rejection (a missing await?): no stack"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestAStartWithoutAWordSaysNothing: of what the product puts around the user's code, workerd may warn.
func TestAStartWithoutAWordSaysNothing(t *testing.T) {
	for _, date := range []string{"2022-01-01", "2026-11-16", "2026-11-17"} {
		for _, serviceWorker := range []bool{false, true} {
			code := `export default { queue() {} };`
			if serviceWorker {
				code = `addEventListener("queue", () => {});`
			}
			w := run(t, code, func(_ *Runtime, spec *Spec) {
				spec.Manifest.CompatibilityDate, spec.Bundle.ServiceWorker = date, serviceWorker
			})
			if len(w.logs.all) > 0 {
				t.Errorf("%s, service worker %t: %v", date, serviceWorker, w.logs.all)
			}
		}
	}
}

func TestAppsWithoutADefaultExportStart(t *testing.T) {
	w := run(t, `export {};`, func(_ *Runtime, spec *Spec) { spec.Manifest.Consumers = nil })
	if err := w.Err(); err != nil {
		t.Error(err)
	}
}

// TestFailedConnectionsSayWhy: the worker itself is told no more than "internal error".
func TestFailedConnectionsSayWhy(t *testing.T) {
	const private = "connecting to 127.0.0.1:1 is not allowed: it is a private address"
	code := `export default { async queue(batch) {
  for (const { body } of batch.messages) {
    try {
      await fetch(body.url);
    } catch (error) {
      if (body.how === "throw") throw error;
      if (body.how === "log") console.log("no luck:", error.message);
    }
  }
} };`
	w := run(t, code, nil)
	got := w.deliver(t, "d1", jsons(`{"how":"throw","url":"http://127.0.0.1:1/"}`)...)
	if got.Outcome != queue.Failed || !strings.HasPrefix(got.Error.Message, private) || !strings.HasPrefix(got.Error.Location, "main.mjs:4:") {
		t.Errorf("result %+v, error %+v", got, got.Error)
	}
	w.deliver(t, "d2", jsons(`{"how":"log","url":"http://127.0.0.1:1/"}`)...)
	if line := w.logs.find(t, "no luck"); !strings.HasPrefix(line.Text, "no luck: "+private) || line.Delivery != "d2" {
		t.Errorf("line %+v", line)
	}
	w.logs.forget()
	w.deliver(t, "d3", jsons(`{"how":"","url":"http://nothing.invalid/"}`)...)
	if line := w.logs.find(t, "the host name was not found (DNS"); line.Level != "warn" || line.Event != "" {
		t.Errorf("line %+v", line)
	}
	if err := w.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, line := range w.logs.all {
		if line.Level == "warn" && strings.HasPrefix(line.Text, private) {
			t.Errorf("what a log says is said again: %+v", line)
		}
	}
}

func TestALogDoesNotWaitForAReasonThatDoesNotCome(t *testing.T) {
	w := run(t, `export default { queue() { throw new Error("internal error; reference = abc and internal error; reference = def"); } };`, nil)
	if got := w.deliver(t, "d", jsons(`1`)...); got.Error.Message != "internal error; reference = abc and internal error; reference = def" {
		t.Errorf("error %+v", got.Error)
	}
}

// TestLogsOfAKilledProcess: what a handler said before its process was killed comes, and once; what was told before does not
// come again.
func TestLogsOfAKilledProcess(t *testing.T) {
	w := run(t, `export default { async queue(batch) {
  console.log("first %s\nof two lines", batch.messages[0].id.slice(-1)); console.warn("warned");
  if (batch.messages[0].body === "die") { console.log("dying"); console.error("badly"); for (;;) {} }
} };`, func(r *Runtime, _ *Spec) { r.pingEvery, r.pingTime = 50*time.Millisecond, 2*time.Second })
	w.deliver(t, "d1", message(1, queue.JSON, "1"))
	w.logs.find(t, "warned")
	if _, err := w.Deliver(t.Context(), delivery("d2", message(2, queue.JSON, `"die"`))); !errors.Is(err, dispatch.ErrLost) {
		t.Fatal(err)
	}
	lines := w.logs.list()
	got := make([]string, len(lines))
	for i, line := range lines {
		got[i] = line.Level + " " + line.Text
	}
	want := []string{"info first 1\nof two lines", "warn warned", "info first 2", "info of two lines", "info dying", "warn warned", "warn badly"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestTheLogsOfADeliveryComeWhole before it is said that they have come, and before its exception.
func TestTheLogsOfADeliveryComeWhole(t *testing.T) {
	logged := make(chan string, 10)
	w := run(t, `export default { queue(batch) {
  if (batch.messages[0].body === 1) return;
  console.log("one"); console.log("two"); throw new Error("three");
} };`, func(_ *Runtime, s *Spec) { s.Develop, s.Logged = true, func(delivery string) { logged <- delivery } })
	w.deliver(t, "quiet", jsons(`1`)...)
	if got := <-logged; got != "quiet" {
		t.Errorf("%q was logged", got)
	}
	if result := w.deliver(t, "loud", jsons(`2`)...); result.Outcome != queue.Failed || len(w.logs.list()) != 3 {
		t.Errorf("%+v with %d lines", result, len(w.logs.list()))
	}
	if got := <-logged; got != "loud" {
		t.Errorf("%q was logged", got)
	}
}
