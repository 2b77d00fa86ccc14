package dispatch_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/dispatch"
)

func TestDeclaredConcurrencyIsReachedAndNeverExceeded(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := consumer()
		c.MaxConcurrency = rapid.IntRange(1, 20).Draw(rt, "maxConcurrency")
		c.BatchSize = rapid.IntRange(1, 10).Draw(rt, "batchSize")
		lasts := rapid.SliceOfN(rapid.IntRange(1, 100), 1, 10).Draw(rt, "lasts")
		outcome := rapid.SampledFrom([]queue.Outcome{queue.OK, queue.Failed}).Draw(rt, "outcome")
		start(t, c, func(t *testing.T, b *bench) {
			var serial int
			var mu sync.Mutex
			r := newRuntime(func(ctx context.Context, d *dispatch.Delivery) (*dispatch.Result, error) {
				mu.Lock()
				serial++
				wait := time.Duration(lasts[serial%len(lasts)]) * time.Millisecond
				mu.Unlock()
				return lasting(wait, outcome)(ctx, d)
			})
			b.SetRuntime(r, "v1")
			b.lane.send(40 * c.BatchSize)
			time.Sleep(10 * time.Second)
			synctest.Wait()
			if running, most, calls := r.seen(); most != c.MaxConcurrency || running != 0 || calls < 40 {
				t.Errorf("at most %d of %d ran together in %d calls", most, c.MaxConcurrency, calls)
			}
		})
	})
}

