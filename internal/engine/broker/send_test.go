package broker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
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

// counter counts the calls of the store and lets a test decide about some of them.
type counter struct {
	mu     sync.Mutex
	calls  map[string]int
	decide func(call string, n int) memory.Fault
}

// watch has every call of the rig's store counted from now on.
func (r *rig) watch(decide func(call string, n int) memory.Fault) *counter {
	c := &counter{calls: map[string]int{}, decide: decide}
	r.db.SetFaults(func(call string) memory.Fault {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.calls[call]++
		if c.decide == nil {
			return memory.Fault{}
		}
		return c.decide(call, c.calls[call])
	})
	return c
}

func (c *counter) of(calls ...string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, call := range calls {
		n += c.calls[call]
	}
	return n
}

func unavailable() error { return fault.New(fault.Unavailable, "test", "the store does not answer") }

func wantFault(t *testing.T, err error, kind fault.Kind, code string) {
	t.Helper()
	if f, ok := errors.AsType[*fault.Error](err); !ok || f.Kind != kind || f.Code != code {
		t.Fatalf("error is %v, want a fault of kind %s with code %s", err, kind, code)
	}
}

func TestSendRefusesBadInput(t *testing.T) {
	r := start(t, broker.Bounds{GroupRows: 3, GroupBytes: 1000})
	for _, c := range []struct {
		name, queue string
		drafts      []queue.Draft
		kind        fault.Kind
		code        string
	}{
		{"unknown queue", "nowhere", []queue.Draft{draft("x")}, fault.NotFound, queue.CodeQueueNotFound},
		{"no message", "a", nil, fault.Limit, queue.CodeBatchCount},
		{"too many", "a", []queue.Draft{draft("1"), draft("2"), draft("3"), draft("4")}, fault.Limit, queue.CodeBatchCount},
		{"no format", "a", []queue.Draft{{Body: []byte("x")}}, fault.Invalid, queue.CodeBodyInvalid},
		{"message too large", "a", []queue.Draft{draft(strings.Repeat("x", 128<<10+1))}, fault.Limit, queue.CodeMessageSize},
		{"too large", "a", []queue.Draft{draft(strings.Repeat("x", 1000))}, fault.Limit, queue.CodeBatchSize},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := r.b.Send(t.Context(), c.queue, c.drafts)
			wantFault(t, err, c.kind, c.code)
		})
	}
	if n, _ := r.db.Size(); n != 0 {
		t.Errorf("%d messages of refused calls are stored", n)
	}
}

func TestSendAnswersAfterTheCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, broker.Bounds{})
		synctest.Wait()
		r.watch(func(call string, _ int) memory.Fault {
			if call == "Append" {
				return memory.Fault{Before: time.Second}
			}
			return memory.Fault{}
		})
		began := time.Now()
		r.send("a", draft("1"))
		if took := time.Since(began); took < time.Second {
			t.Errorf("answered after %s, before the commit", took)
		}
	})
}

func TestSendsCoalesce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, broker.Bounds{GroupRows: 50})
		synctest.Wait()
		release := make(chan struct{})
		c := r.watch(func(call string, n int) memory.Fault {
			if call == "Append" && n == 1 {
				return memory.Fault{Hold: release}
			}
			return memory.Fault{}
		})
		var all sync.WaitGroup
		all.Go(func() { r.send("a", draft("first")) })
		synctest.Wait()
		for i := range 100 {
			all.Go(func() { r.send("b", draft(fmt.Sprint(i))) })
		}
		synctest.Wait()
		close(release)
		all.Wait()
		if n := c.of("Append"); n != 3 {
			t.Errorf("%d group commits, want 1 for the first call and 2 for the hundred that gathered behind it", n)
		}
	})
}

func TestSendWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, broker.Bounds{GroupWaiting: 2*queue.RowOverhead + 2})
		synctest.Wait()
		release := make(chan struct{})
		r.watch(func(call string, _ int) memory.Fault {
			if call == "Append" {
				return memory.Fault{Hold: release}
			}
			return memory.Fault{}
		})
		var all sync.WaitGroup
		all.Go(func() { r.send("a", draft("1"), draft("2")) })
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := r.b.Send(ctx, "a", []queue.Draft{draft("3")}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a call without room: %v, want to wait for its context", err)
		}
		close(release)
		all.Wait()
		r.send("a", draft("4"))
		if n, _ := r.db.Size(); n != 3 {
			t.Errorf("%d messages are stored, want 3", n)
		}
	})
}

func TestSendTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, broker.Bounds{})
		synctest.Wait()
		c := r.watch(func(call string, n int) memory.Fault {
			if call == "Append" && n <= 5 {
				return memory.Fault{Err: unavailable()}
			}
			return memory.Fault{}
		})
		r.send("a", draft("1"))
		if n := c.of("Append"); n != 6 {
			t.Errorf("%d tries, want 6", n)
		}
	})
}

func TestSendGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, broker.Bounds{})
		synctest.Wait()
		c := r.watch(func(call string, _ int) memory.Fault {
			if call == "Append" {
				return memory.Fault{Err: unavailable()}
			}
			return memory.Fault{}
		})
		began := time.Now()
		_, err := r.b.Send(t.Context(), "a", []queue.Draft{draft("1")})
		wantFault(t, err, fault.Unavailable, queue.CodeOverloaded)
		if took := time.Since(began); took != queue.SendTimeout {
			t.Errorf("gave up after %s, want %s", took, queue.SendTimeout)
		}
		time.Sleep(time.Minute)
		tries := c.of("Append")
		time.Sleep(time.Minute)
		if again := c.of("Append"); again != tries {
			t.Errorf("%d more tries for a caller who left", again-tries)
		}
		r.watch(nil)
		r.send("a", draft("2"))
		if n, _ := r.db.Size(); n != 1 {
			t.Errorf("%d messages are stored, want only the second", n)
		}
	})
}

func TestBadCallDoesNotTakeOthersDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, broker.Bounds{})
		synctest.Wait()
		release := make(chan struct{})
		full := fault.New(fault.Limit, queue.CodeStorageFull, "full")
		// The second Append is the group of three; of its calls, tried one by one, the second fails.
		r.watch(func(call string, n int) memory.Fault {
			switch {
			case call != "Append":
			case n == 1:
				return memory.Fault{Hold: release}
			case n == 2, n == 4:
				return memory.Fault{Err: full}
			}
			return memory.Fault{}
		})
		errs := make([]error, 4)
		var all sync.WaitGroup
		for i := range errs {
			all.Go(func() { _, errs[i] = r.b.Send(t.Context(), "a", []queue.Draft{draft(fmt.Sprint(i))}) })
			synctest.Wait()
		}
		close(release)
		all.Wait()
		for i, err := range errs {
			if (i == 2) != (err != nil) {
				t.Errorf("call %d: %v", i, err)
			}
		}
		wantFault(t, errs[2], fault.Limit, queue.CodeStorageFull)
		if n, _ := r.db.Size(); n != 3 {
			t.Errorf("%d messages are stored, want 3", n)
		}
	})
}

func TestSeqsAreReservedAheadAndRise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, broker.Bounds{})
		c := r.watch(nil)
		l := r.lane("a")
		var last int64
		for range 100 {
			r.send("a", draft("x"))
			batch, _ := next(t, l, 1, 0)
			m := &batch.Messages[0]
			if m.Seq <= last || m.Seq < store.SeqAt(time.Now()) {
				t.Fatalf("seq %d after %d at %s", m.Seq, last, time.Now())
			}
			last = m.Seq
			ack(t, l, batch)
			time.Sleep(time.Second)
		}
		if n := c.of("Reserve"); n > 25 {
			t.Errorf("%d reservations in 100 s, want about one for each five", n)
		}
		r.db.Crash(nil)
		<-r.b.Done()
		check(t, r.b.Stop(t.Context()))
		r.restart(broker.Bounds{})
		r.send("a", draft("x"))
		l.Close()
		batch, _ := next(t, r.lane("a"), 1, 0)
		if batch.Messages[0].Seq <= last {
			t.Errorf("seq %d was assigned after %d by an earlier owner", batch.Messages[0].Seq, last)
		}
	})
}

func TestInbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, broker.Bounds{InboxRows: 3})
		l := r.lane("a")
		synctest.Wait()
		time.Sleep(10 * time.Millisecond)
		for i := range 10 {
			check(t, r.db.Enqueue("a", fmt.Sprint(i), 0))
		}
		check(t, r.db.Enqueue("a", "late", time.Hour))
		began := time.Now()
		batch, got := next(t, l, 10, time.Minute)
		if diff := cmp.Diff([]string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}, got); diff != "" {
			t.Error(diff)
		}
		if took := time.Since(began); took > queue.InboxEvery {
			t.Errorf("delivered after %s, want within %s", took, queue.InboxEvery)
		}
		ack(t, l, batch)
		_, got = next(t, l, 10, 0)
		if took := time.Since(began); got[0] != "late" || took < time.Hour || took > time.Hour+time.Second {
			t.Errorf("%v came after %s, want the late one after an hour", got, took)
		}
	})
}

