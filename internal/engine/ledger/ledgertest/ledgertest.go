// Package ledgertest is the contract of ledger.Store as tests: every store passes it, the one over PostgreSQL and the one
// in memory.
package ledgertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/ledger"
)

// Subject is an empty store and what makes queues exist in it.
type Subject struct {
	Store   ledger.Store
	Declare func(t *testing.T, names ...string)
}

// Run runs the contract. Open is called once for each test.
func Run(t *testing.T, open func(t *testing.T) Subject) {
	t.Helper()
	for _, test := range []struct {
		name string
		run  func(t *testing.T, s ledger.Store)
	}{
		{"KeepsEveryField", testFields},
		{"KeepsEveryOutcome", testOutcomes},
		{"WriteTwiceDoesNoHarm", testWriteTwice},
		{"WriteSkipsUnknownQueues", testUnknownQueue},
		{"WritesAtOnce", testConcurrentWrites},
		{"EndedContext", testEndedContext},
		{"ListIsInOrder", testListOrder},
		{"ListFilters", testListFilters},
		{"ListPages", testListPages},
		{"GetOfNothing", testGetNothing},
		{"LastOfEachQueue", testLast},
		{"OfOneMessage", testOf},
		{"SettledMessages", testSettled},
		{"PruneByNumber", testPruneByNumber},
		{"PruneByAge", testPruneByAge},
		{"PruneOfNothing", testPruneNothing},
		{"PruneModel", testPruneModel},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := open(t)
			s.Declare(t, "jobs", "mail", "a-b", "a0")
			test.run(t, s.Store)
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(fault.Detail(err))
	}
}

var began = time.UnixMicro(1_800_000_000_123_456)

func simple(queueName string, number int64) ledger.Record {
	return ledger.Record{ID: ledger.ID{Queue: queueName, Number: number}, Start: began, Outcome: queue.OK, Delivered: 1, Acked: 1}
}

func write(t *testing.T, s ledger.Store, records ...ledger.Record) []ledger.Held {
	t.Helper()
	held, err := s.Write(t.Context(), records)
	must(t, err)
	return held
}

// numbers are the IDs of records in short: "jobs 7".
func numbers(records []ledger.Record) []string {
	list := make([]string, len(records))
	for i := range records {
		list[i] = fmt.Sprintf("%s %d", records[i].ID.Queue, records[i].ID.Number)
	}
	return list
}

func list(t *testing.T, s ledger.Store, q ledger.Query) []string {
	t.Helper()
	if q.To == 0 {
		q.To = math.MaxInt64
	}
	q.Limit = cmp.Or(q.Limit, 1_000)
	records, err := s.List(t.Context(), &q)
	must(t, err)
	return numbers(records)
}