func TestAutomaticConcurrency(t *testing.T) {
	crowded(t)
	automatic := consumer()
	automatic.MaxConcurrency = 0
	automatic.HandlerTime = queue.WranglerHandlerTime

	t.Run("grows with the backlog up to 250", func(t *testing.T) {
		start(t, automatic, func(t *testing.T, b *bench) {
			r := newRuntime(lasting(5*time.Second, queue.OK))
			b.SetRuntime(r, "v1")
			b.lane.send(100_000)
			time.Sleep(10 * time.Second)
			early, _, _ := r.seen()
			time.Sleep(2 * time.Minute)
			_, most, _ := r.seen()
			if early < 4 || early > 20 || most != queue.MaxConcurrency {
				t.Errorf("%d calls ran after 10 s, %d at most", early, most)
			}
		})
	})
	t.Run("finds what a steady load needs", func(t *testing.T) {
		hundred := automatic
		hundred.BatchSize = 100
		start(t, hundred, func(t *testing.T, b *bench) {
			r := newRuntime(lasting(5*time.Second, queue.OK))
			b.SetRuntime(r, "v1")
			for range 600 {
				b.lane.send(10)
				time.Sleep(100 * time.Millisecond)
			}
			if running, most, _ := r.seen(); running < 4 || running > 6 || most > 10 {
				t.Errorf("%d calls run (%d at most) for 100 messages/s in batches of 100 that take 5 s", running, most)
			}
		})
	})
	t.Run("does not wait for a slow handler to learn of the backlog", func(t *testing.T) {
		start(t, automatic, func(t *testing.T, b *bench) {
			r := newRuntime(lasting(10*time.Minute, queue.OK))
			b.SetRuntime(r, "v1")
			b.lane.send(1_000)
			time.Sleep(30500 * time.Millisecond)
			if running, _, _ := r.seen(); running != 31 {
				t.Errorf("%d calls run after 30 s", running)
			}
		})
	})
	t.Run("stops short of the handler time when calls slow each other down", func(t *testing.T) {
		short := automatic
		short.HandlerTime = 35 * time.Second
		start(t, short, func(t *testing.T, b *bench) {
			processor := make(chan struct{}, 1)
			b.SetRuntime(newRuntime(func(context.Context, *dispatch.Delivery) (*dispatch.Result, error) {
				for range 10 {
					processor <- struct{}{}
					time.Sleep(50 * time.Millisecond)
					<-processor
				}
				return &dispatch.Result{Outcome: queue.OK}, nil
			}), "v1")
			b.lane.send(10_000)
			time.Sleep(9 * time.Minute)
			if acked := b.lane.outcomes()[queue.Ack]; acked != 10_000 {
				t.Errorf("%d messages acked", acked)
			}
			for _, r := range b.records.all() {
				if r.Outcome != queue.OK {
					t.Fatalf("a batch ended as %s after %s: too many ran on one processor", r.Outcome, r.Duration)
				}
			}
		})
	})
	t.Run("lets a single message past a slow handler", func(t *testing.T) {
		start(t, automatic, func(t *testing.T, b *bench) {
			r := newRuntime(lasting(10*time.Minute, queue.OK))
			b.SetRuntime(r, "v1")
			b.lane.send(10)
			time.Sleep(time.Second)
			b.lane.send(1)
			time.Sleep(11 * time.Second)
			if running, _, _ := r.seen(); running != 2 {
				t.Errorf("%d calls run: the single message waits for the slow handler", running)
			}
		})
	})
	for outcome, err := range map[queue.Outcome]error{queue.Failed: nil, queue.Lost: dispatch.ErrLost, queue.Errored: dispatch.ErrCannotRun} {
		t.Run("shrinks by half for calls that ran together and ended as "+string(outcome), func(t *testing.T) {
			start(t, automatic, func(t *testing.T, b *bench) {
				gate := make(chan struct{})
				var mu sync.Mutex
				r := newRuntime(func(ctx context.Context, _ *dispatch.Delivery) (*dispatch.Result, error) {
					mu.Lock()
					open := gate
					mu.Unlock()
					select {
					case <-open:
					case <-ctx.Done():
						return nil, ctx.Err()
					}
					return &dispatch.Result{Outcome: outcome}, err
				})
				b.SetRuntime(r, "v1")
				b.lane.send(100_000)
				time.Sleep(15500 * time.Millisecond)
				if running, _, _ := r.seen(); running != 16 {
					t.Fatalf("%d calls run", running)
				}
				for _, want := range []int{8, 4, 2, 1, 1} {
					mu.Lock()
					close(gate)
					gate = make(chan struct{})
					mu.Unlock()
					synctest.Wait()
					if err != nil {
						// What serves again ends the pause after errors and losses.
						b.SetRuntime(r, "v1")
						synctest.Wait()
					}
					if running, _, _ := r.seen(); running != want {
						t.Errorf("%d calls run, want %d", running, want)
					}
				}
			})
		})
	}
	t.Run("is not shrunk by retryAll", func(t *testing.T) {
		start(t, automatic, func(t *testing.T, b *bench) {
			r := newRuntime(func(ctx context.Context, _ *dispatch.Delivery) (*dispatch.Result, error) {
				return &dispatch.Result{Outcome: queue.OK, Report: queue.Report{RetryAll: true}}, sleep(ctx, 5*time.Second)
			})
			b.SetRuntime(r, "v1")
			b.lane.send(100_000)
			time.Sleep(2 * time.Minute)
			if _, most, _ := r.seen(); most != queue.MaxConcurrency {
				t.Errorf("at most %d calls ran", most)
			}
		})
	})
	t.Run("is back at one after an idle time", func(t *testing.T) {
		start(t, automatic, func(t *testing.T, b *bench) {
			r := newRuntime(lasting(5*time.Second, queue.OK))
			b.SetRuntime(r, "v1")
			b.lane.send(2_000)
			time.Sleep(10 * time.Minute)
			if running, most, _ := r.seen(); running != 0 || most < 10 {
				t.Fatalf("%d calls run, at most %d ran", running, most)
			}
			b.lane.send(2_000)
			time.Sleep(900 * time.Millisecond)
			if running, _, _ := r.seen(); running != 1 {
				t.Errorf("%d calls run at once after the idle time", running)
			}
		})
	})
}

func TestASlowQueueStarvesNoOther(t *testing.T) {
	crowded(t)
	synctest.Test(t, func(t *testing.T) {
		budget := dispatch.NewBudget(20 * queue.DispatchMinBytes)
		c := consumer()
		c.MaxConcurrency = 0
		c.HandlerTime = queue.WranglerHandlerTime
		slow, quick := newRuntime(lasting(10*time.Minute, queue.OK)), newRuntime(lasting(time.Second, queue.OK))
		slowBench := newBench(t, c, budget, nil)
		slowBench.Start(t.Context())
		slowBench.SetRuntime(slow, "v1")
		slowBench.lane.send(10_000)
		time.Sleep(2 * time.Minute)
		if running, _, _ := slow.seen(); running != 21 {
			t.Errorf("%d calls of the slow queue run; the budget has 20 and one is free", running)
		}
		others := make([]*bench, 0, 30)
		for range 30 {
			b := newBench(t, c, budget, nil)
			b.Start(t.Context())
			b.SetRuntime(quick, "v1")
			b.lane.send(200)
			others = append(others, b)
		}
		time.Sleep(21 * time.Second)
		synctest.Wait()
		for i, b := range others {
			if acked := b.lane.outcomes()[queue.Ack]; acked != 200 {
				t.Errorf("queue %d: %d of 200 messages acked while the slow queue holds the budget", i, acked)
			}
			b.end(t)
		}
		slowBench.end(t)
	})
}

