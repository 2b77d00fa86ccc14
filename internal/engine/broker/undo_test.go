package broker_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker"
	"github.com/runlot/runlot/internal/engine/broker/operate"
	"github.com/runlot/runlot/internal/engine/broker/undo"
)

// undo undoes an action and returns what became of its messages, in numbers.
func (r *rig) undo(queueName, action string) string {
	r.t.Helper()
	done, err := r.b.Undo(r.t.Context(), queueName, action, nil)
	check(r.t, err)
	return fmt.Sprintf("%s: %d done, %d in flight, %d changed, %d missing, %d forbidden",
		done.Kind, done.Done, len(done.InFlight), len(done.Changed), len(done.Missing), len(done.Forbidden))
}

func wantText(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// undoable are the actions of queue "a" that can be undone, with how many messages.
func (r *rig) undoable() []string {
	r.t.Helper()
	list, err := r.b.Undoable(r.t.Context(), "a")
	check(r.t, err)
	texts := make([]string, len(list))
	for i, a := range list {
		texts[i] = fmt.Sprintf("%s %s %d", a.ID, a.Kind, a.Messages)
	}
	return texts
}

func TestUndoOfADeletion(t *testing.T) {
	for _, open := range []bool{true, false} {
		t.Run(fmt.Sprintf("lane open %t", open), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, tiny)
				r.send("a", append(drafts(7), delayed("late", time.Hour))...)
				l := r.lane("a")
				batch, _ := next(t, l, 2, 0)
				check(t, settle(l, batch, decide(batch, queue.Retry, 30*time.Minute)))
				if !open {
					l.Close()
				}
				before := r.peek("a", operate.Any)
				names := []string{"0", "1", "4", "6", "late"}
				_, err := r.b.Delete(t.Context(), "a", r.ids("a", names...), "x")
				check(t, err)
				wantBodies(t, r.contents("a", operate.Any), "2", "3", "5")
				if diff := cmp.Diff([]string{"x delete 5"}, r.undoable()); diff != "" {
					t.Errorf("what can be undone (-want +got):\n%s", diff)
				}
				time.Sleep(10 * time.Minute)
				r.send("a", draft("after"))
				wantText(t, r.undo("a", "x"), "delete: 5 done, 0 in flight, 0 changed, 0 missing, 0 forbidden")
				after := map[queue.ID]operate.Message{}
				for _, m := range r.peek("a", operate.Any) {
					after[m.ID] = m
				}
				for _, m := range before {
					if diff := cmp.Diff(m, after[m.ID]); diff != "" {
						t.Errorf("a message is not what it was (-want +got):\n%s", diff)
					}
				}
				if got, err := r.b.Overview(t.Context(), "a"); err != nil || got.Unsettled != 9 {
					t.Errorf("%d messages, %v", got.Unsettled, err)
				}
				if _, err := r.b.Undo(t.Context(), "a", "x", nil); err == nil {
					t.Error("it was undone twice")
				}
				// Each is delivered once.
				if !open {
					l = r.lane("a")
				}
				seen := map[string]int{}
				time.Sleep(2 * time.Hour)
				for range 9 {
					batch, got := next(t, l, 1, 0)
					seen[got[0]]++
					ack(t, l, batch)
				}
				nothing(t, l)
				if len(seen) != 9 {
					t.Errorf("delivered: %v", seen)
				}
			})
		})
	}
}

func TestUndoOfARetryNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, broker.Bounds{})
		l := r.lane("a")
		r.send("a", delayed("taken", 2*time.Hour), delayed("left", 3*time.Hour), delayed("tried", 2*time.Hour), delayed("gone", 2*time.Hour))
		check(t, r.b.Pause(t.Context(), "a"))
		_, err := r.b.RetryNow(t.Context(), "a", r.ids("a", "taken", "left", "tried", "gone"), "x")
		check(t, err)
		wantBodies(t, r.contents("a", operate.Visible), "taken", "left", "tried", "gone")
		check(t, r.b.Resume(t.Context(), "a"))
		taken, _ := next(t, l, 1, 0)
		batch, _ := next(t, l, 3, 0)
		decisions := decide(batch, queue.Retry, time.Minute)
		for i := range decisions {
			switch string(batch.Messages[i].Body) {
			case "left":
				decisions[i].Failures--
				decisions[i].Delay = 0
			case "gone":
				decisions[i].Verdict = queue.Ack
			}
		}
		check(t, r.b.Pause(t.Context(), "a"))
		check(t, settle(l, batch, decisions))
		// One was given back without having been tried, and waits as it did before.
		wantText(t, r.undo("a", "x"), "retry_now: 1 done, 1 in flight, 1 changed, 1 missing, 0 forbidden")
		check(t, r.b.Resume(t.Context(), "a"))
		ack(t, l, taken)

		r.send("b", delayed("b0", 2*time.Hour), delayed("b1", time.Minute))
		before := r.peek("b", operate.Any)
		_, err = r.b.RetryNow(t.Context(), "b", r.ids("b", "b0", "b1"), "y")
		check(t, err)
		wantText(t, r.undo("b", "y"), "retry_now: 2 done, 0 in flight, 0 changed, 0 missing, 0 forbidden")
		if diff := cmp.Diff(before, r.peek("b", operate.Any)); diff != "" {
			t.Errorf("they are not what they were (-want +got):\n%s", diff)
		}
		lb := r.lane("b")
		began := time.Now()
		batch, got := next(t, lb, 1, 0)
		wantBodies(t, got, "b1")
		ack(t, lb, batch)
		batch, got = next(t, lb, 1, 0)
		wantBodies(t, got, "b0")
		ack(t, lb, batch)
		if waited := time.Since(began); waited < 119*time.Minute {
			t.Errorf("b0 came after %s", waited)
		}
	})
}

func TestUndoOfARedrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, tiny)
		la, lb, dead := r.lane("a"), r.lane("b"), r.lane("dead")
		r.bury("a", la, "no a", "a0", "a1", "a2", "a3")
		r.bury("b", lb, "no b", "b0", "b1")
		tried, _ := next(t, dead, 1, 0)
		check(t, settle(dead, tried, decide(tried, queue.Retry, time.Hour)))
		before := r.peek("dead", operate.Any)
		check(t, r.b.Pause(t.Context(), "a"))
		check(t, r.b.Pause(t.Context(), "b"))
		done, err := r.b.Redrive(t.Context(), "dead", operate.RedriveOptions{Action: "x"})
		check(t, err)
		if done.Moved != 6 {
			t.Fatalf("%+v", done)
		}
		wantText(t, r.undo("dead", "x"), "redrive: 6 done, 0 in flight, 0 changed, 0 missing, 0 forbidden")
		if diff := cmp.Diff(before, r.peek("dead", operate.Any)); diff != "" {
			t.Errorf("they are not what they were (-want +got):\n%s", diff)
		}
		wantBodies(t, r.contents("a", operate.Any), []string{}...)

		// Late: one is in flight, one was tried, one is gone.
		_, err = r.b.Redrive(t.Context(), "dead", operate.RedriveOptions{Action: "y"})
		check(t, err)
		check(t, r.b.Resume(t.Context(), "a"))
		batch, _ := next(t, la, 1, 0)
		ack(t, la, batch)
		batch, _ = next(t, la, 1, 0)
		check(t, settle(la, batch, decide(batch, queue.Retry, time.Hour)))
		flying, _ := next(t, la, 1, 0)
		check(t, r.b.Pause(t.Context(), "a"))
		_, err = r.b.Undo(t.Context(), "dead", "z", nil)
		wantFault(t, err, fault.NotFound, undo.CodeUnknown)
		_, err = r.b.Undo(t.Context(), "none", "y", nil)
		wantFault(t, err, fault.NotFound, queue.CodeQueueNotFound)
		got, err := r.b.Undo(t.Context(), "dead", "y", func(name string) bool { return name == "a" })
		check(t, err)
		if got.Done != 1 || len(got.InFlight) != 1 || got.InFlight[0] != flying.Messages[0].ID || len(got.Changed) != 1 || len(got.Missing) != 1 || len(got.Forbidden) != 2 {
			t.Errorf("a late one: %+v", got)
		}
		wantBodies(t, r.contents("b", operate.Any), "b0", "b1")
		if n := len(r.contents("dead", operate.Any)); n != 1 {
			t.Errorf("%d are back", n)
		}
		ack(t, la, flying)
	})
}

func TestUndoOfABulkRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, tiny)
		r.send("a", drafts(10)...)
		r.bulk("a", operate.BulkOptions{Kind: operate.BulkDelete, Filter: parse(t, "state:visible"), Action: "x"}, 3)
		wantBodies(t, r.contents("a", operate.Any), []string{}...)
		// What a caller does not wait for goes on with the next.
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := r.b.Undo(ctx, "a", "x", nil); !errors.Is(err, context.Canceled) {
			t.Errorf("undone without a caller: %v", err)
		}
		wantText(t, r.undo("a", "x"), "delete: 10 done, 0 in flight, 0 changed, 0 missing, 0 forbidden")
		wantBodies(t, r.contents("a", operate.Any), "0", "1", "2", "3", "4", "5", "6", "7", "8", "9")
	})
}

func TestUndoIsOverInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, broker.Bounds{})
		r.send("a", drafts(3)...)
		remove := func(action string, names ...string) {
			t.Helper()
			_, err := r.b.Delete(t.Context(), "a", r.ids("a", names...), action)
			check(t, err)
		}
		remove("x", "0")
		time.Sleep(queue.UndoTime / 2)
		remove("y", "1")
		remove("", "2")
		if diff := cmp.Diff([]string{"y delete 1", "x delete 1"}, r.undoable()); diff != "" {
			t.Errorf("what can be undone (-want +got):\n%s", diff)
		}
		time.Sleep(queue.UndoTime/2 + time.Second)
		if diff := cmp.Diff([]string{"y delete 1"}, r.undoable()); diff != "" {
			t.Errorf("what can be undone later (-want +got):\n%s", diff)
		}
		_, err := r.b.Undo(t.Context(), "a", "x", nil)
		wantFault(t, err, fault.NotFound, undo.CodeUnknown)
		// The sweeper has dropped it from the store.
		time.Sleep(queue.UndoTime)
		notes := func(action string) int {
			t.Helper()
			list, err := r.db.Open().NotedMessages(t.Context(), 1, action, 0, 10)
			check(t, err)
			return len(list)
		}
		if notes("x")+notes("y") != 0 {
			t.Error("old notes are kept")
		}
		// A purge is for good, also for what was deleted before it.
		r.send("a", draft("3"))
		remove("z", "3")
		_, err = r.b.Purge(t.Context(), "a", nil)
		check(t, err)
		if len(r.undoable()) != 0 || notes("z") != 0 {
			t.Error("what was deleted before a purge can come back")
		}
		// What an earlier owner noted can be undone by the next.
		r.send("a", draft("4"))
		remove("w", "4")
		check(t, r.b.Stop(t.Context()))
		r.restart(broker.Bounds{})
		wantText(t, r.undo("a", "w"), "delete: 1 done, 0 in flight, 0 changed, 0 missing, 0 forbidden")
		wantBodies(t, r.contents("a", operate.Any), "4")
	})
}
