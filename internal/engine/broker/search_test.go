package broker_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/internal/adapter/memory"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/filter"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/look"
	"github.com/runlot/runlot/internal/engine/broker/operate"
)

func parse(t *testing.T, text string) filter.Filter {
	t.Helper()
	f, err := filter.Parse(text)
	check(t, err)
	return f
}

// search gathers all pages, and checks that they fit together.
func (r *rig) search(queueName, text string, rows int) []string {
	r.t.Helper()
	list := []string{}
	for o := (look.SearchOptions{Filter: parse(r.t, text), Rows: rows}); ; {
		found, err := r.b.Search(r.t.Context(), queueName, o)
		check(r.t, err)
		if found.Complete != (found.Next == "") || len(found.Messages) > rows || found.Looked < len(found.Messages) {
			r.t.Errorf("%s: %+v", text, found)
		}
		for i := range found.Messages {
			list = append(list, string(found.Messages[i].Body))
		}
		if o.Cursor = found.Next; o.Cursor == "" {
			return list
		}
	}
}

// What is delayed, in flight, tried or dead is found by the state that the lanes know, in pages of any size.
func TestSearch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, tiny)
		l := r.lane("a")
		for i := range 5 {
			r.send("a", draft(fmt.Sprintf(`{"n":%d,"even":%t}`, i, i%2 == 0)))
		}
		flying, _ := next(t, l, 2, 0)
		tried, _ := next(t, l, 1, 0)
		check(t, settle(l, tried, decide(tried, queue.Retry, time.Hour)))
		time.Sleep(time.Minute)
		r.send("a", delayed(`{"n":5}`, time.Minute))
		r.bury("b", r.lane("b"), "TypeError: x", `{"n":9}`)
		all := []string{`{"n":0,"even":true}`, `{"n":1,"even":false}`, `{"n":2,"even":true}`, `{"n":3,"even":false}`, `{"n":4,"even":true}`, `{"n":5}`}
		for text, want := range map[string][]string{
			"":                                     all,
			"state:in-flight":                      all[:2],
			"state:delayed":                        {all[2], all[5]},
			"state:visible":                        all[3:5],
			"-state:visible body.n>0":              {all[1], all[2], all[5]},
			"state:in_flight body.n:1":             all[1:2],
			"attempts:1":                           all[2:3],
			"age>30s body.even:true":               {all[0], all[2], all[4]},
			"age<30s":                              all[5:],
			"even":                                 all[:5],
			"source:b":                             {},
			"source:none":                          {},
			"id:" + flying.Messages[1].ID.String(): all[1:2],
			"id:" + flying.Messages[1].ID.String() + " body.n:0":      {},
			"-id:" + flying.Messages[1].ID.String() + " body.n<2":     all[:1],
			"id:" + queue.NewID(1, 1).String():                        {},
			"id:" + flying.Messages[1].ID.String() + " state:visible": {},
		} {
			for _, rows := range []int{1, 2, 100} {
				if diff := cmp.Diff(want, r.search("a", text, rows)); diff != "" {
					t.Errorf("%s by %d (-want +got):\n%s", text, rows, diff)
				}
			}
			c, err := r.b.Matching(t.Context(), "a", parse(t, text), 0)
			check(t, err)
			if c.Matched != len(want) || !c.Complete {
				t.Errorf("%s: %+v", text, c)
			}
		}
		if got := r.search("dead", "source:b reason:typeerror", 5); len(got) != 1 {
			t.Errorf("dead letters: %v", got)
		}
		_, err := r.b.Search(t.Context(), "a", look.SearchOptions{Filter: parse(t, "x"), Cursor: "AAAA"})
		wantFault(t, err, fault.Invalid, look.CodeCursor)
		found, err := r.b.Search(t.Context(), "a", look.SearchOptions{Filter: parse(t, "even"), Rows: 1})
		check(t, err)
		_, err = r.b.Search(t.Context(), "a", look.SearchOptions{Filter: parse(t, "odd"), Cursor: found.Next})
		wantFault(t, err, fault.Invalid, look.CodeCursor)
		_, err = r.b.Matching(t.Context(), "none", filter.Filter{}, 0)
		wantFault(t, err, fault.NotFound, queue.CodeQueueNotFound)
	})
}

