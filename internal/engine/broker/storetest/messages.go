package storetest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/core/trace"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

func testAppendFields(t *testing.T, s *Subject) {
	b := begin(t, s)
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	full := b.row(0, "")
	full.Origin, full.Format, full.Failures, full.Losses, full.VisibleAt, full.Body = full.Seq-1, queue.V8, 100, 7, 1_750_000_000_999, every
	full.Trace = &trace.Context{TraceID: [16]byte{1, 15: 2}, SpanID: [8]byte{3, 7: 4}, Flags: trace.Sampled}
	largest := b.row(0, "")
	largest.Format, largest.Body = queue.Bytes, bytes.Repeat([]byte{0xff, 0}, 64<<10)
	text := b.row(0, "späť\x00")
	text.Format = queue.Text
	empty := b.row(0, "")
	early := b.row(0, "1")
	early.SentAt, early.VisibleAt = 1, 1
	rows := []store.Row{full, largest, text, empty, early}
	for _, group := range [][]store.Row{rows, repeat(b, rows, 40)} {
		check(t, s.Store.Append(t.Context(), group, nil))
		got := b.all(t, 0)
		slices.SortFunc(got, func(a, b store.Row) int { return int(a.Seq - b.Seq) })
		same(t, fmt.Sprintf("%d rows", len(group)), got, group)
		check(t, s.Store.Apply(t.Context(), &store.Change{Delete: keys(group)}))
	}
}

// repeat makes n copies of rows under new Seqs.
func repeat(b *bench, rows []store.Row, n int) []store.Row {
	all := make([]store.Row, 0, n*len(rows))
	for range n {
		for _, r := range rows {
			b.next++
			r.Seq = b.next
			all = append(all, r)
		}
	}
	return all
}

func testAppendSizes(t *testing.T, s *Subject) {
	b := begin(t, s)
	var want [2][]store.Row
	for _, n := range []int{0, 1, 2, 63, 64, 65, queue.GroupRows} {
		rows := make([]store.Row, n)
		for i := range rows {
			rows[i] = b.row(i%2, `"x"`)
			want[i%2] = append(want[i%2], rows[i])
		}
		check(t, s.Store.Append(t.Context(), rows, nil))
	}
	for i := range want {
		same(t, b.queues[i].Name, b.all(t, i), want[i])
	}
}

func testAppendAtomic(t *testing.T, s *Subject) {
	b := begin(t, s)
	first := b.rows(t, 0, 1)
	for _, n := range []int{2, 200} {
		rows := make([]store.Row, 0, n)
		for range n {
			rows = append(rows, b.row(0, "1"))
		}
		rows[n-1].Seq = first[0].Seq
		if err := s.Store.Append(t.Context(), rows, nil); err == nil {
			t.Fatalf("a Seq was taken twice in a group of %d", n)
		}
		same(t, "after a refused group", b.all(t, 0), first)
	}
	more := b.rows(t, 0, 3)
	same(t, "after a good group", b.all(t, 0), append(first, more...))
}

func testAppendEndedContext(t *testing.T, s *Subject) {
	b := begin(t, s)
	first := b.rows(t, 0, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Store.Append(ctx, []store.Row{b.row(0, "1")}, nil); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("append with an ended context: %v, want a fault of kind unavailable", err)
	}
	if err := s.Store.Apply(ctx, &store.Change{Delete: keys(first)}); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("apply with an ended context: %v, want a fault of kind unavailable", err)
	}
	same(t, "after refused writes", b.all(t, 0), first)
}

func testReadReady(t *testing.T, s *Subject) {
	b := begin(t, s)
	rows := b.rows(t, 0, 10)
	b.rows(t, 1, 3)
	late := b.row(0, "1")
	late.VisibleAt = 5
	check(t, s.Store.Append(t.Context(), []store.Row{late}, nil))
	after := b.rows(t, 0, 2)
	check(t, s.Store.Apply(t.Context(), &store.Change{Delete: keys(rows[4:5])}))
	rows = append(slices.Delete(slices.Clone(rows), 4, 5), after...)
	for _, c := range []struct {
		name        string
		after, upTo int64
		rows        int
		want        []store.Row
	}{
		{"all", 0, endOfSeq, 100, rows},
		{"after is exclusive", rows[2].Seq, endOfSeq, 100, rows[3:]},
		{"upTo is inclusive", 0, rows[5].Seq, 100, rows[:6]},
		{"both", rows[2].Seq, rows[5].Seq, 100, rows[3:6]},
		{"nothing between", rows[2].Seq, rows[2].Seq, 100, nil},
		{"rows", rows[0].Seq, endOfSeq, 4, rows[1:5]},
		{"one row", 0, endOfSeq, 1, rows[:1]},
		{"past the end", endOfSeq - 1, endOfSeq, 100, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := s.Store.ReadReady(t.Context(), b.queues[0].ID, c.after, c.upTo, c.rows, 1<<20)
			check(t, err)
			same(t, "messages", got, c.want)
		})
	}
}