func TestTheBudgetComesBack(t *testing.T) {
	crowded(t)
	synctest.Test(t, func(t *testing.T) {
		c := consumer()
		c.MaxConcurrency = 10
		b := newBench(t, c, dispatch.NewBudget(2*queue.DispatchMinBytes), nil)
		b.Start(t.Context())
		r := newRuntime(lasting(time.Second, queue.OK))
		b.SetRuntime(r, "v1")
		b.lane.send(900)
		time.Sleep(31 * time.Second)
		synctest.Wait()
		if _, most, _ := r.seen(); most != 3 || b.lane.outcomes()[queue.Ack] != 900 {
			t.Errorf("at most %d calls ran together, %v: two by the budget and the first make 90 batches in 30 s", most, b.lane.outcomes())
		}
		b.end(t)
	})
}

// process is a worker process that some messages kill, with the supervisor that starts it again.
type process struct {
	mu       sync.Mutex
	poison   map[int64]bool
	targets  []*bench
	feeds    []*feed
	killed   chan struct{}
	restarts sync.WaitGroup
	// takes is how long a poison needs; with loops it keeps the thread meanwhile, and nothing else comes to an end.
	takes time.Duration
	loops bool
	stuck bool
	// notice is how long after the death the supervisor hears of it.
	notice time.Duration
}

// busy reports whether a poison keeps the thread.
func (p *process) busy() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stuck
}

// feed is the process as one queue sees it: it counts how often each message came to a live process.
type feed struct {
	*process
	seen map[int64]int
}

func (f *feed) Deliver(ctx context.Context, d *dispatch.Delivery) (*dispatch.Result, error) {
	f.mu.Lock()
	killed := f.killed
	select {
	case <-killed:
		f.mu.Unlock()
		return nil, fmt.Errorf("%w: signal: killed", dispatch.ErrGone)
	default:
	}
	for i := range d.Batch.Messages {
		f.seen[d.Batch.Messages[i].Seq]++
	}
	f.mu.Unlock()
	return f.handle(ctx, d, killed)
}

func (p *process) handle(ctx context.Context, d *dispatch.Delivery, killed chan struct{}) (*dispatch.Result, error) {
	fatal := false
	for i := range d.Batch.Messages {
		fatal = fatal || p.poison[d.Batch.Messages[i].Seq]
	}
	if fatal {
		p.mu.Lock()
		p.stuck = p.loops
		p.mu.Unlock()
		timer := time.NewTimer(p.takes)
		defer timer.Stop()
		select {
		case <-timer.C:
			p.die(killed)
		case <-killed:
		}
		return nil, fmt.Errorf("%w: signal: killed", dispatch.ErrLost)
	}
	timer := time.NewTimer(20 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		if !p.busy() {
			return &dispatch.Result{Outcome: queue.OK}, nil
		}
		<-killed
		return nil, dispatch.ErrLost
	case <-killed:
		return nil, dispatch.ErrLost
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *process) die(killed chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-killed:
		return
	default:
	}
	close(killed)
	p.stuck = false
	p.restarts.Go(func() {
		time.Sleep(p.notice)
		for _, b := range p.targets {
			b.ClearRuntime()
		}
		time.Sleep(queue.RestartFirst)
		p.live()
	})
}

func (p *process) live() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.killed = make(chan struct{})
	for i, b := range p.targets {
		b.SetRuntime(p.feeds[i], "v1")
	}
}

