package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/dispatch"
)

func TestBatchesComeBySizeOrByTime(t *testing.T) {
	start(t, consumer(), func(t *testing.T, b *bench) {
		begin := time.Now()
		b.SetRuntime(newRuntime(lasting(0, queue.OK)), "v1")
		b.lane.send(25)
		time.Sleep(5*time.Second - time.Nanosecond)
		synctest.Wait()
		_, _, sizes := b.lane.lent()
		if diff := cmp.Diff([]int{10, 10}, sizes); diff != "" {
			t.Errorf("batches before the timeout: %s", diff)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		_, _, sizes = b.lane.lent()
		if diff := cmp.Diff([]int{10, 10, 5}, sizes); diff != "" {
			t.Errorf("batches: %s", diff)
		}
		last := b.records.all()[2]
		want := dispatch.Record{
			App: "app", Queue: "jobs", Version: "v1", Delivery: last.Delivery, Start: begin.Add(5 * time.Second),
			Outcome: queue.OK, Delivered: 5, Acked: 5,
		}
		for seq := range int64(5) {
			want.Acks = append(want.Acks, queue.Acked{ID: queue.NewID(1, 21+seq), Attempt: 1})
		}
		holder := queue.Holder{App: "app", Version: "v1", Delivery: last.Delivery, Until: last.Start.Add(consumer().HandlerTime)}
		if diff := cmp.Diff(want, last) + cmp.Diff(holder, b.lane.holders[2]); diff != "" {
			t.Errorf("record and holder: %s", diff)
		}
	})
}

// counts are those of a Record.
type counts struct{ acked, retried, redelivered int }

func TestHowCallsEnd(t *testing.T) {
	exception := &dispatch.Exception{Name: "TypeError", Message: "x is undefined", Location: "src/index.ts:3:9"}
	minute := time.Minute
	first, second := queue.NewID(1, 1), queue.NewID(1, 2)
	type script = func(context.Context, *dispatch.Delivery) (*dispatch.Result, error)
	answer := func(r *dispatch.Result, err error) script {
		return func(context.Context, *dispatch.Delivery) (*dispatch.Result, error) { return r, err }
	}
	kept := func(seq int64, delay time.Duration, failures, losses int) queue.Decision {
		return queue.Decision{Seq: seq, Verdict: queue.Retry, Delay: delay, Failures: failures, Losses: losses}
	}
	acked := func(seq int64) queue.Decision { return queue.Decision{Seq: seq, Verdict: queue.Ack} }
	for name, test := range map[string]struct {
		script    script
		outcome   queue.Outcome
		decisions []queue.Decision
		reason    string
		exception *dispatch.Exception
		warnings  int
	}{
		"returned": {
			script: answer(&dispatch.Result{Outcome: queue.OK}, nil), outcome: queue.OK,
			decisions: []queue.Decision{acked(1), acked(2)},
		},
		"returned after a retry": {
			script: answer(&dispatch.Result{Outcome: queue.OK, Report: queue.Report{
				Retried: map[queue.ID]*time.Duration{second: &minute},
			}}, nil),
			outcome: queue.OK, decisions: []queue.Decision{acked(1), kept(2, minute, 1, 0)},
		},
		"threw after an ack": {
			script: answer(&dispatch.Result{Outcome: queue.Failed, Error: exception, Report: queue.Report{
				Acked: map[queue.ID]struct{}{first: {}},
			}}, nil),
			outcome: queue.Failed, exception: exception, decisions: []queue.Decision{acked(1), kept(2, 10*time.Second, 1, 0)},
		},
		"asked for too long a delay": {
			script: answer(&dispatch.Result{Outcome: queue.OK, Report: queue.Report{
				RetryAll: true, RetryAllDelay: new(25 * time.Hour),
			}}, nil),
			outcome: queue.OK, warnings: 2,
			decisions: []queue.Decision{kept(1, queue.MaxDelay, 1, 0), kept(2, queue.MaxDelay, 1, 0)},
		},
		"could not decode one message": {
			script: answer(&dispatch.Result{
				Outcome: queue.OK, Undecodable: []queue.ID{first},
				Report: queue.Report{AckAll: true, Acked: map[queue.ID]struct{}{first: {}}},
			}, nil),
			outcome: queue.OK, decisions: []queue.Decision{kept(1, 10*time.Second, 1, 0), acked(2)},
		},
		"could not decode one message and asked for a delay of the others": {
			script: answer(&dispatch.Result{
				Outcome: queue.OK, Undecodable: []queue.ID{first},
				Report: queue.Report{RetryAll: true, RetryAllDelay: &minute},
			}, nil),
			outcome: queue.OK, decisions: []queue.Decision{kept(1, 10*time.Second, 1, 0), kept(2, minute, 1, 0)},
		},
		"an outcome nobody knows": {
			script: answer(&dispatch.Result{Outcome: "fine"}, nil), outcome: queue.Failed,
			decisions: []queue.Decision{kept(1, 10*time.Second, 1, 0), kept(2, 10*time.Second, 1, 0)},
		},
		"lost": {
			script:  answer(nil, fmt.Errorf("%w: out of memory", dispatch.ErrLost)),
			outcome: queue.Lost, reason: "the worker process ended during the delivery: out of memory",
			decisions: []queue.Decision{kept(1, 100*time.Millisecond, 0, 1), kept(2, 100*time.Millisecond, 0, 1)},
		},
		"cannot run": {
			script: answer(nil, fmt.Errorf("%w", fault.New(fault.Invalid, "no_handler", "the worker exports no queue handler").
				WithHint("export one").WithCause(dispatch.ErrCannotRun))),
			outcome: queue.Errored, reason: "the worker exports no queue handler — export one",
			decisions: []queue.Decision{kept(1, time.Second, 0, 0), kept(2, time.Second, 0, 0)},
		},
		"an error that is not explained": {
			script: answer(nil, errors.New("unexpected EOF in frame 7")), outcome: queue.Lost,
			reason:    "internal error; the log has the details",
			decisions: []queue.Decision{kept(1, 100*time.Millisecond, 0, 1), kept(2, 100*time.Millisecond, 0, 1)},
		},
		"neither a result nor an error": {
			script: answer(nil, nil), outcome: queue.Lost, reason: "internal error; the log has the details",
			decisions: []queue.Decision{kept(1, 100*time.Millisecond, 0, 1), kept(2, 100*time.Millisecond, 0, 1)},
		},
		"too slow": {
			script: lasting(time.Hour, queue.OK), outcome: queue.TimedOut,
			reason:    "the handler did not finish within 35 s and was cancelled",
			decisions: []queue.Decision{kept(1, 10*time.Second, 1, 0), kept(2, 10*time.Second, 1, 0)},
		},
		"too slow, and a result that comes late": {
			script: func(ctx context.Context, _ *dispatch.Delivery) (*dispatch.Result, error) {
				<-ctx.Done()
				return &dispatch.Result{Outcome: queue.OK, Report: queue.Report{AckAll: true}}, nil
			},
			outcome: queue.TimedOut, reason: "the handler did not finish within 35 s and was cancelled",
			decisions: []queue.Decision{kept(1, 10*time.Second, 1, 0), kept(2, 10*time.Second, 1, 0)},
		},
		"too slow, and the process had to be killed": {
			script: func(ctx context.Context, _ *dispatch.Delivery) (*dispatch.Result, error) {
				<-ctx.Done()
				time.Sleep(queue.CancelGrace)
				return nil, dispatch.ErrLost
			},
			outcome: queue.TimedOut, reason: "the handler did not finish within 35 s and was cancelled",
			decisions: []queue.Decision{kept(1, 10*time.Second, 1, 0), kept(2, 10*time.Second, 1, 0)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := consumer()
			c.BatchSize = 2
			start(t, c, func(t *testing.T, b *bench) {
				b.lane.send(2)
				b.SetRuntime(newRuntime(test.script), "v1")
				for len(b.records.all()) == 0 {
					time.Sleep(time.Millisecond)
				}
				b.ClearRuntime()
				synctest.Wait()
				r := b.records.all()[0]
				if r.Outcome != test.outcome || r.Reason != test.reason || r.Error != test.exception || len(r.Warnings) != test.warnings {
					t.Errorf("record %+v", r)
				}
				want := counts{}
				var fates []dispatch.Fate
				for _, d := range test.decisions {
					if d.Verdict != queue.Ack {
						fates = append(fates, dispatch.Fate{
							ID: queue.NewID(1, d.Seq), Verdict: d.Verdict, Spent: d.Failures > 0, Attempt: 1, Delay: d.Delay,
						})
					}
					switch {
					case d.Verdict == queue.Ack:
						want.acked++
					case d.Failures > 0:
						want.retried++
					default:
						want.redelivered++
					}
				}
				if got := (counts{r.Acked, r.Retried, r.Redelivered}); got != want || r.Delivered != 2 || r.Dead+r.Dropped != 0 {
					t.Errorf("counts of %+v, want %+v", r, want)
				}
				if diff := cmp.Diff(fates, r.Fates); diff != "" {
					t.Errorf("fates: %s", diff)
				}
				got := []queue.Decision{b.lane.decided()[1], b.lane.decided()[2]}
				if diff := cmp.Diff(test.decisions, got, cmpopts.IgnoreFields(queue.Decision{}, "Reason", "Outcome")); diff != "" {
					t.Errorf("decisions: %s", diff)
				}
			})
		})
	}
}

func TestNothingIsTakenWithoutARuntime(t *testing.T) {
	start(t, consumer(), func(t *testing.T, b *bench) {
		b.lane.send(10)
		time.Sleep(time.Hour)
		synctest.Wait()
		if leases, _, _ := b.lane.lent(); leases != 0 {
			t.Fatalf("%d batches were leased before there was a runtime", leases)
		}
		r := newRuntime(lasting(0, queue.OK))
		b.SetRuntime(r, "v1")
		synctest.Wait()
		if _, _, calls := r.seen(); calls != 1 {
			t.Fatalf("%d calls after the runtime came", calls)
		}
		// The dispatcher waits in the lane now; what comes after the runtime went has to stay there.
		b.ClearRuntime()
		synctest.Wait()
		b.lane.send(10)
		time.Sleep(time.Hour)
		synctest.Wait()
		if leases, _, _ := b.lane.lent(); leases != 1 {
			t.Fatalf("%d batches were leased after the runtime went", leases)
		}
	})
}

// TestAMessageWakesAnAppThatRests at once, and is delivered in a batch as any other.
func TestAMessageWakesAnAppThatRests(t *testing.T) {
	start(t, consumer(), func(t *testing.T, b *bench) {
		woken := 0
		b.Rest(func() { woken++ })
		time.Sleep(time.Hour)
		synctest.Wait()
		if leases, _, _ := b.lane.lent(); leases != 0 || woken != 0 {
			t.Fatalf("%d leases, woken %d times without a message", leases, woken)
		}
		b.lane.send(3)
		synctest.Wait()
		if woken != 1 {
			t.Fatalf("woken %d times by messages", woken)
		}
		time.Sleep(time.Minute)
		b.lane.send(2)
		synctest.Wait()
		if woken != 1 {
			t.Fatalf("woken %d times before the runtime came", woken)
		}
		r := newRuntime(lasting(0, queue.OK))
		b.SetRuntime(r, "v1")
		time.Sleep(time.Minute)
		synctest.Wait()
		records := b.records.all()
		if len(records) != 1 || records[0].Delivered != 5 {
			t.Errorf("records %+v", records)
		}
		// It rests again while it waits in the lane for a batch to fill.
		b.lane.send(1)
		time.Sleep(time.Second)
		b.Rest(func() { woken++ })
		synctest.Wait()
		if woken != 2 {
			t.Errorf("woken %d times", woken)
		}
	})
}

func TestANewVersionTakesTheNextBatch(t *testing.T) {
	c := consumer()
	c.MaxConcurrency = 2
	start(t, c, func(t *testing.T, b *bench) {
		one, two := newRuntime(lasting(20*time.Second, queue.OK)), newRuntime(lasting(time.Second, queue.OK))
		b.SetRuntime(one, "v1")
		b.lane.send(10)
		time.Sleep(time.Second)
		b.SetRuntime(two, "v2")
		b.lane.send(10)
		time.Sleep(30 * time.Second)
		synctest.Wait()
		records := b.records.all()
		versions := make([]string, 0, len(records))
		for _, r := range records {
			versions = append(versions, r.Version+" "+string(r.Outcome))
		}
		if diff := cmp.Diff([]string{"v2 ok", "v1 ok"}, versions); diff != "" {
			t.Errorf("records: %s", diff)
		}
	})
}

func TestALossToANewerVersionIsNoBlame(t *testing.T) {
	start(t, consumer(), func(t *testing.T, b *bench) {
		killed := make(chan struct{})
		b.SetRuntime(newRuntime(func(context.Context, *dispatch.Delivery) (*dispatch.Result, error) {
			<-killed
			return nil, dispatch.ErrLost
		}), "v1")
		b.lane.send(10)
		synctest.Wait()
		b.SetRuntime(newRuntime(lasting(time.Second, queue.OK)), "v2")
		close(killed)
		synctest.Wait()
		if d := b.lane.decided()[1]; d != (queue.Decision{Seq: 1, Verdict: queue.Retry}) {
			t.Errorf("decision %+v: a redeploy must count no loss and cost no delay", d)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if diff := cmp.Diff([]queue.Outcome{queue.Lost, queue.OK}, b.records.outcomes()); diff != "" {
			t.Errorf("outcomes: %s", diff)
		}
	})
}

func TestABrokenVersionIsTriedWithBackoff(t *testing.T) {
	c := consumer()
	c.MaxConcurrency = 8
	start(t, c, func(t *testing.T, b *bench) {
		broken := newRuntime(func(context.Context, *dispatch.Delivery) (*dispatch.Result, error) {
			return nil, dispatch.ErrCannotRun
		})
		b.lane.send(10_000)
		b.SetRuntime(broken, "v1")
		time.Sleep(time.Hour)
		synctest.Wait()
		// 1 s doubling to 1 min is 65 tries in an hour; those that were taken together before the first pause come on top.
		if _, _, calls := broken.seen(); calls < 60 || calls > 65+8*65 {
			t.Errorf("%d calls in an hour", calls)
		}
		for seq, d := range b.lane.decided() {
			if d.Failures != 0 || d.Losses != 0 {
				t.Fatalf("message %d: %+v: an error spends nothing", seq, d)
			}
		}
		// A new version is a reason to try at once, and does not inherit the errors of the last one.
		other := newRuntime(func(context.Context, *dispatch.Delivery) (*dispatch.Result, error) {
			return nil, dispatch.ErrCannotRun
		})
		b.SetRuntime(other, "v1.1")
		time.Sleep(queue.ErrorBackoff(1) + time.Millisecond)
		synctest.Wait()
		moments := map[time.Time]bool{}
		for _, r := range b.records.all() {
			moments[r.Start] = moments[r.Start] || r.Version == "v1.1"
		}
		maps.DeleteFunc(moments, func(_ time.Time, is bool) bool { return !is })
		if len(moments) != 2 {
			t.Errorf("the new version was tried %d times in a second, want now and after %s", len(moments), queue.ErrorBackoff(1))
		}
		fixed := newRuntime(lasting(0, queue.OK))
		b.SetRuntime(fixed, "v2")
		synctest.Wait()
		if _, _, calls := fixed.seen(); calls == 0 {
			t.Error("the new version was not tried at once")
		}
	})
}

// TestABatchForAProcessThatIsGoneIsReleased: it costs nothing, is no record, and waits for the next runtime.
func TestABatchForAProcessThatIsGoneIsReleased(t *testing.T) {
	c := consumer()
	c.MaxConcurrency = 8
	start(t, c, func(t *testing.T, b *bench) {
		gone := newRuntime(func(ctx context.Context, _ *dispatch.Delivery) (*dispatch.Result, error) {
			if err := sleep(ctx, time.Millisecond); err != nil {
				return nil, err
			}
			return nil, fmt.Errorf("%w: signal: killed", dispatch.ErrGone)
		})
		b.lane.send(200)
		b.SetRuntime(gone, "v1")
		time.Sleep(time.Hour)
		synctest.Wait()
		if _, _, calls := gone.seen(); calls > 8 {
			t.Errorf("a process that is gone was called %d times, by no more than 8 calls that ran together", calls)
		}
		if ready, records := b.lane.Ready(), b.records.all(); ready != 200 || len(records) != 0 {
			t.Errorf("%d messages are ready, want all 200; records %+v", ready, records)
		}
		for seq, d := range b.lane.decided() {
			if d != (queue.Decision{Seq: seq, Verdict: queue.Retry}) {
				t.Errorf("decision %+v", d)
			}
		}
		begin := time.Now()
		b.SetRuntime(newRuntime(lasting(0, queue.OK)), "v1")
		synctest.Wait()
		if acked := b.lane.outcomes()[queue.Ack]; acked != 200 || time.Since(begin) != 0 {
			t.Errorf("%d messages were acked after %s, want all at once", acked, time.Since(begin))
		}
	})
}

// TestALateWordOfAProcessThatIsGoneChangesNothing: the runtime that came meanwhile keeps serving.
func TestALateWordOfAProcessThatIsGoneChangesNothing(t *testing.T) {
	start(t, consumer(), func(t *testing.T, b *bench) {
		b.SetRuntime(newRuntime(func(ctx context.Context, _ *dispatch.Delivery) (*dispatch.Result, error) {
			if err := sleep(ctx, time.Second); err != nil {
				return nil, err
			}
			return nil, dispatch.ErrGone
		}), "v1")
		b.lane.send(10)
		synctest.Wait()
		b.SetRuntime(newRuntime(lasting(0, queue.OK)), "v2")
		time.Sleep(time.Second)
		synctest.Wait()
		if acked := b.lane.outcomes()[queue.Ack]; acked != 10 {
			t.Errorf("%d messages were acked", acked)
		}
	})
}

func TestAProcessThatDiesAtOnceIsNotFedWithoutPause(t *testing.T) {
	c := consumer()
	c.BatchSize = 1
	start(t, c, func(t *testing.T, b *bench) {
		dying := newRuntime(func(context.Context, *dispatch.Delivery) (*dispatch.Result, error) { return nil, dispatch.ErrLost })
		b.lane.send(100_000)
		b.SetRuntime(dying, "v1")
		time.Sleep(time.Hour)
		if _, _, calls := dying.seen(); calls < 300 || calls > 400 {
			t.Errorf("%d calls in an hour; 100 ms doubling to 10 s makes about 366", calls)
		}
	})
}

func TestDeliveryIDsAreUnique(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRuntime(lasting(0, queue.OK))
		for range 2 {
			b := newBench(t, consumer(), nil, nil)
			b.Start(t.Context())
			b.SetRuntime(r, "v1")
			b.lane.send(1000)
			synctest.Wait()
			b.end(t)
		}
		if len(r.ids) != 200 {
			t.Errorf("%d IDs for 200 deliveries", len(r.ids))
		}
		for id := range r.ids {
			if len(id) > 32 || strings.ContainsAny(id, " \r\n") {
				t.Errorf("ID %q does not fit a header", id)
			}
		}
	})
}

