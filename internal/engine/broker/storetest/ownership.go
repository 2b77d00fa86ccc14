package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

func testAcquire(t *testing.T, s *Subject) {
	first := acquire(t, s.Store)
	if first.Epoch <= 0 || first.NextSeq <= 0 {
		t.Errorf("epoch %d and next seq %d are not above 0", first.Epoch, first.NextSeq)
	}
	limit := first.NextSeq + 5_000
	check(t, s.Store.Reserve(t.Context(), limit))
	check(t, s.Store.Release(t.Context()))
	second := acquire(t, s.Another(t))
	if second.Store != first.Store {
		t.Errorf("the identity changed from %x to %x", first.Store, second.Store)
	}
	if second.Epoch <= first.Epoch {
		t.Errorf("epoch %d does not follow %d", second.Epoch, first.Epoch)
	}
	if second.NextSeq < limit {
		t.Errorf("next seq %d is below the reserved %d", second.NextSeq, limit)
	}
}

func testAcquireWaits(t *testing.T, s *Subject) {
	own := acquire(t, s.Store)
	other := s.Another(t)
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := other.Acquire(short); fault.KindOf(err) != fault.Unavailable {
		t.Fatalf("a second owner: %v, want a fault of kind unavailable", err)
	}
	if err := s.Store.Reserve(t.Context(), own.NextSeq+1); err != nil {
		t.Fatalf("the owner cannot write after another tried: %v", err)
	}
	type result struct {
		own store.Ownership
		err error
	}
	done := make(chan result, 1)
	go func() {
		own, err := other.Acquire(t.Context())
		done <- result{own, err}
	}()
	select {
	case r := <-done:
		t.Fatalf("a second owner beside the first: %+v, %v", r.own, r.err)
	default:
	}
	check(t, s.Store.Release(t.Context()))
	r := <-done
	check(t, r.err)
	if r.own.Epoch <= own.Epoch {
		t.Errorf("epoch %d does not follow %d", r.own.Epoch, own.Epoch)
	}
}

func testAcquireAgain(t *testing.T, s *Subject) {
	first := acquire(t, s.Store)
	second := acquire(t, s.Store)
	wait(t, first.Lost, "the end of the first ownership")
	if second.Epoch <= first.Epoch {
		t.Errorf("epoch %d does not follow %d", second.Epoch, first.Epoch)
	}
	check(t, s.Store.Reserve(t.Context(), second.NextSeq+1))
}

// writes calls every method that needs the ownership.
func writes(t *testing.T, s store.Store, id int32, seq int64) map[string]error {
	t.Helper()
	ctx := t.Context()
	_, declare := s.Declare(ctx, []string{"late"})
	_, drain := s.Drain(ctx, seq+1, time.Now(), 10)
	_, expire := s.Expire(ctx, id, 0, endOfSeq, 10)
	_, clearInbox := s.ClearInbox(ctx, id, 0, 10)
	return map[string]error{
		"Reserve":    s.Reserve(ctx, seq),
		"Declare":    declare,
		"Append":     s.Append(ctx, []store.Row{{Queue: id, Seq: seq, Format: 1, SentAt: 1, Body: []byte("1")}}, nil),
		"Drain":      drain,
		"Apply":      s.Apply(ctx, &store.Change{Delete: []store.Key{{Queue: id, Seq: 1}}}),
		"SaveMarks":  s.SaveMarks(ctx, []store.Mark{{Queue: id, ReadyMark: 1, DueMark: 1}}),
		"Expire":     expire,
		"SaveUsage":  s.SaveUsage(ctx, nil, 0),
		"SetRefusal": s.SetRefusal(ctx, store.Refusal{Code: "late"}),
		"Configure":  s.Configure(ctx, id, store.Settings{PausedAt: 1}),
		"Clear":      clearInbox,
	}
}

func wantFenced(t *testing.T, s store.Store, id int32, seq int64) {
	t.Helper()
	for name, err := range writes(t, s, id, seq) {
		t.Run(name, func(t *testing.T) { wantCode(t, err, fault.Conflict, store.CodeOwnershipLost) })
	}
}

func testWritesNeedOwnership(t *testing.T, s *Subject) {
	wantFenced(t, s.Store, 1, 1)
	if queues, err := s.Store.Queues(t.Context()); err != nil || len(queues) != 0 {
		t.Errorf("queues without ownership: %v, %v", queues, err)
	}
	if rows := ready(t, s.Store, 1); len(rows) != 0 {
		t.Errorf("messages in an empty store: %v", rows)
	}
}

func testRelease(t *testing.T, s *Subject) {
	b := begin(t, s)
	row := b.rows(t, 0, 1)
	check(t, s.Store.Release(t.Context()))
	wait(t, b.own.Lost, "the end of the ownership")
	check(t, s.Store.Release(t.Context()))
	wantFenced(t, s.Store, b.queues[0].ID, b.next+1)
	same(t, "what an owner left", b.all(t, 0), row)
	again := acquire(t, s.Store)
	b.next = again.NextSeq
	more := b.rows(t, 0, 1)
	same(t, "what the next owner sees", b.all(t, 0), append(row, more...))
}

