package broker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	list := []string{}
	for _, m := range r.peek(queueName, state) {
		list = append(list, string(m.Body))
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

// bury sends messages to a queue and dead-letters them with a reason.
func (r *rig) bury(queueName string, l *broker.Lane, reason string, names ...string) {
	r.t.Helper()
	for _, name := range names {
		r.send(queueName, draft(name))
	}
	batch, _ := next(r.t, l, len(names), time.Second)
	decisions := decide(batch, queue.DeadLetter, 0)
	for i := range decisions {
		decisions[i].Reason = reason
	}
	check(r.t, settle(l, batch, decisions))
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
		check(t, settle(l, batch, decide(batch, queue.Retry, 30*time.Minute)))
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
			{Cursor: "x"}, {Cursor: page.Next, State: operate.Visible}, {Cursor: page.Next + "AA"}, {State: "other"},
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

func TestRedrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, tiny)
		l, other, dead := r.lane("a"), r.lane("b"), r.lane("dead")
		for i := range 6 {
			r.bury("a", l, "Error: no\x00\xff", fmt.Sprintf("%d-0", i), fmt.Sprintf("%d-1", i))
		}
		before := r.peek("dead", operate.Any)
		if m := before[0]; m.Source != "a" || m.Reason != "Error: no" {
			t.Errorf("a dead letter of %q for %q", m.Source, m.Reason)
		}
		flying, _ := next(t, dead, 2, 0)
		tried, _ := next(t, dead, 1, 0)
		check(t, settle(dead, tried, decide(tried, queue.Retry, time.Hour)))
		var told operate.Redriven
		done, err := r.b.Redrive(t.Context(), "dead", operate.RedriveOptions{Progress: func(p operate.Redriven) {
			if told.Moved == 0 {
				r.bury("b", other, "", "after the call")
			}
			told = p
		}})
		check(t, err)
		if done.Moved != 10 || done.InFlight != 2 || told.Moved != 10 {
			t.Errorf("redriven %+v, told %+v, want 10 and 2 in flight", done, told)
		}
		wantBodies(t, r.contents("dead", operate.Any), append(bodies(flying), "after the call")...)
		after := r.peek("a", operate.Any)
		slices.SortFunc(after, func(x, y operate.Message) int { return strings.Compare(string(x.Body), string(y.Body)) })
		for i, m := range after {
			was := before[i+2]
			if m.ID != was.ID || string(m.Body) != string(was.Body) || !m.SentAt.Equal(was.SentAt) || m.Attempts != 0 || m.Source != "" {
				t.Errorf("%+v was %+v", m, was)
			}
		}
		got := []string{}
		for len(got) < 10 {
			batch, some := next(t, l, 4, 0)
			if batch.Messages[0].Attempts() != 1 {
				t.Errorf("attempt %d", batch.Messages[0].Attempts())
			}
			got = append(got, some...)
			ack(t, l, batch)
		}
		nothing(t, l)
		check(t, settle(dead, flying, decide(flying, queue.Ack, 0)))
		batch, some := next(t, dead, 4, 0)
		wantBodies(t, some, "after the call")
		ack(t, dead, batch)
		for _, name := range []string{"a", "dead"} {
			if m, err := r.b.Metrics(t.Context(), name); err != nil || m.Count != 0 || m.Bytes != 0 {
				t.Errorf("metrics of %s: %+v, %v", name, m, err)
			}
		}
	})
}

func TestRedriveRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, tiny)
		r.bury("a", r.lane("a"), "", "1", "2", "3", "4")
		r.send("dead", draft("direct"))
		redrive := func(o operate.RedriveOptions) (operate.Redriven, error) { return r.b.Redrive(t.Context(), "dead", o) }
		_, err := redrive(operate.RedriveOptions{})
		wantFault(t, err, fault.Conflict, operate.CodeNoSource)
		_, err = redrive(operate.RedriveOptions{IDs: r.ids("dead", "1", "direct")})
		wantFault(t, err, fault.Conflict, operate.CodeNoSource)
		_, err = redrive(operate.RedriveOptions{To: "dead"})
		wantFault(t, err, fault.Conflict, operate.CodeOntoItself)
		_, err = redrive(operate.RedriveOptions{To: "none"})
		wantFault(t, err, fault.NotFound, queue.CodeQueueNotFound)
		_, err = redrive(operate.RedriveOptions{IDs: make([]queue.ID, queue.OperateIDs+1)})
		wantFault(t, err, fault.Limit, operate.CodeTooManyIDs)
		wantBodies(t, r.contents("dead", operate.Any), "1", "2", "3", "4", "direct")

		// By id, where all sources are known, and to a queue that is named.
		stranger := queue.NewID(1, 2)
		done, err := redrive(operate.RedriveOptions{IDs: append(r.ids("dead", "4", "1", "1", "2", "3"), stranger)})
		check(t, err)
		if diff := cmp.Diff(operate.Redriven{Moved: 4, Missing: []queue.ID{stranger}}, done); diff != "" {
			t.Errorf("redriven by id (-want +got):\n%s", diff)
		}
		wantBodies(t, r.contents("a", operate.Any), "1", "2", "3", "4")
		done, err = redrive(operate.RedriveOptions{To: "b"})
		check(t, err)
		if done.Moved != 1 {
			t.Errorf("redriven %+v to a queue", done)
		}
		wantBodies(t, r.contents("b", operate.Any), "direct")
	})
}

func TestRedriveKeepsToItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, broker.Bounds{})
		for range 10 {
			r.send("dead", drafts(100)...)
		}
		began := time.Now()
		done, err := r.b.Redrive(t.Context(), "dead", operate.RedriveOptions{To: "a", Rate: 50})
		check(t, err)
		if took := time.Since(began); done.Moved != 1000 || took != 20*time.Second {
			t.Errorf("%d were moved in %s, want 1000 in 20 s", done.Moved, took)
		}
		for range 10 {
			r.send("dead", drafts(100)...)
		}
		// Interrupted, what was moved stays moved and the rest stays.
		ctx, cancel := context.WithTimeout(t.Context(), 4500*time.Millisecond)
		defer cancel()
		done, err = r.b.Redrive(ctx, "dead", operate.RedriveOptions{To: "b", Rate: 100})
		if !errors.Is(err, context.DeadlineExceeded) || done.Moved != 500 {
			t.Errorf("%d were moved, then %v", done.Moved, err)
		}
		for name, want := range map[string]int64{"b": 500, "dead": 500} {
			if m, err := r.b.Metrics(t.Context(), name); err != nil || m.Count != want {
				t.Errorf("%s holds %d, %v, want %d", name, m.Count, err, want)
			}
		}
	})
}

func TestDeleteAndRetryNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, tiny)
		l := r.lane("a")
		r.send("a", draft("0"), draft("1"), draft("2"), delayed("d1", 2*time.Hour), delayed("d2", 2*time.Hour), delayed("d3", time.Minute))
		flying, _ := next(t, l, 1, 0)
		ids := r.ids("a", "0", "2", "d1", "d2", "1")
		stranger := queue.NewID(1, 2)
		got, err := r.b.RetryNow(t.Context(), "a", append(ids, stranger))
		check(t, err)
		want := operate.Chosen{Done: 2, InFlight: ids[:1], Unchanged: []queue.ID{ids[4], ids[1]}, Missing: []queue.ID{stranger}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("retry now (-want +got):\n%s", diff)
		}
		got, err = r.b.Delete(t.Context(), "a", append(r.ids("a", "0", "2", "d2"), stranger))
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
		_, err = r.b.Delete(t.Context(), "a", make([]queue.ID, queue.OperateIDs+1))
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
			"delete":    func() error { _, err := r.b.Delete(t.Context(), "a", r.ids("a", "1", "2", "5", "late")); return err },
			"retry now": func() error { _, err := r.b.RetryNow(t.Context(), "a", r.ids("a", "late")); return err },
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

func TestRetentionIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		expired := map[string]int{}
		r := start(t, tiny)
		check(t, r.b.SetRetention(t.Context(), "a", 14*24*time.Hour))
		check(t, r.b.OverrideRetention(t.Context(), "b", time.Hour))
		for _, d := range []time.Duration{time.Second, -time.Hour, 15 * 24 * time.Hour} {
			wantFault(t, r.b.OverrideRetention(t.Context(), "b", d), fault.Invalid, queue.CodeMetadataInvalid)
		}
		check(t, r.b.Stop(t.Context()))
		b := broker.New(broker.Options{Store: r.db.Open(), Bounds: tiny, Expired: func(name string, n int) { expired[name] += n }})
		check(t, b.Start(t.Context()))
		r.b = b
		t.Cleanup(func() { check(t, b.Stop(context.Background())) })
		// The consumer of b has another wish, which does not count.
		check(t, b.SetRetention(t.Context(), "b", 10*24*time.Hour))
		for _, name := range []string{"a", "b", "dead"} {
			r.send(name, drafts(7)...)
		}
		counts := func(a, bb, dead int) {
			t.Helper()
			synctest.Wait()
			if diff := cmp.Diff(map[string]int{"a": a, "b": bb, "dead": dead}, map[string]int{"a": expired["a"], "b": expired["b"], "dead": expired["dead"]}); diff != "" {
				t.Errorf("expired (-want +got):\n%s", diff)
			}
		}
		time.Sleep(time.Hour + 3*queue.ExpireEvery)
		counts(0, 7, 0)
		time.Sleep(queue.DefaultRetention)
		counts(0, 7, 7)
		check(t, b.OverrideRetention(t.Context(), "b", 0))
		r.send("b", draft("x"))
		time.Sleep(9 * 24 * time.Hour)
		counts(0, 7, 7)
		time.Sleep(24*time.Hour + 3*queue.ExpireEvery)
		counts(7, 8, 7)
	})
}
