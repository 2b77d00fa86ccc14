package broker_test

import (
	"context"
	"slices"
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
	"github.com/runlot/runlot/internal/engine/broker/usage"
)

// bounded is a rig whose broker has bounds, and what its observer was told.
type bounded struct {
	*rig
	space usage.Bounds

	mu     sync.Mutex
	alerts []int // percent; guarded by mu
	full   []bool
}

func (r *bounded) OperationsAlert(a usage.Alert) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.alerts = append(r.alerts, a.Percent)
}

func (r *bounded) SpaceChanged(f usage.Fullness) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.full = append(r.full, f.Full)
}

// told waits until everything is still and returns what was told since the last call.
func (r *bounded) told() (alerts []int, full []bool) {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	alerts, full = r.alerts, r.full
	r.alerts, r.full = nil, nil
	return alerts, full
}

func startBounded(t *testing.T, operations int64, space usage.Bounds) *bounded {
	t.Helper()
	r := &bounded{rig: &rig{t: t, db: memory.NewDatabase()}, space: space}
	r.begin(operations)
	return r
}

func (r *bounded) begin(operations int64) {
	r.t.Helper()
	r.b = broker.New(broker.Options{Store: r.db.Open(), DailyOperations: operations, Space: r.space, Observer: r})
	b := r.b
	check(r.t, b.Start(r.t.Context()))
	check(r.t, b.Declare(r.t.Context(), []string{"a", "b", "dead"}))
	r.t.Cleanup(func() { _ = b.Stop(context.Background()) })
}

func (r *bounded) refused(code string, drafts ...queue.Draft) error {
	r.t.Helper()
	before, _ := r.db.Size()
	_, err := r.b.Send(r.t.Context(), "a", drafts)
	wantFault(r.t, err, fault.Limit, code)
	if after, _ := r.db.Size(); after != before {
		r.t.Errorf("%d messages of a refused send are stored", after-before)
	}
	return err
}

func (r *bounded) wantUsed(written, delivered, deleted int64) {
	r.t.Helper()
	want := usage.Count{Written: written, Delivered: delivered, Deleted: deleted}
	if diff := cmp.Diff(want, r.b.Operations()); diff != "" {
		r.t.Errorf("operations (-want +got):\n%s", diff)
	}
}

func wantAlerts(t *testing.T, got []int, want ...int) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("alerts %v, want %v", got, want)
	}
}

// TestOperationsOfALife: each started 64,000 bytes of each message, each time that it is written, delivered or deleted.
func TestOperationsOfALife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startBounded(t, 0, usage.Bounds{})
		l, dead := r.lane("a"), r.lane("dead")
		check(t, r.b.SetRetention(t.Context(), "b", time.Hour))
		r.send("a", draft(strings.Repeat("x", 64_000)), draft(strings.Repeat("x", 64_001)))
		r.wantUsed(3, 0, 0)
		batch, _ := next(t, l, 2, 0)
		r.wantUsed(3, 3, 0)
		decisions := decide(batch, queue.Retry, 0)
		decisions[0].Verdict = queue.Ack
		check(t, settle(l, batch, decisions))
		r.wantUsed(3, 3, 1)
		batch, _ = next(t, l, 2, 0)
		r.wantUsed(3, 5, 1)
		// The move to a dead-letter queue is one write of its size, and no deletion.
		check(t, settle(l, batch, decide(batch, queue.DeadLetter, 0)))
		r.wantUsed(5, 5, 1)
		batch, _ = next(t, dead, 1, 0)
		check(t, settle(dead, batch, decide(batch, queue.Drop, 0)))
		r.wantUsed(5, 7, 3)
		// SQL's messages, and those that nobody takes.
		check(t, r.db.Enqueue("b", strings.Repeat("y", 100_000), 0))
		time.Sleep(time.Second)
		r.wantUsed(7, 7, 3)
		time.Sleep(2 * time.Hour)
		r.wantUsed(7, 7, 5)
	})
}

