package ledger_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/ledger"
)

func TestPagesOfTheLedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := start(t)
		begin := time.Now()
		for range 5 {
			l.Batch(batch("jobs"))
			l.Batch(batch("mail"))
			time.Sleep(time.Second)
		}
		var got []ledger.ID
		cursor := ""
		for pages := 1; ; pages++ {
			page, err := l.List(t.Context(), ledger.Filter{}, cursor, 3)
			if err != nil {
				t.Fatal(err)
			}
			for i := range page.Records {
				got = append(got, page.Records[i].ID)
			}
			if cursor = page.Next; cursor == "" {
				break
			}
		}
		if len(got) != 10 {
			t.Fatalf("%d records on all pages", len(got))
		}
		for i := range got[1:] {
			if got[i].Number <= got[i+1].Number {
				t.Errorf("%s comes before %s", got[i], got[i+1])
			}
		}
		page, err := l.List(t.Context(), ledger.Filter{Since: begin.Add(time.Second), Until: begin.Add(3 * time.Second)}, "", 100)
		if err != nil || len(page.Records) != 4 {
			t.Errorf("%d records in two seconds, %v", len(page.Records), err)
		}
		id, err := ledger.ParseID(got[0].String())
		if err != nil || id != got[0] {
			t.Errorf("%s is read as %s, %v", got[0], id, err)
		}
		if record, err := l.Get(t.Context(), id); err != nil || record.ID != id || !record.ID.Time().Equal(begin.Add(4*time.Second)) {
			t.Errorf("record %+v, %v", record, err)
		}
		for _, bad := range []string{"x", got[0].String(), "am9icy4wMDAwMDAwMDAwMDAwMDAx!"} {
			if _, err := l.List(t.Context(), ledger.Filter{}, bad, 3); fault.KindOf(err) != fault.Invalid {
				t.Errorf("cursor %q: %v", bad, err)
			}
		}
	})
}

func TestParseID(t *testing.T) {
	for _, bad := range []string{"", "jobs", "jobs.", "jobs.1", "jobs.000000000000000g", "jobs.0000000000000000", "jobs.-000000000000001", "Jobs.0000000000000001", ".0000000000000001", "jobs.00000000000000001"} {
		if id, err := ledger.ParseID(bad); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%q is read as %s, %v", bad, id, err)
		}
	}
}

func TestSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := start(t)
		all, failed, shop := l.Subscribe(ledger.Filter{}), l.Subscribe(ledger.Filter{Outcomes: []queue.Outcome{queue.Failed}}), l.Subscribe(ledger.Filter{App: "shop"})
		for _, s := range []*ledger.Subscription{all, failed, shop} {
			defer s.Close()
		}
		r := batch("jobs")
		r.Outcome = queue.Failed
		l.Batch(r)
		l.Batch(batch("mail"))
		for _, c := range []struct {
			sub  *ledger.Subscription
			want []string
		}{{all, []string{"jobs", "mail"}}, {failed, []string{"jobs"}}, {shop, nil}} {
			var got []string
			for {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				r, missed, err := c.sub.Next(ctx)
				cancel()
				if err != nil {
					break
				}
				if missed != 0 || r.ID.Number == 0 {
					t.Errorf("record %+v after %d missed", r, missed)
				}
				got = append(got, r.ID.Queue)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("followed: %s", diff)
			}
		}
		const more = 10
		for range queue.RecordFollow + more {
			l.Batch(batch("jobs"))
		}
		if _, missed, err := all.Next(t.Context()); missed != more || err != nil {
			t.Errorf("%d missed, %v", missed, err)
		}
		if _, missed, err := all.Next(t.Context()); missed != 0 || err != nil {
			t.Errorf("then %d missed, %v", missed, err)
		}
		all.Close()
		for range queue.RecordFollow - 2 {
			_, _, _ = all.Next(t.Context())
		}
		l.Batch(batch("jobs"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if r, _, err := all.Next(ctx); err == nil {
			t.Errorf("a closed subscription gets %+v", r)
		}
	})
}
