package broker_test

import (
	"context"
	"errors"
	"strings"
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

func TestRetryIsWrittenBeforeItIsDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, broker.Bounds{})
		l := r.lane("a")
		r.send("a", draft("1"))
		batch, _ := next(t, l, 1, 0)
		r.watch(func(call string, _ int) memory.Fault {
			if call == "Apply" {
				return memory.Fault{Before: time.Hour}
			}
			return memory.Fault{}
		})
		began := time.Now()
		l.Settle(batch, decide(batch, queue.Retry, 0), "", func(error) {})
		batch, _ = next(t, l, 1, 0)
		if took := time.Since(began); took < time.Hour {
			t.Errorf("delivered after %s, before the retry was written", took)
		}
		if n := batch.Messages[0].Attempts(); n != 2 {
			t.Errorf("attempt %d, want 2", n)
		}
	})
}

func TestRetryDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, broker.Bounds{})
		l := r.lane("a")
		r.send("a", draft("1"))
		batch, _ := next(t, l, 1, 0)
		time.Sleep(700 * time.Microsecond)
		began := time.Now()
		check(t, settle(l, batch, decide(batch, queue.Retry, time.Minute)))
		next(t, l, 1, 0)
		if late := time.Since(began) - time.Minute; late < 0 || late > 2*time.Millisecond {
			t.Errorf("delivered %s after the delay", late)
		}
	})
}

func TestSettleTwiceChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, broker.Bounds{})
		l := r.lane("a")
		r.send("a", draft("1"))
		old, _ := next(t, l, 1, 0)
		check(t, settle(l, old, decide(old, queue.Retry, 0)))
		batch, _ := next(t, l, 1, 0)
		for _, verdict := range []queue.Verdict{queue.Ack, queue.Drop, queue.Retry, queue.DeadLetter} {
			wantFault(t, settle(l, old, decide(old, verdict, time.Hour)), fault.Conflict, "lease_over")
		}
		if n, _ := r.db.Size(); n != 1 {
			t.Fatalf("%d messages are left after late results, want 1", n)
		}
		l.Settle(batch, decide(batch, queue.Ack, 0), "", func(error) {})
		wantFault(t, settle(l, batch, decide(batch, queue.Retry, 0)), fault.Conflict, "lease_over")
		synctest.Wait()
		if n, _ := r.db.Size(); n != 0 {
			t.Errorf("%d messages are left after the acknowledgement", n)
		}
	})
}

func TestSettleChecksDecisions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, broker.Bounds{})
		l := r.lane("a")
		r.send("a", draft("1"), draft("2"))
		batch, _ := next(t, l, 2, 0)
		good := decide(batch, queue.Ack, 0)
		for _, bad := range [][]queue.Decision{nil, good[:1], {good[1], good[0]}} {
			if kind := fault.KindOf(settle(l, batch, bad)); kind != fault.Internal {
				t.Errorf("decisions %v: %q, want a fault of kind internal", bad, kind)
			}
		}
		ack(t, l, batch)
	})
}

func TestDeadLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, broker.Bounds{})
		l := r.lane("a")
		r.send("a", draft("1"))
		batch, _ := next(t, l, 1, 0)
		check(t, settle(l, batch, decide(batch, queue.Retry, time.Minute)))
		batch, _ = next(t, l, 1, 0)
		first := batch.Messages[0]
		done := make(chan error, 1)
		l.Settle(batch, decide(batch, queue.DeadLetter, 0), "new-dead", func(err error) { done <- err })
		check(t, <-done)
		dead, _ := next(t, r.lane("new-dead"), 1, 0)
		m := dead.Messages[0]
		if m.Seq <= first.Seq {
			t.Errorf("seq %d follows %d", m.Seq, first.Seq)
		}
		want := first
		want.Seq, want.Failures = m.Seq, 0
		if diff := cmp.Diff(want, m); diff != "" {
			t.Errorf("the dead letter (-want +got):\n%s", diff)
		}
		for name, count := range map[string]int64{"a": 0, "new-dead": 1} {
			if got, err := r.b.Metrics(t.Context(), name); err != nil || got.Count != count || got.Bytes != count {
				t.Errorf("metrics of %s: %+v, %v", name, got, err)
			}
		}
	})
}

func TestSettleTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, broker.Bounds{})
		l := r.lane("a")
		r.send("a", draft("1"))
		batch, _ := next(t, l, 1, 0)
		c := r.watch(func(call string, n int) memory.Fault {
			if call == "Apply" && n <= 100 {
				return memory.Fault{Err: unavailable()}
			}
			return memory.Fault{}
		})
		ack(t, l, batch)
		if n := c.of("Apply"); n != 101 {
			t.Errorf("%d tries, want 101", n)
		}
	})
}

func TestRefusedSettlementDoesNotStopOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, broker.Bounds{SettleRows: 1})
		l := r.lane("a")
		r.send("a", drafts(3)...)
		stuck, _ := next(t, l, 1, 0)
		r.watch(func(call string, n int) memory.Fault {
			if call == "Apply" && (n <= 2 || n == 5) {
				return memory.Fault{Err: errors.New("refused")}
			}
			return memory.Fault{}
		})
		done := make(chan error, 1)
		began := time.Now()
		l.Settle(stuck, decide(stuck, queue.Ack, 0), "", func(err error) { done <- err })
		synctest.Wait()
		for range 2 {
			batch, _ := next(t, l, 1, 0)
			ack(t, l, batch)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("the others took %s", took)
		}
		check(t, <-done)
		if took := time.Since(began); took != 2*queue.StoreRetryMax {
			t.Errorf("the refused one was settled after %s, want two pauses", took)
		}
	})
}

// TestStopSaysWhatItLeaves: a database that takes no settlement any more holds a stop up to its bound, and what is delivered
// again is counted.
func TestStopSaysWhatItLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, broker.Bounds{})
		l := r.lane("a")
		r.send("a", draft("1"), draft("2"), draft("3"))
		batch, _ := next(t, l, 3, 0)
		r.db.SetFaults(func(string) memory.Fault { return memory.Fault{Err: errors.New("the schema is gone")} })
		told := make(chan error, 1)
		l.Settle(batch, decide(batch, queue.Ack, 0), "", func(err error) { told <- err })
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), queue.SettleGrace)
		defer cancel()
		begin := time.Now()
		err := r.b.Stop(ctx)
		if f := fault.From(err); f == nil || f.Code != broker.CodeUnsettled || !strings.Contains(f.Message, "3 messages") {
			t.Errorf("Stop: %v", err)
		}
		if took := time.Since(begin); took > queue.SettleGrace+queue.ReleaseTime {
			t.Errorf("Stop took %s", took)
		}
		if <-told == nil {
			t.Error("the settlement was taken")
		}
	})
}

func TestRestartSpendsNoRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, broker.Bounds{})
		l := r.lane("a")
		r.send("a", drafts(3)...)
		batch, _ := next(t, l, 3, 0)
		decisions := decide(batch, queue.Ack, 0)
		decisions[1].Verdict, decisions[1].Failures = queue.Retry, 1
		check(t, settle(l, batch, decisions))
		time.Sleep(time.Second)
		r.send("a", draft("in flight"))
		next(t, l, 2, 0)
		r.db.Crash(nil)
		<-r.b.Done()
		check(t, r.b.Stop(t.Context()))
		r.restart(broker.Bounds{})
		batch, got := next(t, r.lane("a"), 2, 0)
		wantBodies(t, got, "1", "in flight")
		if a, b := batch.Messages[0].Attempts(), batch.Messages[1].Attempts(); a != 2 || b != 1 {
			t.Errorf("attempts %d and %d, want 2 and 1", a, b)
		}
	})
}

func TestMarksAreSavedAndUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, broker.Bounds{})
		l := r.lane("a")
		mark := func() store.QueueInfo {
			infos, err := r.db.Open().Queues(t.Context())
			check(t, err)
			return infos[0]
		}
		var last int64
		for range 20 {
			r.send("a", drafts(10)...)
			batch, _ := next(t, l, 10, 0)
			last = batch.Messages[9].Seq
			ack(t, l, batch)
			time.Sleep(time.Second)
		}
		time.Sleep(queue.MarksEvery)
		if m := mark(); m.ReadyMark != last+1 {
			t.Errorf("ready mark %d, want %d", m.ReadyMark, last+1)
		}
		r.send("a", delayed("due", time.Minute), draft("ready"))
		batch, _ := next(t, l, 2, time.Second)
		check(t, settle(l, batch, decide(batch, queue.Retry, time.Hour)))
		time.Sleep(2 * time.Minute)
		if m := mark(); m.ReadyMark <= last+1 || m.DueMark > time.Now().Add(-time.Minute+time.Second).UnixMilli() {
			t.Errorf("marks %+v at %d; the message that was due a minute ago is not settled", m, time.Now().UnixMilli())
		}
		r.db.Crash(nil)
		<-r.b.Done()
		check(t, r.b.Stop(t.Context()))
		r.restart(broker.Bounds{})
		_, got := next(t, r.lane("a"), 2, 2*time.Hour)
		wantBodies(t, got, "due", "ready")
	})
}

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, broker.Bounds{})
		want := func(count, bytes int64, oldest time.Time) {
			t.Helper()
			got, err := r.b.Metrics(t.Context(), "a")
			check(t, err)
			if diff := cmp.Diff(queue.Metrics{Count: count, Bytes: bytes, Oldest: oldest}, got); diff != "" {
				t.Errorf("metrics (-want +got):\n%s", diff)
			}
		}
		want(0, 0, time.Time{})
		first := time.Now()
		r.send("a", delayed("later", time.Minute))
		want(1, 5, time.Time{})
		time.Sleep(time.Second)
		second := time.Now()
		got, err := r.b.Send(t.Context(), "a", []queue.Draft{draft("x")})
		check(t, err)
		if diff := cmp.Diff(queue.Metrics{Count: 2, Bytes: 6, Oldest: second}, got); diff != "" {
			t.Errorf("metrics of a send (-want +got):\n%s", diff)
		}
		l := r.lane("a")
		batch, _ := next(t, l, 1, 0)
		if diff := cmp.Diff(queue.Metrics{Count: 2, Bytes: 6, Oldest: second}, batch.Metrics); diff != "" {
			t.Errorf("metrics of a batch (-want +got):\n%s", diff)
		}
		want(2, 6, second)
		ack(t, l, batch)
		want(1, 5, time.Time{})
		time.Sleep(time.Minute)
		want(1, 5, first)
		l.Close()
		want(1, 5, first)
		check(t, r.b.Stop(t.Context()))

		// What is sent and settled during the count at the start is neither missed nor counted twice.
		release := make(chan struct{})
		r.watch(func(call string, _ int) memory.Fault {
			if call == "Counts" {
				return memory.Fault{Hold: release}
			}
			return memory.Fault{}
		})
		r.restart(broker.Bounds{})
		l = r.lane("a")
		synctest.Wait()
		r.send("a", draft("yy"), draft("zzz"))
		batch, bodies := next(t, l, 1, 0)
		wantBodies(t, bodies, "later")
		ack(t, l, batch)
		close(release)
		synctest.Wait()
		want(2, 5, time.Now())
	})
}

func TestRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, broker.Bounds{ExpireRows: 3})
		// In four days there are two million looks at the inbox, unless each takes its time.
		r.db.SetFaults(func(call string) memory.Fault {
			if call == "Drain" {
				return memory.Fault{Before: queue.SendTimeout / 3}
			}
			return memory.Fault{}
		})
		check(t, r.b.SetRetention(t.Context(), "b", time.Second))
		l := r.lane("a")
		r.send("a", drafts(8)...)
		r.send("a", delayed("due", 23*time.Hour))
		r.send("b", draft("short"))
		leased, _ := next(t, l, 2, 0)
		time.Sleep(queue.MinRetention + 2*queue.ExpireEvery)
		if m, err := r.b.Metrics(t.Context(), "b"); err != nil || m.Count != 0 {
			t.Errorf("metrics of the queue that keeps messages for a minute: %+v, %v", m, err)
		}
		time.Sleep(queue.DefaultRetention - 5*queue.ExpireEvery)
		if n, _ := r.db.Size(); n != 9 {
			t.Fatalf("%d messages are left before the time is over, want 9", n)
		}
		r.send("a", draft("young"))
		time.Sleep(6 * queue.ExpireEvery)
		if n, _ := r.db.Size(); n != 1 {
			t.Fatalf("%d messages are left, want the young one", n)
		}
		// What expired under a lease is settled without an effect.
		decisions := decide(leased, queue.Retry, 0)
		decisions[1].Verdict = queue.DeadLetter
		check(t, settle(l, leased, decisions))
		m, err := r.b.Metrics(t.Context(), "a")
		check(t, err)
		if m.Count != 1 || m.Bytes != 5 {
			t.Errorf("metrics %+v, want one message of 5 bytes", m)
		}
		if n, _ := r.db.Size(); n != 1 {
			t.Errorf("%d messages are left after the settlement", n)
		}
		batch, got := next(t, l, 10, 0)
		wantBodies(t, got, "young")
		ack(t, l, batch)
		ctx, cancel := context.WithTimeout(t.Context(), 48*time.Hour)
		defer cancel()
		if batch, err := l.Next(ctx, 10, 0); err == nil {
			t.Errorf("%v came after it had expired", bodies(batch))
		}
	})
}

// TestRetryBesideWhatExpired: one message of a batch expires under the lease; the other's retry is its own.
func TestRetryBesideWhatExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, broker.Bounds{})
		check(t, r.b.SetRetention(t.Context(), "a", time.Hour))
		l := r.lane("a")
		r.send("a", draft("old"))
		time.Sleep(50 * time.Minute)
		r.send("a", draft("young"))
		batch, _ := next(t, l, 2, 0)
		time.Sleep(20 * time.Minute)
		decisions := decide(batch, queue.Retry, time.Minute)
		decisions[0].Delay, decisions[0].Failures = 10*time.Hour, 7
		began := time.Now()
		check(t, settle(l, batch, decisions))
		batch, got := next(t, l, 2, 0)
		wantBodies(t, got, "young")
		if took := time.Since(began); took != time.Minute || batch.Messages[0].Attempts() != 2 {
			t.Errorf("it came after %s as attempt %d, want after a minute as attempt 2", took, batch.Messages[0].Attempts())
		}
	})
}
