package ledgertest

import (
	"math"
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
	acked := simple("a0", 60)
	// The last eight bytes of the second ack, and of both together, are those of other messages.
	acked.Acks = []queue.Acked{{ID: queue.NewID(8, 1), Attempt: 1}, {ID: queue.NewID(8, 2), Attempt: 3}, {ID: queue.NewID(8, 1<<56), Attempt: 0}}
	write(t, s, acked)
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
		{[]string{"a0"}, 0, 10, []ledger.Record{}},
	} {
		got, err := s.Of(t.Context(), c.queues, mine, c.from, c.limit)
		must(t, err)
		if diff := gocmp.Diff(c.want, append([]ledger.Record{}, got...)); diff != "" {
			t.Errorf("%v from %d (-want +got):\n%s", c.queues, c.from, diff)
		}
	}
	one := acked
	one.Acks = acked.Acks[1:2]
	for _, c := range []struct {
		message queue.ID
		want    []ledger.Record
	}{{acked.Acks[1].ID, []ledger.Record{one}}, {queue.NewID(8, 1<<40), []ledger.Record{}}} {
		got, err := s.Of(t.Context(), []string{"jobs", "a0"}, c.message, 0, 10)
		must(t, err)
		same(t, "records of "+c.message.String(), c.want, append([]ledger.Record{}, got...))
	}
}

func testSettled(t *testing.T, s ledger.Store) {
	record := func(number int64, acks []queue.Acked, fates ...ledger.Fate) ledger.Record {
		r := simple("jobs", number)
		r.Delivered, r.Acked, r.Acks, r.Fates = len(acks)+len(fates), len(acks), acks, fates
		for _, f := range fates {
			switch f.Kind {
			case ledger.Dead:
				r.Dead++
			case ledger.Dropped:
				r.Dropped++
			default:
				r.Retried++
			}
		}
		r.Lines = []ledger.Line{{Time: began, Text: "said"}}
		return r
	}
	ack := func(seq int64) queue.Acked { return queue.Acked{ID: queue.NewID(7, seq), Attempt: 1} }
	fate := func(seq int64, kind ledger.FateKind) ledger.Fate {
		return ledger.Fate{ID: queue.NewID(7, seq), Kind: kind, Attempt: 4}
	}
	other := record(35, []queue.Acked{ack(9)})
	other.ID.Queue = "mail"
	unnamed := simple("jobs", 15)
	write(t, s, record(10, []queue.Acked{ack(1), ack(2)}), unnamed, record(20, nil, fate(3, ledger.Retried)), record(30, nil, fate(3, ledger.Dead)),
		record(40, []queue.Acked{ack(4)}, fate(5, ledger.Retried), fate(6, ledger.Dropped)), other)
	want := []ledger.Record{
		record(40, []queue.Acked{ack(4)}, fate(5, ledger.Retried), fate(6, ledger.Dropped)), record(30, nil, fate(3, ledger.Dead)), record(10, []queue.Acked{ack(1), ack(2)}),
	}
	for i := range want {
		want[i].Lines = nil
	}
	for _, c := range []struct {
		before int64
		limit  int
		want   []ledger.Record
	}{{math.MaxInt64, 10, want}, {40, 10, want[1:]}, {41, 2, want[:2]}, {10, 10, want[:0]}} {
		got, err := s.Settled(t.Context(), "jobs", c.before, c.limit)
		must(t, err)
		same(t, "settled before", c.want, got)
	}
}
