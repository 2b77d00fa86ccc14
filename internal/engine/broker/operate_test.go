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
	"github.com/runlot/runlot/internal/engine/broker/operate"
)

// peek returns every message of a state, in pages of two.
func (r *rig) peek(queueName string, state operate.State) []operate.Message {
	r.t.Helper()
	var all []operate.Message
	for p := (operate.PeekOptions{State: state, Rows: 2}); ; {
		page, err := r.b.Peek(r.t.Context(), queueName, p)
		check(r.t, err)
		if len(page.Messages) > 2 {
			r.t.Errorf("a page of %d messages", len(page.Messages))
		}
		all = append(all, page.Messages...)
		if p.Cursor = page.Next; p.Cursor == "" {
			return all
		}
	}
}

// contents are the bodies of what is in a queue.
func (r *rig) contents(queueName string, state operate.State) []string {
	r.t.Helper()
	messages := r.peek(queueName, state)
	list := make([]string, len(messages))
	for i := range messages {
		list[i] = string(messages[i].Body)
	}
	return list
}

func (r *rig) ids(queueName string, bodies ...string) []queue.ID {
	r.t.Helper()
	byBody := map[string]queue.ID{}
	for _, m := range r.peek(queueName, operate.Any) {
		byBody[string(m.Body)] = m.ID
	}
	ids := make([]queue.ID, len(bodies))
	for i, body := range bodies {
		ids[i] = byBody[body]
	}
	return ids
}

// nothing checks that a lane gives nothing for three hours.
func nothing(t *testing.T, l *broker.Lane) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Hour)
	defer cancel()
	if batch, err := l.Next(ctx, 10, 0); err == nil {
		t.Errorf("%v came", bodies(batch))
	}
}

// tiny bounds every step and window to a few messages.
var tiny = broker.Bounds{LaneRows: 4, DueRows: 3, ReadRows: 3, OperateRows: 3, ExpireRows: 3}

func TestPeek(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, tiny)
		r.send("a", draft("v1"), delayed("d2", 2*time.Hour), delayed("v2", time.Second), delayed("d1", time.Hour))
		time.Sleep(time.Minute)
		r.send("a", drafts(5)...)
		want := func(state operate.State, bodies ...string) {
			t.Helper()
			wantBodies(t, append([]string{}, r.contents("a", state)...), bodies...)
		}
		want(operate.Any, "v1", "v2", "0", "1", "2", "3", "4", "d1", "d2")
		want(operate.Visible, "v1", "v2", "0", "1", "2", "3", "4")
		want(operate.Delayed, "d1", "d2")
		wantBodies(t, r.contents("a", operate.InFlight), []string{}...)
		l := r.lane("a")
		batch, _ := next(t, l, 4, 0)
		want(operate.InFlight, bodies(batch)...)
		want(operate.Any, "v1", "v2", "0", "1", "2", "3", "4", "d1", "d2")
		want(operate.Visible, "2", "3", "4")
		again := decide(batch, queue.Retry, 30*time.Minute)
		for i := range again {
			again[i].Outcome, again[i].Reason = queue.Failed, "no\x00 url"
		}
		check(t, settle(l, batch, again))
		want(operate.Delayed, "v1", "v2", "0", "1", "d1", "d2")
		// Looking was no delivery.
		_, got := next(t, l, 3, 0)
		wantBodies(t, got, "2", "3", "4")

		m := r.peek("a", operate.Delayed)[0]
		one, err := r.b.Message(t.Context(), "a", m.ID)
		check(t, err)
		if diff := cmp.Diff(m, one); diff != "" {
			t.Errorf("by id (-page +one):\n%s", diff)
		}
		if m.Retried.Outcome != queue.Failed || m.Retried.Reason != "no url" || r.peek("a", operate.Delayed)[5].Retried.Outcome != "" {
			t.Errorf("why it waits: %+v", m.Retried)
		}
		if m.Attempts != 1 || m.Size != 2 || m.Format != queue.JSON || m.State != operate.Delayed || m.VisibleAt.Sub(m.SentAt) != 31*time.Minute {
			t.Errorf("a retried message: %+v", m)
		}
	})
}

func TestPeekIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, broker.Bounds{})
		r.send("a", draft(strings.Repeat("x", 30)), draft("yy"), draft("zz"), delayed("late", time.Hour))
		page, err := r.b.Peek(t.Context(), "a", operate.PeekOptions{Bytes: 4})
		check(t, err)
		if len(page.Messages) != 1 || page.Messages[0].Size != 30 {
			t.Fatalf("a page of 4 bytes: %d messages", len(page.Messages))
		}
		page, err = r.b.Peek(t.Context(), "a", operate.PeekOptions{Bytes: 4, Cursor: page.Next})
		check(t, err)
		if len(page.Messages) != 2 {
			t.Errorf("the next page of 4 bytes: %d messages", len(page.Messages))
		}
		for _, p := range []operate.PeekOptions{
			{Cursor: "x"},
			{Cursor: page.Next, State: operate.Visible},
			{Cursor: page.Next + "AA"},
			{State: "other"},
			{Cursor: "AP________________________"},
		} {
			_, err := r.b.Peek(t.Context(), "a", p)
			wantFault(t, err, fault.Invalid, operate.CodeCursor)
		}
		_, err = r.b.Peek(t.Context(), "none", operate.PeekOptions{})
		wantFault(t, err, fault.NotFound, queue.CodeQueueNotFound)
		for _, id := range []queue.ID{{}, queue.NewID(1, page.Messages[0].ID.Seq())} {
			_, err = r.b.Message(t.Context(), "a", id)
			wantFault(t, err, fault.NotFound, operate.CodeMessageNotFound)
		}
		_, err = r.b.Message(t.Context(), "b", page.Messages[0].ID)
		wantFault(t, err, fault.NotFound, operate.CodeMessageNotFound)
	})
}

func TestPauseAndResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, tiny)
		l := r.lane("a")
		r.send("a", drafts(3)...)
		batch, _ := next(t, l, 1, 0)
		check(t, r.b.Pause(t.Context(), "a"))
		paused := time.Now().Truncate(time.Millisecond)
		r.send("a", draft("late"), delayed("later", time.Minute))
		check(t, settle(l, batch, decide(batch, queue.Retry, time.Second)))
		nothing(t, l)
		l.Close()
		check(t, r.b.Pause(t.Context(), "a"))
		check(t, r.b.Stop(t.Context()))
		_, err := r.b.PausedAt("none")
		wantFault(t, err, fault.NotFound, queue.CodeQueueNotFound)
		if err := r.b.Resume(t.Context(), "a"); err == nil {
			t.Error("a broker that was stopped resumes a queue")
		}

		r.restart(tiny)
		if at, err := r.b.PausedAt("a"); err != nil || !at.Equal(paused) {
			t.Errorf("paused at %s, %v, want %s", at, err, paused)
		}
		l = r.lane("a")
		nothing(t, l)
		r.send("b", draft("other"))
		_, got := next(t, r.lane("b"), 1, 0)
		wantBodies(t, got, "other")
		// A call that waits gets its batch when the queue is resumed.
		done := make(chan []string, 1)
		go func() {
			batch, err := l.Next(context.Background(), 2, 0)
			if err == nil {
				done <- bodies(batch)
			}
		}()
		time.Sleep(time.Hour)
		check(t, r.b.Resume(t.Context(), "a"))
		wantBodies(t, <-done, "1", "2")
		if at, err := r.b.PausedAt("a"); err != nil || !at.IsZero() {
			t.Errorf("paused at %s, %v after it was resumed", at, err)
		}
	})
}

func TestPurge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, tiny)
		l := r.lane("a")
		r.send("a", drafts(10)...)
		r.send("a", delayed("due", time.Second), delayed("far", 2*time.Hour))
		r.send("b", draft("other"))
		flying, _ := next(t, l, 4, 0)
		retried, _ := next(t, l, 1, 0)
		check(t, settle(l, retried, decide(retried, queue.Retry, time.Minute)))
		time.Sleep(300 * time.Millisecond)
		check(t, r.db.Enqueue("a", `"sql"`, 0))
		check(t, r.db.Enqueue("b", `"sql"`, 0))
		var steps []operate.Purged
		p, err := r.b.Purge(t.Context(), "a", func(p operate.Purged) {
			if len(steps) == 0 {
				r.send("a", draft("new"), delayed("new and late", time.Hour))
			}
			steps = append(steps, p)
		})
		check(t, err)
		if p.Messages != 13 || p.Inbox != 1 || p.Bytes != 10+3+3+5 {
			t.Errorf("purged %+v, want 13 messages of 21 bytes, one of them in the inbox", p)
		}
		if len(steps) < 5 || steps[len(steps)-1] != p {
			t.Errorf("progress %+v", steps)
		}
		// An ack, a retry and a dead letter of what was in flight change nothing.
		decisions := decide(flying, queue.Retry, 0)
		decisions[0].Verdict, decisions[1].Verdict = queue.DeadLetter, queue.Ack
		check(t, settle(l, flying, decisions))
		wantBodies(t, r.contents("a", operate.Any), "new", "new and late")
		wantBodies(t, r.contents("dead", operate.Any), []string{}...)
		_, got := next(t, l, 5, time.Second)
		wantBodies(t, got, "new")
		if m, err := r.b.Metrics(t.Context(), "a"); err != nil || m.Count != 2 {
			t.Errorf("metrics %+v, %v", m, err)
		}
		time.Sleep(time.Second)
		wantBodies(t, r.contents("b", operate.Any), "other", `"sql"`)
		again, err := r.b.Purge(t.Context(), "b", nil)
		check(t, err)
		if again.Messages != 2 {
			t.Errorf("purged %+v of the other queue", again)
		}
	})
}

