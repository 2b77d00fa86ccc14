package notify_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/runlot/runlot/internal/adapter/memory/outbox"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/notify"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const ann, ben = "mail ann@example.com", "mail ben@example.com"

// channel is a channel that does as it is told.
type channel struct {
	ways []string
	send func(ctx context.Context, d *notify.Delivery) error

	mu   sync.Mutex
	sent []string // way and title, in order; guarded by mu
	at   []time.Time
}

func (c *channel) Ways() []string { return c.ways }

func (c *channel) Send(ctx context.Context, d *notify.Delivery) error {
	c.mu.Lock()
	c.at = append(c.at, time.Now())
	c.mu.Unlock()
	if c.send != nil {
		if err := c.send(ctx, d); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent = append(c.sent, d.Way+": "+notify.Describe(d.Notice).Title)
	return nil
}

func (c *channel) got() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(slices.Values(c.sent))
}

// tries are the pauses between the calls of Send.
func (c *channel) tries() []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []time.Duration
	for i := 1; i < len(c.at); i++ {
		list = append(list, c.at[i].Sub(c.at[i-1]))
	}
	return list
}

// start runs a notifier over an outbox until stop.
func start(o notify.Outbox, options notify.Options, channels ...notify.Channel) (n *notify.Notifier, stop func()) {
	options.Channels, options.Log = channels, slog.New(slog.DiscardHandler)
	if options.Rules.On == nil {
		options.Rules.On = notify.AllRules
	}
	n = notify.New(options)
	n.Start(o)
	return n, func() {
		ctx, cancel := context.WithTimeout(context.Background(), queue.NotifyStopTime)
		defer cancel()
		n.Stop(ctx)
	}
}

func fail(n *notify.Notifier, queueName string, times int) {
	for range times {
		n.Batch(batch(queueName, time.Now(), queue.Failed))
	}
}

func states(t *testing.T, o notify.Outbox) []string {
	t.Helper()
	list, err := o.Notices(t.Context(), 0, queue.MaxPage)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, n := range list {
		for _, w := range n.Ways {
			got = append(got, fmt.Sprintf("%s %s %s %d %s", n.Notice.Queue, w.Way, w.State, w.Attempt, w.Problem))
		}
	}
	return got
}

func same(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

const threeFailed = ": three batches failed in a row"

func TestEachReceiverIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &outbox.Outbox{}
		c := &channel{ways: []string{ann, ben}}
		number := func(context.Context, string, string) int { return 7 }
		n, stop := start(o, notify.Options{Number: number, Node: "a1"}, c)
		fail(n, "jobs", 10)
		fail(n, "mail", 2)
		synctest.Wait()
		same(t, "sent", c.got(), ann+": jobs"+threeFailed, ben+": jobs"+threeFailed)
		stop()
		stop()
		list, _ := o.Notices(t.Context(), 0, 1)
		if list[0].Notice.VersionNumber != 7 || list[0].Notice.Node != "a1" {
			t.Errorf("notice %+v", list[0].Notice)
		}
		// A restart has forgotten it, and the outbox has not.
		n, stop = start(o, notify.Options{}, c)
		defer stop()
		fail(n, "jobs", 10)
		synctest.Wait()
		same(t, "sent", c.got(), ann+": jobs"+threeFailed, ben+": jobs"+threeFailed)
	})
}

func TestTwoNodesTellOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &outbox.Outbox{}
		c := &channel{ways: []string{ann}}
		first, stopFirst := start(o, notify.Options{}, c)
		second, stopSecond := start(o, notify.Options{}, c)
		defer stopFirst()
		defer stopSecond()
		for range 5 {
			fail(first, "jobs", 1)
			fail(second, "jobs", 1)
		}
		synctest.Wait()
		same(t, "sent", c.got(), ann+": jobs"+threeFailed)
	})
}

func TestBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &outbox.Outbox{}
		c := &channel{ways: []string{ann}}
		failures := 3
		c.send = func(context.Context, *notify.Delivery) error {
			if failures--; failures >= 0 {
				return fault.New(fault.Unavailable, "x", "no answer").WithHint("try")
			}
			return nil
		}
		n, stop := start(o, notify.Options{}, c)
		defer stop()
		fail(n, "jobs", 3)
		synctest.Wait()
		same(t, "states", states(t, o), "jobs "+ann+" waiting 1 no answer")
		time.Sleep(time.Hour)
		same(t, "states", states(t, o), "jobs "+ann+" sent 4 ")
		if got, want := c.tries(), []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute}; !slices.Equal(got, want) {
			t.Errorf("tries after %v, want %v", got, want)
		}
	})
}

func TestGivenUp(t *testing.T) {
	for name, test := range map[string]struct {
		err      error
		after    time.Duration
		attempts int
	}{
		"after a day": {errors.New("no answer"), 25 * time.Hour, 30},
		"at once":     {fault.New(fault.Invalid, "x", "nobody of this name").WithCause(notify.ErrRefused), 0, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			o := &outbox.Outbox{}
			c := &channel{ways: []string{ann}, send: func(context.Context, *notify.Delivery) error { return test.err }}
			var told []string
			n, stop := start(o, notify.Options{GivenUp: func(_ context.Context, n *notify.Notice, way, problem string) {
				told = append(told, n.Queue+" "+way+" "+problem)
			}}, c)
			fail(n, "jobs", 3)
			time.Sleep(test.after)
			synctest.Wait()
			problem := test.err.Error()
			same(t, name, states(t, o), fmt.Sprintf("jobs %s failed %d %s", ann, test.attempts, problem))
			time.Sleep(48 * time.Hour)
			stop()
			same(t, name+", told", told, "jobs "+ann+" "+problem)
			for _, pause := range c.tries() {
				if pause > queue.NotifyRetryMax {
					t.Errorf("%s: a pause of %v", name, pause)
				}
			}
		})
	}
}

// TestNobodyWaits: while the outbox is away, or hangs, facts are taken at once; what does not fit is counted, and told later.
func TestNobodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &outbox.Outbox{}
		o.SetAway(true)
		c := &channel{ways: []string{ann}}
		n, stop := start(o, notify.Options{}, c)
		defer stop()
		const queues = queue.NotifyBuffer + 101
		began := time.Now()
		for i := range queues {
			fail(n, fmt.Sprint("q", i), 3)
			synctest.Wait()
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("facts were taken in %v", took)
		}
		if got := n.Lost(); got != 100 { // one is in the writer's hands
			t.Errorf("%d were lost, not 100", got)
		}
		o.SetAway(false)
		time.Sleep(time.Minute)
		if got := len(c.got()); got != queue.NotifyBuffer+1 {
			t.Errorf("%d were sent", got)
		}
		for i := range queues {
			fail(n, fmt.Sprint("q", i), 1)
			synctest.Wait()
		}
		if got := len(c.got()); got != queues {
			t.Errorf("%d were sent of %d", got, queues)
		}
	})
}

// TestAStopWritesWhatIsKnown, and no more than that when the outbox is away.
func TestAStopWritesWhatIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &outbox.Outbox{}
		hanging := &channel{ways: []string{ann}, send: func(ctx context.Context, _ *notify.Delivery) error {
			<-ctx.Done()
			return ctx.Err()
		}}
		n, stop := start(o, notify.Options{}, hanging)
		fail(n, "first", 3)
		synctest.Wait()
		o.SetAway(true)
		fail(n, "second", 3)
		synctest.Wait()
		o.SetAway(false)
		fail(n, "third", 3)
		began := time.Now()
		stop()
		if took := time.Since(began); took > queue.NotifyStopTime {
			t.Errorf("the stop took %v", took)
		}
		same(t, "states", states(t, o), "third "+ann+" waiting 0 ", "second "+ann+" waiting 0 ", "first "+ann+" waiting 1 cut off by a stop")

		// The next start sends all of it at once.
		c := &channel{ways: []string{ann}}
		n, stop = start(o, notify.Options{}, c)
		synctest.Wait()
		same(t, "sent", c.got(), ann+": first"+threeFailed, ann+": second"+threeFailed, ann+": third"+threeFailed)
		o.SetAway(true)
		fail(n, "fourth", 3)
		began = time.Now()
		stop()
		if took := time.Since(began); took > queue.NotifyStopTime {
			t.Errorf("the stop took %v", took)
		}
	})
}

