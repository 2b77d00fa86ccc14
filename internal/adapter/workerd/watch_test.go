package workerd

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/tail"
)

// TestWatch: a process tells of every invocation while somebody follows it, and only then.
func TestWatch(t *testing.T) {
	told := make(chan *tail.Invocation, 100)
	w := run(t, `export default {
  fetch(request) {
    if (request.url.includes("boom")) throw new TypeError("boom");
    return new Response(null, { status: 204 });
  },
  queue(batch) {
    console.log("batch of", batch.messages.length, { queue: batch.queue });
    console.error(new Error("logged"));
    if (batch.messages.length > 1) throw new RangeError("too many");
  },
  scheduled() {},
};`, func(_ *Runtime, spec *Spec) { spec.Invoked = func(i *tail.Invocation) { told <- i } })
	next := func() *tail.Invocation {
		t.Helper()
		select {
		case i := <-told:
			return i
		case <-time.After(time.Minute):
			t.Fatal("nothing is told")
			return nil
		}
	}
	event := func(i *tail.Invocation) (got map[string]any) {
		t.Helper()
		if err := json.Unmarshal(i.Event, &got); err != nil {
			t.Fatalf("%s: %v", i.Event, err)
		}
		return got
	}
	if err := w.Watch(t.Context(), true); err != nil {
		t.Fatal(err)
	}

	w.get(t, "/quiet?a=b")
	i := next()
	got := event(i)
	request, _ := got["request"].(map[string]any)
	if url, _ := request["url"].(string); i.Outcome != "ok" || !strings.HasSuffix(url, "/quiet?a=b") || request["method"] != "GET" ||
		cmp.Diff(map[string]any{"status": 204.0}, got["response"]) != "" || time.Since(i.At) > time.Hour || len(i.Logs)+len(i.Exceptions) != 0 {
		t.Errorf("a request: %+v %s", i, i.Event)
	}
	if headers, _ := request["headers"].(map[string]any); headers["host"] == nil {
		t.Errorf("headers: %s", i.Event)
	}
	w.get(t, "/boom")
	if i = next(); i.Outcome != "exception" || len(i.Exceptions) != 1 || i.Exceptions[0].Name != "TypeError" || i.Exceptions[0].Message != "boom" ||
		!strings.HasPrefix(i.Exceptions[0].Stack, "    at ") || strings.Contains(i.Exceptions[0].Stack, "runlot") {
		t.Errorf("a request that fails: %+v", i)
	}
	if result := w.deliver(t, "d", jsons(`1`, `2`)...); result.Outcome != queue.Failed {
		t.Errorf("result %+v", result)
	}
	i = next()
	if diff := cmp.Diff(map[string]any{"queue": "jobs", "batchSize": 2.0}, event(i)); diff != "" || i.Outcome != "exception" || i.Exceptions[0].Message != "too many" {
		t.Errorf("a batch: %+v %s", i, diff)
	}
	if len(i.Logs) != 2 || i.Logs[0].Level != "log" || i.Logs[0].Text != "batch of 2 { queue: 'jobs' }" || i.Logs[1].Level != "error" ||
		!strings.HasPrefix(i.Logs[1].Text, "Error: logged\n    at ") {
		t.Errorf("logs: %+v", i.Logs)
	}
	at := time.Now().Truncate(time.Second)
	if _, err := w.Scheduled(t.Context(), "0 3 * * *", at); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"cron": "0 3 * * *", "scheduledTime": float64(at.UnixMilli())}, event(next())); diff != "" {
		t.Error(diff)
	}

	if err := w.Watch(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	w.get(t, "/after")
	w.deliver(t, "d2", jsons(`1`)...) // its logs come behind what the request would have told
	w.logs.find(t, "batch of 1")
	if len(told) != 0 {
		t.Errorf("told although nobody follows: %+v", <-told)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Watch(ended, true); err == nil {
		t.Error("a call that has ended switched it")
	}
}
