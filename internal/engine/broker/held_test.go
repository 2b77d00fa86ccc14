package broker_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/operate"
)

// TestWhoHoldsABatch: what is in flight says since when, with how many others and by whom, until the lease is over.
func TestWhoHoldsABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, tiny)
		r.send("a", drafts(3)...)
		l := r.lane("a")
		batch, _ := next(t, l, 2, 0)
		since := time.Now()
		time.Sleep(time.Second)
		if m := r.peek("a", operate.InFlight); len(m) != 2 || m[0].Holder != nil || !m[0].LeasedAt.Equal(since) || m[0].Batch != 2 {
			t.Errorf("before it is told: %+v", m)
		}
		want := queue.Holder{App: "shop", Version: "v1", Delivery: "d", Until: since.Add(time.Minute)}
		l.Held(batch, &want)
		for _, m := range r.peek("a", operate.InFlight) {
			if diff := cmp.Diff(&want, m.Holder); diff != "" {
				t.Errorf("holder (-want +got):\n%s", diff)
			}
		}
		check(t, settle(l, batch, decide(batch, queue.Retry, time.Minute)))
		l.Held(batch, &want)
		for _, m := range r.peek("a", operate.Any) {
			if m.Holder != nil || m.Batch != 0 {
				t.Errorf("after it was settled: %+v", m)
			}
		}
	})
}
