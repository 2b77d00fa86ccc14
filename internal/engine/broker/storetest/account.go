package storetest

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// today is the day in UTC: stores may forget the counts of others.
func today() int32 { return int32(time.Now().UTC().Unix() / 86_400) }

func wantUsage(t *testing.T, s store.Store, want ...store.Usage) {
	t.Helper()
	got, err := s.Usage(t.Context())
	check(t, err)
	slices.SortFunc(got, func(a, b store.Usage) int { return cmp.Or(cmp.Compare(a.Day, b.Day), cmp.Compare(a.Source, b.Source)) })
	if len(got) == 0 && len(want) == 0 {
		return
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Fatalf("usage (-want +got):\n%s", diff)
	}
}

// testUsageOfCommit: an entry is there if what it counts is, and only then.
func testUsageOfCommit(t *testing.T, s *Subject) {
	b := begin(t, s)
	wantUsage(t, s.Store)
	day := today()
	few := store.Usage{Source: store.Sends, Day: day, Number: 1, Written: 3}
	check(t, s.Store.Append(t.Context(), []store.Row{b.row(0, "1"), b.row(0, "2"), b.row(0, "3")}, &few))
	wantUsage(t, s.Store, few)
	many := store.Usage{Source: store.Sends, Day: day, Number: 2, Written: 303}
	rows := make([]store.Row, 300)
	for i := range rows {
		rows[i] = b.row(1, "x")
	}
	check(t, s.Store.Append(t.Context(), rows, &many))
	wantUsage(t, s.Store, many)
	for _, n := range []int{1, 300} {
		refused := store.Usage{Source: store.Sends, Day: day, Number: 9, Written: 999}
		again := slices.Clone(rows[:n])
		if err := s.Store.Append(t.Context(), again, &refused); err == nil {
			t.Fatal("an Append of rows that exist succeeds")
		}
		wantUsage(t, s.Store, many)
	}
	settled := store.Usage{Source: store.Settlements, Day: day, Number: 7, Written: 1, Deleted: 300}
	change := store.Change{Delete: keys(rows), Usage: &settled}
	check(t, s.Store.Apply(t.Context(), &change))
	wantUsage(t, s.Store, many, settled)
	// A change may be carried out again.
	check(t, s.Store.Apply(t.Context(), &change))
	wantUsage(t, s.Store, many, settled)
}

// testUsageKept: the newest entry counts, in each source and day; days before the first kept one are forgotten, and the
// next owner finds the rest.
func testUsageKept(t *testing.T, s *Subject) {
	b := begin(t, s)
	day := today()
	old := store.Usage{Source: store.Others, Day: day - 30, Number: 1, Written: 1, Delivered: 2, Deleted: 3, Warned: 100}
	yesterday := store.Usage{Source: store.Others, Day: day - 1, Number: 2, Delivered: 5, Warned: 90}
	now := store.Usage{Source: store.Others, Day: day, Number: 3, Delivered: 1}
	check(t, s.Store.SaveUsage(t.Context(), []store.Usage{old, yesterday, now}, day-30))
	wantUsage(t, s.Store, old, yesterday, now)
	for n := int64(4); n < 10; n++ {
		now.Number, now.Delivered = n, 10*n
		check(t, s.Store.SaveUsage(t.Context(), []store.Usage{now}, day-30))
	}
	wantUsage(t, s.Store, old, yesterday, now)
	check(t, s.Store.SaveUsage(t.Context(), nil, day-29))
	wantUsage(t, s.Store, yesterday, now)
	// What commits write is swept in the same way, and the newest stays.
	var sent store.Usage
	for n := int64(1); n < 10; n++ {
		sent = store.Usage{Source: store.Sends, Day: day, Number: n, Written: n}
		check(t, s.Store.Append(t.Context(), []store.Row{b.row(0, "1")}, &sent))
	}
	check(t, s.Store.SaveUsage(t.Context(), nil, day-29))
	next := s.Another(t)
	check(t, s.Store.Release(t.Context()))
	acquire(t, next)
	wantUsage(t, next, yesterday, sent, now)
}

// testRefusal: while a refusal holds, SQL enqueues nothing and its caller is told why.
func testRefusal(t *testing.T, s *Subject) {
	begin(t, s)
	refusal := store.Refusal{Code: queue.CodeOperationsCap, Message: "used up", Hint: "wait for midnight", Until: time.Now().Add(time.Hour)}
	check(t, s.Store.SetRefusal(t.Context(), refusal))
	if text := s.TryEnqueue(t, "jobs", "1"); !strings.Contains(text, "used up") || !strings.Contains(text, "wait for midnight") {
		t.Errorf("SQL is told %q", text)
	}
	full := store.Refusal{Code: queue.CodeStorageFull, Message: "full", Hint: "make room", Until: time.Now().Add(time.Hour)}
	check(t, s.Store.SetRefusal(t.Context(), full))
	// It ends by itself.
	refusal.Until = time.Now().Add(-time.Second)
	check(t, s.Store.SetRefusal(t.Context(), refusal))
	if text := s.TryEnqueue(t, "jobs", "1"); !strings.Contains(text, "full") {
		t.Errorf("SQL is told %q", text)
	}
	check(t, s.Store.SetRefusal(t.Context(), store.Refusal{Code: queue.CodeStorageFull}))
	if text := s.TryEnqueue(t, "jobs", "2"); text != "" {
		t.Errorf("SQL is refused although nothing speaks against it: %s", text)
	}
	rows, err := s.Store.Drain(t.Context(), 1, time.Now(), 10)
	check(t, err)
	if len(rows) != 1 || string(rows[0].Body) != "2" {
		t.Errorf("%d messages are enqueued, want the one that was accepted", len(rows))
	}
}

// testSize: the size can be asked for at any time, and giving space back changes no message.
func testSize(t *testing.T, s *Subject) {
	b := begin(t, s)
	rows := b.rows(t, 0, 500)
	if size, err := s.Store.Size(t.Context()); err != nil || size < 0 {
		t.Errorf("size %d, error %v", size, err)
	}
	check(t, s.Store.Apply(t.Context(), &store.Change{Delete: keys(rows[100:])}))
	check(t, s.Store.Compact(t.Context()))
	same(t, "messages", b.all(t, 0), rows[:100])
}