func testLost(t *testing.T, s *Subject) {
	b := begin(t, s)
	row := b.rows(t, 0, 1)
	select {
	case <-b.own.Lost:
		t.Fatal("the ownership is lost from the start")
	default:
	}
	s.Sever(t)
	wait(t, b.own.Lost, "the end of the ownership")
	wantFenced(t, s.Store, b.queues[0].ID, b.next+1)

	other := s.Another(t)
	own := acquire(t, other)
	if own.Epoch <= b.own.Epoch {
		t.Errorf("epoch %d does not follow %d", own.Epoch, b.own.Epoch)
	}
	wantFenced(t, s.Store, b.queues[0].ID, b.next+1)
	same(t, "what the new owner sees", ready(t, other, b.queues[0].ID), row)
	check(t, other.Apply(t.Context(), &store.Change{Delete: keys(row)}))
	check(t, other.Release(t.Context()))

	acquire(t, s.Store)
	same(t, "what the first owner sees when it is back", b.all(t, 0), nil)
}

func testReserve(t *testing.T, s *Subject) {
	own := acquire(t, s.Store)
	high := own.NextSeq + 1_000
	check(t, s.Store.Reserve(t.Context(), high))
	check(t, s.Store.Reserve(t.Context(), high-500))
	if again := acquire(t, s.Store); again.NextSeq < high {
		t.Errorf("next seq %d is below %d, which was reserved before a lower one", again.NextSeq, high)
	}
}

func testDeclare(t *testing.T, s *Subject) {
	acquire(t, s.Store)
	first, err := s.Store.Declare(t.Context(), []string{"beta", "alpha"})
	check(t, err)
	second, err := s.Store.Declare(t.Context(), []string{"alpha", "gamma", "beta", "alpha"})
	check(t, err)
	names := make([]string, len(second))
	for i, q := range second {
		names[i] = q.Name
	}
	if diff := cmp.Diff([]string{"alpha", "gamma", "beta", "alpha"}, names); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if first[0] != second[2] || first[1] != second[0] || second[0] != second[3] {
		t.Errorf("a queue changed when it was declared again: %v, then %v", first, second)
	}
	all, err := s.Another(t).Queues(t.Context())
	check(t, err)
	ids := map[int32]string{}
	for _, q := range all {
		ids[q.ID] = q.Name
	}
	if diff := cmp.Diff(map[int32]string{first[0].ID: "beta", first[1].ID: "alpha", second[1].ID: "gamma"}, ids); diff != "" {
		t.Errorf("queues (-want +got):\n%s", diff)
	}
	if none, err := s.Store.Declare(t.Context(), nil); err != nil || len(none) != 0 {
		t.Errorf("declaring nothing: %v, %v", none, err)
	}
}

func testDeclareInvalid(t *testing.T, s *Subject) {
	acquire(t, s.Store)
	for _, name := range []string{"", "Jobs", "-jobs", "jobs_", "a b"} {
		if _, err := s.Store.Declare(t.Context(), []string{"good", name}); fault.KindOf(err) != fault.Invalid {
			t.Errorf("queue %q: %v, want a fault of kind invalid", name, err)
		}
	}
	if all, err := s.Store.Queues(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("a refused declaration left %v, %v", all, err)
	}
}

func testMarks(t *testing.T, s *Subject) {
	b := begin(t, s)
	for _, q := range b.queues {
		if q.ReadyMark != 0 || q.DueMark != 0 {
			t.Errorf("a new queue has marks: %+v", q)
		}
	}
	id := b.queues[0].ID
	check(t, s.Store.SaveMarks(t.Context(), []store.Mark{
		{Queue: id, ReadyMark: 77, DueMark: 1_750_000_000_123}, {Queue: 999_999, ReadyMark: 1, DueMark: 1},
	}))
	want := []store.QueueInfo{{ID: id, Name: "jobs", Created: b.queues[0].Created, ReadyMark: 77, DueMark: 1_750_000_000_123}, b.queues[1]}
	all, err := s.Store.Queues(t.Context())
	check(t, err)
	byID := func(list []store.QueueInfo) map[int32]store.QueueInfo {
		m := map[int32]store.QueueInfo{}
		for _, q := range list {
			m[q.ID] = q
		}
		return m
	}
	if diff := cmp.Diff(byID(want), byID(all)); diff != "" {
		t.Errorf("Queues (-want +got):\n%s", diff)
	}
	declared, err := s.Store.Declare(t.Context(), []string{"jobs"})
	check(t, err)
	if declared[0] != want[0] {
		t.Errorf("Declare gives %+v, want %+v", declared[0], want[0])
	}
	check(t, s.Store.SaveMarks(t.Context(), nil))
}