// TestPoisonIsFound: messages that kill their process end dead-lettered after a bounded number of deliveries, and
// everything else is delivered and acked, whichever queues and concurrency share the process.
func TestPoisonIsFound(t *testing.T) {
	crowded(t)
	rapid.Check(t, func(rt *rapid.T) {
		const sent = 60
		queues := rapid.IntRange(1, 3).Draw(rt, "queues")
		poison := rapid.SliceOfNDistinct(rapid.Int64Range(1, sent), 1, 3, rapid.ID[int64]).Draw(rt, "poison")
		c := consumer()
		c.MaxConcurrency = rapid.IntRange(0, 5).Draw(rt, "maxConcurrency")
		c.BatchSize = rapid.IntRange(1, 10).Draw(rt, "batchSize")
		c.MaxRetries = rapid.IntRange(0, 3).Draw(rt, "maxRetries")
		notice := time.Duration(rapid.IntRange(0, 30).Draw(rt, "notice")) * time.Millisecond
		// The process runs out of memory, or the watchdog finds it stuck.
		loops, takes := rapid.Bool().Draw(rt, "loops"), 10*time.Millisecond
		if loops {
			takes = queue.PingEvery + queue.PingMisses*queue.PingTime
		}
		synctest.Test(t, func(t *testing.T) {
			isolation := dispatch.NewIsolation()
			p := &process{poison: map[int64]bool{}, notice: notice, loops: loops, takes: takes}
			for _, seq := range poison {
				p.poison[seq] = true
			}
			for range queues {
				b := newBench(t, c, nil, isolation)
				b.lane.send(sent)
				b.Start(t.Context())
				p.targets = append(p.targets, b)
				p.feeds = append(p.feeds, &feed{process: p, seen: map[int64]int{}})
			}
			p.live()
			time.Sleep(3 * time.Hour)
			synctest.Wait()
			bound := queue.LossesBeforeAlone + queue.LossesAlone + c.MaxRetries
			for i, b := range p.targets {
				for _, r := range b.records.all() {
					if r.Outcome == queue.Errored {
						t.Errorf("queue %d: a batch that came to the dead process is recorded: %+v", i, r)
					}
				}
				decided, delivered := b.lane.decided(), p.feeds[i].seen
				for seq := int64(1); seq <= sent; seq++ {
					want := queue.Ack
					if p.poison[seq] {
						want = queue.DeadLetter
						if n := delivered[seq]; n > bound {
							t.Errorf("queue %d: poison message %d was delivered %d times, more than %d", i, seq, n, bound)
						}
					}
					if got := decided[seq].Verdict; got != want {
						t.Errorf("queue %d: message %d of %v is %q after %d deliveries", i, seq, poison, got, delivered[seq])
					}
				}
			}
			for _, b := range p.targets {
				b.end(t)
			}
			p.restarts.Wait()
		})
	})
}

func TestSuspectsOfAnAppComeOneByOne(t *testing.T) {
	crowded(t)
	synctest.Test(t, func(t *testing.T) {
		isolation := dispatch.NewIsolation()
		c := consumer()
		c.MaxConcurrency = 5
		c.HandlerTime = time.Hour
		quick, slow := newRuntime(lasting(time.Second, queue.OK)), newRuntime(lasting(3*queue.AloneTime, queue.OK))
		run := func(r *runtime) {
			begin := time.Now()
			benches := make([]*bench, 0, 2)
			for range 2 {
				b := newBench(t, c, nil, isolation)
				b.lane.send(5)
				for i := range b.lane.ready {
					b.lane.ready[i].Losses = queue.LossesBeforeAlone
				}
				b.Start(t.Context())
				b.SetRuntime(r, "v1")
				benches = append(benches, b)
			}
			for _, b := range benches {
				for b.lane.outcomes()[queue.Ack] < 5 {
					time.Sleep(time.Second)
				}
				b.end(t)
			}
			t.Logf("10 suspects took %s", time.Since(begin))
		}
		// The runtime's own count includes only what reached it, so one at a time is exact.
		run(quick)
		if _, most, calls := quick.seen(); most != 1 || calls != 10 {
			t.Errorf("%d suspects ran together in %d calls", most, calls)
		}
		begin := time.Now()
		run(slow)
		if _, most, _ := slow.seen(); most < 3 || most > 4 {
			t.Errorf("%d slow suspects ran together, want one more each %s", most, queue.AloneTime)
		}
		if took := time.Since(begin); took > 12*queue.AloneTime+5*time.Second {
			t.Errorf("slow suspects took %s", took)
		}
	})
}
