package broker_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/runlot/runlot/internal/adapter/memory"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker"
	"github.com/runlot/runlot/internal/engine/broker/operate"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// remove ends a queue that has to be there.
func (r *rig) remove(queueName string) store.Count {
	r.t.Helper()
	gone, err := r.b.RemoveQueue(r.t.Context(), queueName, nil)
	check(r.t, err)
	return gone
}

// TestARemovedQueueIsGone: nothing of it is delivered, shown, moved or settled any more, and a queue made anew under its name
// sees nothing of it, also after a restart.
func TestARemovedQueueIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, broker.Bounds{ExpireRows: 2})
		for range 3 {
			r.send("a", draft("1"), draft("2"), delayed("3", time.Minute))
		}
		check(t, r.db.Enqueue("a", "4", 0))
		r.send("b", draft("b"))
		check(t, r.b.Pause(t.Context(), "b"))
		l := r.lane("a")
		batch, _ := next(t, l, 2, 0)
		waiting := make(chan error, 1)
		go func() {
			_, err := l.Next(t.Context(), 100, time.Hour)
			waiting <- err
		}()
		synctest.Wait()
		if gone := r.remove("a"); gone.Messages != 10 {
			t.Errorf("%d messages are gone, want 10", gone.Messages)
		}
		wantFault(t, <-waiting, fault.NotFound, queue.CodeQueueNotFound)
		check(t, settle(l, batch, decide(batch, queue.Retry, 0)))
		_, err := r.b.Send(t.Context(), "a", []queue.Draft{draft("5")})
		wantFault(t, err, fault.NotFound, queue.CodeQueueNotFound)
		if err := r.db.Enqueue("a", "6", 0); err == nil {
			t.Error("SQL sends to it")
		}
		_, err = r.b.RemoveQueue(t.Context(), "a", nil)
		wantFault(t, err, fault.NotFound, queue.CodeQueueNotFound)
		if names := r.b.Queues(); !slices.Equal(names, []string{"b", "dead"}) {
			t.Errorf("there are %v", names)
		}
		l.Close()
		for range 2 {
			check(t, r.b.Declare(t.Context(), []string{"a"}))
			if got := r.contents("a", operate.Any); len(got) != 0 {
				t.Errorf("the queue made anew holds %v", got)
			}
			m, err := r.b.Metrics(t.Context(), "a")
			check(t, err)
			if m.Count != 0 || m.Bytes != 0 {
				t.Errorf("it counts %+v", m)
			}
			check(t, r.b.Stop(t.Context()))
			r.restart(broker.Bounds{ExpireRows: 2})
			<-r.b.Counted()
		}
		r.send("a", draft("7"))
		if _, got := next(t, r.lane("a"), 10, 0); !slices.Equal(got, []string{"7"}) {
			t.Errorf("it delivers %v", got)
		}
		time.Sleep(time.Hour)
		if messages, _ := r.db.Size(); messages != 2 {
			t.Errorf("the store has %d messages, want the two of queues that are there", messages)
		}
	})
}

// TestSendsAgainstARemoval: each of the sends under way was committed before, and is counted as deleted, or is refused.
func TestSendsAgainstARemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, broker.Bounds{GroupRows: 3})
		r.watch(func(call string, _ int) memory.Fault {
			if call == "Append" {
				return memory.Fault{Before: 10 * time.Millisecond, After: 10 * time.Millisecond}
			}
			return memory.Fault{}
		})
		const senders = 40
		outcomes := make(chan error, senders)
		for i := range senders {
			go func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				_, err := r.b.Send(t.Context(), "a", []queue.Draft{draft("1")})
				outcomes <- err
			}()
		}
		time.Sleep(45 * time.Millisecond)
		gone := r.remove("a")
		accepted := int64(0)
		for range senders {
			if err := <-outcomes; err == nil {
				accepted++
			} else {
				wantFault(t, err, fault.NotFound, queue.CodeQueueNotFound)
			}
		}
		if accepted != gone.Messages || accepted == 0 || accepted == senders {
			t.Errorf("%d of %d sends were accepted and %d messages deleted", accepted, senders, gone.Messages)
		}
	})
}

