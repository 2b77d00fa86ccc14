package pull_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/runlot/runlot/internal/adapter/memory"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker"
	"github.com/runlot/runlot/internal/engine/broker/operate"
	"github.com/runlot/runlot/internal/engine/pull"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// port is a broker as an engine takes it.
type port struct{ *broker.Broker }

func (p port) Lane(name string) (pull.Lane, error) { return p.Broker.Lane(name) }

func (p port) Acknowledge(ctx context.Context, name string, receipts []pull.Receipt) (leased, missing []queue.ID, err error) {
	list := make([]operate.Receipt, len(receipts))
	for i := range receipts {
		list[i] = operate.Receipt(receipts[i])
	}
	done, err := p.Broker.Acknowledge(ctx, name, list)
	return done.InFlight, done.Missing, err
}

// rig is an engine over a broker over a database in memory, with the queues "a", "b" and "dead".
type rig struct {
	t        testing.TB
	db       *memory.Database
	b        *broker.Broker
	e        *pull.Engine
	consumer queue.Consumer
}

func start(t testing.TB) *rig {
	t.Helper()
	r := &rig{t: t, db: memory.NewDatabase(), consumer: queue.Consumer{
		Queue: "a", MaxRetries: 2, DeadLetterQueue: "dead", Backoff: queue.Backoff{First: 10 * time.Second, Max: 10 * time.Second},
	}}
	r.restart()
	t.Cleanup(func() { r.stop() })
	return r
}

func (r *rig) restart() {
	r.t.Helper()
	r.b = broker.New(broker.Options{Store: r.db.Open()})
	r.check(r.b.Start(context.Background()))
	r.check(r.b.Declare(context.Background(), []string{"a", "b", "dead"}))
	<-r.b.Counted()
	r.e = pull.New(pull.Options{Broker: port{r.b}, Key: []byte("key")})
	r.e.Start(context.Background())
}

func (r *rig) stop() {
	r.e.Stop()
	_ = r.b.Stop(context.Background())
}

// crash ends the broker as the loss of its session does.
func (r *rig) crash() {
	r.db.Crash(nil)
	<-r.b.Done()
	r.stop()
}

func (r *rig) check(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(fault.Detail(err))
	}
}

func (r *rig) send(bodies ...string) {
	r.t.Helper()
	drafts := make([]queue.Draft, len(bodies))
	for i := range bodies {
		drafts[i] = queue.Draft{Format: queue.Text, Body: []byte(bodies[i])}
	}
	_, err := r.b.Send(context.Background(), "a", drafts)
	r.check(err)
}

// pull pulls without waiting.
func (r *rig) pull(n int, visibility time.Duration) []pull.Message {
	r.t.Helper()
	list, err := r.e.Pull(context.Background(), &r.consumer, pull.Request{Size: n, Visibility: visibility})
	r.check(err)
	return list
}

// want checks bodies and attempts, in any order.
func (r *rig) want(list []pull.Message, want ...string) {
	r.t.Helper()
	got := make([]string, len(list))
	for i := range list {
		got[i] = fmt.Sprintf("%s %d", list[i].Body, list[i].Attempts())
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" && len(want)+len(got) > 0 {
		r.t.Errorf("pulled (-want +got):\n%s", diff)
	}
}

func (r *rig) ack(leases ...string) pull.Done {
	r.t.Helper()
	d, err := r.e.Ack(context.Background(), "a", leases, nil)
	r.check(err)
	return d
}

// left is how many messages a queue holds.
func (r *rig) left(name string) int64 {
	r.t.Helper()
	m, err := r.b.Metrics(context.Background(), name)
	r.check(err)
	return m.Count
}

// warned checks the warnings by what they contain.
func warned(t testing.TB, d *pull.Done, acked, retried int, want map[string]string) {
	t.Helper()
	if d.Acked != acked || d.Retried != retried || len(d.Warnings) != len(want) {
		t.Errorf("%+v, want %d acked and %d retried with %v", d, acked, retried, want)
	}
	for lease, text := range want {
		if !strings.Contains(d.Warnings[lease], text) {
			t.Errorf("%s: %q, want %q", lease, d.Warnings[lease], text)
		}
	}
}

func TestAckAndRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		r.want(r.pull(10, time.Minute))
		r.send("1", "2", "3", "4")
		first := r.pull(3, time.Minute)
		r.want(first, "1 1", "2 1", "3 1")
		r.want(r.pull(3, time.Minute), "4 1")
		r.want(r.pull(3, time.Minute))
		d, err := r.e.Ack(t.Context(), "a", []string{first[0].Lease}, []pull.Retry{{Lease: first[1].Lease, Delay: new(time.Duration(0))}, {Lease: first[2].Lease}})
		r.check(err)
		warned(t, &d, 1, 2, nil)
		r.want(r.pull(10, time.Hour), "2 2")
		time.Sleep(10 * time.Second)
		r.want(r.pull(10, time.Hour), "3 2")
		if left := r.left("a"); left != 3 {
			t.Errorf("%d messages left", left)
		}
		time.Sleep(51 * time.Second)
		r.want(r.pull(10, time.Hour), "4 2")
	})
}

func TestALeaseRunsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		r.send("1")
		for attempt := 1; attempt <= 3; attempt++ {
			begin := time.Now()
			list, err := r.e.Pull(t.Context(), &r.consumer, pull.Request{Size: 1, Visibility: 5 * time.Second, Wait: time.Minute})
			r.check(err)
			r.want(list, fmt.Sprintf("1 %d", attempt))
			held, err := r.b.Peek(t.Context(), "a", operate.PeekOptions{State: operate.InFlight})
			r.check(err)
			until := held.Messages[0].LeasedAt.Add(5 * time.Second)
			if h := held.Messages[0].Holder; h == nil || *h != (queue.Holder{Until: until}) || !until.Equal(time.Now().Add(5*time.Second)) {
				t.Errorf("it is held by %+v", h)
			}
			if waited := time.Since(begin); attempt > 1 && waited.Round(time.Second) != 5*time.Second {
				t.Errorf("attempt %d came after %s", attempt, waited)
			}
		}
		time.Sleep(6 * time.Second)
		r.want(r.pull(1, time.Second))
		page, err := r.b.Peek(t.Context(), "dead", operate.PeekOptions{})
		r.check(err)
		if len(page.Messages) != 1 || page.Messages[0].Source != "a" || page.Messages[0].Reason != "its lease of 5 s ran out" {
			t.Errorf("dead letters %+v", page.Messages)
		}
	})
}

func TestLateAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		r.send("1", "2", "3", "4")
		old := r.pull(4, time.Second)
		time.Sleep(2 * time.Second)
		again := r.pull(2, time.Hour)
		r.want(again, "1 2", "2 2")
		// One that nobody else has, one that another has, one that is gone, and the same twice.
		d := r.ack(old[2].Lease, old[0].Lease, old[2].Lease)
		warned(t, &d, 2, 0, map[string]string{old[2].Lease: "", old[0].Lease: "lease was over"})
		d = r.ack(again[0].Lease, old[2].Lease)
		warned(t, &d, 2, 0, map[string]string{again[0].Lease: "no longer in the queue", old[2].Lease: "no longer in the queue"})
		// A late retry puts nothing off, and one of another's delivery neither.
		d, err := r.e.Ack(t.Context(), "a", nil, []pull.Retry{{Lease: old[3].Lease, Delay: new(time.Hour)}, {Lease: old[1].Lease, Delay: new(time.Hour)}})
		r.check(err)
		warned(t, &d, 0, 0, map[string]string{old[3].Lease: "without regard", old[1].Lease: "without regard"})
		r.want(r.pull(4, time.Hour), "4 2")
		d = r.ack(again[1].Lease)
		warned(t, &d, 1, 0, nil)
		if left := r.left("a"); left != 1 {
			t.Errorf("%d messages left", left)
		}
	})
}

func TestForeignLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		r.send("1")
		lease := r.pull(1, time.Hour)[0].Lease
		forged := lease[:len(lease)-4] + "AAAA"
		d := r.ack(forged, "", "?", strings.Repeat("A", len(lease)))
		if d.Acked != 0 || len(d.Warnings) != 4 {
			t.Errorf("%+v", d)
		}
		d, err := r.e.Ack(t.Context(), "b", []string{lease}, nil)
		r.check(err)
		warned(t, &d, 0, 0, map[string]string{lease: "no lease"})
		other := pull.New(pull.Options{Broker: port{r.b}, Key: []byte("another")})
		if d, err := other.Ack(t.Context(), "a", []string{lease}, nil); err != nil || d.Acked != 0 {
			t.Errorf("%+v, %v", d, err)
		}
		if left := r.left("a"); left != 1 {
			t.Errorf("%d messages left", left)
		}
	})
}

// TestARestart: leases are lost, cost no retry, and their acks are honoured all the same.
func TestARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		r.send("1", "2", "3")
		before := r.pull(3, time.Hour)
		r.crash()
		r.restart()
		d := r.ack(before[0].Lease)
		warned(t, &d, 1, 0, map[string]string{before[0].Lease: "deleted"})
		after := r.pull(3, time.Hour)
		r.want(after, "2 1", "3 1")
		d = r.ack(before[1].Lease, after[1].Lease)
		warned(t, &d, 2, 0, map[string]string{before[1].Lease: "deleted"})
		if left := r.left("a"); left != 0 {
			t.Errorf("%d messages left", left)
		}
	})
}

// TestAnAckIsOfOneStay: a message that left its queue and came back is not deleted by an ack from before.
func TestAnAckIsOfOneStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		r.consumer.MaxRetries = 0
		r.send("1")
		old := r.pull(1, time.Second)
		time.Sleep(2 * time.Second)
		_, err := r.b.Redrive(t.Context(), "dead", operate.RedriveOptions{})
		r.check(err)
		d := r.ack(old[0].Lease)
		warned(t, &d, 1, 0, map[string]string{old[0].Lease: "no longer in the queue"})
		r.want(r.pull(1, time.Hour), "1 1")
	})
}