func TestASlowStoreHoldsHandlersBack(t *testing.T) {
	c := consumer()
	c.MaxConcurrency = 20
	start(t, c, func(t *testing.T, b *bench) {
		b.lane.stalled = make(chan struct{})
		b.lane.send(10_000)
		r := newRuntime(lasting(time.Millisecond, queue.OK))
		b.SetRuntime(r, "v1")
		time.Sleep(time.Minute)
		synctest.Wait()
		// The one batch more is held, ready to run.
		want := queue.UnsettledPerCall * 20
		if _, most, _ := b.lane.lent(); most > want+1 || most < want {
			t.Errorf("%d batches were leased at a time, want %d", most, want)
		}
		if len(b.records.all()) != 0 {
			t.Error("a batch was recorded before its settlement committed")
		}
		close(b.lane.stalled)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := b.lane.outcomes()[queue.Ack]; got != 10_000 {
			t.Errorf("%d messages were acked", got)
		}
	})
}

func TestAClosedLaneEndsDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, consumer(), nil, nil)
		b.Start(t.Context())
		b.lane.stalled = make(chan struct{})
		b.SetRuntime(newRuntime(lasting(time.Second, queue.OK)), "v1")
		b.lane.send(10)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		b.lane.close()
		synctest.Wait()
		r := b.records.all()
		if len(r) != 1 || r[0].Outcome != queue.OK || r[0].Acked != 0 || r[0].Reason == "" {
			t.Errorf("records %+v: nothing was acked, and the reason has to say so", r)
		}
		if err := b.Stop(t.Context()); err != nil {
			t.Errorf("Stop: %v", err)
		}
	})
}