// TestPurgeIsMadeAtOnce: interrupted or crashed in the middle, a purge is made all the same.
func TestPurgeIsMadeAtOnce(t *testing.T) {
	for _, crash := range []bool{false, true} {
		t.Run(fmt.Sprintf("crash=%t", crash), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, tiny)
				time.Sleep(time.Second) // the first look at what outlived its retention is over
				for range 5 {
					r.send("a", drafts(20)...)
				}
				r.send("a", delayed("due", time.Second), delayed("far", 2*time.Hour))
				l := r.lane("a")
				left, _ := next(t, l, 2, 0)
				ctx, cancel := context.WithCancel(t.Context())
				steps := 0
				p, err := r.b.Purge(ctx, "a", func(operate.Purged) {
					if steps++; steps == 5 {
						cancel()
					}
				})
				if !errors.Is(err, context.Canceled) || p.Messages != 12 {
					t.Fatalf("purged %+v, %v, want 12 messages and the end of the context", p, err)
				}
				if crash {
					r.db.Crash(nil)
					<-r.b.Done()
					check(t, r.b.Stop(t.Context()))
					r.restart(tiny)
				} else {
					check(t, settle(l, left, decide(left, queue.Retry, 0)))
					l.Close()
					// What is left is deleted now, not with the next look at what outlived its retention.
					time.Sleep(queue.ExpireEvery / 2)
					if n, _ := r.db.Size(); n != 0 {
						t.Errorf("%d messages are stored, want none", n)
					}
				}
				r.send("a", draft("new"))
				wantBodies(t, r.contents("a", operate.Any), "new")
				l = r.lane("a")
				_, got := next(t, l, 5, time.Minute)
				wantBodies(t, got, "new")
				nothing(t, l)
				if n, _ := r.db.Size(); n != 1 {
					t.Errorf("%d messages are stored three hours later, want the new one", n)
				}
			})
		})
	}
}

func TestDeleteAndRetryNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, tiny)
		l := r.lane("a")
		r.send("a", draft("0"), draft("1"), draft("2"), delayed("d1", 2*time.Hour), delayed("d2", 2*time.Hour), delayed("d3", time.Minute))
		flying, _ := next(t, l, 1, 0)
		ids := r.ids("a", "0", "2", "d1", "d2", "1")
		stranger := queue.NewID(1, 2)
		got, err := r.b.RetryNow(t.Context(), "a", append(ids, stranger), "")
		check(t, err)
		want := operate.Chosen{Done: 2, InFlight: ids[:1], Unchanged: []queue.ID{ids[4], ids[1]}, Missing: []queue.ID{stranger}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("retry now (-want +got):\n%s", diff)
		}
		got, err = r.b.Delete(t.Context(), "a", append(r.ids("a", "0", "2", "d2"), stranger), "")
		check(t, err)
		want = operate.Chosen{Done: 2, InFlight: ids[:1], Missing: []queue.ID{stranger}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("delete (-want +got):\n%s", diff)
		}
		check(t, settle(l, flying, decide(flying, queue.Ack, 0)))
		batch, some := next(t, l, 4, 0)
		wantBodies(t, some, "1", "d1")
		ack(t, l, batch)
		time.Sleep(time.Minute)
		batch, some = next(t, l, 4, 0)
		wantBodies(t, some, "d3")
		ack(t, l, batch)
		nothing(t, l)
		_, err = r.b.Delete(t.Context(), "a", make([]queue.ID, queue.OperateIDs+1), "")
		wantFault(t, err, fault.Limit, operate.CodeTooManyIDs)
		if n, _ := r.db.Size(); n != 0 {
			t.Errorf("%d messages are left", n)
		}
	})
}

