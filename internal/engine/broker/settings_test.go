package broker_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/settings"
)

// TestDeliveryDelay: the delay of a queue is that of messages which are sent without one, and is kept.
func TestDeliveryDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, tiny)
		check(t, r.b.Change(t.Context(), "a", settings.Change{DeliveryDelay: new(time.Minute)}))
		l := r.lane("a")
		begin := time.Now()
		r.send("a", draft("usual"), delayed("at once", 0), delayed("own", 2*time.Minute))
		_, got := next(t, l, 1, 0)
		wantBodies(t, got, "at once")
		if since := time.Since(begin); since != 0 {
			t.Errorf("an explicit delay of 0 waited %s", since)
		}
		_, got = next(t, l, 1, 0)
		wantBodies(t, got, "usual")
		if since := time.Since(begin).Truncate(time.Second); since != time.Minute {
			t.Errorf("waited %s", since)
		}
		_, got = next(t, l, 1, 0)
		wantBodies(t, got, "own")
		l.Close()
		check(t, r.b.Stop(t.Context()))

		r.restart(tiny)
		if s, err := r.b.Settings("a"); err != nil || s.DeliveryDelay != time.Minute || s.Created.IsZero() {
			t.Errorf("%+v, %v", s, err)
		}
		check(t, r.b.Change(t.Context(), "a", settings.Change{DeliveryDelay: new(time.Duration(0)), Paused: new(true), Retention: new(time.Hour)}))
		if s, err := r.b.Settings("a"); err != nil || s.DeliveryDelay != 0 || s.PausedAt.IsZero() || s.Retention != time.Hour || !s.Overridden {
			t.Errorf("%+v, %v", s, err)
		}
	})
}

func TestSettingsAreRefusedWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, tiny)
		for _, c := range []settings.Change{
			{Paused: new(true), DeliveryDelay: new(queue.MaxDelay + 1)},
			{Paused: new(true), DeliveryDelay: new(time.Duration(-1))},
			{Paused: new(true), Retention: new(queue.MinRetention - 1)},
		} {
			wantFault(t, r.b.Change(t.Context(), "a", c), fault.Invalid, queue.CodeMetadataInvalid)
		}
		if s, err := r.b.Settings("a"); err != nil || !s.PausedAt.IsZero() {
			t.Errorf("%+v, %v", s, err)
		}
		_, err := r.b.Settings("none")
		wantFault(t, err, fault.NotFound, queue.CodeQueueNotFound)
	})
}
