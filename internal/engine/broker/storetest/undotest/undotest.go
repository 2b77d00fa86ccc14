// Package undotest is the part of the contract of store.Store that is about undoing.
package undotest

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/core/trace"
	"github.com/runlot/runlot/internal/engine/broker/store"
	"github.com/runlot/runlot/internal/engine/broker/storetest"
)

// Run runs the contract. Open is called once for each test.
func Run(t *testing.T, open func(t *testing.T) storetest.Subject) {
	t.Helper()
	for _, test := range []struct {
		name string
		run  func(t *testing.T, b *bench)
	}{
		{"DeletedComeBackWhole", testDeleted},
		{"HurriedWaitAgain", testHurried},
		{"MovedComeBack", testMoved},
		{"ReturnTwiceDoesNoHarm", testTwice},
		{"NotesAreThoseOfTheFirstTime", testNotedOnce},
		{"NotesAreListedAndForgotten", testListed},
		{"NotesAreBounded", testBounded},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, begin(t, open(t))) })
	}
}

// bench is a store with an owner and two queues.
type bench struct {
	store.Store

	jobs, other int32
	next        int64
}

func begin(t *testing.T, s storetest.Subject) *bench {
	t.Helper()
	own, err := s.Store.Acquire(t.Context())
	check(t, err)
	queues, err := s.Store.Declare(t.Context(), []string{"jobs", "other"})
	check(t, err)
	check(t, s.Store.Reserve(t.Context(), own.NextSeq+1_000_000))
	return &bench{Store: s.Store, jobs: queues[0].ID, other: queues[1].ID, next: own.NextSeq}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(fault.Detail(err))
	}
}

// append adds messages to jobs: one that is ready, one that is delayed, and one that was tried.
func (b *bench) append(t *testing.T) []store.Row {
	t.Helper()
	rows := make([]store.Row, 3)
	for i := range rows {
		b.next++
		rows[i] = store.Row{Queue: b.jobs, Seq: b.next, Format: queue.Text, SentAt: 1_750_000_000_000 + int64(i), Body: fmt.Appendf(nil, "body %d", i)}
	}
	rows[0].Trace = &trace.Context{TraceID: [16]byte{1}, SpanID: [8]byte{2}}
	rows[1].VisibleAt = 1_900_000_000_001
	rows[2].VisibleAt, rows[2].Failures, rows[2].Losses = 1_750_000_000_777, 3, 1
	check(t, b.Append(t.Context(), rows, nil))
	return rows
}

// kept is what a queue holds: rows with where dead letters come from.
type kept struct {
	store.Row

	Source int32
	Reason string
}

func (b *bench) held(t *testing.T, queueID int32) []kept {
	t.Helper()
	const far = int64(1) << 60
	rows, err := b.ReadReady(t.Context(), queueID, 0, far, 100_000, 1<<30)
	check(t, err)
	late, err := b.ReadDue(t.Context(), queueID, store.Due{}, 9_000_000_000_000, 100_000, 1<<30)
	check(t, err)
	heads, err := b.ListReady(t.Context(), queueID, 0, far, 100_000)
	check(t, err)
	lateHeads, err := b.ListDue(t.Context(), queueID, store.Due{}, 9_000_000_000_000, 100_000)
	check(t, err)
	rows, heads = append(rows, late...), append(heads, lateHeads...)
	list := make([]kept, len(rows))
	for i := range rows {
		list[i] = kept{rows[i], heads[i].Source, heads[i].Reason}
	}
	slices.SortFunc(list, func(x, y kept) int { return int(x.Seq - y.Seq) })
	return list
}

