package storetest

import (
	gocmp "cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// headsOf are the heads of rows that are no dead letters.
func headsOf(rows []store.Row) []store.Head {
	heads := make([]store.Head, len(rows))
	for i := range rows {
		heads[i] = store.Head{Row: rows[i], Bytes: len(rows[i].Body)}
		heads[i].Body = nil
	}
	return heads
}

func testHeads(t *testing.T, s *Subject) {
	b := begin(t, s)
	rows := b.rows(t, 0, 6)
	b.rows(t, 1, 2)
	late := make([]store.Row, 0, 4)
	for _, at := range []int64{10, 20, 20, 30} {
		r := b.row(0, "12345")
		r.VisibleAt, r.Failures, r.Losses, r.Format = at, 3, 2, queue.Text
		late = append(late, r)
	}
	check(t, s.Store.Append(t.Context(), late, nil))
	ready := func(after, upTo int64, limit int, want []store.Row) {
		t.Helper()
		got, err := s.Store.ListReady(t.Context(), b.queues[0].ID, after, upTo, limit)
		check(t, err)
		same(t, "ready", got, headsOf(want))
	}
	due := func(after store.Due, upTo int64, limit int, want []store.Row) {
		t.Helper()
		got, err := s.Store.ListDue(t.Context(), b.queues[0].ID, after, upTo, limit)
		check(t, err)
		same(t, "due", got, headsOf(want))
	}
	ready(0, endOfSeq, 100, rows)
	ready(rows[0].Seq, rows[4].Seq, 100, rows[1:5])
	ready(rows[0].Seq, rows[4].Seq, 2, rows[1:3])
	ready(late[3].Seq, endOfSeq, 2, nil)
	due(store.Due{}, endOfTime, 100, late)
	due(late[1].Due(), endOfTime, 1, late[2:3])
	due(late[0].Due(), 20, 100, late[1:3])
	due(store.Due{VisibleAt: 30, Seq: endOfSeq}, endOfTime, 100, nil)
}

func testFind(t *testing.T, s *Subject) {
	b := begin(t, s)
	rows, others := b.rows(t, 0, 4), b.rows(t, 1, 1)
	late := b.row(0, "1")
	late.VisibleAt = 7
	check(t, s.Store.Append(t.Context(), []store.Row{late}, nil))
	// Moved within its queue, the message keeps the id of its first Seq, and its new Seq is no id.
	b.next++
	to := store.Key{Queue: b.queues[0].ID, Seq: b.next}
	check(t, s.Store.Apply(t.Context(), &store.Change{Move: []store.Move{{From: keys(rows[:1])[0], To: to}}}))
	moved := rows[0]
	moved.Origin, moved.Seq = rows[0].Seq, to.Seq
	got, err := s.Store.Find(t.Context(), b.queues[0].ID, []int64{late.Seq, rows[0].Seq, rows[2].Seq, others[0].Seq, to.Seq, 1})
	check(t, err)
	same(t, "found", got, headsOf([]store.Row{rows[2], late, moved}))
	for _, id := range []int32{b.queues[0].ID, 999_999} {
		if none, err := s.Store.Find(t.Context(), id, []int64{1}); err != nil || len(none) != 0 {
			t.Errorf("found %v, %v", none, err)
		}
	}
}

func testBodies(t *testing.T, s *Subject) {
	b := begin(t, s)
	rows := b.rows(t, 0, 3)
	late := b.row(0, "\x00late")
	late.VisibleAt = 7
	check(t, s.Store.Append(t.Context(), []store.Row{late}, nil))
	for _, most := range []int{0, 3, 1_000} {
		got, err := s.Store.Bodies(t.Context(), b.queues[0].ID, []int64{rows[2].Seq, late.Seq, rows[0].Seq, 1}, most)
		check(t, err)
		part := func(r *store.Row) []byte { return r.Body[:min(gocmp.Or(most, 1_000), len(r.Body))] }
		want := map[int64][]byte{rows[0].Seq: part(&rows[0]), rows[2].Seq: part(&rows[2]), late.Seq: part(&late)}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("bodies of at most %d bytes (-want +got):\n%s", most, diff)
		}
	}
	if got, err := s.Store.Bodies(t.Context(), 999_999, []int64{1}, 0); err != nil || len(got) != 0 {
		t.Errorf("bodies of no queue: %v, %v", got, err)
	}
}