func same[T any](t *testing.T, what string, want, got T) {
	t.Helper()
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func full() ledger.Record {
	return ledger.Record{
		ID:  ledger.ID{Queue: "jobs", Number: 1 << 50},
		App: "shop", Version: "v7", Delivery: "d-1", Start: began, Duration: 1_234_567 * time.Microsecond, Outcome: queue.Failed,
		Delivered: 10, Acked: 1, Retried: 2, Redelivered: 3, Dead: 4, Dropped: 5, Expired: 6, Missed: 7,
		Error:    &ledger.Exception{Name: "TypeError", Message: "x is 'undefined'\nreally", Location: "src/index.ts:3:9", Stack: "at a\nat b"},
		Reason:   "because; ümlaut \\ \"q\"",
		Warnings: []string{"one", "two, {three}"},
		Fates: []ledger.Fate{
			{ID: queue.NewID(1<<63|5, 77), Kind: ledger.Retried, Attempt: 2, Delay: queue.MaxDelay},
			{ID: queue.NewID(9, 78), Kind: ledger.Redelivered, Attempt: 1},
			{ID: queue.NewID(9, 79), Kind: ledger.Dead, Attempt: 101},
			{ID: queue.NewID(9, 80), Kind: ledger.Dropped, Attempt: 300, Delay: time.Millisecond},
		},
		Acks: []queue.Acked{{ID: queue.NewID(1<<63|5, 1<<62), Attempt: 1}, {ID: queue.NewID(1<<63|5, 3), Attempt: 300}},
		Lines: []ledger.Line{
			{Time: time.UnixMilli(1_800_000_000_123), Level: "info", Text: "two\nlines, ü \"q\" <b> \u2028"},
			{Time: time.UnixMilli(1_800_000_000_000), Text: "and 3 more"},
		},
	}
}

func testFields(t *testing.T, s ledger.Store) {
	want := full()
	plain := simple("jobs", 5)
	same(t, "held", []ledger.Held{{Queue: "jobs", Records: 2}}, write(t, s, want, plain))
	for _, r := range []ledger.Record{want, plain} {
		got, err := s.Get(t.Context(), r.ID)
		must(t, err)
		same(t, "record", &r, got)
	}
	brief := want
	brief.Fates, brief.Acks, brief.Lines = nil, nil, nil
	withoutStack := *want.Error
	withoutStack.Stack = ""
	brief.Error = &withoutStack
	listed, err := s.List(t.Context(), &ledger.Query{To: math.MaxInt64, Limit: 10})
	must(t, err)
	same(t, "list", []ledger.Record{brief, plain}, listed)
	last, err := s.Last(t.Context())
	must(t, err)
	same(t, "last", []ledger.Record{brief}, last)
}

func testOutcomes(t *testing.T, s ledger.Store) {
	for i, o := range ledger.Outcomes {
		r := simple("jobs", int64(i+1))
		r.Outcome = o
		write(t, s, r)
		got, err := s.Get(t.Context(), r.ID)
		must(t, err)
		same(t, "outcome", o, got.Outcome)
		same(t, "list of "+string(o), []string{fmt.Sprintf("jobs %d", i+1)}, list(t, s, ledger.Query{Outcomes: []queue.Outcome{o}}))
	}
}

func testWriteTwice(t *testing.T, s ledger.Store) {
	first := simple("jobs", 1)
	write(t, s, first)
	changed := first
	changed.Acked = 99
	same(t, "held", []ledger.Held{{Queue: "jobs", Records: 2}}, write(t, s, changed, simple("jobs", 2)))
	got, err := s.Get(t.Context(), first.ID)
	must(t, err)
	same(t, "record", &first, got)
	if held := write(t, s, first); len(held) != 0 {
		t.Errorf("a write of nothing new changed %v", held)
	}
}

func testUnknownQueue(t *testing.T, s ledger.Store) {
	same(t, "held", []ledger.Held{{Queue: "jobs", Records: 1}}, write(t, s, simple("nowhere", 1), simple("jobs", 1)))
	same(t, "list", []string{"jobs 1"}, list(t, s, ledger.Query{}))
	same(t, "list of it", []string{}, list(t, s, ledger.Query{Queues: []string{"nowhere"}}))
}

func testConcurrentWrites(t *testing.T, s ledger.Store) {
	const writers, each = 4, 25
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				number := int64(1 + i*writers + w)
				pair := []ledger.Record{simple("jobs", number), simple("mail", number)}
				if w%2 == 0 {
					slices.Reverse(pair)
				}
				if _, err := s.Write(t.Context(), pair); err != nil {
					t.Error(fault.Detail(err))
				}
			}
		})
	}
	wg.Wait()
	held := write(t, s, simple("jobs", 1_000), simple("mail", 1_000))
	same(t, "held", []ledger.Held{{Queue: "jobs", Records: writers*each + 1}, {Queue: "mail", Records: writers*each + 1}}, held)
}

func testEndedContext(t *testing.T, s ledger.Store) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Write(ended, []ledger.Record{simple("jobs", 1)})
	if fault.KindOf(err) != fault.Unavailable {
		t.Errorf("write: %v", err)
	}
	_, err = s.List(ended, &ledger.Query{To: math.MaxInt64, Limit: 1})
	if fault.KindOf(err) != fault.Unavailable {
		t.Errorf("list: %v", err)
	}
}

func testListOrder(t *testing.T, s ledger.Store) {
	// The late one has a number below what is there.
	write(t, s, simple("jobs", 10), simple("mail", 20), simple("a-b", 20), simple("a0", 20), simple("jobs", 30))
	write(t, s, simple("jobs", 5))
	same(t, "list", []string{"jobs 30", "mail 20", "a0 20", "a-b 20", "jobs 10", "jobs 5"}, list(t, s, ledger.Query{}))
	same(t, "the first", []string{"jobs 30", "mail 20"}, list(t, s, ledger.Query{Limit: 2}))
}