// TestRefusedVerbChangesNothing: what the store does not take is delivered as if nobody had asked.
func TestRefusedVerbChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, tiny)
		r.send("a", drafts(6)...)
		r.send("a", delayed("late", time.Hour))
		l := r.lane("a")
		first, _ := next(t, l, 1, 0)
		synctest.Wait()
		refuse := true
		r.watch(func(call string, _ int) memory.Fault {
			if call == "Apply" && refuse {
				return memory.Fault{Err: errors.New("refused")}
			}
			return memory.Fault{}
		})
		for name, verb := range map[string]func() error{
			"delete": func() error {
				_, err := r.b.Delete(t.Context(), "a", r.ids("a", "1", "2", "5", "late"), "x")
				return err
			},
			"retry now": func() error { _, err := r.b.RetryNow(t.Context(), "a", r.ids("a", "late"), "x"); return err },
			"redrive": func() error {
				_, err := r.b.Redrive(t.Context(), "a", operate.RedriveOptions{To: "b"})
				return err
			},
		} {
			if err := verb(); err == nil {
				t.Errorf("%s: no error", name)
			}
		}
		refuse = false
		// The lane's window is another one than when the first message was leased.
		l.Close()
		wantFault(t, settle(l, first, decide(first, queue.Ack, 0)), fault.Conflict, "lease_over")
		l = r.lane("a")
		got := []string{}
		for len(got) < 6 {
			batch, some := next(t, l, 10, 0)
			got = append(got, some...)
			ack(t, l, batch)
		}
		wantBodies(t, got, "0", "1", "2", "3", "4", "5")
		time.Sleep(time.Hour)
		_, some := next(t, l, 10, 0)
		wantBodies(t, some, "late")
	})
}

// TestReadUnderAVerb: a read that saw a message before it was deleted, and ends after, does not bring it back.
func TestReadUnderAVerb(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, tiny)
		r.send("a", drafts(10)...)
		ids := r.ids("a", "5")
		l := r.lane("a")
		synctest.Wait()
		r.watch(func(call string, _ int) memory.Fault {
			switch call {
			case "Apply":
				return memory.Fault{Before: 500 * time.Millisecond}
			case "ReadReady":
				return memory.Fault{After: time.Second}
			}
			return memory.Fault{}
		})
		done := make(chan error, 1)
		go func() {
			_, err := r.b.Delete(t.Context(), "a", ids, "")
			done <- err
		}()
		time.Sleep(100 * time.Millisecond)
		got := []string{}
		for len(got) < 9 {
			_, some := next(t, l, 3, 0)
			got = append(got, some...)
		}
		check(t, <-done)
		wantBodies(t, got, "0", "1", "2", "3", "4", "6", "7", "8", "9")
		nothing(t, l)
	})
}

func TestRetentionIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		expired := map[string]int{}
		r := start(t, tiny)
		check(t, r.b.SetRetention(t.Context(), "a", 3*time.Hour))
		check(t, r.b.OverrideRetention(t.Context(), "b", time.Hour))
		for _, d := range []time.Duration{time.Second, -time.Hour, 15 * 24 * time.Hour} {
			wantFault(t, r.b.OverrideRetention(t.Context(), "b", d), fault.Invalid, queue.CodeMetadataInvalid)
		}
		check(t, r.b.Stop(t.Context()))
		b := broker.New(broker.Options{Store: r.db.Open(), Bounds: tiny, Expired: func(name string, n int) {
			mu.Lock()
			defer mu.Unlock()
			expired[name] += n
		}})
		check(t, b.Start(t.Context()))
		r.b = b
		t.Cleanup(func() { check(t, b.Stop(context.Background())) })
		// The consumer of b has another wish, which does not count.
		check(t, b.SetRetention(t.Context(), "b", 150*time.Minute))
		for _, name := range []string{"a", "b", "dead"} {
			r.send(name, drafts(7)...)
		}
		counts := func(a, bb, dead int) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if diff := cmp.Diff(map[string]int{"a": a, "b": bb, "dead": dead}, map[string]int{"a": expired["a"], "b": expired["b"], "dead": expired["dead"]}); diff != "" {
				t.Errorf("expired (-want +got):\n%s", diff)
			}
		}
		time.Sleep(time.Hour + 3*queue.ExpireEvery)
		counts(0, 7, 0)
		check(t, b.OverrideRetention(t.Context(), "b", 0))
		r.send("b", draft("x"))
		time.Sleep(2 * time.Hour)
		counts(7, 7, 0)
		time.Sleep(30*time.Minute + 3*queue.ExpireEvery)
		counts(7, 8, 0)
	})
}
