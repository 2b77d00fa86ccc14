package history_test

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/runlot/runlot/internal/adapter/memory/record"
	"github.com/runlot/runlot/internal/adapter/workerd"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/daemon/history"
	"github.com/runlot/runlot/internal/engine/dispatch"
	"github.com/runlot/runlot/internal/engine/ledger"
)

// observer keeps what it is told.
type observer struct{ batches []*dispatch.Record }

func (o *observer) Batch(r *dispatch.Record) { o.batches = append(o.batches, r) }

func TestRecorder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &record.Store{}
		s.Declare("jobs")
		l := ledger.New(slog.New(slog.DiscardHandler))
		l.Attach(s)
		l.Start()
		o := &observer{}
		var logged []workerd.Line
		log := history.Lines(l, func(line workerd.Line) { logged = append(logged, line) })
		log(workerd.Line{Time: time.UnixMilli(1), Level: "info", Text: "of the batch", Delivery: "d"})
		log(workerd.Line{Time: time.UnixMilli(2), Level: "info", Text: "of no batch"})
		start := time.Now()
		id := func(n int64) queue.ID { return queue.NewID(1, n) }
		told := &dispatch.Record{
			App: "shop", Queue: "jobs", Delivery: "d", Version: "v1", Start: start, Duration: time.Second, Outcome: queue.Failed,
			Delivered: 10, Acked: 1, Retried: 2, Redelivered: 3, Dead: 4, Dropped: 5, Reason: "why", Warnings: []string{"w\nx"},
			Error: &dispatch.Exception{Name: "TypeError", Message: "no", Location: "a.ts:1:2", Stack: "at a"},
			Fates: []dispatch.Fate{
				{ID: id(1), Verdict: queue.Retry, Spent: true, Attempt: 1, Delay: time.Minute},
				{ID: id(2), Verdict: queue.Retry, Attempt: 2},
				{ID: id(3), Verdict: queue.DeadLetter, Spent: true, Attempt: 3},
				{ID: id(4), Verdict: queue.Drop, Spent: true, Attempt: 4},
			},
		}
		history.Recorder{Observer: o, Ledger: l}.Batch(told)
		l.Stop(t.Context())
		want := []ledger.Record{{
			App: "shop", Delivery: "d", Version: "v1", Start: start, Duration: time.Second, Outcome: queue.Failed,
			Delivered: 10, Acked: 1, Retried: 2, Redelivered: 3, Dead: 4, Dropped: 5, Reason: "why", Warnings: []string{"w x"},
			Error: &ledger.Exception{Name: "TypeError", Message: "no", Location: "a.ts:1:2", Stack: "at a"},
			Fates: []ledger.Fate{
				{ID: id(1), Kind: ledger.Retried, Attempt: 1, Delay: time.Minute},
				{ID: id(2), Kind: ledger.Redelivered, Attempt: 2},
				{ID: id(3), Kind: ledger.Dead, Attempt: 3},
				{ID: id(4), Kind: ledger.Dropped, Attempt: 4},
			},
			Lines: []ledger.Line{{Time: time.UnixMilli(1), Level: "info", Text: "of the batch"}},
		}}
		if diff := cmp.Diff(want, s.All("jobs"), cmpopts.IgnoreFields(ledger.Record{}, "ID")); diff != "" {
			t.Errorf("kept: %s", diff)
		}
		if len(o.batches) != 1 || o.batches[0].Warnings[0] != "w\nx" || len(logged) != 2 {
			t.Errorf("the observer was told %+v, and %d lines", o.batches, len(logged))
		}
	})
}
