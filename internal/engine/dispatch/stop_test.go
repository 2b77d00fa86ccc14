package dispatch_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/dispatch"
)

func TestStopLetsHandlersFinish(t *testing.T) {
	start(t, consumer(), func(t *testing.T, b *bench) {
		b.lane.commit = time.Second
		b.SetRuntime(newRuntime(lasting(10*time.Second, queue.OK)), "v1")
		b.lane.send(20)
		time.Sleep(time.Second)
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if err := b.Stop(ctx); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took != 10*time.Second {
			t.Errorf("Stop took %s, want the rest of the handler and the commit", took)
		}
		if diff := cmp.Diff([]queue.Outcome{queue.OK}, b.records.outcomes()); diff != "" {
			t.Errorf("outcomes: %s", diff)
		}
		if leases, _, _ := b.lane.lent(); leases > 2 || b.lane.outcomes()[queue.Ack] != 10 {
			t.Errorf("%d leases, verdicts %v", leases, b.lane.outcomes())
		}
	})
}

func TestStopCancelsWhatOutlivesItsTime(t *testing.T) {
	start(t, consumer(), func(t *testing.T, b *bench) {
		b.SetRuntime(newRuntime(lasting(30*time.Second, queue.OK)), "v1")
		b.lane.send(10)
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		begin := time.Now()
		if err := b.Stop(ctx); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took != 5*time.Second {
			t.Errorf("Stop took %s", took)
		}
		synctest.Wait() // a record may come just after the stop
		r := b.records.all()
		if len(r) != 1 || r[0].Outcome != queue.Lost || r[0].Redelivered != 10 || r[0].Reason != "the app was stopped before the handler finished" {
			t.Errorf("records %+v", r)
		}
		if d := b.lane.decided()[1]; d != (queue.Decision{Seq: 1, Verdict: queue.Retry}) {
			t.Errorf("decision %+v: a stop must count no loss", d)
		}
		if err := b.Stop(t.Context()); err != nil {
			t.Errorf("the second Stop: %v", err)
		}
	})
}

func TestStopDoesNotWaitForEverForTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, consumer(), nil, nil)
		b.Start(t.Context())
		b.lane.stalled = make(chan struct{})
		b.SetRuntime(newRuntime(lasting(0, queue.OK)), "v1")
		b.lane.send(10)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		begin := time.Now()
		err := b.Stop(ctx)
		if fault.KindOf(err) != fault.Timeout || !strings.Contains(err.Error(), "1 batches of queue jobs") {
			t.Errorf("Stop: %v", err)
		}
		if took := time.Since(begin); took != queue.SettleGrace {
			t.Errorf("Stop took %s: the settlements cannot come, and no handler runs", took)
		}
		close(b.lane.stalled)
		b.lane.close()
		if err := b.Stop(ctx); err != nil {
			t.Errorf("Stop after the commit came: %v", err)
		}
	})
}

func TestStopWithoutStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, consumer(), nil, nil)
		b.SetRuntime(newRuntime(lasting(0, queue.OK)), "v1")
		b.lane.send(10)
		b.end(t)
		b.Start(t.Context())
		synctest.Wait()
		if leases, _, _ := b.lane.lent(); leases != 0 {
			t.Error("a stopped dispatcher started")
		}
	})
}

func TestTheEndOfTheStartContextStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, consumer(), nil, nil)
		ctx, cancel := context.WithCancel(t.Context())
		b.Start(ctx)
		b.SetRuntime(newRuntime(lasting(time.Minute, queue.OK)), "v1")
		b.lane.send(10)
		synctest.Wait()
		cancel()
		synctest.Wait()
		if diff := cmp.Diff([]queue.Outcome{queue.Lost}, b.records.outcomes()); diff != "" {
			t.Errorf("outcomes: %s", diff)
		}
		b.end(t)
	})
}

// TestStopAtAnyMoment: whatever goes on, Stop returns in time, every lease is settled once, no goroutine stays (the bubble
// would not end), and no message is lost: each is still in the queue or has a final verdict.
func TestStopAtAnyMoment(t *testing.T) {
	crowded(t)
	rapid.Check(t, func(rt *rapid.T) {
		c := consumer()
		c.MaxConcurrency = rapid.IntRange(0, 4).Draw(rt, "maxConcurrency")
		c.BatchSize = rapid.IntRange(1, 5).Draw(rt, "batchSize")
		ms := rapid.Custom(func(rt *rapid.T) time.Duration {
			return time.Duration(rapid.IntRange(0, 3000).Draw(rt, "ms")) * time.Millisecond
		})
		c.BatchTimeout, c.HandlerTime = ms.Draw(rt, "batchTimeout"), ms.Draw(rt, "handlerTime")+1
		commit, lasts, at, soft := ms.Draw(rt, "commit"), ms.Draw(rt, "lasts"), ms.Draw(rt, "at"), ms.Draw(rt, "soft")
		ends := rapid.SliceOfN(rapid.SampledFrom([]queue.Outcome{queue.OK, queue.Failed, queue.Lost, queue.Errored, ""}), 1, 5).Draw(rt, "ends")
		clearAt := ms.Draw(rt, "clearAt")
		poisoned := rapid.Bool().Draw(rt, "suspects")
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, c, dispatch.NewBudget(2*queue.DispatchMinBytes), nil)
			b.lane.commit = commit
			sent := 40
			b.lane.send(sent)
			if poisoned {
				for i := range b.lane.ready[:10] {
					b.lane.ready[i].Losses = queue.LossesBeforeAlone
				}
			}
			b.Start(t.Context())
			r := newRuntime(nil)
			r.script = func(ctx context.Context, d *dispatch.Delivery) (*dispatch.Result, error) {
				if err := sleep(ctx, lasts); err != nil {
					return nil, err
				}
				switch end := ends[int(d.Batch.Messages[0].Seq)%len(ends)]; end {
				case queue.Lost:
					return nil, dispatch.ErrLost
				case queue.Errored:
					return nil, dispatch.ErrCannotRun
				case "":
					return nil, dispatch.ErrGone
				default:
					return &dispatch.Result{Outcome: end}, nil
				}
			}
			b.SetRuntime(r, "v1")
			clearing := time.AfterFunc(clearAt, b.ClearRuntime)
			defer clearing.Stop()
			time.Sleep(at)
			ctx, cancel := context.WithTimeout(t.Context(), soft)
			defer cancel()
			begin := time.Now()
			if err := b.Stop(ctx); err != nil {
				t.Errorf("Stop: %v", err)
			}
			if took := time.Since(begin); took > soft+commit {
				t.Errorf("Stop took %s", took)
			}
			if running, most, _ := r.seen(); running != 0 || c.MaxConcurrency > 0 && most > c.MaxConcurrency {
				t.Errorf("%d handlers run, at most %d ran together", running, most)
			}
			b.end(t)
			final := b.lane.outcomes()
			if left := int(b.lane.Ready()); left+final[queue.Ack]+final[queue.DeadLetter]+final[queue.Drop] != sent {
				t.Errorf("%d messages are left and %v are settled of %d", left, final, sent)
			}
		})
	})
}
