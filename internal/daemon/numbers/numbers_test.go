package numbers_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/daemon/numbers"
	"github.com/runlot/runlot/internal/engine/broker/backlog"
	"github.com/runlot/runlot/internal/engine/broker/operate"
	"github.com/runlot/runlot/internal/engine/series"
)

// broker says what a test has it say, and counts what it is asked.
type broker struct {
	depths    []backlog.Depth
	overviews map[string]operate.Overview
	asked     int
}

func (b *broker) Depths() []backlog.Depth { return b.depths }

func (b *broker) Overview(_ context.Context, name string) (operate.Overview, error) {
	b.asked++
	return b.overviews[name], nil
}

func looks(b *broker) *numbers.Looks {
	return &numbers.Looks{
		Broker: func() numbers.Broker { return b },
		Calls:  func() map[string]numbers.Calls { return map[string]numbers.Calls{"jobs": {Most: 2, Allowed: 5}} },
	}
}

func TestGauges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		b := &broker{
			depths: []backlog.Depth{
				{Queue: "jobs", Count: 10, InFlight: 3, Delayed: 2, Whole: true, Oldest: now.Add(-time.Minute), Bytes: 77},
				{Queue: "dead", Count: 8},
				{Queue: "cut", Count: 100, InFlight: 10, Delayed: 20},
				{Queue: "many", Count: 50_000},
				{Queue: "empty", Whole: true},
			},
			overviews: map[string]operate.Overview{
				"dead": {Delayed: 3, Oldest: now.Add(-time.Hour)}, "cut": {Delayed: 95}, "many": {Delayed: operate.Unknown},
			},
		}
		l := looks(b)
		want := map[string]series.Gauges{
			"jobs":  {Visible: 5, Delayed: 2, InFlight: 3, Oldest: time.Minute, Running: 2, Allowed: 5, LaneBytes: 77},
			"dead":  {Visible: 5, Delayed: 3, Oldest: time.Hour},
			"cut":   {Visible: 0, Delayed: 90, InFlight: 10},
			"many":  {Visible: 50_000},
			"empty": {},
		}
		got, known := l.Gauges(t.Context())
		if diff := cmp.Diff(want, got); diff != "" || !known {
			t.Errorf("known %v, (-want +got):\n%s", known, diff)
		}
		// What was read counts for a while.
		if _, _ = l.Gauges(t.Context()); b.asked != 3 {
			t.Errorf("the database was asked %d times, want 3", b.asked)
		}
		time.Sleep(queue.SeriesDelayedEvery)
		if _, _ = l.Gauges(t.Context()); b.asked != 6 {
			t.Errorf("the database was asked %d times, want 6", b.asked)
		}
	})
}

func TestTheDatabaseIsAskedWithinBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &broker{}
		for i := range 3 * queue.SeriesDelayedQueues {
			b.depths = append(b.depths, backlog.Depth{Queue: "q" + string(rune('a'+i)), Count: 1})
		}
		l := looks(b)
		for round := 1; round <= 3; round++ {
			if _, _ = l.Gauges(t.Context()); b.asked != round*queue.SeriesDelayedQueues {
				t.Errorf("round %d: the database was asked %d times", round, b.asked)
			}
			time.Sleep(queue.SeriesStep)
		}
		if _, _ = l.Gauges(t.Context()); b.asked != 3*queue.SeriesDelayedQueues {
			t.Errorf("the database was asked %d times about queues that are known", b.asked)
		}
	})
}

func TestNothingIsKnownWithoutABroker(t *testing.T) {
	l := looks(&broker{})
	if _, known := l.Gauges(t.Context()); known {
		t.Error("a broker that has not counted yet is believed")
	}
	l.Broker = func() numbers.Broker { return nil }
	if _, known := l.Gauges(t.Context()); known {
		t.Error("nobody is believed")
	}
}