// sized appends messages with bodies of the given sizes, delayed by their index when delayed is set.
func sized(t *testing.T, b *bench, delayed bool, sizes ...int) []store.Row {
	t.Helper()
	rows := make([]store.Row, len(sizes))
	for i, size := range sizes {
		rows[i] = b.row(0, "")
		rows[i].Format, rows[i].Body = queue.Bytes, bytes.Repeat([]byte{byte(i)}, size)
		if delayed {
			rows[i].VisibleAt = int64(1_000 + i)
		}
	}
	check(t, b.Store.Append(t.Context(), rows, nil))
	return rows
}

var byteBounds = []struct {
	name        string
	bytes, want int
}{
	{"none", 0, 1},
	{"less than the first", 99, 1},
	{"the first exactly", 100, 1},
	{"two exactly", 200, 2},
	{"one byte short", 20_199, 2},
	{"a large one", 20_200, 4},
	{"all", 1 << 20, 6},
}

func testReadReadyBytes(t *testing.T, s *Subject) {
	b := begin(t, s)
	rows := sized(t, b, false, 100, 100, 20_000, 0, 100_000, 100)
	for _, c := range byteBounds {
		t.Run(c.name, func(t *testing.T) {
			got, err := s.Store.ReadReady(t.Context(), b.queues[0].ID, 0, endOfSeq, 100, c.bytes)
			check(t, err)
			same(t, "messages", got, rows[:c.want])
		})
	}
}

func testReadDueBytes(t *testing.T, s *Subject) {
	b := begin(t, s)
	rows := sized(t, b, true, 100, 100, 20_000, 0, 100_000, 100)
	for _, c := range byteBounds {
		t.Run(c.name, func(t *testing.T) {
			got, err := s.Store.ReadDue(t.Context(), b.queues[0].ID, store.Due{}, endOfTime, 100, c.bytes)
			check(t, err)
			same(t, "messages", got, rows[:c.want])
		})
	}
}

func testReadDue(t *testing.T, s *Subject) {
	b := begin(t, s)
	b.rows(t, 0, 2)
	other := b.row(1, "1")
	other.VisibleAt = 20
	rows := make([]store.Row, 0, 8)
	for _, at := range []int64{30, 10, 20, 20, 40, 10} {
		r := b.row(0, "1")
		r.VisibleAt = at
		rows = append(rows, r)
	}
	check(t, s.Store.Append(t.Context(), append(slices.Clone(rows), other), nil))
	rows = []store.Row{rows[1], rows[5], rows[2], rows[3], rows[0], rows[4]}
	at := func(i int) store.Due { return store.Due{VisibleAt: rows[i].VisibleAt, Seq: rows[i].Seq} }
	for _, c := range []struct {
		name  string
		after store.Due
		upTo  int64
		rows  int
		want  []store.Row
	}{
		{"all", store.Due{}, endOfTime, 100, rows},
		{"upTo is inclusive", store.Due{}, 20, 100, rows[:4]},
		{"just before", store.Due{}, 19, 100, rows[:2]},
		{"from within a time", at(0), endOfTime, 100, rows[1:]},
		{"from within another", at(2), 30, 100, rows[3:5]},
		{"from before a time", store.Due{VisibleAt: 20}, endOfTime, 100, rows[2:]},
		{"from after a time", store.Due{VisibleAt: 20, Seq: endOfSeq}, endOfTime, 100, rows[4:]},
		{"rows", at(0), endOfTime, 2, rows[1:3]},
		{"nothing", at(5), endOfTime, 100, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := s.Store.ReadDue(t.Context(), b.queues[0].ID, c.after, c.upTo, c.rows, 1<<20)
			check(t, err)
			same(t, "messages", got, c.want)
		})
	}
}

func testApplyDelete(t *testing.T, s *Subject) {
	b := begin(t, s)
	rows, others := b.rows(t, 0, 500), b.rows(t, 1, 500)
	gone := slices.Concat(keys(rows[100:400]), keys(others[:250]))
	rand.Shuffle(len(gone), func(i, j int) { gone[i], gone[j] = gone[j], gone[i] })
	given := slices.Clone(gone)
	check(t, s.Store.Apply(t.Context(), &store.Change{Delete: gone}))
	if !slices.Equal(given, gone) {
		t.Error("the caller's keys were changed")
	}
	same(t, "first queue", b.all(t, 0), slices.Concat(rows[:100], rows[400:]))
	same(t, "second queue", b.all(t, 1), others[250:])
	// A Seq belongs to its queue: the same number elsewhere is another message.
	check(t, s.Store.Apply(t.Context(), &store.Change{Delete: []store.Key{{Queue: b.queues[1].ID, Seq: rows[0].Seq}}}))
	same(t, "first queue after a stranger's key", b.all(t, 0), slices.Concat(rows[:100], rows[400:]))
	check(t, s.Store.Apply(t.Context(), &store.Change{}))
}