// TestARemovalWaits: a transaction of SQL's that is open keeps the queue for a while; then the queue stays as it was.
func TestARemovalWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, broker.Bounds{})
		r.send("a", draft("1"))
		end := r.db.Hold("a")
		began := time.Now()
		_, err := r.b.RemoveQueue(t.Context(), "a", func() { t.Error("it was forgotten") })
		wantFault(t, err, fault.Conflict, store.CodeQueueBusy)
		if waited := time.Since(began); waited < queue.RemoveTime {
			t.Errorf("it waited %s", waited)
		}
		r.send("a", draft("2"))
		if got := r.contents("a", operate.Any); len(got) != 2 {
			t.Errorf("the queue holds %v", got)
		}
		time.AfterFunc(time.Second, end)
		forgotten := false
		_, err = r.b.RemoveQueue(t.Context(), "a", func() {
			forgotten = true
			wantFault(t, r.b.Declare(t.Context(), []string{"a"}), fault.Unavailable, queue.CodeOverloaded)
			_, err := r.b.RemoveQueue(t.Context(), "a", nil)
			wantFault(t, err, fault.Conflict, store.CodeQueueBusy)
		})
		check(t, err)
		if !forgotten {
			t.Error("nobody was told")
		}
	})
}

// TestMovesAgainstARemoval: what is moved to or from a queue that ended stays where it was, or goes into the one that is made
// anew; none of it ends with the queue that was.
func TestMovesAgainstARemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, broker.Bounds{OperateRows: 1})
		r.send("a", draft("1"), draft("2"), draft("3"))
		first := true
		moved, err := r.b.Redrive(t.Context(), "a", operate.RedriveOptions{To: "b", Progress: func(operate.Redriven) {
			if first {
				first = false
				r.remove("b")
			}
		}})
		wantFault(t, err, fault.NotFound, queue.CodeQueueNotFound)
		if got := r.contents("a", operate.Any); moved.Moved != 1 || len(got) != 2 {
			t.Errorf("%d were moved and %v stayed", moved.Moved, got)
		}
		l := r.lane("a")
		batch, _ := next(t, l, 2, 0)
		hold := make(chan struct{})
		r.watch(func(call string, n int) memory.Fault {
			if call == "Apply" && n == 1 {
				return memory.Fault{Hold: hold, Err: unavailable()}
			}
			return memory.Fault{}
		})
		done := make(chan error, 1)
		l.Settle(batch, decide(batch, queue.DeadLetter, 0), "dead", func(err error) { done <- err })
		synctest.Wait()
		removed := make(chan struct{})
		go func() {
			defer close(removed)
			r.remove("dead")
		}()
		synctest.Wait()
		close(hold)
		check(t, <-done)
		<-removed
		r.watch(func(string, int) memory.Fault { return memory.Fault{} })
		r.send("a", draft("4"))
		batch, _ = next(t, l, 1, 0)
		check(t, settle(l, batch, decide(batch, queue.DeadLetter, 0)))
		if got := r.contents("dead", operate.Any); !slices.Equal(got, []string{"4"}) {
			t.Errorf("the dead-letter queue holds %v", got)
		}
		// A redrive that began before goes on with nothing of what was.
		run, err := r.b.Bulk(t.Context(), "dead", operate.BulkOptions{Kind: operate.BulkRedrive, To: "a"})
		check(t, err)
		r.remove("dead")
		for !run.Over() {
			d, err := run.Step(context.Background(), 10)
			if err != nil {
				wantFault(t, err, fault.NotFound, queue.CodeQueueNotFound)
				return
			}
			if d.Done != 0 {
				t.Fatalf("it moved %d messages", d.Done)
			}
		}
	})
}