func testListFilters(t *testing.T, s ledger.Store) {
	add := func(queueName string, number int64, app string, o queue.Outcome) {
		r := simple(queueName, number)
		r.App, r.Outcome = app, o
		write(t, s, r)
	}
	add("jobs", 1, "shop", queue.OK)
	add("jobs", 2, "post", queue.Failed)
	add("mail", 3, "shop", queue.TimedOut)
	add("mail", 4, "shop", queue.OK)
	add("a0", 5, "post", ledger.Gap)
	for name, c := range map[string]struct {
		q    ledger.Query
		want []string
	}{
		"one queue":           {ledger.Query{Queues: []string{"mail"}}, []string{"mail 4", "mail 3"}},
		"two queues":          {ledger.Query{Queues: []string{"a0", "jobs"}}, []string{"a0 5", "jobs 2", "jobs 1"}},
		"app":                 {ledger.Query{App: "shop"}, []string{"mail 4", "mail 3", "jobs 1"}},
		"outcome":             {ledger.Query{Outcomes: []queue.Outcome{queue.OK}}, []string{"mail 4", "jobs 1"}},
		"outcomes":            {ledger.Query{Outcomes: []queue.Outcome{queue.OK, ledger.Gap}}, []string{"a0 5", "mail 4", "jobs 1"}},
		"trouble":             {ledger.Query{Outcomes: []queue.Outcome{queue.Failed, queue.TimedOut}}, []string{"mail 3", "jobs 2"}},
		"trouble of an app":   {ledger.Query{Outcomes: []queue.Outcome{queue.Failed, queue.TimedOut}, App: "shop"}, []string{"mail 3"}},
		"trouble of a queue":  {ledger.Query{Outcomes: []queue.Outcome{queue.Failed, queue.TimedOut}, Queues: []string{"jobs"}}, []string{"jobs 2"}},
		"an unknown outcome":  {ledger.Query{Outcomes: []queue.Outcome{"fine"}}, []string{}},
		"from, and before to": {ledger.Query{From: 2, To: 4}, []string{"mail 3", "jobs 2"}},
		"trouble in a time":   {ledger.Query{From: 3, To: 5, Outcomes: []queue.Outcome{queue.Failed, queue.TimedOut}}, []string{"mail 3"}},
	} {
		same(t, name, c.want, list(t, s, c.q))
	}
}

func testListPages(t *testing.T, s ledger.Store) {
	var records []ledger.Record
	for n := range int64(20) {
		for i, name := range []string{"jobs", "mail", "a-b", "a0"} {
			r := simple(name, 1+n/2*int64(1+i%2))
			r.ID.Number = 1 + (n*int64(1+i))/2
			if n%3 == 0 {
				r.Outcome = queue.Failed
			}
			if !slices.ContainsFunc(records, func(o ledger.Record) bool { return o.ID == r.ID }) {
				records = append(records, r)
			}
		}
	}
	write(t, s, records...)
	for _, outcomes := range [][]queue.Outcome{nil, {queue.Failed}} {
		all := list(t, s, ledger.Query{Outcomes: outcomes})
		for limit := 1; limit <= 7; limit++ {
			var pages []string
			var before ledger.ID
			for {
				part, err := s.List(t.Context(), &ledger.Query{To: math.MaxInt64, Limit: limit, Before: before, Outcomes: outcomes})
				must(t, err)
				if len(part) == 0 {
					break
				}
				pages = append(pages, numbers(part)...)
				before = part[len(part)-1].ID
			}
			same(t, fmt.Sprintf("pages of %d", limit), all, pages)
		}
	}
}

func testGetNothing(t *testing.T, s ledger.Store) {
	write(t, s, simple("jobs", 1))
	for _, id := range []ledger.ID{{Queue: "jobs", Number: 2}, {Queue: "mail", Number: 1}, {Queue: "nowhere", Number: 1}} {
		_, err := s.Get(t.Context(), id)
		if f, ok := errors.AsType[*fault.Error](err); !ok || f.Kind != fault.NotFound || f.Code != "record_not_found" {
			t.Errorf("%s: %v", id, err)
		}
	}
}

func testLast(t *testing.T, s ledger.Store) {
	gap, expired := simple("jobs", 9), simple("mail", 9)
	gap.Outcome, expired.Outcome = ledger.Gap, ledger.Expired
	write(t, s, simple("jobs", 1), simple("jobs", 2), gap, expired, simple("a0", 3), simple("a-b", 4))
	last, err := s.Last(t.Context())
	must(t, err)
	same(t, "last", []string{"a-b 4", "a0 3", "jobs 2"}, numbers(last))
}

func prune(t *testing.T, s ledger.Store, name string, keep int, before int64, rows int) bool {
	t.Helper()
	more, err := s.Prune(t.Context(), name, keep, before, rows)
	must(t, err)
	return more
}

