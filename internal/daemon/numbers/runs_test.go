package numbers_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/internal/adapter/prometheus"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/daemon/numbers"
	"github.com/runlot/runlot/internal/engine/dispatch"
	"github.com/runlot/runlot/internal/engine/schedule"
	"github.com/runlot/runlot/internal/engine/series"
)

// next counts what it is told.
type next struct{ runs, batches int }

func (n *next) Run(*schedule.Record)   { n.runs++ }
func (n *next) Batch(*dispatch.Record) { n.batches++ }

func TestRunsAreCountedOnTheirWay(t *testing.T) {
	n := &next{}
	r := numbers.CountRuns(n)
	for _, outcome := range []queue.Outcome{queue.OK, schedule.Missed, queue.OK} {
		r.Run(&schedule.Record{App: "shop", Outcome: outcome})
	}
	want := []prometheus.Runs{{App: "shop", Outcome: "missed", Count: 1}, {App: "shop", Outcome: "ok", Count: 2}}
	if diff := cmp.Diff(want, r.Counts()); diff != "" || n.runs != 3 {
		t.Errorf("%d runs went on, (-want +got):\n%s", n.runs, diff)
	}
}

func TestBatchesAreCountedOnTheirWay(t *testing.T) {
	n, tally := &next{}, &series.Tally{}
	b := numbers.Batches{Tally: tally, Next: n}
	b.Batch(&dispatch.Record{Outcome: queue.Failed, Delivered: 21, Acked: 1, Retried: 2, Redelivered: 3, Dead: 4, Dropped: 5, Duration: 7})
	c := tally.Counts()
	want := series.Counts{Delivered: 21, Acked: 1, Retried: 2, Redelivered: 3, Dead: 4, Dropped: 5, Batches: [5]int64{1: 1}, HandlerTime: 7}
	want.Handler[0] = 1
	if diff := cmp.Diff(want, c); diff != "" || n.batches != 1 {
		t.Errorf("%d batches went on, (-want +got):\n%s", n.batches, diff)
	}
}