func testDeadLetters(t *testing.T, s *Subject) {
	b := begin(t, s)
	rows := b.rows(t, 0, 2)
	from := b.queues[0].ID
	source := func(queueIndex int) []string {
		heads, err := s.Store.ListReady(t.Context(), b.queues[queueIndex].ID, 0, endOfSeq, 10)
		check(t, err)
		late, err := s.Store.ListDue(t.Context(), b.queues[queueIndex].ID, store.Due{}, endOfTime, 10)
		check(t, err)
		list := make([]string, 0, len(heads)+len(late))
		for _, h := range append(heads, late...) {
			list = append(list, fmt.Sprintf("%d %q", h.Source, h.Reason))
		}
		return list
	}
	move := func(k store.Key, to int, sourceID int32, reason string) store.Key {
		b.next++
		m := store.Move{From: k, To: store.Key{Queue: b.queues[to].ID, Seq: b.next}, Source: sourceID, Reason: reason}
		check(t, s.Store.Apply(t.Context(), &store.Change{Move: []store.Move{m}}))
		return m.To
	}
	first := move(keys(rows)[0], 1, from, "Error: späť")
	second := move(keys(rows)[1], 1, from, "")
	known, unknown := fmt.Sprintf("%d %q", from, "Error: späť"), fmt.Sprintf("%d %q", from, "")
	if diff := cmp.Diff([]string{known, unknown}, source(1)); diff != "" {
		t.Errorf("dead letters (-want +got):\n%s", diff)
	}
	// A retry keeps it, another move does not.
	check(t, s.Store.Apply(t.Context(), &store.Change{Retry: []store.Retry{{Key: first, Failures: 1, VisibleAt: 5}}}))
	if diff := cmp.Diff([]string{unknown, known}, source(1)); diff != "" {
		t.Errorf("after a retry (-want +got):\n%s", diff)
	}
	move(first, 0, 0, "")
	check(t, s.Store.Apply(t.Context(), &store.Change{Delete: []store.Key{second}}))
	if diff := cmp.Diff([]string{`0 ""`}, source(0)); diff != "" {
		t.Errorf("moved on (-want +got):\n%s", diff)
	}
}

func testConfigure(t *testing.T, s *Subject) {
	b := begin(t, s)
	settings := store.Settings{PausedAt: 1_750_000_000_123, Retention: 60_001, RetentionOverride: 14 * 24 * 3_600_000, PurgedBelow: 1 << 61, DeliveryDelay: 86_399_999, Pull: store.Pull{Since: 1, BatchSize: 2, MaxRetries: 3, RetryDelay: 4, Visibility: 5, DeadLetterQueue: "other"}}
	check(t, s.Store.Configure(t.Context(), b.queues[1].ID, settings))
	check(t, s.Store.Configure(t.Context(), 999_999, settings))
	check(t, s.Store.SaveMarks(t.Context(), []store.Mark{{Queue: b.queues[1].ID, ReadyMark: 5}}))
	want := slices.Clone(b.queues)
	want[1].Settings, want[1].ReadyMark = settings, 5
	got, err := s.Another(t).Queues(t.Context())
	check(t, err)
	slices.SortFunc(got, func(x, y store.QueueInfo) int { return int(x.ID - y.ID) })
	same(t, "queues", got, want)
	check(t, s.Store.Configure(t.Context(), b.queues[1].ID, store.Settings{}))
	declared, err := s.Store.Declare(t.Context(), []string{"other"})
	check(t, err)
	if declared[0].Settings != (store.Settings{}) {
		t.Errorf("settings %+v after they were cleared", declared[0].Settings)
	}
}

func testClearInbox(t *testing.T, s *Subject) {
	b := begin(t, s)
	for i := range 10 {
		s.Enqueue(t, b.queues[min(i%3, 1)].Name, fmt.Sprint(i), time.Duration(i%2)*time.Hour)
	}
	var total store.Count
	steps := 0
	for after := int64(0); ; steps++ {
		c, err := s.Store.ClearInbox(t.Context(), b.queues[1].ID, after, 4)
		check(t, err)
		total.Messages += c.Messages
		total.Bytes += c.Bytes
		if c.Done {
			break
		}
		after = c.Last
	}
	if total != (store.Count{Messages: 6, Bytes: 6}) || steps != 2 {
		t.Errorf("%+v were deleted in %d steps before the last, want 6 messages of 6 bytes in 2", total, steps)
	}
	rows, err := s.Store.Drain(t.Context(), b.next+1, time.Now(), 100)
	check(t, err)
	left := make([]string, 0, len(rows))
	for _, r := range rows {
		left = append(left, string(r.Body))
	}
	if diff := cmp.Diff([]string{"0", "3", "6", "9"}, left); diff != "" {
		t.Errorf("left for the other queue (-want +got):\n%s", diff)
	}
	if c, err := s.Store.ClearInbox(t.Context(), b.queues[0].ID, 0, 4); err != nil || c.Messages != 0 || !c.Done {
		t.Errorf("an empty inbox: %+v, %v", c, err)
	}
}
