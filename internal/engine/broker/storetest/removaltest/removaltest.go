// Package removaltest is the part of the contract of store.Store that is about queues that end, as tests that every store
// runs beside package storetest.
package removaltest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
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
		{"AQueueThatEndsIsGone", testRemove},
		{"ItsNameStartsAnew", testAnew},
		{"ItsMessagesAreScrapped", testScrap},
		{"RemoveNeedsOwnership", testOwnership},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := open(t)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			own, err := s.Store.Acquire(ctx)
			check(t, err)
			check(t, s.Store.Reserve(t.Context(), own.NextSeq+1_000))
			test.run(t, &bench{Subject: &s, next: own.NextSeq})
		})
	}
}

// bench is a store with an owner.
type bench struct {
	*storetest.Subject

	next int64
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(fault.Detail(err))
	}
}

func (b *bench) declare(t *testing.T, names ...string) []store.QueueInfo {
	t.Helper()
	infos, err := b.Store.Declare(t.Context(), names)
	check(t, err)
	return infos
}

// fill appends n messages to a queue, every third of them delayed.
func (b *bench) fill(t *testing.T, id int32, n int) {
	t.Helper()
	rows := make([]store.Row, n)
	for i := range rows {
		b.next++
		rows[i] = store.Row{Queue: id, Seq: b.next, Format: queue.JSON, SentAt: 1_750_000_000_000, Body: []byte("12345")}
		if i%3 == 0 {
			rows[i].VisibleAt = 1_750_000_000_000
		}
	}
	check(t, b.Store.Append(t.Context(), rows, nil))
}

// holds counts the messages under the number of a queue.
func (b *bench) holds(t *testing.T, id int32) int {
	t.Helper()
	const end = int64(1) << 40
	ready, err := b.Store.ReadReady(t.Context(), id, 0, end<<20, 1_000, 1<<20)
	check(t, err)
	due, err := b.Store.ReadDue(t.Context(), id, store.Due{}, end<<2, 1_000, 1<<20)
	check(t, err)
	return len(ready) + len(due)
}

func (b *bench) names(t *testing.T) []string {
	t.Helper()
	infos, err := b.Another(t).Queues(t.Context())
	check(t, err)
	names := make([]string, len(infos))
	for i := range infos {
		names[i] = infos[i].Name
	}
	slices.Sort(names)
	return names
}

func testRemove(t *testing.T, b *bench) {
	q := b.declare(t, "jobs", "other")
	b.fill(t, q[0].ID, 6)
	for i := range 4 {
		b.Enqueue(t, q[i%2].Name, fmt.Sprint(i), time.Duration(i)*time.Hour)
	}
	gone, err := b.Store.Remove(t.Context(), q[0].ID)
	check(t, err)
	if want := (store.Count{Messages: 2, Bytes: 2}); gone != want {
		t.Errorf("%+v were in the inbox, want %+v", gone, want)
	}
	if got := b.names(t); !slices.Equal(got, []string{"other"}) {
		t.Errorf("there are the queues %q", got)
	}
	if refused := b.TryEnqueue(t, "jobs", "1"); !strings.Contains(refused, "jobs") {
		t.Errorf("SQL sends to what is gone: %q", refused)
	}
	// What SQL enqueued for others stays, and nothing of the queue comes out of the inbox.
	rows, err := b.Store.Drain(t.Context(), b.next+1, time.Now(), 100)
	check(t, err)
	for i := range rows {
		if rows[i].Queue != q[1].ID {
			t.Errorf("%s came out of the inbox", rows[i].Body)
		}
	}
	if len(rows) != 2 {
		t.Errorf("%d messages of the other queue are left, want 2", len(rows))
	}
	for _, id := range []int32{q[0].ID, 999_999} {
		if gone, err := b.Store.Remove(t.Context(), id); err != nil || gone != (store.Count{}) {
			t.Errorf("a queue that is not there: %+v, %v", gone, err)
		}
	}
	check(t, b.Store.Configure(t.Context(), q[0].ID, store.Settings{PausedAt: 1}))
	check(t, b.Store.SaveMarks(t.Context(), []store.Mark{{Queue: q[0].ID, ReadyMark: 9}}))
}

func testAnew(t *testing.T, b *bench) {
	old := b.declare(t, "jobs")[0]
	b.fill(t, old.ID, 3)
	check(t, b.Store.Configure(t.Context(), old.ID, store.Settings{PausedAt: 1, Pull: store.Pull{Since: 1}}))
	check(t, b.Store.SaveMarks(t.Context(), []store.Mark{{Queue: old.ID, ReadyMark: 9}}))
	_, err := b.Store.Remove(t.Context(), old.ID)
	check(t, err)
	anew := b.declare(t, "jobs")[0]
	if anew.ID == old.ID || anew.ReadyMark != 0 || anew.Settings != (store.Settings{}) {
		t.Errorf("the queue made anew is %+v, and was %+v", anew, old)
	}
	b.Enqueue(t, "jobs", "1", 0)
	if n := b.holds(t, anew.ID); n != 0 {
		t.Errorf("it holds %d messages of the old one", n)
	}
	for more := true; more; {
		more, err = b.Store.Scrap(t.Context(), 100)
		check(t, err)
	}
	rows, err := b.Store.Drain(t.Context(), b.next+1, time.Now(), 100)
	check(t, err)
	if len(rows) != 1 || rows[0].Queue != anew.ID {
		t.Errorf("%+v came out of the inbox, want one for queue %d", rows, anew.ID)
	}
}

func testScrap(t *testing.T, b *bench) {
	q := b.declare(t, "a", "b", "c")
	for i := range q {
		b.fill(t, q[i].ID, 10)
	}
	for _, i := range []int{0, 2} {
		_, err := b.Store.Remove(t.Context(), q[i].ID)
		check(t, err)
	}
	steps := 0
	for more := true; more; steps++ {
		before := b.holds(t, q[0].ID) + b.holds(t, q[2].ID)
		var err error
		more, err = b.Store.Scrap(t.Context(), 4)
		check(t, err)
		if n := before - b.holds(t, q[0].ID) - b.holds(t, q[2].ID); n > 4 {
			t.Errorf("one step deleted %d messages", n)
		}
		if steps > 20 {
			t.Fatal("it does not come to an end")
		}
	}
	for i, want := range []int{0, 10, 0} {
		if n := b.holds(t, q[i].ID); n != want {
			t.Errorf("queue %s holds %d messages, want %d", q[i].Name, n, want)
		}
	}
}

func testOwnership(t *testing.T, b *bench) {
	q := b.declare(t, "jobs")
	other := b.Another(t)
	_, err := other.Remove(t.Context(), q[0].ID)
	lost(t, err)
	_, err = other.Scrap(t.Context(), 10)
	lost(t, err)
	if got := b.names(t); !slices.Equal(got, []string{"jobs"}) {
		t.Errorf("there are the queues %q", got)
	}
}

func lost(t *testing.T, err error) {
	t.Helper()
	if f, ok := errors.AsType[*fault.Error](err); !ok || f.Code != store.CodeOwnershipLost {
		t.Errorf("without the ownership: %v", err)
	}
}
