package workerd

import (
	"errors"
	"testing"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/dispatch"
)

// noWait runs a worker under the flag with which a delivery does not wait for what was given to waitUntil.
func noWait(t *testing.T, code string, serviceWorker bool) *world {
	t.Helper()
	return run(t, code, func(_ *Runtime, spec *Spec) {
		spec.Manifest.CompatibilityFlags = []string{"queue_consumer_no_wait_for_wait_until"}
		spec.Bundle.ServiceWorker = serviceWorker
	})
}

// TestTheErrorIsKnownWhileWaitUntilGoesOn: the trace of a delivery that threw ends only when what it gave to waitUntil has
// ended, which is here never; the result and its error must not wait for it.
func TestTheErrorIsKnownWhileWaitUntilGoesOn(t *testing.T) {
	for name, test := range map[string]struct {
		code          string
		serviceWorker bool
	}{
		"object":          {`export default { async queue(batch, env, ctx) { ctx.waitUntil(scheduler.wait(600_000)); batch.messages[0].ack(); await 0; throw new RangeError("x"); } };`, false},
		"entrypoint":      {`import { WorkerEntrypoint } from "cloudflare:workers"; export default class extends WorkerEntrypoint { async queue(batch) { this.ctx.waitUntil(scheduler.wait(600_000)); batch.messages[0].ack(); throw new RangeError("x"); } }`, false},
		"listener":        {`addEventListener("queue", (event) => { event.waitUntil(scheduler.wait(600_000)); event.messages[0].ack(); throw new RangeError("x"); });`, true},
		"listener object": {`addEventListener("queue", { x: "x", handleEvent(event) { event.waitUntil(scheduler.wait(600_000)); event.messages[0].ack(); throw new RangeError(this.x); } });`, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := noWait(t, test.code, test.serviceWorker)
			got := w.deliver(t, "d", jsons(`1`, `2`)...)
			if got.Outcome != queue.Failed || got.Error == nil || got.Error.Name != "RangeError" || got.Error.Message != "x" || got.Error.Location == "" {
				t.Errorf("result %+v, error %+v", got, got.Error)
			}
			if _, ok := got.Report.Acked[queue.NewID(7, 0)]; !ok || len(got.Report.Acked) != 1 {
				t.Errorf("report %+v", got.Report)
			}
			w.kill("the test is over")
		})
	}
}

// TestListenersUnderTheFlag: a service worker waits for waitUntil with the flag too, and its listeners stay themselves.
func TestListenersUnderTheFlag(t *testing.T) {
	for name, test := range map[string]struct {
		code    string
		outcome queue.Outcome
		err     string
	}{
		"waitUntil rejects": {`addEventListener("queue", (event) => { event.waitUntil((async () => { await scheduler.wait(5); throw new Error("late"); })()); });`, queue.Failed, "late"},
		"waitUntil acks":    {`addEventListener("queue", (event) => { event.waitUntil((async () => { await scheduler.wait(5); event.messages[0].ack(); })()); });`, queue.OK, ""},
		"throws at once":    {`addEventListener("queue", () => { throw new Error("now"); });`, queue.Failed, "now"},
		"this and no more":  {`addEventListener("queue", function (...args) { if (this !== globalThis || args.length !== 1) throw new Error("another call"); }, { once: false });`, queue.OK, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := noWait(t, test.code, true)
			got := w.deliver(t, "d", jsons(`1`)...)
			if got.Outcome != test.outcome || (got.Error == nil) != (test.err == "") || (got.Error != nil && got.Error.Message != test.err) {
				t.Errorf("result %+v, error %+v", got, got.Error)
			}
			if acked := len(got.Report.Acked); (name == "waitUntil acks") != (acked == 1) {
				t.Errorf("%d acks", acked)
			}
		})
	}
}

// TestAMissingHandlerUnderTheFlag: only a line of the log tells of it.
func TestAMissingHandlerUnderTheFlag(t *testing.T) {
	w := noWait(t, `export default { fetch() { return new Response("x"); } };`, false)
	if _, err := w.Deliver(t.Context(), delivery("d", jsons(`1`)...)); !errors.Is(err, dispatch.ErrCannotRun) {
		t.Errorf("error %v", err)
	}
}

// TestAHungHandlerIsNamed: workerd ends a handler at once that waits while nothing is under way, and throws nothing.
func TestAHungHandlerIsNamed(t *testing.T) {
	for name, code := range map[string]string{
		"handler":   `export default { async queue(batch) { batch.messages[0].ack(); await new Promise(() => {}); } };`,
		"waitUntil": `export default { queue(batch, env, ctx) { batch.messages[0].ack(); ctx.waitUntil(new Promise(() => {})); } };`,
	} {
		t.Run(name, func(t *testing.T) {
			got := run(t, code, nil).deliver(t, "d", jsons(`1`)...)
			if got.Outcome != queue.Failed || got.Error == nil || got.Error.Message != hung || len(got.Report.Acked) != 1 {
				t.Errorf("result %+v, error %+v", got, got.Error)
			}
		})
	}
	if got := noWait(t, `export default { async queue() { await new Promise(() => {}); } };`, false).deliver(t, "d", jsons(`1`)...); got.Error == nil || got.Error.Message != hung {
		t.Errorf("under the flag: %+v", got.Error)
	}
}