// A purge takes effect in a search too, and one call looks at no more than it may.
func TestSearchIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, tiny)
		const more = queue.SearchLooked + 10
		drafts := make([]queue.Draft, 100)
		for i := range drafts {
			drafts[i] = draft("1")
		}
		for range more / len(drafts) {
			r.send("a", drafts...)
		}
		r.send("a", drafts[:more%len(drafts)]...)
		r.send("a", draft("2"))
		found, err := r.b.Search(t.Context(), "a", look.SearchOptions{Filter: parse(t, "2")})
		check(t, err)
		if found.Looked != queue.SearchLooked || found.Complete || len(found.Messages) != 0 {
			t.Errorf("%+v", found)
		}
		found, err = r.b.Search(t.Context(), "a", look.SearchOptions{Filter: parse(t, "2"), Cursor: found.Next})
		check(t, err)
		if found.Looked != 11 || !found.Complete || len(found.Messages) != 1 {
			t.Errorf("%+v", found)
		}
		c, err := r.b.Matching(t.Context(), "a", parse(t, "1"), 0)
		check(t, err)
		if c != (look.Counted{Matched: queue.CountMatched, Looked: queue.CountMatched}) {
			t.Errorf("%+v", c)
		}

		// Somebody who waits gets what was found by then, and goes on from there.
		r.db.SetFaults(func(call string) memory.Fault {
			if call == "Search" {
				return memory.Fault{Before: 30 * time.Millisecond}
			}
			return memory.Fault{}
		})
		within := look.SearchOptions{Filter: parse(t, "2"), Within: 50 * time.Millisecond}
		began := time.Now()
		found, err = r.b.Search(t.Context(), "a", within)
		check(t, err)
		if found.Looked != 1_500 || found.Complete || time.Since(began) > 100*time.Millisecond {
			t.Errorf("in a moment: %d looked at after %s", found.Looked, time.Since(began))
		}
		looked := found.Looked
		for !found.Complete {
			within.Cursor = found.Next
			found, err = r.b.Search(t.Context(), "a", within)
			check(t, err)
			looked += found.Looked
		}
		if looked != more+1 || len(found.Messages) != 1 {
			t.Errorf("%d looked at in all, %d found", looked, len(found.Messages))
		}
		c, err = r.b.Matching(t.Context(), "a", parse(t, "1"), 50*time.Millisecond)
		check(t, err)
		if c != (look.Counted{Matched: 1_500, Looked: 1_500}) {
			t.Errorf("counted in a moment: %+v", c)
		}
	})
}

// bulk takes all steps and returns the sum.
func (r *rig) bulk(queueName string, o operate.BulkOptions, rows int) operate.BulkDone {
	r.t.Helper()
	run, err := r.b.Bulk(r.t.Context(), queueName, o)
	check(r.t, err)
	var sum operate.BulkDone
	for !run.Over() {
		d, err := run.Step(r.t.Context(), rows)
		check(r.t, err)
		sum.Looked += d.Looked
		sum.Matched += d.Matched
		sum.Done += d.Done
		sum.InFlight += d.InFlight
		sum.Changed += d.Changed
		sum.Missing += d.Missing
		sum.Unchanged += d.Unchanged
		sum.NoSource += d.NoSource
		sum.Forbidden += d.Forbidden
	}
	return sum
}

