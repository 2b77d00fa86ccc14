package ledgertest

import (
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/ledger"
)

func testOf(t *testing.T, s ledger.Store) {
	mine := queue.NewID(7, 1)
	fate := func(id queue.ID, attempt int) ledger.Fate {
		return ledger.Fate{ID: id, Kind: ledger.Retried, Attempt: attempt}
	}
	record := func(queueName string, number int64, fates ...ledger.Fate) ledger.Record {
		r := simple(queueName, number)
		r.Outcome, r.Fates, r.Error = queue.Failed, fates, &ledger.Exception{Name: "Error", Message: "no", Location: "a.js:1:2", Stack: "at a"}
		r.Lines = []ledger.Line{{Time: began, Text: "said"}}
		return r
	}
	write(t, s, record("jobs", 10, fate(queue.NewID(7, 2), 1), fate(mine, 1)), record("jobs", 20, fate(queue.NewID(7, 2), 1)),
		record("jobs", 30, fate(mine, 2)), record("mail", 25, fate(mine, 1)), record("a-b", 40, fate(mine, 9)), simple("jobs", 50))
	want := func(number int64, queueName string, attempt int) ledger.Record {
		r := record(queueName, number, fate(mine, attempt))
		r.Lines, r.Error.Stack = nil, ""
		return r
	}
	for _, c := range []struct {
		queues []string
		from   int64
		limit  int
		want   []ledger.Record
	}{
		{[]string{"jobs"}, 0, 10, []ledger.Record{want(30, "jobs", 2), want(10, "jobs", 1)}},
		{[]string{"jobs", "mail", "none"}, 0, 10, []ledger.Record{want(30, "jobs", 2), want(25, "mail", 1), want(10, "jobs", 1)}},
		{[]string{"jobs", "mail"}, 11, 1, []ledger.Record{want(30, "jobs", 2)}},
		{[]string{"jobs"}, 31, 10, []ledger.Record{}},
	} {
		got, err := s.Of(t.Context(), c.queues, mine, c.from, c.limit)
		must(t, err)
		if diff := gocmp.Diff(c.want, append([]ledger.Record{}, got...)); diff != "" {
			t.Errorf("%v from %d (-want +got):\n%s", c.queues, c.from, diff)
		}
	}
}