func same[T any](t *testing.T, what string, got, want []T) {
	t.Helper()
	if len(got) == 0 && len(want) == 0 {
		return
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(bytes.Equal)); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

func keys(rows []store.Row) []store.Key {
	list := make([]store.Key, len(rows))
	for i := range rows {
		list[i] = store.Key{Queue: rows[i].Queue, Seq: rows[i].Seq}
	}
	return list
}

// notes are those of an action.
func (b *bench) notes(t *testing.T, action string) []store.NotedMessage {
	t.Helper()
	list, err := b.NotedMessages(t.Context(), b.jobs, action, 0, 100_000)
	check(t, err)
	return list
}

// back returns what has notes of an action, each as it was.
func (b *bench) back(t *testing.T, action string) []store.Return {
	t.Helper()
	notes := b.notes(t, action)
	list := make([]store.Return, 0, len(notes))
	for _, n := range notes {
		b.next++
		list = append(list, store.Return{Queue: b.jobs, Seq: n.Seq, Action: action, To: b.next, VisibleAt: n.VisibleAt})
	}
	check(t, b.Apply(t.Context(), &store.Change{Return: list}))
	return list
}

// returned is what rows are when they came back.
func returned(rows []store.Row, list []store.Return) []kept {
	want := make([]kept, len(rows))
	for i, r := range rows {
		r.Origin, r.Seq = r.Seq, list[i].To
		want[i] = kept{Row: r}
	}
	return want
}

func testDeleted(t *testing.T, b *bench) {
	rows := b.append(t)
	check(t, b.Apply(t.Context(), &store.Change{Delete: keys(rows[:2]), Note: &store.Note{Action: "a", At: 5}}))
	same(t, "after the deletion", b.held(t, b.jobs), []kept{{Row: rows[2]}})
	heads := make([]store.NotedMessage, 2)
	for i := range heads {
		heads[i] = store.NotedMessage{Kind: store.NoteDeleted, Head: store.Head{Row: rows[i], Bytes: len(rows[i].Body)}}
		heads[i].Body, heads[i].Trace = nil, nil
	}
	got := b.notes(t, "a")
	for i := range got {
		got[i].Trace = nil // what a note says of it is for the store alone
	}
	same(t, "notes", got, heads)
	list := b.back(t, "a")
	same(t, "after it was undone", b.held(t, b.jobs), append([]kept{{Row: rows[2]}}, returned(rows[:2], list)...))
	if left := b.notes(t, "a"); len(left) != 0 {
		t.Errorf("notes %v are left", left)
	}
	// A message that moved before keeps the Seq of its first acceptance, and a dead letter where it came from.
	b.next++
	moved := store.Move{From: store.Key{Queue: b.jobs, Seq: rows[2].Seq}, To: store.Key{Queue: b.jobs, Seq: b.next}, Source: b.other, Reason: "why"}
	check(t, b.Apply(t.Context(), &store.Change{Move: []store.Move{moved}}))
	check(t, b.Apply(t.Context(), &store.Change{Delete: []store.Key{moved.To}, Note: &store.Note{Action: "b", At: 6}}))
	to := b.back(t, "b")
	all := b.held(t, b.jobs)
	want := kept{Row: rows[2], Source: b.other, Reason: "why"}
	want.Origin, want.Seq, want.Failures, want.Losses, want.VisibleAt = rows[2].Seq, to[0].To, 0, 0, 0
	same(t, "a dead letter", all[len(all)-1:], []kept{want})
}

func testHurried(t *testing.T, b *bench) {
	rows := b.append(t)
	k := keys(rows)
	hurry := []store.Retry{{Key: k[1], VisibleAt: 1_760_000_000_000}, {Key: k[2], Failures: 3, Losses: 1, VisibleAt: 1_760_000_000_000}}
	check(t, b.Apply(t.Context(), &store.Change{Retry: hurry, Note: &store.Note{Action: "a", At: 5}}))
	got := b.notes(t, "a")
	if len(got) != 2 || got[0].VisibleAt != rows[1].VisibleAt || got[0].ToVisibleAt != 1_760_000_000_000 || got[1].Failures != 3 || got[1].Kind != store.NoteHurried {
		t.Fatalf("notes %+v", got)
	}
	b.back(t, "a")
	same(t, "after it was undone", b.held(t, b.jobs), []kept{{Row: rows[0]}, {Row: rows[1]}, {Row: rows[2]}})
}

func testMoved(t *testing.T, b *bench) {
	rows := b.append(t)
	moves := make([]store.Move, 0, len(rows))
	for _, k := range keys(rows) {
		b.next++
		moves = append(moves, store.Move{From: k, To: store.Key{Queue: b.other, Seq: b.next}})
	}
	check(t, b.Apply(t.Context(), &store.Change{Move: moves, Note: &store.Note{Action: "a", At: 5}}))
	for i, n := range b.notes(t, "a") {
		if n.To != moves[i].To || n.Kind != store.NoteMoved || n.Bytes != len(rows[i].Body) {
			t.Errorf("note %+v of %+v", n, moves[i])
		}
	}
	// The last of them is gone by then.
	check(t, b.Apply(t.Context(), &store.Change{Delete: []store.Key{moves[2].To}}))
	list := b.back(t, "a")
	same(t, "after it was undone", b.held(t, b.jobs), returned(rows[:2], list[:2]))
	same(t, "in the other queue", b.held(t, b.other), nil)
}

func testTwice(t *testing.T, b *bench) {
	rows := b.append(t)
	check(t, b.Apply(t.Context(), &store.Change{Delete: keys(rows), Note: &store.Note{Action: "a", At: 5}}))
	list := b.back(t, "a")
	want := b.held(t, b.jobs)
	for i := range list {
		b.next++
		list[i].To = b.next
	}
	check(t, b.Apply(t.Context(), &store.Change{Return: list}))
	check(t, b.Apply(t.Context(), &store.Change{Return: []store.Return{{Queue: 999_999, Seq: 1, Action: "a", To: b.next}}}))
	same(t, "after the second time", b.held(t, b.jobs), want)
}

func testNotedOnce(t *testing.T, b *bench) {
	rows := b.append(t)
	change := store.Change{Retry: []store.Retry{{Key: keys(rows)[1], VisibleAt: 1_760_000_000_000}}, Note: &store.Note{Action: "a", At: 5}}
	check(t, b.Apply(t.Context(), &change))
	check(t, b.Apply(t.Context(), &change))
	if got := b.notes(t, "a"); len(got) != 1 || got[0].VisibleAt != rows[1].VisibleAt {
		t.Fatalf("notes %+v", got)
	}
	// What is not there is not noted.
	check(t, b.Apply(t.Context(), &store.Change{Delete: []store.Key{{Queue: b.jobs, Seq: 1}, {Queue: 999_999, Seq: 1}}, Note: &store.Note{Action: "b", At: 5}}))
	if got := b.notes(t, "b"); len(got) != 0 {
		t.Errorf("notes %+v", got)
	}
}

func testListed(t *testing.T, b *bench) {
	rows := b.append(t)
	k := keys(rows)
	for i, at := range []int64{1_000, 3_000, 2_000} {
		action := "old"
		if i > 0 {
			action = "new"
		}
		check(t, b.Apply(t.Context(), &store.Change{Delete: k[i : i+1], Note: &store.Note{Action: action, At: at}}))
	}
	list := func(since int64) []store.Noted {
		t.Helper()
		got, err := b.Noted(t.Context(), b.jobs, since)
		check(t, err)
		return got
	}
	newer := store.Noted{Action: "new", Kind: store.NoteDeleted, Messages: 2, First: 2_000, Last: 3_000}
	older := store.Noted{Action: "old", Kind: store.NoteDeleted, Messages: 1, First: 1_000, Last: 1_000}
	same(t, "noted", list(0), []store.Noted{newer, older})
	same(t, "noted since", list(1_001), []store.Noted{newer})
	all, err := b.Noted(t.Context(), 0, 1_001)
	check(t, err)
	same(t, "noted in any queue", all, []store.Noted{newer})
	none, err := b.Noted(t.Context(), b.other, 0)
	check(t, err)
	same(t, "noted in another queue", none, nil)
	got, err := b.NotedMessages(t.Context(), b.jobs, "new", k[1].Seq, 1)
	check(t, err)
	if len(got) != 1 || got[0].Seq != k[2].Seq {
		t.Errorf("a page of notes: %+v", got)
	}
	check(t, b.Apply(t.Context(), &store.Change{Forget: []store.Forget{{Before: 1_001}}}))
	same(t, "after those before were forgotten", list(0), []store.Noted{newer})
	check(t, b.Apply(t.Context(), &store.Change{Forget: []store.Forget{{Queue: b.jobs, Action: "old"}, {Queue: b.other}}}))
	same(t, "after others were forgotten", list(0), []store.Noted{newer})
	check(t, b.Apply(t.Context(), &store.Change{Forget: []store.Forget{{Queue: b.jobs, Action: "new"}}}))
	same(t, "after it was forgotten", list(0), nil)
	again := b.append(t)
	check(t, b.Apply(t.Context(), &store.Change{Delete: keys(again), Note: &store.Note{Action: "a", At: 1}}))
	check(t, b.Apply(t.Context(), &store.Change{Forget: []store.Forget{{Queue: b.jobs}}}))
	same(t, "after all of the queue were forgotten", list(0), nil)
	again = b.append(t)
	check(t, b.Apply(t.Context(), &store.Change{Delete: keys(again), Note: &store.Note{Action: "a", At: 1}}))
	_, err = b.Remove(t.Context(), b.jobs)
	check(t, err)
	same(t, "after the queue was removed", list(0), nil)
}

func testBounded(t *testing.T, b *bench) {
	add := func(n, size int) []store.Row {
		rows := make([]store.Row, n)
		for i := range rows {
			b.next++
			rows[i] = store.Row{Queue: b.jobs, Seq: b.next, Format: queue.Bytes, SentAt: 1, Body: make([]byte, size)}
		}
		check(t, b.Append(t.Context(), rows, nil))
		return rows
	}
	first := add(queue.UndoDeleted-1, 1)
	check(t, b.Apply(t.Context(), &store.Change{Delete: keys(first), Note: &store.Note{Action: "a", At: 1}}))
	more := add(3, 1)
	check(t, b.Apply(t.Context(), &store.Change{Delete: keys(more), Note: &store.Note{Action: "b", At: 2}}))
	if a, b := b.notes(t, "a"), b.notes(t, "b"); len(a) != queue.UndoDeleted-3 || a[0].Seq != first[2].Seq || len(b) != 3 {
		t.Errorf("%d and %d notes are kept", len(a), len(b))
	}
	// Bodies of 128 KiB, one too many. What was moved counts for itself.
	const size = 128 << 10
	moved := add(1, 1)
	b.next++
	check(t, b.Apply(t.Context(), &store.Change{Note: &store.Note{Action: "m", At: 1}, Move: []store.Move{{From: keys(moved)[0], To: store.Key{Queue: b.other, Seq: b.next}}}}))
	for range 2 {
		large := add(queue.UndoBytes/size/2+1, size)
		check(t, b.Apply(t.Context(), &store.Change{Delete: keys(large), Note: &store.Note{Action: "c", At: 3}}))
	}
	if n := len(b.notes(t, "c")); n != queue.UndoBytes/size {
		t.Errorf("%d large ones are kept", n)
	}
	if len(b.notes(t, "b")) != 0 || len(b.notes(t, "m")) != 1 {
		t.Error("others are kept, or dropped")
	}
}
