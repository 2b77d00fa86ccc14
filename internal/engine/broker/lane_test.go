package broker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/internal/adapter/memory"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

func drafts(n int) []queue.Draft {
	list := make([]queue.Draft, n)
	for i := range list {
		list[i] = draft(fmt.Sprint(i))
	}
	return list
}

func wantBodies(t *testing.T, got []string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

func TestBatchBySizeOrByTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, broker.Bounds{})
		l := r.lane("a")
		began := time.Now()
		r.send("a", drafts(7)...)
		_, got := next(t, l, 5, time.Minute)
		wantBodies(t, got, "0", "1", "2", "3", "4")
		if took := time.Since(began); took != 0 {
			t.Errorf("a full batch took %s", took)
		}
		// The rest has been waiting for 20 s when it is asked for, so 40 s are left.
		time.Sleep(20 * time.Second)
		_, got = next(t, l, 5, time.Minute)
		wantBodies(t, got, "5", "6")
		if took := time.Since(began); took != time.Minute {
			t.Errorf("a partial batch came %s after its first message, want %s", took, time.Minute)
		}
		// A call that comes before the message waits for the message, not for itself.
		got = nil
		done := make(chan struct{})
		go func() {
			_, got = next(t, l, 5, time.Minute)
			close(done)
		}()
		time.Sleep(time.Hour)
		began = time.Now()
		r.send("a", draft("7"))
		time.Sleep(time.Second)
		r.send("a", draft("8"))
		<-done
		wantBodies(t, got, "7", "8")
		if took := time.Since(began); took != time.Minute {
			t.Errorf("a partial batch came %s after its first message, want %s", took, time.Minute)
		}
	})
}

// TestBatchTimeWhenSeqsAreAhead: after a restart the Seqs run ahead of the clock by what was reserved. The wait for a
// batch to fill is no longer for that.
func TestBatchTimeWhenSeqsAreAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, broker.Bounds{})
		r.send("a", draft("1"))
		check(t, r.b.Stop(t.Context()))
		r.restart(broker.Bounds{})
		r.send("b", draft("2"))
		began := time.Now()
		batch, _ := next(t, r.lane("b"), 2, time.Second)
		if took := time.Since(began); took != time.Second {
			t.Errorf("a partial batch took %s, want a second", took)
		}
		if store.SeqAt(time.Now().Add(time.Second)) > batch.Messages[0].Seq {
			t.Errorf("seq %d is not ahead of the clock, so this shows nothing", batch.Messages[0].Seq)
		}
	})
}

func TestOldestVisibleFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, broker.Bounds{})
		l := r.lane("a")
		r.send("a", delayed("visible second", 2*time.Second), delayed("visible first", time.Second))
		time.Sleep(1500 * time.Millisecond)
		r.send("a", draft("sent between"))
		time.Sleep(time.Second)
		r.send("a", draft("sent last"))
		_, got := next(t, l, 4, 0)
		wantBodies(t, got, "visible first", "sent between", "visible second", "sent last")
	})
}

func TestDelayedIsNotEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, broker.Bounds{DueRows: 2, ReadRows: 2})
		l := r.lane("a")
		time.Sleep(300 * time.Microsecond)
		began := time.Now()
		for i := range 12 {
			r.send("a", delayed(fmt.Sprint(i), time.Duration(12-i)*time.Minute))
		}
		// Two of them are in memory. Nothing else happens that could wake the lane up.
		for i := range 12 {
			batch, got := next(t, l, 10, 0)
			wantBodies(t, got, fmt.Sprint(11-i))
			if late := time.Since(began) - time.Duration(i+1)*time.Minute; late < 0 || late > 2*time.Millisecond {
				t.Errorf("message %d came %s after its time", i, late)
			}
			ack(t, l, batch)
		}
	})
}

// TestDelayedBehindWhatExpired: what was in memory expires before its time, and nothing but the clock brings the lane to
// look for the message that is in the store only.
func TestDelayedBehindWhatExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, broker.Bounds{DueRows: 1})
		check(t, r.b.SetRetention(t.Context(), "a", time.Hour))
		l := r.lane("a")
		synctest.Wait()
		began := time.Now()
		r.send("a", delayed("expires", 2*time.Hour), delayed("expires too", 2*time.Hour+time.Minute))
		time.Sleep(90 * time.Minute)
		r.send("a", delayed("stays", 50*time.Minute))
		_, got := next(t, l, 2, 0)
		wantBodies(t, got, "stays")
		if took := time.Since(began); took != 140*time.Minute {
			t.Errorf("it came after %s", took)
		}
	})
}

func TestSuspectsComeAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, broker.Bounds{})
		l := r.lane("a")
		r.send("a", drafts(6)...)
		for range queue.LossesBeforeAlone {
			batch, got := next(t, l, 6, 0)
			if len(got) != 6 {
				t.Fatalf("a batch of %d, want all 6", len(got))
			}
			decisions := decide(batch, queue.Ack, 0)
			for i := range decisions {
				decisions[i].Verdict, decisions[i].Losses = queue.Retry, decisions[i].Losses+1
			}
			check(t, settle(l, batch, decisions))
		}
		r.send("a", draft("new"), draft("newer"))
		sizes := map[int]int{}
		for range 7 {
			batch, got := next(t, l, 6, time.Minute)
			sizes[len(got)]++
			ack(t, l, batch)
		}
		if diff := cmp.Diff(map[int]int{1: 6, 2: 1}, sizes); diff != "" {
			t.Errorf("batch sizes (-want +got):\n%s", diff)
		}
	})
}

func TestCallsAreServedInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, broker.Bounds{})
		l := r.lane("a")
		order := make(chan int, 3)
		for i := range 3 {
			go func() {
				if _, err := l.Next(context.Background(), 2, time.Hour); err == nil {
					order <- i
				}
			}()
			synctest.Wait()
		}
		for i := range 3 {
			r.send("a", draft("1"), draft("2"))
			if got := <-order; got != i {
				t.Errorf("call %d got batch %d", got, i)
			}
		}
	})
}

func TestNextLeavesTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, broker.Bounds{})
		l := r.lane("a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r.send("a", draft("1"))
		if _, err := l.Next(ctx, 2, time.Hour); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("a call that gave up: %v", err)
		}
		if _, err := l.Next(ctx, 1, 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("a call with an ended context: %v", err)
		}
		_, got := next(t, l, 1, 0)
		wantBodies(t, got, "1")
	})
}

func TestIdleQueuesCostNoReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, broker.Bounds{})
		synctest.Wait()
		names := make([]string, 300)
		for i := range names {
			names[i] = fmt.Sprintf("q%d", i)
		}
		check(t, r.b.Declare(t.Context(), names))
		c := r.watch(nil)
		for _, name := range names[:200] {
			l := r.lane(name)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() { _, _ = l.Next(ctx, 10, time.Second) }()
		}
		for _, name := range names {
			r.send(name, delayed("x", 12*time.Hour))
		}
		time.Sleep(time.Minute)
		if n := c.of("ReadReady", "ReadDue"); n > 2*len(names) {
			t.Errorf("%d reads, want at most one of each side for each open lane, and one for the age of the others", n)
		}
		calls := []string{"ReadReady", "ReadDue", "Apply", "Append", "SaveMarks", "Expire"}
		before, reserved := c.of(calls...), c.of("Reserve")
		time.Sleep(10 * time.Hour)
		if n := c.of("Reserve") - reserved; n > 610 {
			t.Errorf("%d reservations in ten hours, want one a minute", n)
		}
		if n := c.of(calls...) - before; n > 0 {
			t.Errorf("%d calls of the store while nothing happened: %v", n, c.calls)
		}
	})
}

func TestCaughtUpLaneDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, broker.Bounds{})
		l := r.lane("a")
		r.send("a", draft("first"))
		batch, _ := next(t, l, 1, 0)
		ack(t, l, batch)
		synctest.Wait()
		c := r.watch(nil)
		for i := range 500 {
			r.send("a", draft("x"), delayed("y", time.Duration(i%7)*time.Second))
			time.Sleep(time.Second)
			batch, _ := next(t, l, 10, 0)
			ack(t, l, batch)
		}
		if n := c.of("ReadReady", "ReadDue"); n > 0 {
			t.Errorf("%d reads of a lane that has everything in memory", n)
		}
	})
}

func TestLongBacklogIsDeliveredInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, broker.Bounds{LaneRows: 50, ReadRows: 30})
		for i := range 100 {
			list := make([]queue.Draft, 10)
			for j := range list {
				list[j] = draft(fmt.Sprint(10*i + j))
			}
			r.send("a", list...)
		}
		l := r.lane("a")
		for n := 0; n < 1000; {
			batch, got := next(t, l, 40, 0)
			if n < 960 && len(got) < 38 {
				t.Errorf("a batch of %d after %d of 1000, although there is more", len(got), n)
			}
			for _, body := range got {
				if body != fmt.Sprint(n) {
					t.Fatalf("message %s came as number %d", body, n)
				}
				n++
			}
			ack(t, l, batch)
		}
	})
}

func TestReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, broker.Bounds{LaneRows: 10})
		l := r.lane("a")
		r.send("a", drafts(3)...)
		r.send("a", delayed("d", time.Minute))
		synctest.Wait()
		if n := l.Ready(); n != 3 {
			t.Errorf("%d ready, want 3", n)
		}
		time.Sleep(time.Minute)
		if n := l.Ready(); n != 4 {
			t.Errorf("%d ready, want 4 after the delay", n)
		}
		r.send("a", drafts(30)...)
		batch, _ := next(t, l, 4, 0)
		if n := l.Ready(); n != 30 {
			t.Errorf("%d ready, want 30, most of them in the store only", n)
		}
		ack(t, l, batch)
		l.Close()
		if n := l.Ready(); n != 0 {
			t.Errorf("%d ready in a closed lane", n)
		}
	})
}

func TestCloseGivesMessagesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, broker.Bounds{})
		first, second := r.lane("a"), r.lane("a")
		r.send("a", drafts(4)...)
		left, _ := next(t, first, 2, 0)
		first.Close()
		first.Close()
		_, err := first.Next(t.Context(), 1, 0)
		wantFault(t, err, fault.Unavailable, queue.CodeOverloaded)
		wantFault(t, settle(first, left, decide(left, queue.Drop, 0)), fault.Conflict, "lease_over")
		batch, got := next(t, second, 4, 0)
		wantBodies(t, got, "0", "1", "2", "3")
		for i := range batch.Messages {
			if n := batch.Messages[i].Attempts(); n != 1 {
				t.Errorf("attempt %d of a message whose consumer left, want 1", n)
			}
		}
		// The last lane closes while a settlement is under way, and another opens before it is over.
		release := make(chan struct{})
		r.watch(func(call string, _ int) memory.Fault {
			if call == "Apply" {
				return memory.Fault{Hold: release}
			}
			return memory.Fault{}
		})
		done := make(chan error, 1)
		second.Settle(batch, decide(batch, queue.Ack, 0), "", func(err error) { done <- err })
		second.Close()
		third := r.lane("a")
		r.send("a", draft("new"))
		_, got = next(t, third, 5, time.Second)
		wantBodies(t, got, "new")
		close(release)
		check(t, <-done)
	})
}

// TestReopenedLaneIsReadOnce: a lane that was closed and opened again while it waited for a reader stands in the line
// twice, and is not read by two readers at a time.
func TestReopenedLaneIsReadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, broker.Bounds{})
		r.send("a", drafts(3)...)
		r.send("b", draft("x"))
		r.send("dead", draft("x"))
		check(t, r.b.Stop(t.Context()))
		r.restart(broker.Bounds{})
		synctest.Wait()
		release := make(chan struct{})
		r.watch(func(call string, n int) memory.Fault {
			switch {
			case call == "ReadReady" && n <= queue.LaneReaders:
				return memory.Fault{Hold: release}
			case call == "ReadReady":
				return memory.Fault{After: time.Second}
			}
			return memory.Fault{}
		})
		r.lane("b")
		r.lane("dead")
		synctest.Wait()
		r.lane("a").Close()
		l := r.lane("a")
		close(release)
		time.Sleep(time.Minute)
		_, got := next(t, l, 10, time.Second)
		wantBodies(t, got, "0", "1", "2")
	})
}

// TestDelayedWhileNoLaneIsOpen: a retry that commits after the last lane closed lies in the past of the closing.
func TestDelayedWhileNoLaneIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, broker.Bounds{})
		// The count at the start would hold the settlement up for as long as the send.
		<-r.b.Counted()
		l := r.lane("a")
		r.send("a", draft("1"))
		batch, _ := next(t, l, 1, 0)
		r.watch(func(call string, n int) memory.Fault {
			if (call == "Apply" || call == "Append") && n == 1 {
				return memory.Fault{Before: time.Minute}
			}
			return memory.Fault{}
		})
		done := make(chan error, 1)
		l.Settle(batch, decide(batch, queue.Retry, 0), "", func(err error) { done <- err })
		sent := make(chan struct{})
		go func() {
			_, _ = r.b.Send(t.Context(), "a", []queue.Draft{delayed("2", time.Second)})
			close(sent)
		}()
		time.Sleep(30 * time.Second)
		l.Close()
		check(t, <-done)
		<-sent
		// The send gave up waiting long ago, so its return says nothing; its commit has been told once everything is at rest.
		time.Sleep(time.Second)
		l = r.lane("a")
		_, got := next(t, l, 2, time.Second)
		slices.Sort(got) // the two commit at the same moment
		wantBodies(t, got, "1", "2")
	})
}

func TestLaneOfUnknownQueue(t *testing.T) {
	r := start(t, broker.Bounds{})
	_, err := r.b.Lane("nowhere")
	wantFault(t, err, fault.NotFound, queue.CodeQueueNotFound)
}