// TestAStopWaitsForATry: what a receiver is about to take is not sent to it twice.
func TestAStopWaitsForATry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &outbox.Outbox{}
		c := &channel{ways: []string{ann}, send: func(ctx context.Context, _ *notify.Delivery) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Second):
				return nil
			}
		}}
		n, stop := start(o, notify.Options{}, c)
		fail(n, "jobs", 3)
		synctest.Wait()
		stop()
		same(t, "states", states(t, o), "jobs "+ann+" sent 1 ")
	})
}

// TestSentAndNotNoted: a notice whose sending the outbox does not hear of is sent again, as the same one.
func TestSentAndNotNoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &outbox.Outbox{}
		var ids []int64
		c := &channel{ways: []string{ann}, send: func(_ context.Context, d *notify.Delivery) error {
			ids = append(ids, d.ID)
			o.SetAway(len(ids) == 1)
			return nil
		}}
		n, stop := start(o, notify.Options{}, c)
		defer stop()
		fail(n, "jobs", 3)
		synctest.Wait()
		o.SetAway(false)
		time.Sleep(queue.NotifyLease + time.Minute)
		synctest.Wait()
		if len(ids) != 2 || ids[0] != ids[1] {
			t.Errorf("sent the notices %v", ids)
		}
		same(t, "states", states(t, o), "jobs "+ann+" sent 2 ")
	})
}

// TestADeadNode: what a node had claimed when it died is sent by another one after the lease.
func TestADeadNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &outbox.Outbox{}
		notice := &notify.Notice{Rule: notify.QueueFailed, At: time.Now(), Queue: "jobs", Count: 3}
		if _, err := o.Add(t.Context(), notice, []string{ann}, 10); err != nil {
			t.Fatal(err)
		}
		if d, _, err := o.Claim(t.Context(), []string{ann}, queue.NotifyLease); d == nil || err != nil {
			t.Fatal(d, err)
		}
		c := &channel{ways: []string{ann}}
		_, stop := start(o, notify.Options{}, c)
		defer stop()
		time.Sleep(queue.NotifyLease - time.Second)
		same(t, "sent while it may live", c.got())
		time.Sleep(2 * time.Second)
		same(t, "sent", c.got(), ann+": jobs"+threeFailed)
	})
}

// TestASlowChannelHoldsUpNoOther.
func TestASlowChannelHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &outbox.Outbox{}
		slow := &channel{ways: []string{ann}, send: func(ctx context.Context, _ *notify.Delivery) error {
			select {
			case <-ctx.Done():
			case <-time.After(queue.NotifyTime):
			}
			return errors.New("too late")
		}}
		quick := &channel{ways: []string{"webhook example.com"}}
		n, stop := start(o, notify.Options{}, slow, quick)
		defer stop()
		fail(n, "jobs", 3)
		synctest.Wait()
		same(t, "sent", quick.got(), "webhook example.com: jobs"+threeFailed)
	})
}

// TestAges: the ages are looked at once a minute, when they have to be.
func TestAges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		oldest := time.Now()
		ages := func(context.Context) []notify.Age {
			looks++
			return []notify.Age{{Database: "shop", Queue: "jobs", At: time.Now(), Oldest: oldest}}
		}
		o, c := &outbox.Outbox{}, &channel{ways: []string{ann}}
		_, stop := start(o, notify.Options{Ages: ages}, c)
		time.Sleep(time.Hour)
		stop()
		if looks != 0 {
			t.Errorf("looked %d times with the rule off", looks)
		}
		oldest = time.Now()
		_, stop = start(o, notify.Options{Ages: ages, Rules: notify.Settings{Old: 10*time.Minute - time.Second}}, c)
		time.Sleep(time.Hour - time.Second)
		stop()
		if looks != 60 {
			t.Errorf("looked %d times in an hour", looks)
		}
		same(t, "sent", c.got(), ann+": jobs: the oldest message has waited 10 min")
	})
}
