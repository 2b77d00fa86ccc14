package broker_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker"
	"github.com/runlot/runlot/internal/engine/broker/operate"
)

// overview is how queue a is doing, without its times.
func (r *rig) overview() operate.Overview {
	r.t.Helper()
	v, err := r.b.Overview(r.t.Context(), "a")
	check(r.t, err)
	v.Oldest, v.Retention = time.Time{}, 0
	return v
}

func TestOverview(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, broker.Bounds{})
		<-r.b.Counted()
		if got := r.b.Queues(); !slices.Equal(got, []string{"a", "b", "dead"}) {
			t.Errorf("queues %v", got)
		}
		r.send("a", draft("1"), draft("2"), draft("3"), delayed("4", time.Hour))
		want := operate.Overview{Name: "a", Unsettled: 4, Bytes: 4, Visible: 3, Delayed: 1}
		if diff := cmp.Diff(want, r.overview()); diff != "" {
			t.Errorf("without a lane: %s", diff)
		}
		l := r.lane("a")
		batch, _ := next(t, l, 2, 0)
		want.Visible, want.InFlight = 1, 2
		if diff := cmp.Diff(want, r.overview()); diff != "" {
			t.Errorf("with two in flight: %s", diff)
		}
		check(t, settle(l, batch, decide(batch, queue.Retry, time.Minute)))
		check(t, r.b.Pause(t.Context(), "a"))
		check(t, r.b.OverrideRetention(t.Context(), "a", time.Hour))
		v, err := r.b.Overview(t.Context(), "a")
		if err != nil || v.Visible != 1 || v.Delayed != 3 || v.InFlight != 0 || v.PausedAt.IsZero() || v.Retention != time.Hour || !v.Overridden || v.Oldest.IsZero() {
			t.Errorf("after a retry and a pause: %+v, %v", v, err)
		}
		if _, err := r.b.Overview(t.Context(), "none"); fault.KindOf(err) != fault.NotFound {
			t.Errorf("a queue that is not there: %v", err)
		}
	})
}

// TestOverviewCountsNoMoreThanItMay: beyond its bound it says that it does not know.
func TestOverviewCountsNoMoreThanItMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, broker.Bounds{})
		<-r.b.Counted()
		send := func(n int) {
			list := make([]queue.Draft, n)
			for i := range list {
				list[i] = delayed("x", time.Hour)
			}
			r.send("a", list...)
		}
		for range queue.DelayedCounted / 1000 {
			send(1000)
		}
		if v := r.overview(); v.Delayed != queue.DelayedCounted || v.Visible != 0 {
			t.Errorf("at the bound: %+v", v)
		}
		send(1)
		if v := r.overview(); v.Delayed != operate.Unknown || v.Visible != operate.Unknown || v.Unsettled != queue.DelayedCounted+1 {
			t.Errorf("beyond the bound: %+v", v)
		}
	})
}

// TestRedriveOnlyWhereItMay: with one message that would go where it may not, nothing moves.
func TestRedriveOnlyWhereItMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, broker.Bounds{})
		for _, name := range []string{"a", "b"} {
			r.send(name, draft("from "+name))
			l := r.lane(name)
			batch, _ := next(t, l, 1, 0)
			check(t, settle(l, batch, decide(batch, queue.DeadLetter, 0)))
		}
		may := func(name string) bool { return name == "a" }
		for _, o := range []operate.RedriveOptions{{May: may}, {May: may, To: "b"}, {May: may, IDs: r.ids("dead", "from a", "from b")}} {
			done, err := r.b.Redrive(t.Context(), "dead", o)
			if f := fault.From(err); f == nil || f.Code != operate.CodeTargetForbidden || done.Moved != 0 {
				t.Errorf("%+v: %+v, %v", o, done, err)
			}
		}
		done, err := r.b.Redrive(t.Context(), "dead", operate.RedriveOptions{May: may, IDs: r.ids("dead", "from a")})
		if err != nil || done.Moved != 1 {
			t.Errorf("%+v, %v", done, err)
		}
	})
}

func TestDays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, broker.Bounds{})
		r.b.SetDailyOperations(1000)
		r.send("a", draft("1"))
		time.Sleep(24 * time.Hour)
		r.send("a", draft("2"), draft("3"))
		days, dailyCap := r.b.Days()
		if dailyCap != 1000 || len(days) != 2 || days[0].Written != 2 || days[1].Written != 1 || !days[0].Begin.Equal(time.Now().UTC().Truncate(24*time.Hour)) {
			t.Errorf("%+v of %d", days, dailyCap)
		}
	})
}