func TestBulk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, tiny)
		a, b, dead := r.lane("a"), r.lane("b"), r.lane("dead")
		for i := range 4 {
			r.bury("a", a, "no", fmt.Sprintf(`{"n":%d,"of":"a"}`, i))
			r.bury("b", b, "no", fmt.Sprintf(`{"n":%d,"of":"b"}`, i))
		}
		r.send("dead", draft(`{"n":7}`))
		flying, _ := next(t, dead, 2, 0) // n 0 of both
		done := r.bulk("dead", operate.BulkOptions{
			Kind: operate.BulkRedrive, Filter: parse(t, "body.n<3 -x"), May: func(name string) bool { return name == "a" },
		}, 2)
		if diff := cmp.Diff(operate.BulkDone{Looked: 9, Matched: 6, Done: 2, InFlight: 1, Forbidden: 3}, done); diff != "" {
			t.Errorf("redriven (-want +got):\n%s", diff)
		}
		wantBodies(t, r.contents("a", operate.Any), `{"n":1,"of":"a"}`, `{"n":2,"of":"a"}`)
		done = r.bulk("dead", operate.BulkOptions{Kind: operate.BulkRedrive, Filter: parse(t, "body.n>=2")}, 100)
		if diff := cmp.Diff(operate.BulkDone{Looked: 7, Matched: 4, Done: 3, NoSource: 1}, done); diff != "" {
			t.Errorf("redriven (-want +got):\n%s", diff)
		}
		done = r.bulk("dead", operate.BulkOptions{Kind: operate.BulkDelete, IDs: append(r.ids("dead", `{"n":7}`, `{"n":1,"of":"b"}`), flying.Messages[0].ID, queue.NewID(9, 9))}, 3)
		if diff := cmp.Diff(operate.BulkDone{Looked: 4, Matched: 4, Done: 2, InFlight: 1, Missing: 1}, done); diff != "" {
			t.Errorf("deleted (-want +got):\n%s", diff)
		}
		wantBodies(t, r.contents("dead", operate.Any), bodies(flying)...)
		tried, _ := next(t, a, 3, 0)
		check(t, settle(a, tried, decide(tried, queue.Retry, time.Hour)))
		r.send("a", delayed("8", time.Hour), draft("9"))
		done = r.bulk("a", operate.BulkOptions{Kind: operate.BulkRetryNow, Filter: parse(t, "attempts:1")}, 1)
		if diff := cmp.Diff(operate.BulkDone{Looked: 5, Matched: 3, Done: 3}, done); diff != "" {
			t.Errorf("hurried (-want +got):\n%s", diff)
		}
		wantBodies(t, r.contents("a", operate.Delayed), "8")
		_, err := r.b.Bulk(t.Context(), "dead", operate.BulkOptions{Kind: operate.BulkRedrive, To: "dead"})
		wantFault(t, err, fault.Conflict, operate.CodeOntoItself)
		_, err = r.b.Bulk(t.Context(), "dead", operate.BulkOptions{Kind: operate.BulkRedrive, To: "none"})
		wantFault(t, err, fault.NotFound, queue.CodeQueueNotFound)
	})
}

// Between the search and the transaction a message may be delivered, tried or gone: it is looked at again.
func TestBulkLooksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, tiny)
		a := r.lane("a")
		for i := range 6 {
			r.send("a", draft(fmt.Sprint(i)))
		}
		run, err := r.b.Bulk(t.Context(), "a", operate.BulkOptions{Kind: operate.BulkDelete, Filter: parse(t, "attempts:0 state:visible")})
		check(t, err)
		_, err = run.Step(t.Context(), 1)
		check(t, err)
		acked, _ := next(t, a, 1, 0)
		ack(t, a, acked)
		tried, _ := next(t, a, 1, 0)
		check(t, settle(a, tried, decide(tried, queue.Retry, 0)))
		flying, _ := next(t, a, 1, 0)
		r.send("a", draft("new"))
		var sum operate.BulkDone
		for !run.Over() {
			d, err := run.Step(t.Context(), 100)
			check(t, err)
			sum.Done += d.Done
			sum.Changed += d.Changed
			sum.InFlight += d.InFlight
			sum.Missing += d.Missing
		}
		if diff := cmp.Diff(operate.BulkDone{Done: 2, Changed: 1, InFlight: 1, Missing: 1}, sum); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		wantBodies(t, r.contents("a", operate.Any), append(bodies(tried), append(bodies(flying), "new")...)...)
	})
}

