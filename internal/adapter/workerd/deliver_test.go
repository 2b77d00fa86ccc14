package workerd

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/dispatch"
)

const echo = `export default {
  async queue(batch, env, ctx) {
    const type = (b) => Object.prototype.toString.call(b) + (b instanceof Uint8Array ? [...b].join() : JSON.stringify(b));
    console.log(JSON.stringify({
      queue: batch.queue, metrics: batch.metadata?.metrics,
      messages: batch.messages.map((m) => [m.id, m.timestamp.getTime(), m.attempts, type(m.body)]),
    }));
  },
};`

func TestDeliverHandsTheBatchOver(t *testing.T) {
	w := run(t, echo, nil)
	oldest := time.UnixMilli(1_699_999_999_000)
	messages := []queue.Message{
		message(1, queue.JSON, `{"a":[1,"ü\u2028"]}`),
		message(2, queue.Text, "quote \" back \\ nul \x00 ü \u2028 </script>"),
		message(3, queue.Bytes, "\x00\x01\xff"),
		message(4, queue.JSON, `null`),
		message(5, queue.V8, v8Object),
	}
	messages[0].Failures = 4
	messages[1].Failures = 100_000
	d := delivery("d1", messages...)
	d.Batch.Metrics = queue.Metrics{Count: 12, Bytes: 345, Oldest: oldest}
	result, err := w.Deliver(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	if result.Outcome != queue.OK || result.Error != nil || len(result.Undecodable) != 0 {
		t.Fatalf("result %+v", result)
	}
	var seen struct {
		Queue   string `json:"queue"`
		Metrics struct {
			BacklogCount           int       `json:"backlogCount"`
			BacklogBytes           int       `json:"backlogBytes"`
			OldestMessageTimestamp time.Time `json:"oldestMessageTimestamp"`
		} `json:"metrics"`
		Messages [][]any `json:"messages"`
	}
	line := w.logs.find(t, `"queue"`)
	if err := json.Unmarshal([]byte(line.Text), &seen); err != nil {
		t.Fatal(err)
	}
	if line.Delivery != "d1" || line.Queue != "jobs" || line.Event != "queue" || line.Level != "info" {
		t.Errorf("line %+v", line)
	}
	if seen.Queue != "jobs" || seen.Metrics.BacklogCount != 12 || seen.Metrics.BacklogBytes != 345 || !seen.Metrics.OldestMessageTimestamp.Equal(oldest) {
		t.Errorf("batch %+v", seen)
	}
	want := [][]any{
		{queue.NewID(7, 1).String(), 1_700_000_000_001.0, 5.0, `[object Object]{"a":[1,"ü` + "\u2028" + `"]}`},
		{queue.NewID(7, 2).String(), 1_700_000_000_002.0, 65535.0, `[object String]"quote \" back \\ nul \u0000 ü ` + "\u2028" + ` </script>"`},
		{queue.NewID(7, 3).String(), 1_700_000_000_003.0, 1.0, `[object Uint8Array]0,1,255`},
		{queue.NewID(7, 4).String(), 1_700_000_000_004.0, 1.0, `[object Null]null`},
		{queue.NewID(7, 5).String(), 1_700_000_000_005.0, 1.0, `[object Object]{"a":1}`},
	}
	if diff := cmp.Diff(want, seen.Messages); diff != "" {
		t.Error(diff)
	}
}

// v8Object is {a: 1} in V8's structured clone format, version 15.
const v8Object = "\xff\x0fo\"\x01aI\x02{\x01"

func TestDeliverReportsWhatTheHandlerAsked(t *testing.T) {
	w := run(t, `export default { async queue(batch) { for (const m of batch.messages) eval2(m.body, m, batch); } };
const eval2 = (what, m, b) => ({
  ack: () => m.ack(), retry: () => m.retry(), retry0: () => m.retry({ delaySeconds: 0 }), retry30: () => m.retry({ delaySeconds: 30 }),
  ackAll: () => b.ackAll(), retryAll: () => b.retryAll(), retryAll9: () => b.retryAll({ delaySeconds: 9 }),
  throw: () => { throw new TypeError("boom"); }, none: () => {},
})[what]();`, nil)
	id := func(seq int64) queue.ID { return queue.NewID(7, seq) }
	second := func(n int) *time.Duration { d := time.Duration(n) * time.Second; return &d }
	for _, test := range []struct {
		name   string
		bodies []string
		want   dispatch.Result
	}{
		{"nothing", []string{`"none"`}, dispatch.Result{Outcome: queue.OK}},
		{"ack and retry", []string{`"ack"`, `"retry"`, `"retry0"`, `"retry30"`, `"none"`}, dispatch.Result{Outcome: queue.OK, Report: queue.Report{
			Acked: map[queue.ID]struct{}{id(0): {}}, Retried: map[queue.ID]*time.Duration{id(1): nil, id(2): second(0), id(3): second(30)},
		}}},
		{"ackAll", []string{`"ackAll"`}, dispatch.Result{Outcome: queue.OK, Report: queue.Report{AckAll: true}}},
		{"retryAll", []string{`"retryAll"`}, dispatch.Result{Outcome: queue.OK, Report: queue.Report{RetryAll: true}}},
		{"retryAll with delay", []string{`"retryAll9"`}, dispatch.Result{Outcome: queue.OK, Report: queue.Report{RetryAll: true, RetryAllDelay: second(9)}}},
		{"ack before a throw counts", []string{`"ack"`, `"throw"`}, dispatch.Result{
			Outcome: queue.Failed, Report: queue.Report{Acked: map[queue.ID]struct{}{id(0): {}}},
			Error: &dispatch.Exception{Name: "TypeError", Message: "boom"},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := w.deliver(t, test.name, jsons(test.bodies...)...)
			if got.Error != nil {
				if !strings.HasPrefix(got.Error.Location, "main.mjs:5:") || !strings.Contains(got.Error.Stack, "at Object.queue (main.mjs:1:") || strings.Contains(got.Error.Stack, "runlot") {
					t.Errorf("location %q, stack %q", got.Error.Location, got.Error.Stack)
				}
				got.Error.Location, got.Error.Stack = "", ""
			}
			if got.Report.Acked != nil && len(got.Report.Acked) == 0 {
				got.Report.Acked = nil
			}
			if got.Report.Retried != nil && len(got.Report.Retried) == 0 {
				got.Report.Retried = nil
			}
			if diff := cmp.Diff(&test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDeliverCallsEveryKindOfHandler(t *testing.T) {
	for name, test := range map[string]struct {
		code          string
		serviceWorker bool
		date          string
	}{
		"object":       {code: `export default { name: "x", queue(batch) { console.log("got", this.name, batch.messages[0].body); throw new RangeError("no"); } };`},
		"old date":     {date: "2022-01-01", code: `export default { name: "x", queue(batch) { console.log("got", this.name, batch.messages[0].body); throw new RangeError("no"); } };`},
		"frozen":       {code: `export default Object.freeze({ name: "x", queue(batch) { console.log("got", this.name, batch.messages[0].body); throw new RangeError("no"); } });`},
		"private":      {code: `class A { #name = "x"; queue(batch) { console.log("got", this.#name, batch.messages[0].body); throw new RangeError("no"); } } export default new A();`},
		"entrypoint":   {code: `import { WorkerEntrypoint } from "cloudflare:workers"; export default class extends WorkerEntrypoint { queue(batch) { console.log("got", this.env.X, batch.messages[0].body); throw new RangeError("no"); } }`},
		"waitUntil":    {code: `export default { queue(batch, env, ctx) { console.log("got", env.X, batch.messages[0].body); ctx.waitUntil(Promise.reject(new RangeError("no"))); } };`},
		"listener":     {serviceWorker: true, code: `addEventListener("queue", (event) => { console.log("got", X, event.messages[0].body); throw new RangeError("no"); });`},
		"old listener": {serviceWorker: true, date: "2022-01-01", code: `addEventListener("queue", (event) => { console.log("got", X, event.messages[0].body); throw new RangeError("no"); });`},
	} {
		t.Run(name, func(t *testing.T) {
			w := run(t, test.code, func(_ *Runtime, spec *Spec) {
				spec.Manifest.Vars = map[string]json.RawMessage{"X": json.RawMessage(`"x"`)}
				spec.Bundle.ServiceWorker = test.serviceWorker
				if test.date != "" {
					spec.Manifest.CompatibilityDate = test.date
				}
			})
			result := w.deliver(t, "d1", jsons(`"hello"`)...)
			if result.Outcome != queue.Failed || result.Error == nil || result.Error.Name != "RangeError" || result.Error.Message != "no" {
				t.Errorf("result %+v, error %+v", result, result.Error)
			}
			if line := w.logs.find(t, "got x hello"); line.Delivery != "d1" {
				t.Errorf("line %+v", line)
			}
			if line := w.logs.find(t, "RangeError: no"); line.Delivery != "d1" || !line.Uncaught || line.Level != "error" {
				t.Errorf("line %+v", line)
			}
		})
	}
}

func TestDeliverKeepsFailuresApart(t *testing.T) {
	w := run(t, `export default { async queue(batch) {
  await scheduler.wait(batch.messages[0].body % 7);
  console.log("log " + batch.messages[0].body);
  throw new Error("error " + batch.messages[0].body);
} };`, nil)
	errs := make(chan error, queue.MaxConcurrency)
	for i := range queue.MaxConcurrency {
		go func() {
			text := strconv.Itoa(i)
			id := "d" + text
			result, err := w.Deliver(t.Context(), delivery(id, message(int64(i), queue.JSON, text)))
			switch {
			case err != nil:
				errs <- err
			case result.Error == nil || result.Error.Message != "error "+text:
				errs <- errors.New(id + " got another's error")
			default:
				errs <- nil
			}
		}()
	}
	for range queue.MaxConcurrency {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if line := w.logs.find(t, "log 57"); line.Delivery != "d57" {
		t.Errorf("line %+v", line)
	}
}

func TestDeliverTakesTheLargestBatch(t *testing.T) {
	w := run(t, `export default { queue(batch) { console.log("sum", batch.messages.reduce((n, m) => n + m.body.length, 0)); } };`, nil)
	var messages []queue.Message //nolint:prealloc // two formats, one list
	body := strings.Repeat("x", queue.LimitsOf(queue.Runlot).MessageBytes-2)
	for i := range int64(queue.MaxBatchSize / 2) {
		messages = append(messages, message(2*i, queue.JSON, `"`+body+`"`), message(2*i+1, queue.Bytes, body))
	}
	w.deliver(t, "d", messages...)
	w.logs.find(t, "sum "+strconv.Itoa(queue.MaxBatchSize*len(body)))
}

func TestDeliverSparesBatchMatesOfAnUndecodableBody(t *testing.T) {
	code := `export default { async queue(batch) {
  console.log("got", JSON.stringify(batch.messages.map((m) => m.body)));
  if (batch.messages.some((m) => m.body === "throw")) throw new Error("mine");
} };`
	bad := func(seq int64) queue.Message { return message(seq, queue.V8, "\xff\x0fnonsense") }
	good := func(seq int64) queue.Message { return message(seq, queue.V8, v8Object) }
	for _, test := range []struct {
		name     string
		messages []queue.Message
		outcome  queue.Outcome
		err      string
		got      string
		bad      []int64
	}{
		{"alone", []queue.Message{bad(1)}, queue.Failed, "DataCloneError", "", []int64{1}},
		{"first", []queue.Message{bad(1), good(2), message(3, queue.JSON, `3`)}, queue.OK, "", `[{"a":1},3]`, []int64{1}},
		{"last, and the handler throws", []queue.Message{message(1, queue.JSON, `"throw"`), bad(2)}, queue.Failed, "Error", `["throw"]`, []int64{2}},
		{"all", []queue.Message{bad(1), bad(2)}, queue.Failed, "DataCloneError", "", []int64{1, 2}},
		{"none, and the handler throws", []queue.Message{good(1), message(2, queue.JSON, `"throw"`)}, queue.Failed, "Error", `[{"a":1},"throw"]`, nil},
		{"not JSON", []queue.Message{message(1, queue.JSON, `{"a":`), message(2, queue.JSON, `2`)}, queue.OK, "", `[2]`, []int64{1}},
		{"not JSON, alone", []queue.Message{message(1, queue.JSON, `undefined`)}, queue.Failed, "DataCloneError", "", []int64{1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := run(t, code, nil)
			result := w.deliver(t, "d", test.messages...)
			if result.Outcome != test.outcome || (result.Error == nil) != (test.err == "") || (result.Error != nil && result.Error.Name != test.err) {
				t.Errorf("result %+v, error %+v", result, result.Error)
			}
			ids := make([]queue.ID, len(test.bad))
			for i, seq := range test.bad {
				ids[i] = queue.NewID(7, seq)
				if delay, ok := result.Report.Retried[ids[i]]; !ok || delay != nil {
					t.Errorf("message %d is not retried", seq)
				}
			}
			if diff := cmp.Diff(ids, result.Undecodable, cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
			if test.got != "" {
				if line := w.logs.find(t, "got "); line.Text != "got "+test.got || line.Delivery != "d" {
					t.Errorf("line %+v", line)
				}
			}
		})
	}
}

func TestDeliverCancelsWhenTheContextEnds(t *testing.T) {
	w := run(t, `let steps = 0;
export default {
  // How many steps the handler takes in a while.
  async fetch() { const before = steps; await scheduler.wait(100); return new Response(String(steps - before)); },
  async queue(batch) { console.log("begun"); for (;;) { await scheduler.wait(5); steps++; } },
};`, nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := w.deliverAsync(ctx, delivery("d", jsons(`1`)...))
	for w.get(t, "/") == "0" {
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v", err)
	}
	w.logs.find(t, "begun") // comes when the invocation is over
	if steps := w.get(t, "/"); steps != "0" {
		t.Errorf("the handler took %s steps after it was cancelled", steps)
	}
	if line := w.logs.find(t, "begun"); line.Delivery != "d" {
		t.Errorf("line of a cancelled handler: %+v", line)
	}
	if w.Err() != nil {
		t.Errorf("the process ended: %v", w.Err())
	}
}

func TestDeliverWithoutAHandlerCannotRun(t *testing.T) {
	w := run(t, `export default { fetch() { return new Response("x"); } };`, nil)
	if _, err := w.Deliver(t.Context(), delivery("d", jsons(`1`)...)); !errors.Is(err, dispatch.ErrCannotRun) || !strings.Contains(err.Error(), "queue()") {
		t.Errorf("error %v", err)
	}
}

func TestWaitUntilIsAwaitedUnlessTheFlagSaysNo(t *testing.T) {
	code := `export default { queue(batch, env, ctx) { ctx.waitUntil(Promise.reject(new Error("late"))); } };`
	if got := run(t, code, nil).deliver(t, "d", jsons(`1`)...); got.Outcome != queue.Failed || got.Error.Message != "late" {
		t.Errorf("awaited: %+v", got)
	}
	w := run(t, code, func(_ *Runtime, spec *Spec) {
		spec.Manifest.CompatibilityFlags = []string{"queue_consumer_no_wait_for_wait_until"}
	})
	if got := w.deliver(t, "d", jsons(`1`)...); got.Outcome != queue.OK {
		t.Errorf("not awaited: %+v", got)
	}
}

// TestTheErrorIsKnownWithoutWaitUntil: workerd leaves it out of the trace under that flag.
func TestTheErrorIsKnownWithoutWaitUntil(t *testing.T) {
	for name, test := range map[string]struct {
		code, location string
		want           dispatch.Exception
	}{
		"late":       {code: `export default { name: "x", async queue(batch) { await scheduler.wait(1); batch.messages[0].ack(); throw new RangeError(this.name); } };`, location: "main.mjs:1:", want: dispatch.Exception{Name: "RangeError", Message: "x"}},
		"at once":    {code: `export default { queue() { throw new TypeError("a\n    at b"); } };`, location: "main.mjs:1:", want: dispatch.Exception{Name: "TypeError", Message: "a\n    at b"}},
		"text":       {code: `export default { async queue() { throw "text"; } };`, want: dispatch.Exception{Name: "Error", Message: "text"}},
		"entrypoint": {code: `import { WorkerEntrypoint } from "cloudflare:workers"; export default class extends WorkerEntrypoint { async queue() { throw new Error("e"); } }`, location: "main.mjs:1:", want: dispatch.Exception{Name: "Error", Message: "e"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := run(t, test.code, func(_ *Runtime, spec *Spec) {
				spec.Manifest.CompatibilityFlags = []string{"queue_consumer_no_wait_for_wait_until"}
			})
			got := w.deliver(t, "d", jsons(`1`)...)
			if got.Outcome != queue.Failed || got.Error == nil || got.Error.Name != test.want.Name || got.Error.Message != test.want.Message ||
				!strings.HasPrefix(got.Error.Location, test.location) || strings.Contains(got.Error.Stack, "runlot") {
				t.Errorf("result %+v, error %+v", got, got.Error)
			}
			if line := w.logs.find(t, test.want.Message); !line.Uncaught || line.Delivery != "d" {
				t.Errorf("line %+v", line)
			}
		})
	}
}

func TestStacksAreMapped(t *testing.T) {
	w := run(t, `export default { queue() { throw new Error("no"); } };`, func(_ *Runtime, spec *Spec) {
		spec.MapStack = func(stack string) (string, string) {
			return strings.ReplaceAll(stack, "file:///bundle/main.mjs:1", "src/index.ts:9"), "src/index.ts:9:1"
		}
	})
	if got := w.deliver(t, "d", jsons(`1`)...).Error; got.Location != "src/index.ts:9:1" || !strings.Contains(got.Stack, "(src/index.ts:9:") {
		t.Errorf("error %+v", got)
	}
}

func TestScheduled(t *testing.T) {
	w := run(t, `export default { async scheduled(event) {
  console.log("run", event.cron, event.scheduledTime);
  if (event.cron === "bad") { event.noRetry(); throw new RangeError("no"); }
} };`, nil)
	at := time.UnixMilli(1_700_000_000_000)
	if got, err := w.Scheduled(t.Context(), "*/5 * * * *", at); err != nil || got.Outcome != queue.OK || got.Error != nil {
		t.Errorf("%+v, %v", got, err)
	}
	if line := w.logs.find(t, "run */5"); line.Event != "scheduled" || line.Text != "run */5 * * * * 1700000000000" {
		t.Errorf("line %+v", line)
	}
	got, err := w.Scheduled(t.Context(), "bad", at)
	if err != nil || got.Outcome != queue.Failed || got.Error == nil || got.Error.Message != "no" || !got.NoRetry {
		t.Errorf("%+v, %v", got, err)
	}
}