// TestNobodyIsStoppedButSenders: beyond the cap a send is refused whole, and everything else goes on.
func TestNobodyIsStoppedButSenders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startBounded(t, 10, usage.Bounds{})
		l := r.lane("a")
		r.send("a", drafts(4)...)
		batch, _ := next(t, l, 2, 0)
		alerts, _ := r.told()
		wantAlerts(t, alerts)
		r.send("a", drafts(3)...)
		alerts, _ = r.told()
		wantAlerts(t, alerts, 90)
		err := r.refused(queue.CodeOperationsCap, drafts(2)...)
		for _, part := range []string{"10 operations", "2000-01-02 00:00 UTC", "--queue-ops-cap"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("the refusal %q does not say %q", err, part)
			}
		}
		r.send("a", draft("the last one"))
		r.refused(queue.CodeOperationsCap, draft("x"))
		alerts, _ = r.told()
		wantAlerts(t, alerts, 100)
		if err := r.db.Enqueue("a", "1", 0); fault.From(err) == nil || fault.From(err).Code != queue.CodeOperationsCap {
			t.Errorf("SQL sends: %v", err)
		}
		// What was in flight is settled, and what waits is delivered, tried again, and moved.
		check(t, settle(l, batch, decide(batch, queue.Retry, 0)))
		for range 3 {
			batch, _ = next(t, l, 2, 0)
			ack(t, l, batch)
		}
		batch, _ = next(t, l, 2, 0)
		check(t, settle(l, batch, decide(batch, queue.DeadLetter, 0)))
		if m, err := r.b.Metrics(t.Context(), "a"); err != nil || m.Count != 0 {
			t.Errorf("%d messages are left, error %v", m.Count, err)
		}
		r.wantUsed(10, 10, 6)
		alerts, _ = r.told()
		wantAlerts(t, alerts)
	})
}

func TestMidnightOpensAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startBounded(t, 3, usage.Bounds{})
		time.Sleep(23 * time.Hour)
		r.send("a", drafts(3)...)
		time.Sleep(time.Hour - time.Nanosecond)
		r.refused(queue.CodeOperationsCap, draft("x"))
		if r.db.Enqueue("a", "1", 0) == nil {
			t.Error("SQL may send at the end of a day that is used up")
		}
		time.Sleep(time.Nanosecond)
		check(t, r.db.Enqueue("a", "1", 0))
		r.send("a", drafts(2)...)
		time.Sleep(time.Second)
		r.wantUsed(3, 0, 0)
		r.refused(queue.CodeOperationsCap, draft("x"))
		alerts, _ := r.told()
		wantAlerts(t, alerts, 90, 100, 90, 100)
	})
}

// TestCountSurvives: a stop writes everything; a crash forgets deliveries of the last second and nothing that a commit
// counted; and nobody is told twice.
func TestCountSurvives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startBounded(t, 10, usage.Bounds{})
		l := r.lane("a")
		r.send("a", drafts(7)...)
		next(t, l, 1, 0)
		check(t, r.b.Stop(t.Context()))
		r.begin(10)
		r.wantUsed(7, 1, 0)
		l = r.lane("a")
		batch, _ := next(t, l, 1, 0)
		alerts, _ := r.told()
		wantAlerts(t, alerts, 90)
		ack(t, l, batch)
		alerts, _ = r.told()
		wantAlerts(t, alerts, 100)
		next(t, l, 2, 0)
		r.wantUsed(7, 4, 1)
		r.db.Crash(nil)
		synctest.Wait() // the broker knows
		check(t, r.b.Stop(t.Context()))
		r.begin(10)
		r.wantUsed(7, 2, 1)
		r.refused(queue.CodeOperationsCap, draft("x"))
		next(t, r.lane("a"), 2, 0)
		time.Sleep(2 * queue.UsageEvery)
		r.db.Crash(nil)
		synctest.Wait() // the broker knows
		check(t, r.b.Stop(t.Context()))
		// A higher cap opens at once, for SQL too.
		r.begin(100)
		r.wantUsed(7, 4, 1)
		r.send("a", draft("x"))
		synctest.Wait()
		check(t, r.db.Enqueue("a", "1", 0))
		r.b.SetDailyOperations(13)
		synctest.Wait()
		r.refused(queue.CodeOperationsCap, draft("x"))
		if r.db.Enqueue("a", "1", 0) == nil {
			t.Error("SQL may send beyond a cap that was lowered")
		}
		alerts, _ = r.told()
		wantAlerts(t, alerts)
	})
}