// Bodies bound a transaction, and a place from the middle of a run goes on with what is left.
func TestBulkOfLargeBodiesGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, tiny)
		large := make([]byte, 100<<10)
		for i := range large {
			large[i] = '1'
		}
		const n = 3 * queue.ReadBytes / (100 << 10)
		for range n {
			r.send("a", draft(string(large)))
		}
		o := operate.BulkOptions{Kind: operate.BulkRedrive, To: "b", Filter: parse(t, "size>1k")}
		r.t = t
		run, err := r.b.Bulk(t.Context(), "a", o)
		check(t, err)
		steps, moved := 0, int64(0)
		for !run.Over() {
			d, err := run.Step(t.Context(), n)
			check(t, err)
			moved += d.Done
			if steps++; steps == 3 {
				o.At = run.Place()
				run, err = r.b.Bulk(t.Context(), "a", o)
				check(t, err)
			}
		}
		if moved != n || o.At.UpTo == 0 || o.At.UpTo == math.MaxInt64 {
			t.Errorf("%d of %d moved in %d steps, %+v", moved, n, steps, o.At)
		}
		m, err := r.b.Metrics(t.Context(), "b")
		check(t, err)
		if m.Count != n {
			t.Errorf("%+v arrived", m)
		}
	})
}

func TestRedriveEdited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, tiny)
		a, dead := r.lane("a"), r.lane("dead")
		r.bury("a", a, "Error: bad url", `{"url":"x"}`, "2")
		was := r.peek("dead", operate.Any)[0]
		time.Sleep(time.Minute)
		id, err := r.b.RedriveEdited(t.Context(), "dead", &operate.Edit{ID: was.ID, Format: queue.Text, Body: []byte("better")})
		check(t, err)
		batch, got := next(t, a, 5, 0)
		if m := batch.Messages[0]; !slices.Equal(got, []string{"better"}) || m.ID != id || id == was.ID || m.Format != queue.Text || m.Attempts() != 1 || time.Since(m.SentAt) > time.Second {
			t.Errorf("%q: %+v", got, m)
		}
		if m, err := r.b.Message(t.Context(), "a", id); err != nil || m.Source != "a" || m.Reason != "Error: bad url" {
			t.Errorf("%+v, %v", m, err)
		}
		wantBodies(t, r.contents("dead", operate.Any), "2")
		_, err = r.b.RedriveEdited(t.Context(), "dead", &operate.Edit{ID: was.ID})
		wantFault(t, err, fault.NotFound, operate.CodeMessageNotFound)
		flying, _ := next(t, dead, 1, 0)
		_, err = r.b.RedriveEdited(t.Context(), "dead", &operate.Edit{ID: flying.Messages[0].ID, To: "b"})
		wantFault(t, err, fault.Conflict, operate.CodeInFlight)
		ack(t, dead, flying)
		ack(t, a, batch)
		r.send("dead", draft("3"))
		_, err = r.b.RedriveEdited(t.Context(), "dead", &operate.Edit{ID: r.ids("dead", "3")[0]})
		wantFault(t, err, fault.Conflict, operate.CodeNoSource)
		_, err = r.b.RedriveEdited(t.Context(), "dead", &operate.Edit{ID: r.ids("dead", "3")[0], To: "b", May: func(string) bool { return false }})
		wantFault(t, err, fault.Invalid, operate.CodeTargetForbidden)
		if o, err := r.b.Overview(t.Context(), "a"); err != nil || o.Unsettled != 0 {
			t.Errorf("%+v, %v", o, err)
		}
	})
}
