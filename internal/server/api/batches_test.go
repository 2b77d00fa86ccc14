package api_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/ledger"
)

func TestBatchesThroughTheAPI(t *testing.T) {
	w := newWorld(t)
	_, records := w.serve()
	ctx := t.Context()
	for i := range 5 {
		for _, name := range []string{"jobs", "mails"} {
			r := &ledger.Record{
				ID: ledger.ID{Queue: name}, App: "shop", Version: "v1", Delivery: name + string(rune('0'+i)), Start: time.Now(), Duration: time.Millisecond,
				Outcome: queue.OK, Delivered: 1, Acked: 1,
			}
			if i == 4 {
				r.Outcome, r.Acked, r.Retried, r.Error = queue.Failed, 0, 1, &ledger.Exception{Name: "TypeError", Message: "no", Location: "a.ts:1:2", Stack: "at a"}
				r.Fates = []ledger.Fate{{Kind: ledger.Retried, Attempt: 1, Delay: time.Second}}
				records.Log(r.Delivery, ledger.Line{Time: time.Now(), Level: "warn", Text: "mind the step"})
			}
			records.Batch(r)
		}
	}
	var all []client.Batch
	for deadline := time.After(time.Minute); len(all) < 10; {
		all = nil
		f := &client.BatchFilter{Limit: 3}
		for {
			page, err := w.admin.Batches(ctx, f)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, page.Items...)
			if f.Cursor = page.Next; f.Cursor == "" {
				break
			}
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-deadline:
			t.Fatalf("%d batches", len(all))
		}
	}
	if len(all) != 10 {
		t.Errorf("%d batches in pages", len(all))
	}
	failed, err := w.admin.Batches(ctx, &client.BatchFilter{Database: "db", Queue: "jobs", App: "shop", Outcome: "failed", Since: time.Now().Add(-time.Hour), Detail: true})
	if err != nil || len(failed.Items) != 1 {
		t.Fatalf("%+v, %v", failed, err)
	}
	one, err := w.admin.Batch(ctx, "db", failed.Items[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&failed.Items[0], one); diff != "" {
		t.Errorf("the list with details and the batch differ: %s", diff)
	}
	if one.Error.Location != "a.ts:1:2" || len(one.Fates) != 1 || one.Fates[0].DelaySeconds != 1 || len(one.Lines) != 1 || one.Lines[0].Text != "mind the step" {
		t.Errorf("%+v", one)
	}
	q, err := w.admin.Queue(ctx, "db", "jobs")
	if err != nil || q.LastBatch == nil || q.LastBatch.Outcome != "failed" {
		t.Errorf("%+v, %v", q, err)
	}
	mine, err := w.client("mail", access.Read).Batches(ctx, &client.BatchFilter{})
	if err != nil || len(mine.Items) != 5 || mine.Items[0].Queue != "mails" {
		t.Errorf("%+v, %v", mine, err)
	}
	w.queues.names = append(w.queues.names, "gone")
	some, err := w.admin.Batches(ctx, &client.BatchFilter{})
	if err != nil || len(some.Items) != 10 || len(some.Away) != 1 || some.Away[0] != "gone" {
		t.Errorf("with a database that is away: %+v, %v", some, err)
	}
	if _, err := w.admin.Batches(ctx, &client.BatchFilter{Database: "gone"}); err == nil {
		t.Error("a database that is away answers")
	}
	w.queues.names = w.queues.names[:len(w.queues.names)-1]
	none, err := w.admin.Batches(ctx, &client.BatchFilter{Since: time.Now().Add(time.Hour)})
	if err != nil || len(none.Items) != 0 {
		t.Errorf("%+v, %v", none, err)
	}
}