func TestLongPolling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		wait := pull.Request{Size: 10, Visibility: time.Hour, Wait: 20 * time.Second}
		begin := time.Now()
		list, err := r.e.Pull(t.Context(), &r.consumer, wait)
		r.check(err)
		r.want(list)
		if waited := time.Since(begin); waited != wait.Wait {
			t.Errorf("waited %s for nothing", waited)
		}
		got := make(chan []pull.Message, queue.PullWaiting)
		for range queue.PullWaiting {
			go func() {
				list, err := r.e.Pull(context.Background(), &r.consumer, wait)
				if err != nil {
					t.Error(err)
				}
				got <- list
			}()
		}
		synctest.Wait()
		if _, err := r.e.Pull(t.Context(), &r.consumer, wait); fault.KindOf(err) != fault.Unavailable {
			t.Errorf("one more call waits: %v", err)
		}
		r.want(r.pull(1, time.Hour)) // a call that does not wait is answered
		time.Sleep(time.Second)
		r.send("1", "2")
		r.want(<-got, "1 1", "2 1")
		// A caller that goes away leaves nothing leased.
		ctx, cancel := context.WithCancel(t.Context())
		time.Sleep(wait.Wait)
		cancel()
		if _, err := r.e.Pull(ctx, &r.consumer, wait); err == nil {
			t.Error("a call of nobody is answered")
		}
	})
}

func TestWhatIsHeldIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		body := strings.Repeat("x", 128<<10)
		const all = queue.PullHeldBytes/(128<<10) + 2*queue.MaxBatchSize
		for range all {
			r.send(body)
		}
		held := 0
		var last []pull.Message
		for {
			list, err := r.e.Pull(t.Context(), &r.consumer, pull.Request{Size: queue.MaxBatchSize, Visibility: time.Hour})
			if err != nil {
				if f := fault.From(err); f.Code != queue.CodeOverloaded || f.Hint == "" {
					t.Errorf("refused with %v", err)
				}
				break
			}
			held += len(list)
			last = list
		}
		if bytes := held * len(body); bytes < queue.PullHeldBytes || bytes >= queue.PullHeldBytes+queue.MaxBatchSize*len(body) {
			t.Errorf("%d messages with %d bytes are held", held, bytes)
		}
		leases := make([]string, len(last))
		for i := range last {
			leases[i] = last[i].Lease
		}
		r.ack(leases...)
		if len(r.pull(1, time.Hour)) != 1 {
			t.Error("nothing is pulled after acks")
		}
	})
}

// TestEmptyPullsTakeNoRoom: what was asked for and not there does not count as held.
func TestEmptyPullsTakeNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		for range queue.PullHeld/queue.MaxBatchSize + 1 {
			r.want(r.pull(queue.MaxBatchSize, time.Hour))
		}
		r.send("1")
		r.want(r.pull(1, time.Hour), "1 1")
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		r.send("1")
		old := r.pull(1, time.Hour)
		r.e.Close("a")
		r.e.Close("a")
		again := r.pull(1, time.Hour)
		r.want(again, "1 1")
		d := r.ack(old[0].Lease)
		warned(t, &d, 1, 0, map[string]string{old[0].Lease: "deleted"})
		r.stop()
		if _, err := r.e.Pull(t.Context(), &r.consumer, pull.Request{Size: 1}); fault.KindOf(err) != fault.Unavailable {
			t.Errorf("an engine that was stopped: %v", err)
		}
		r.restart()
		if left := slices.Collect(maps.Keys(d.Warnings)); len(left) != 1 {
			t.Error(left)
		}
	})
}

// TestTheQueueIsDeleted: who waits is told, leases are good for nothing, and a queue made anew under the name is pulled from.
func TestTheQueueIsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		r.send("1")
		old := r.pull(1, time.Hour)
		waiting := make(chan error, 1)
		go func() {
			_, err := r.e.Pull(t.Context(), &r.consumer, pull.Request{Size: 1, Visibility: time.Hour, Wait: time.Hour})
			waiting <- err
		}()
		synctest.Wait()
		_, err := r.b.RemoveQueue(t.Context(), "a", nil)
		r.check(err)
		if err := <-waiting; fault.KindOf(err) != fault.NotFound {
			t.Errorf("who waits is told %v", err)
		}
		r.check(r.b.Declare(t.Context(), []string{"a"}))
		r.send("2")
		d := r.ack(old[0].Lease)
		warned(t, &d, 1, 0, map[string]string{old[0].Lease: "no longer in the queue"})
		r.want(r.pull(10, time.Hour), "2 1")
		if n := r.left("a"); n != 1 {
			t.Errorf("the queue made anew holds %d messages", n)
		}
	})
}
