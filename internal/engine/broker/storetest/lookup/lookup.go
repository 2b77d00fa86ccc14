// Package lookup is the part of the contract of store.Store about Search and Replace, as tests that every store runs.
package lookup

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/filter"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// patience is how long a test waits for the ownership.
const patience = time.Minute

// Run runs the tests, each on a store that open gives: fresh, empty and without an owner.
func Run(t *testing.T, open func(t *testing.T) store.Store) {
	t.Helper()
	for _, test := range []struct {
		name string
		run  func(t *testing.T, b *bench)
	}{
		{"SearchFindsByEachTerm", testTerms},
		{"SearchIsBounded", testBounds},
		{"SearchKnowsWhereDeadLettersCameFrom", testLetters},
		{"ReplaceKeepsTheSource", testReplace},
		{"ReplaceOfNothing", testReplaceNothing},
		{"ReplaceNeedsOwnership", testReplaceOwner},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, begin(t, open(t))) })
	}
}

// bench is a store with an owner and three queues.
type bench struct {
	store.Store

	own               store.Ownership
	jobs, other, dead int32
	next              int64
}

func begin(t *testing.T, s store.Store) *bench {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	own, err := s.Acquire(ctx)
	check(t, err)
	queues, err := s.Declare(t.Context(), []string{"jobs", "other", "dead"})
	check(t, err)
	check(t, s.Reserve(t.Context(), own.NextSeq+1_000))
	return &bench{s, own, queues[0].ID, queues[1].ID, queues[2].ID, own.NextSeq}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(fault.Detail(err))
	}
}

// now is the time of every search, in milliseconds; each message is sent a second before the one that comes next.
const now = 1_750_000_000_000

// add appends messages with these bodies to jobs, the first of them an hour old.
func (b *bench) add(t *testing.T, bodies ...string) []store.Row {
	t.Helper()
	rows := make([]store.Row, len(bodies))
	for i, body := range bodies {
		b.next++
		rows[i] = store.Row{Queue: b.jobs, Seq: b.next, Format: queue.JSON, SentAt: now - time.Hour.Milliseconds() + int64(i)*1_000, Body: []byte(body)}
	}
	check(t, b.Append(t.Context(), rows, nil))
	return rows
}

// search takes one step over all of a queue, changed by change.
func (b *bench) search(t *testing.T, id int32, text string, change func(q *store.Search)) store.Searched {
	t.Helper()
	f, err := filter.Parse(text)
	check(t, err)
	q := store.Search{
		Filter: f, UpTo: 1 << 62, Now: now, Database: b.own.Store, Rows: 1_000, Bytes: 1 << 20,
		Sources: map[string]int32{"jobs": b.jobs, "other": b.other, "dead": b.dead},
	}
	if change != nil {
		change(&q)
	}
	found, err := b.Search(t.Context(), id, &q)
	check(t, err)
	return found
}

// places are those of the matches.
func places(found store.Searched) []int {
	list := make([]int, len(found.Matches))
	for i := range found.Matches {
		list[i] = found.Matches[i].Place
	}
	return list
}