func overdue(t *testing.T, s ledger.Store, keep int, before int64) []string {
	t.Helper()
	names, err := s.Overdue(t.Context(), keep, before)
	must(t, err)
	return names
}

func testPruneByNumber(t *testing.T, s ledger.Store) {
	for n := range int64(10) {
		write(t, s, simple("jobs", 1+n), simple("mail", 1+n))
	}
	same(t, "overdue", []string{"jobs", "mail"}, overdue(t, s, 9, 0))
	if !prune(t, s, "jobs", 4, 0, 5) {
		t.Error("one step is not enough, and Prune says that it is")
	}
	same(t, "after a step", []string{"jobs 10", "jobs 9", "jobs 8", "jobs 7", "jobs 6"}, list(t, s, ledger.Query{Queues: []string{"jobs"}}))
	if prune(t, s, "jobs", 4, 0, 5) {
		t.Error("Prune wants to go on at the end")
	}
	same(t, "after two", []string{"jobs 10", "jobs 9", "jobs 8", "jobs 7"}, list(t, s, ledger.Query{Queues: []string{"jobs"}}))
	if n := len(list(t, s, ledger.Query{Queues: []string{"mail"}})); n != 10 {
		t.Errorf("the other queue has %d records left", n)
	}
	same(t, "held", []ledger.Held{{Queue: "jobs", Records: 5}}, write(t, s, simple("jobs", 11)))
}

func testPruneByAge(t *testing.T, s ledger.Store) {
	write(t, s, simple("jobs", 10), simple("jobs", 20), simple("jobs", 30), simple("mail", 25))
	same(t, "overdue", []string{"jobs"}, overdue(t, s, 100, 21))
	if prune(t, s, "jobs", 100, 21, 5) {
		t.Error("Prune wants to go on at the end")
	}
	same(t, "left", []string{"jobs 30", "mail 25"}, list(t, s, ledger.Query{}))
	if names := overdue(t, s, 100, 21); len(names) != 0 {
		t.Errorf("still overdue: %v", names)
	}
	// A late one below everything that was pruned is found again.
	write(t, s, simple("jobs", 15))
	same(t, "overdue", []string{"jobs"}, overdue(t, s, 100, 21))
	prune(t, s, "jobs", 100, 21, 5)
	same(t, "left", []string{"jobs 30", "mail 25"}, list(t, s, ledger.Query{}))
	prune(t, s, "jobs", 100, math.MaxInt64, 5)
	same(t, "left", []string{"mail 25"}, list(t, s, ledger.Query{}))
	if names := overdue(t, s, 100, 1<<40); !slices.Equal(names, []string{"mail"}) {
		t.Errorf("overdue: %v", names)
	}
}

func testPruneNothing(t *testing.T, s ledger.Store) {
	for _, name := range []string{"jobs", "nowhere"} {
		if prune(t, s, name, 1, math.MaxInt64, 10) {
			t.Errorf("there is more to prune in %s, which holds nothing", name)
		}
	}
	if names := overdue(t, s, 0, math.MaxInt64); len(names) != 0 {
		t.Errorf("overdue: %v", names)
	}
}

// testPruneModel runs random writes and steps of pruning beside a model of a few lines.
func testPruneModel(t *testing.T, s ledger.Store) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	names := []string{"jobs", "mail"}
	model := map[string][]int64{}
	for step := range 150 {
		name := names[random.IntN(2)]
		if random.IntN(3) > 0 {
			for range 1 + random.IntN(8) {
				number := 1 + random.Int64N(int64(100+10*step))
				write(t, s, simple(name, number))
				if at, there := slices.BinarySearch(model[name], number); !there {
					model[name] = slices.Insert(model[name], at, number)
				}
			}
		} else {
			keep, before, rows := random.IntN(30), random.Int64N(int64(100+10*step)), 1+random.IntN(20)
			numbers := model[name]
			old, _ := slices.BinarySearch(numbers, before)
			n := min(max(len(numbers)-keep, old), rows)
			model[name] = numbers[n:]
			if more := prune(t, s, name, keep, before, rows); more != (n == rows) {
				t.Fatalf("step %d: more is %v after %d of %d", step, more, n, rows)
			}
		}
		var want []string
		for _, number := range slices.Backward(model[name]) {
			want = append(want, fmt.Sprintf("%s %d", name, number))
		}
		if got := list(t, s, ledger.Query{Queues: []string{name}}); !slices.Equal(want, got) {
			t.Fatalf("step %d: %s", step, gocmp.Diff(want, got))
		}
	}
}
