package workerd

import (
	"strings"
	"testing"

	"github.com/runlot/runlot/internal/core/queue"
)

// TestBuffersAreBounded: the contents of ArrayBuffers lie outside the heap that V8 bounds. A handler that fills the memory
// with them fails, and its process goes on for the others. The bound is on what may be written, so that nothing has to be.
func TestBuffersAreBounded(t *testing.T) {
	w := run(t, `export default {
  fetch() { return new Response("still here"); },
  queue() { const all = []; for (;;) all.push(new Uint8Array(1e8)); },
};`, func(r *Runtime, _ *Spec) { r.processMiB = 700 })
	got := w.deliver(t, "d", jsons(`1`)...)
	if got.Outcome != queue.Failed || got.Error == nil || got.Error.Name != "RangeError" || got.Error.Message != "Array buffer allocation failed" {
		t.Errorf("result %+v, error %+v", got, got.Error)
	}
	if body := w.get(t, "/"); !strings.HasPrefix(body, "still here") {
		t.Errorf("then it answers %q", body)
	}
}