func TestLostOwnership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, broker.Bounds{})
		l := r.lane("a")
		r.send("a", draft("1"))
		batch, _ := next(t, l, 1, 0)
		failed := make(chan error, 1)
		go func() {
			_, err := l.Next(context.Background(), 1, 0)
			failed <- err
		}()
		synctest.Wait()
		if err := r.b.Err(); err != nil {
			t.Errorf("a running broker has error %v", err)
		}
		r.db.Crash(nil)
		<-r.b.Done()
		wantFault(t, r.b.Err(), fault.Unavailable, queue.CodeOverloaded)
		wantFault(t, <-failed, fault.Unavailable, queue.CodeOverloaded)
		wantFault(t, settle(l, batch, decide(batch, queue.Ack, 0)), fault.Unavailable, queue.CodeOverloaded)
		_, err := r.b.Send(t.Context(), "a", []queue.Draft{draft("2")})
		wantFault(t, err, fault.Unavailable, queue.CodeOverloaded)
		_, err = r.b.Lane("a")
		wantFault(t, err, fault.Unavailable, queue.CodeOverloaded)
		l.Close()
		check(t, r.b.Stop(t.Context()))
		check(t, r.b.Stop(t.Context()))
	})
}

func TestStopCommitsWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, broker.Bounds{})
		l := r.lane("a")
		r.send("a", draft("1"), draft("2"))
		batch, _ := next(t, l, 1, 0)
		release := make(chan struct{})
		r.watch(func(call string, _ int) memory.Fault {
			if call == "Append" || call == "Apply" {
				return memory.Fault{Hold: release}
			}
			return memory.Fault{}
		})
		outcomes := make(chan error, 4)
		for range 3 {
			go func() {
				_, err := r.b.Send(context.Background(), "a", []queue.Draft{draft("3")})
				outcomes <- err
			}()
			synctest.Wait()
		}
		l.Settle(batch, decide(batch, queue.Ack, 0), "", func(err error) { outcomes <- err })
		stopped := make(chan error, 1)
		go func() { stopped <- r.b.Stop(context.Background()) }()
		synctest.Wait()
		_, err := r.b.Send(t.Context(), "a", []queue.Draft{draft("4")})
		wantFault(t, err, fault.Unavailable, queue.CodeOverloaded)
		close(release)
		check(t, <-stopped)
		for range 4 {
			check(t, <-outcomes)
		}
		if n, _ := r.db.Size(); n != 4 {
			t.Errorf("%d messages are stored, want 4", n)
		}
		if err := r.b.Err(); err != nil {
			t.Errorf("after a plain stop the error is %v", err)
		}
	})
}

func TestStopInHaste(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, broker.Bounds{})
		r.watch(func(call string, _ int) memory.Fault {
			if call == "Append" {
				return memory.Fault{Err: unavailable()}
			}
			return memory.Fault{}
		})
		outcome := make(chan error, 1)
		go func() {
			_, err := r.b.Send(context.Background(), "a", []queue.Draft{draft("1")})
			outcome <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		check(t, r.b.Stop(ctx))
		wantFault(t, <-outcome, fault.Unavailable, queue.CodeOverloaded)
		r.db.SetFaults(nil)
		r.restart(broker.Bounds{})
	})
}

func TestStartWaitsForTheOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, broker.Bounds{})
		second := broker.New(broker.Options{Store: r.db.Open()})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		wantFault(t, second.Start(ctx), fault.Unavailable, "database_held")
		check(t, second.Stop(t.Context()))
		third := broker.New(broker.Options{Store: r.db.Open()})
		started := make(chan error, 1)
		go func() { started <- third.Start(context.Background()) }()
		check(t, r.b.Stop(t.Context()))
		check(t, <-started)
		if kind := fault.KindOf(third.Start(t.Context())); kind != fault.Conflict {
			t.Errorf("a second start: %q, want a conflict", kind)
		}
		check(t, third.Stop(t.Context()))
	})
}

func TestDeclareRefusesBadNames(t *testing.T) {
	r := start(t, broker.Bounds{})
	if kind := fault.KindOf(r.b.Declare(t.Context(), []string{"good", "Bad"})); kind != fault.Invalid {
		t.Errorf("a bad name: %q, want invalid", kind)
	}
}