func testApplyRetry(t *testing.T, s *Subject) {
	b := begin(t, s)
	rows := b.rows(t, 0, 4)
	retry := func(i int, failures, losses int16, at int64) store.Retry {
		rows[i].Failures, rows[i].Losses, rows[i].VisibleAt = failures, losses, at
		return store.Retry{Key: store.Key{Queue: rows[i].Queue, Seq: rows[i].Seq}, Failures: failures, Losses: losses, VisibleAt: at}
	}
	check(t, s.Store.Apply(t.Context(), &store.Change{Retry: []store.Retry{retry(3, 1, 0, 2_000), retry(0, 0, 1, 3_000), retry(1, 0, 0, 1_000)}}))
	same(t, "ready", ready(t, s.Store, b.queues[0].ID), rows[2:3])
	same(t, "due", due(t, s.Store, b.queues[0].ID), []store.Row{rows[1], rows[3], rows[0]})
	check(t, s.Store.Apply(t.Context(), &store.Change{Retry: []store.Retry{retry(1, 2, 3, 9_000)}}))
	same(t, "due, retried again", due(t, s.Store, b.queues[0].ID), []store.Row{rows[3], rows[0], rows[1]})
}

func testApplyMove(t *testing.T, s *Subject) {
	b := begin(t, s)
	rows := b.rows(t, 0, 3)
	tired := b.row(0, "1")
	tired.Failures, tired.Losses, tired.VisibleAt, tired.Format = 4, 1, 10, queue.Text
	check(t, s.Store.Append(t.Context(), []store.Row{tired}, nil))
	move := func(r store.Row, to int) (store.Move, store.Row) {
		b.next++
		moved := r
		moved.Queue, moved.Seq, moved.Failures, moved.Losses, moved.VisibleAt = b.queues[to].ID, b.next, 0, 0, 0
		if r.Origin == 0 {
			moved.Origin = r.Seq
		}
		return store.Move{From: store.Key{Queue: r.Queue, Seq: r.Seq}, To: store.Key{Queue: moved.Queue, Seq: moved.Seq}}, moved
	}
	first, firstMoved := move(tired, 1)
	second, secondMoved := move(rows[1], 1)
	check(t, s.Store.Apply(t.Context(), &store.Change{Move: []store.Move{second, first}}))
	same(t, "the queue left", b.all(t, 0), []store.Row{rows[0], rows[2]})
	same(t, "the queue entered", b.all(t, 1), []store.Row{firstMoved, secondMoved})

	back, wentBack := move(firstMoved, 0)
	check(t, s.Store.Apply(t.Context(), &store.Change{Move: []store.Move{back}}))
	if wentBack.Origin != tired.Seq {
		t.Fatalf("origin %d, want %d", wentBack.Origin, tired.Seq)
	}
	same(t, "moved back", b.all(t, 0), []store.Row{rows[0], rows[2], wentBack})

	within, stayed := move(rows[0], 0)
	check(t, s.Store.Apply(t.Context(), &store.Change{Move: []store.Move{within}}))
	same(t, "moved within its queue", b.all(t, 0), []store.Row{rows[2], wentBack, stayed})
}

func testApplyTwice(t *testing.T, s *Subject) {
	b := begin(t, s)
	rows := b.rows(t, 0, 4)
	b.next++
	change := &store.Change{
		Delete: keys(rows[:1]),
		Retry:  []store.Retry{{Key: keys(rows[1:2])[0], Failures: 1, VisibleAt: 50}},
		Move:   []store.Move{{From: keys(rows[2:3])[0], To: store.Key{Queue: b.queues[1].ID, Seq: b.next}}},
	}
	check(t, s.Store.Apply(t.Context(), change))
	first := slices.Concat(b.all(t, 0), b.all(t, 1))
	check(t, s.Store.Apply(t.Context(), change))
	same(t, "after the same change again", slices.Concat(b.all(t, 0), b.all(t, 1)), first)
	// Late results of a message that is gone bring nothing back.
	check(t, s.Store.Apply(t.Context(), &store.Change{Delete: keys(rows[1:2])}))
	check(t, s.Store.Apply(t.Context(), &store.Change{Retry: change.Retry}))
	same(t, "after a late retry", b.all(t, 0), rows[3:])
}