// TestGivenUpSendsCostNothing: what a send reserved is free again when it was not committed.
func TestGivenUpSendsCostNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startBounded(t, 3, usage.Bounds{})
		hold := make(chan struct{})
		r.db.SetFaults(func(call string) memory.Fault {
			if call == "Append" {
				return memory.Fault{Hold: hold, Err: fault.New(fault.Unavailable, "away", "away")}
			}
			return memory.Fault{}
		})
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				_, err := r.b.Send(t.Context(), "a", drafts(1))
				wantFault(t, err, fault.Unavailable, queue.CodeOverloaded)
			})
		}
		synctest.Wait()
		r.refused(queue.CodeOperationsCap, draft("x"))
		all.Wait()
		close(hold)
		r.db.SetFaults(nil)
		time.Sleep(time.Minute)
		r.wantUsed(0, 0, 0)
		r.send("a", drafts(3)...)
	})
}

// TestFullDatabase: while it is full, sends are refused; draining goes on, gives the space back, and opens it again.
func TestFullDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 100 << 20
		r := startBounded(t, 0, usage.Bounds{Size: size})
		l := r.lane("a")
		r.send("a", drafts(3)...)
		r.db.SetSize(size-1, size/2)
		time.Sleep(queue.SpaceEvery)
		synctest.Wait()
		err := r.refused(queue.CodeStorageFull, draft("x"))
		if !strings.Contains(err.Error(), "100 MiB") || !strings.Contains(err.Error(), "--database-size-cap") {
			t.Errorf("the refusal says %q", err)
		}
		if err := r.db.Enqueue("a", "1", 0); fault.From(err) == nil || fault.From(err).Code != queue.CodeStorageFull {
			t.Errorf("SQL sends: %v", err)
		}
		time.Sleep(time.Hour)
		r.refused(queue.CodeStorageFull, draft("x"))
		if r.db.Enqueue("a", "1", 0) == nil {
			t.Error("SQL may send after an hour, although the database is as full as before")
		}
		batch, _ := next(t, l, 3, 0)
		ack(t, l, batch)
		time.Sleep(2 * queue.SpacePause)
		r.send("a", draft("x"))
		check(t, r.db.Enqueue("a", "1", 0))
		if _, full := r.told(); !slices.Equal(full, []bool{true, false}) {
			t.Errorf("told %v, want full and not full", full)
		}
	})
}

// TestFullDisk: the free space of the disk counts in the same way.
func TestFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		free := int64(queue.DiskReserve) - 1
		r := startBounded(t, 0, usage.Bounds{Free: func() (int64, error) {
			mu.Lock()
			defer mu.Unlock()
			return free, nil
		}})
		synctest.Wait()
		r.refused(queue.CodeStorageFull, draft("x"))
		mu.Lock()
		free = 2 * queue.DiskReserve
		mu.Unlock()
		time.Sleep(queue.SpaceEvery)
		synctest.Wait()
		r.send("a", draft("x"))
	})
}

// TestMuchIsWrittenIsLookedAtSoon: the pause between two looks is no hole.
func TestMuchIsWrittenIsLookedAtSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 20 << 20
		r := startBounded(t, 0, usage.Bounds{Size: size})
		time.Sleep(2 * queue.SpacePause)
		r.db.SetSize(size, size)
		for sent := 0; ; sent += 100_000 {
			_, err := r.b.Send(t.Context(), "a", []queue.Draft{draft(strings.Repeat("x", 100_000))})
			if err != nil {
				wantFault(t, err, fault.Limit, queue.CodeStorageFull)
				return
			}
			if sent > size {
				t.Fatalf("%d bytes are accepted in no time by a database that is full", sent)
			}
			synctest.Wait()
		}
	})
}
