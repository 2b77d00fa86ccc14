package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

func testDrain(t *testing.T, s *Subject) {
	b := begin(t, s)
	first := b.next + 1
	now := time.Now()
	if rows, err := s.Store.Drain(t.Context(), first, now, 10); err != nil || len(rows) != 0 {
		t.Fatalf("an empty inbox gave %v, %v", rows, err)
	}
	before := time.Now().Add(-time.Second).UnixMilli()
	for i := range 7 {
		s.Enqueue(t, b.queues[i%2].Name, fmt.Sprintf(`[%d]`, i), 0)
	}
	same(t, "before a drain", append(b.all(t, 0), b.all(t, 1)...), nil)
	drained := make([]store.Row, 0, 7)
	for _, want := range []int{3, 3, 1, 0} {
		rows, err := s.Store.Drain(t.Context(), first, time.Now(), 3)
		check(t, err)
		if len(rows) != want {
			t.Fatalf("drained %d rows, want %d", len(rows), want)
		}
		for i, r := range rows {
			place := len(drained) + i
			if r.SentAt < before || r.SentAt > time.Now().UnixMilli() {
				t.Errorf("row %d was sent at %d", place, r.SentAt)
			}
			r.SentAt = 0
			same(t, "row", []store.Row{r}, []store.Row{
				{Queue: b.queues[place%2].ID, Seq: first + int64(i), Format: queue.JSON, Body: fmt.Appendf(nil, `[%d]`, place)},
			})
		}
		drained = append(drained, rows...)
		first += int64(len(rows))
	}
	for i := range b.queues {
		want := slices.DeleteFunc(slices.Clone(drained), func(r store.Row) bool { return r.Queue != b.queues[i].ID })
		same(t, "stored", b.all(t, i), want)
	}
	// A clock of the owner that lags does not put a send into its future.
	s.Enqueue(t, "jobs", "1", 0)
	past := time.UnixMilli(1_700_000_000_123)
	rows, err := s.Store.Drain(t.Context(), first, past, 3)
	check(t, err)
	if len(rows) != 1 || rows[0].SentAt != past.UnixMilli() {
		t.Errorf("drained %+v at %d", rows, past.UnixMilli())
	}
}

func testDrainDelay(t *testing.T, s *Subject) {
	b := begin(t, s)
	s.Enqueue(t, "jobs", "1", time.Hour)
	rows, err := s.Store.Drain(t.Context(), b.next+1, time.Now(), 10)
	check(t, err)
	if len(rows) != 1 || rows[0].VisibleAt-rows[0].SentAt != time.Hour.Milliseconds() {
		t.Fatalf("drained %+v, want one message an hour after it was sent", rows)
	}
	same(t, "due", due(t, s.Store, b.queues[0].ID), rows)
	same(t, "ready", ready(t, s.Store, b.queues[0].ID), nil)

	s.Enqueue(t, "other", "2", time.Millisecond)
	now := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	rows, err = s.Store.Drain(t.Context(), b.next+2, now, 10)
	check(t, err)
	if len(rows) != 1 || rows[0].VisibleAt != now.UnixMilli() || rows[0].SentAt >= now.UnixMilli() {
		t.Fatalf("drained %+v, want one message visible at %d", rows, now.UnixMilli())
	}
	same(t, "due", due(t, s.Store, b.queues[1].ID), rows)
}

func testDrainBytes(t *testing.T, s *Subject) {
	b := begin(t, s)
	const messages, size = 60, 100_000
	body := `"` + strings.Repeat("x", size) + `"`
	for range messages {
		s.Enqueue(t, "jobs", body, 0)
	}
	got := 0
	for got < messages {
		rows, err := s.Store.Drain(t.Context(), b.next+1, time.Now(), messages)
		check(t, err)
		if len(rows) == 0 || len(rows)*size > queue.ReadBytes+2*size {
			t.Fatalf("drained %d rows at once", len(rows))
		}
		got += len(rows)
		b.next += int64(len(rows))
	}
	if all := b.all(t, 0); len(all) != messages {
		t.Errorf("%d messages arrived, want %d", len(all), messages)
	}
}