func testApplyAtomic(t *testing.T, s *Subject) {
	b := begin(t, s)
	rows, taken := b.rows(t, 0, 3), b.rows(t, 1, 1)
	err := s.Store.Apply(t.Context(), &store.Change{
		Delete: keys(rows[:1]),
		Retry:  []store.Retry{{Key: keys(rows[1:2])[0], Failures: 1, VisibleAt: 50}},
		Move:   []store.Move{{From: keys(rows[2:])[0], To: keys(taken)[0]}},
	})
	if err == nil {
		t.Fatal("a message moved to a Seq that is taken")
	}
	same(t, "after a refused change", b.all(t, 0), rows)
	same(t, "the target", b.all(t, 1), taken)
	check(t, s.Store.Apply(t.Context(), &store.Change{Delete: keys(rows[:1])}))
	same(t, "after a good change", b.all(t, 0), rows[1:])
}

func testExpire(t *testing.T, s *Subject) {
	b := begin(t, s)
	rows, others := b.rows(t, 0, 10), b.rows(t, 1, 2)
	retry := store.Retry{Key: keys(rows[3:4])[0], Failures: 1, VisibleAt: endOfTime - 1}
	check(t, s.Store.Apply(t.Context(), &store.Change{Retry: []store.Retry{retry}}))
	expire := func(after, before int64, limit int, want []store.Row) {
		t.Helper()
		expected := make([]store.Expired, len(want))
		for i, r := range want {
			expected[i] = store.Expired{Seq: r.Seq, Bytes: len(r.Body)}
		}
		got, err := s.Store.Expire(t.Context(), b.queues[0].ID, after, before, limit)
		check(t, err)
		if diff := cmp.Diff(expected, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("expired (-want +got):\n%s", diff)
		}
	}
	expire(0, rows[0].Seq, 100, nil)
	expire(rows[0].Seq, rows[7].Seq, 3, rows[1:4])
	expire(rows[0].Seq, rows[7].Seq, 100, rows[4:7])
	expire(rows[0].Seq, rows[7].Seq, 100, nil)
	same(t, "what stays", b.all(t, 0), slices.Concat(rows[:1], rows[7:]))
	same(t, "the other queue", b.all(t, 1), others)
}

func testSnapshot(t *testing.T, s *Subject) {
	b := begin(t, s)
	sizes := sized(t, b, false, 10, 100_000, 0)
	others := b.rows(t, 1, 1)
	view, err := s.Store.Snapshot(t.Context())
	check(t, err)
	want := map[int32]store.Count{
		b.queues[0].ID: {Messages: 3, Bytes: 100_010},
		b.queues[1].ID: {Messages: 1, Bytes: int64(len(others[0].Body))},
	}
	counts := func(view store.Snapshot, want map[int32]store.Count) {
		t.Helper()
		got, err := view.Counts(t.Context())
		check(t, err)
		for id, c := range got {
			if c == (store.Count{}) {
				delete(got, id)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("counts (-want +got):\n%s", diff)
		}
	}
	b.rows(t, 0, 5)
	check(t, s.Store.Apply(t.Context(), &store.Change{Delete: slices.Concat(keys(sizes[:2]), keys(others))}))
	counts(view, want)
	counts(view, want)
	check(t, view.Close(t.Context()))
	check(t, view.Close(t.Context()))
	view, err = s.Store.Snapshot(t.Context())
	check(t, err)
	counts(view, map[int32]store.Count{b.queues[0].ID: {Messages: 6, Bytes: 5 * int64(len(`{"n":0}`))}})
	check(t, view.Close(t.Context()))
}

// testConcurrent adds, reads and settles at the same time; nothing is lost and nothing is seen out of order.
func testConcurrent(t *testing.T, s *Subject) {
	b := begin(t, s)
	const groups, size = 40, 50
	appended := make(chan []store.Row, groups)
	var all sync.WaitGroup
	all.Go(func() {
		defer close(appended)
		for range groups {
			rows := make([]store.Row, size)
			for i := range rows {
				rows[i] = b.row(0, "1")
			}
			if err := s.Store.Append(t.Context(), rows, nil); err != nil {
				t.Error(err)
				return
			}
			appended <- rows
		}
	})
	all.Go(func() {
		cursor := b.own.NextSeq
		for rows := range appended {
			got, err := s.Store.ReadReady(t.Context(), b.queues[0].ID, cursor, rows[size-1].Seq, size, 1<<20)
			if err != nil || !slices.Equal(seqs(got), seqs(rows)) {
				t.Errorf("read %v, %v after %v was appended", seqs(got), err, seqs(rows))
				return
			}
			if err := s.Store.Apply(t.Context(), &store.Change{Delete: keys(got)}); err != nil {
				t.Error(err)
				return
			}
			cursor = rows[size-1].Seq
		}
	})
	all.Wait()
	same(t, "left over", b.all(t, 0), nil)
}