func same(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func testTerms(t *testing.T, b *bench) {
	rows := b.add(t, `{"n":1,"tags":["eu"]}`, `{"n":2}`, `{"n":9007199254740993}`, `"some Text"`, `{"n":5}`)
	check(t, b.Apply(t.Context(), &store.Change{Retry: []store.Retry{
		{Key: store.Key{Queue: b.jobs, Seq: rows[1].Seq}, Failures: 2, VisibleAt: now + 1},
		{Key: store.Key{Queue: b.jobs, Seq: rows[4].Seq}, Failures: 1, VisibleAt: now},
	}}))
	flying := func(q *store.Search) { q.Flying = []int64{rows[0].Seq} }
	for text, want := range map[string][]int{
		"":                           {1, 2, 3, 4, 5},
		"body.n:2":                   {2},
		"body.n:9007199254740992":    nil, // not the same number, although it is the same float
		"body.n:9007199254740993":    {3},
		"body.n>=2 -body.n:5":        {2, 3},
		"body.tags:eu":               {1},
		"SOME":                       {4},
		"state:delayed":              {2},
		"state:in_flight":            {1},
		"state:visible":              {3, 4, 5},
		"attempts>=1":                {2, 5},
		"size<8":                     {2, 5},
		"age<59m58s":                 {4, 5},
		"age>1h":                     nil,
		"source:dead":                nil,
		"-state:visible attempts:0":  {1},
		"id:" + b.id(rows[2].Seq):    {3},
		"id:" + b.foreign(rows[2]):   nil,
		"body.n:2 state:visible":     nil,
		"-body.n:1 -body.n:2 size<9": {5},
	} {
		found := b.search(t, b.jobs, text, flying)
		same(t, text, want, places(found))
		if found.Looked != len(rows) || found.Last != rows[4].Seq || found.More {
			t.Errorf("%s: looked at %d up to %d, more %t", text, found.Looked, found.Last, found.More)
		}
	}
	same(t, "another queue", store.Searched{}, b.search(t, b.other, "", nil))
	same(t, "no queue", store.Searched{}, b.search(t, 1_000_000, "", nil))
}

func (b *bench) id(seq int64) string { return queue.NewID(b.own.Store, seq).String() }

// foreign is the id of a message of another database, with the Seq of one of this.
func (b *bench) foreign(r store.Row) string { return queue.NewID(b.own.Store+1, r.Seq).String() }

func testBounds(t *testing.T, b *bench) {
	rows := b.add(t, `{"n":0,"x":"0123456789"}`, `{"n":1,"x":"0123456789"}`, `{"n":2,"x":"0123456789"}`, `{"n":3,"x":"0123456789"}`)
	size := len(rows[0].Body)
	seq := func(i int) int64 { return rows[i].Seq }
	match := func(i, place int) store.Match { return store.Match{Seq: seq(i), Accepted: seq(i), Place: place} }
	for name, c := range map[string]struct {
		text   string
		change func(q *store.Search)
		want   store.Searched
	}{
		"rows":       {"body.n:1", func(q *store.Search) { q.Rows = 2 }, store.Searched{Looked: 2, Last: seq(1), More: true, Matches: []store.Match{match(1, 2)}}},
		"after":      {"body.n>0", func(q *store.Search) { q.After = seq(1) }, store.Searched{Looked: 2, Last: seq(3), Matches: []store.Match{match(2, 1), match(3, 2)}}},
		"up to":      {"", func(q *store.Search) { q.UpTo = seq(1) - 1 }, store.Searched{Looked: 1, Last: seq(0), Matches: []store.Match{match(0, 1)}}},
		"bytes":      {"body.n:0", func(q *store.Search) { q.Bytes = size }, store.Searched{Looked: 2, Last: seq(1), More: true, Matches: []store.Match{match(0, 1)}}},
		"one large":  {"body.n:0", func(q *store.Search) { q.Bytes = 1 }, store.Searched{Looked: 1, Last: seq(0), More: true, Matches: []store.Match{match(0, 1)}}},
		"no bodies":  {"size<1", func(q *store.Search) { q.Bytes = 1 }, store.Searched{Looked: 4, Last: seq(3)}},
		"only":       {"", func(q *store.Search) { q.Only = []int64{1, seq(1), seq(3)} }, store.Searched{Looked: 2, Last: seq(3), Matches: []store.Match{match(1, 1), match(3, 2)}}},
		"only none":  {"", func(q *store.Search) { q.Only = []int64{} }, store.Searched{}},
		"behind all": {"", func(q *store.Search) { q.After = seq(3) }, store.Searched{}},
	} {
		same(t, name, c.want, b.search(t, b.jobs, c.text, c.change))
	}
}

// die moves a message of jobs to the queue dead.
func (b *bench) die(t *testing.T, r store.Row, reason string) (moved int64) {
	t.Helper()
	b.next++
	check(t, b.Apply(t.Context(), &store.Change{Move: []store.Move{{
		From: store.Key{Queue: b.jobs, Seq: r.Seq}, To: store.Key{Queue: b.dead, Seq: b.next}, Source: b.jobs, Reason: reason,
	}}}))
	return b.next
}

func testLetters(t *testing.T, b *bench) {
	rows := b.add(t, "1", "2")
	first, second := b.die(t, rows[0], "It Threw at index.js"), b.die(t, rows[1], "")
	for text, want := range map[string][]store.Match{
		"source:jobs":             {{Seq: first, Accepted: rows[0].Seq, Place: 1}, {Seq: second, Accepted: rows[1].Seq, Place: 2}},
		"source:other":            nil,
		"source:nosuch":           nil,
		"reason:threw":            {{Seq: first, Accepted: rows[0].Seq, Place: 1}},
		"-reason:threw":           {{Seq: second, Accepted: rows[1].Seq, Place: 2}},
		"id:" + b.id(rows[1].Seq): {{Seq: second, Accepted: rows[1].Seq, Place: 2}},
		"id:" + b.id(second):      nil,
	} {
		same(t, text, want, b.search(t, b.dead, text, nil).Matches)
	}
}

// heads are those of all messages of a queue that are visible at once.
func (b *bench) heads(t *testing.T, id int32) []store.Head {
	t.Helper()
	heads, err := b.ListReady(t.Context(), id, 0, 1<<62, 100)
	check(t, err)
	return heads
}

func testReplace(t *testing.T, b *bench) {
	rows := b.add(t, "1", "2")
	letter := b.die(t, rows[0], "why")
	replace := func(from store.Key, to int32, body string) store.Row {
		t.Helper()
		b.next++
		row := store.Row{Queue: to, Seq: b.next, Format: queue.Text, SentAt: now, Body: []byte(body)}
		check(t, b.Replace(t.Context(), from, &row))
		return row
	}
	one := replace(store.Key{Queue: b.dead, Seq: letter}, b.dead, "one")
	same(t, "a dead letter keeps where it came from", []store.Head{{Row: bare(one), Bytes: 3, Source: b.jobs, Reason: "why"}}, b.heads(t, b.dead))
	two := replace(store.Key{Queue: b.dead, Seq: one.Seq}, b.jobs, "two")
	same(t, "what was there", []store.Head(nil), b.heads(t, b.dead))
	three := replace(store.Key{Queue: b.jobs, Seq: rows[1].Seq}, b.other, "three")
	same(t, "no dead letter becomes one", []store.Head{{Row: bare(three), Bytes: 5}}, b.heads(t, b.other))
	same(t, "in another queue", []store.Head{{Row: bare(two), Bytes: 3, Source: b.jobs, Reason: "why"}}, b.heads(t, b.jobs))
	bodies, err := b.Bodies(t.Context(), b.jobs, []int64{two.Seq}, 1_000)
	check(t, err)
	same(t, "bodies", map[int64][]byte{two.Seq: []byte("two")}, bodies)
	found, err := b.Find(t.Context(), b.jobs, []int64{two.Seq, rows[1].Seq})
	check(t, err)
	if len(found) != 1 || found[0].Seq != two.Seq {
		t.Errorf("found %+v: it is a message of its own, and the one before is gone", found)
	}
}

// bare is a row as it is in a head.
func bare(r store.Row) store.Row {
	r.Body = nil
	return r
}

func testReplaceNothing(t *testing.T, b *bench) {
	rows := b.add(t, "1")
	row := store.Row{Queue: b.jobs, Seq: b.next + 1, Format: queue.JSON, SentAt: now, Body: []byte("2")}
	for _, key := range []store.Key{{Queue: b.jobs, Seq: 1}, {Queue: b.other, Seq: rows[0].Seq}, {Queue: 1_000_000, Seq: rows[0].Seq}} {
		check(t, b.Replace(t.Context(), key, &row))
		if heads := b.heads(t, b.jobs); len(heads) != 1 || heads[0].Seq != rows[0].Seq {
			t.Errorf("%+v: %+v is there", key, heads)
		}
	}
	// Done again, as after a commit that was in doubt, it does nothing.
	for range 2 {
		check(t, b.Replace(t.Context(), store.Key{Queue: b.jobs, Seq: rows[0].Seq}, &row))
		if heads := b.heads(t, b.jobs); len(heads) != 1 || heads[0].Seq != row.Seq {
			t.Errorf("%+v is there", heads)
		}
	}
}

func testReplaceOwner(t *testing.T, b *bench) {
	rows := b.add(t, "1")
	check(t, b.Release(t.Context()))
	row := store.Row{Queue: b.jobs, Seq: b.next + 1, Format: queue.JSON, SentAt: now, Body: []byte("2")}
	err := b.Replace(t.Context(), store.Key{Queue: b.jobs, Seq: rows[0].Seq}, &row)
	if f := fault.From(err); f == nil || f.Kind != fault.Conflict || f.Code != store.CodeOwnershipLost {
		t.Errorf("without the ownership: %v", err)
	}
	if got := fmt.Sprint(places(b.search(t, b.jobs, "", nil))); got != "[1]" {
		t.Errorf("a search without the ownership finds %s", got)
	}
}
