package workerd

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/dispatch"
)

// hoard keeps memory that V8 does not count as heap: bit by bit, at once without a look at the clock, or in one piece.
const hoard = `const kept = [];
function keep(bytes) { kept.push(new Uint8Array(bytes).fill(1)); }
export default { async queue(batch) {
  switch (batch.messages[0].body) {
    case "slowly": for (;;) { keep(8 << 20); await scheduler.wait(1); }
    case "at once": for (;;) keep(8 << 20);
    case "in one piece": keep(8e9);
  }
} };`

// TestMemoryBesideTheHeapIsBounded: the process ends, and its deliveries are lost, so that the message that does it is found.
func TestMemoryBesideTheHeapIsBounded(t *testing.T) {
	w := run(t, hoard, func(r *Runtime, _ *Spec) { r.processMiB = 256 })
	_, err := w.Deliver(t.Context(), delivery("d", jsons(`"slowly"`)...))
	if !errors.Is(err, dispatch.ErrLost) || !strings.Contains(err.Error(), "a worker may use 256 MiB") {
		t.Errorf("error %v", err)
	}
}

// TestAnAllocationPastTheWallFails in the handler that makes it, however fast; where nothing is left to say so, the process
// ends.
func TestAnAllocationPastTheWallFails(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux bounds the memory of another process")
	}
	for _, how := range []string{`"at once"`, `"in one piece"`} {
		w := run(t, hoard, func(r *Runtime, _ *Spec) { r.wallMiB = 1024 })
		result, err := w.Deliver(t.Context(), delivery("d", jsons(how)...))
		switch {
		case how == `"at once"` && errors.Is(err, dispatch.ErrLost) && strings.Contains(err.Error(), "out of memory"):
		case err != nil || result.Outcome != queue.Failed || result.Error.Name != "RangeError" || !strings.Contains(result.Error.Message, "allocation failed"):
			t.Errorf("%s: %+v %v", how, result, err)
		}
	}
}
