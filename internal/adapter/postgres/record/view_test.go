package record_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/internal/adapter/postgres/cluster/clustertest"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/ledger"
)

// TestViews reads as the app's role does what was written.
func TestViews(t *testing.T) {
	access := clustertest.NewDatabase(t)
	s := open(t, access)
	declare(t, access, "jobs")
	id := ledger.ID{Queue: "jobs", Number: time.UnixMilli(1_800_000_000_000).UnixMilli()<<20 | 5}
	_, err := s.Write(t.Context(), []ledger.Record{
		{
			ID: id, App: "shop", Version: "v7", Delivery: "d-1", Start: time.UnixMilli(1_799_999_999_000), Duration: 1_500 * time.Millisecond,
			Outcome: queue.Failed, Delivered: 5, Acked: 1, Retried: 1, Redelivered: 1, Dead: 1, Dropped: 1,
			Error:  &ledger.Exception{Name: "TypeError", Message: "no", Location: "src/index.ts:3:9", Stack: "at x"},
			Reason: "why", Warnings: []string{"one", "two"}, Lines: []ledger.Line{{Time: time.UnixMilli(5), Level: "info", Text: "hello"}},
			Fates: []ledger.Fate{
				{ID: queue.NewID(1, 2), Kind: ledger.Retried, Attempt: 300, Delay: queue.MaxDelay},
				{ID: queue.NewID(1, 3), Kind: ledger.Redelivered, Attempt: 1, Delay: 100 * time.Millisecond},
				{ID: queue.NewID(1, 4), Kind: ledger.Dead, Attempt: 4},
				{ID: queue.NewID(1, 5), Kind: ledger.Dropped, Attempt: 5},
			},
			Acks: []queue.Acked{{ID: queue.NewID(1<<63|1, 6), Attempt: 1}, {ID: queue.NewID(1<<63|1, 1<<62), Attempt: 300}},
		},
		{ID: ledger.ID{Queue: "jobs", Number: 7}, App: "shop", Start: time.UnixMilli(0), Outcome: queue.OK, Delivered: 1, Acked: 1},
	})
	must(t, err)
	app := connect(t, access.AppURL())
	exec(t, app, "SET timezone = 'UTC'")
	read := func(sql string) []string {
		t.Helper()
		var lines []string
		must(t, app.QueryRow(t.Context(), "SELECT array_agg(x::text) FROM ("+sql+") x").Scan(&lines))
		return lines
	}
	want := []string{
		`(jobs,jobs.` + id.String()[5:] + `,failed,shop,v7,"2027-01-15 07:59:59+00",00:00:01.5,5,1,1,1,1,1,0,0,"TypeError: no",src/index.ts:3:9,"at x",why,"{one,two}","[{""text"": ""hello"", ""time"": ""1970-01-01T00:00:00.005Z"", ""level"": ""info""}]",d-1,"2027-01-15 08:00:00+00")`,
		`(jobs,jobs.0000000000000007,ok,shop,"","1970-01-01 00:00:00+00",00:00:00,1,1,0,0,0,0,0,0,,,,,,,"","1970-01-01 00:00:00+00")`,
	}
	if diff := cmp.Diff(want, read("TABLE runlot_queue.batches ORDER BY recorded_at DESC")); diff != "" {
		t.Errorf("batches: %s", diff)
	}
	want = []string{
		`(jobs,` + id.String() + `,00000000000000010000000000000002,retried,300,24:00:00)`,
		`(jobs,` + id.String() + `,00000000000000010000000000000003,redelivered,1,00:00:00.1)`,
		`(jobs,` + id.String() + `,00000000000000010000000000000004,dead,4,00:00:00)`,
		`(jobs,` + id.String() + `,00000000000000010000000000000005,dropped,5,00:00:00)`,
	}
	if diff := cmp.Diff(want, read("TABLE runlot_queue.batch_fates ORDER BY message")); diff != "" {
		t.Errorf("batch_fates: %s", diff)
	}
	want = []string{
		`(jobs,` + id.String() + `,80000000000000010000000000000006,1)`,
		`(jobs,` + id.String() + `,80000000000000014000000000000000,300)`,
	}
	if diff := cmp.Diff(want, read("TABLE runlot_queue.batch_acks ORDER BY message")); diff != "" {
		t.Errorf("batch_acks: %s", diff)
	}
}

// TestStalledDatabase locks the table under a ledger that writes: records go on to be taken at once, and all are written
// when the lock is gone; so they are after every session was ended.
func TestStalledDatabase(t *testing.T) {
	access := clustertest.NewDatabase(t)
	s := open(t, access)
	declare(t, access, "jobs")
	l := ledger.New(slog.New(slog.DiscardHandler))
	l.Attach(s)
	l.Start()
	locker := connect(t, access.OwnerURL())
	lock, err := locker.Begin(t.Context())
	must(t, err)
	_, err = lock.Exec(t.Context(), "LOCK TABLE runlot_queue.batch")
	must(t, err)
	sub := l.Subscribe(ledger.Filter{})
	defer sub.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const records = 3 * queue.RecordRows
	waiting := func() (n int) {
		must(t, locker.QueryRow(ctx, "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'runlot_queue.batch'::regclass").Scan(&n))
		return n
	}
	for i := range records {
		l.Batch(&ledger.Record{ID: ledger.ID{Queue: "jobs"}, Start: time.Now(), Outcome: queue.OK, Delivered: 1, Acked: 1})
		if _, missed, err := sub.Next(ctx); err != nil || missed != 0 {
			t.Fatalf("record %d: %d missed, %v", i, missed, err)
		}
	}
	for waiting() == 0 {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			t.Fatal("no write waits for the lock")
		}
	}
	_, err = lock.Exec(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND usename = current_user AND pid <> pg_backend_pid()")
	must(t, err)
	must(t, lock.Rollback(ctx))
	l.Stop(ctx)
	var n int
	must(t, locker.QueryRow(ctx, "SELECT records FROM runlot_queue.batch_held").Scan(&n))
	var missed int
	must(t, locker.QueryRow(ctx, "SELECT sum(missed) FROM runlot_queue.batches").Scan(&missed))
	if n != records || missed != 0 {
		t.Errorf("%d of %d records are kept, %d missed", n, records, missed)
	}
}
