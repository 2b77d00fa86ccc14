package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/runlot/runlot/internal/adapter/postgres/cluster/clustertest"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// A send that was given up and is taken back is taken out of the count too, in a store that is asked after that.
func TestCountOfATakenBackSend(t *testing.T) {
	o := newOwner(t)
	day := int32(time.Now().UTC().Unix() / 86_400)
	entry := func(number, written int64) *store.Usage {
		return &store.Usage{Source: store.Sends, Day: day, Number: number, Written: written}
	}
	for _, c := range []struct {
		name, trigger string
		rows          int
	}{{"few", insertTrigger, 3}, {"many", copyTrigger, 100}} {
		t.Run(c.name, func(t *testing.T) {
			before, err := o.Usage(t.Context())
			clustertest.Must(t, err)
			number, written := int64(1), int64(5)
			if len(before) > 0 {
				number, written = before[0].Number+1, before[0].Written+5
			}
			clustertest.Must(t, o.Append(t.Context(), o.rows(5), entry(number, written)))
			stored := len(o.stored(t))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			struck := o.proxy.arm(c.trigger, lostReply)
			o.proxy.setRefuse(true)
			done := make(chan error, 1)
			rows := o.rows(c.rows)
			// The memory of an entry is used again after the call.
			given := entry(number+1, written+int64(c.rows))
			go func() { done <- o.Append(ctx, rows, given) }()
			<-struck
			watch := o.d.connect(t)
			until(t, func() int { return clustertest.One[int](t, watch, "SELECT count(*) FROM runlot_queue.message") }, func(n int) bool { return n > stored })
			if total := clustertest.One[int64](t, watch, "SELECT total FROM runlot_queue.usage_by_day"); total != written+int64(c.rows) {
				t.Errorf("%d operations are counted for what is stored, want %d", total, written+int64(c.rows))
			}
			cancel()
			if err := <-done; fault.KindOf(err) != fault.Unavailable {
				t.Fatalf("a send that was given up: %v, want a fault of kind unavailable", err)
			}
			*given = store.Usage{}
			o.proxy.setRefuse(false)
			clustertest.Must(t, o.Append(t.Context(), o.rows(1), nil))
			got, err := o.Usage(t.Context())
			clustertest.Must(t, err)
			if diff := cmp.Diff([]store.Usage{*entry(number+1, written)}, got); diff != "" {
				t.Errorf("usage (-want +got):\n%s", diff)
			}
		})
	}
}

// Entries that were replaced are deleted, so that their number is bounded by what is written between two sweeps.
func TestReplacedEntriesAreDeleted(t *testing.T) {
	o := newOwner(t)
	day := int32(time.Now().UTC().Unix() / 86_400)
	count := func() int {
		return clustertest.One[int](t, o.d.connect(t), "SELECT count(*) FROM runlot_queue.usage")
	}
	for n := int64(1); n <= 20; n++ {
		clustertest.Must(t, o.Append(t.Context(), o.rows(1), &store.Usage{Source: store.Sends, Day: day, Number: n, Written: n}))
	}
	if n := count(); n != 20 {
		t.Fatalf("%d entries, want one for each commit", n)
	}
	for range 2 {
		clustertest.Must(t, o.SaveUsage(t.Context(), nil, day-queue.UsageDays))
		if n := count(); n != 1 {
			t.Errorf("%d entries after a sweep, want the newest", n)
		}
	}
	for n := int64(21); n <= 25; n++ {
		clustertest.Must(t, o.Append(t.Context(), o.rows(1), &store.Usage{Source: store.Sends, Day: day, Number: n, Written: n}))
	}
	clustertest.Must(t, o.SaveUsage(t.Context(), nil, day-queue.UsageDays))
	if n := count(); n != 1 {
		t.Errorf("%d entries after a second sweep, want the newest", n)
	}
}

// What was deleted gives its space back, down to the table's last page in use, while the store works on.
func TestCompactGivesSpaceBack(t *testing.T) {
	o := newOwner(t)
	rows := o.rows(100)
	for i := range rows {
		rows[i].Body = make([]byte, 100_000)
	}
	before, err := o.Size(t.Context())
	clustertest.Must(t, err)
	clustertest.Must(t, o.Append(t.Context(), rows, nil))
	full, err := o.Size(t.Context())
	clustertest.Must(t, err)
	if full < before+100*100_000 {
		t.Errorf("the database grew from %d to %d", before, full)
	}
	clustertest.Must(t, o.Apply(t.Context(), &store.Change{Delete: keysOf(rows)}))
	clustertest.Must(t, o.Compact(t.Context()))
	after, err := o.Size(t.Context())
	clustertest.Must(t, err)
	if after > before+2_000_000 {
		t.Errorf("the database had %d bytes, grew to %d, and has %d after everything was deleted", before, full, after)
	}
}
