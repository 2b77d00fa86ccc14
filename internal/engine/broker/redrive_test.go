package broker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker"
	"github.com/runlot/runlot/internal/engine/broker/operate"
)

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
		slices.SortFunc(after, func(x, y operate.Message) int { return bytes.Compare(x.Body, y.Body) })
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
		done, err = redrive(operate.RedriveOptions{To: "b", Progress: func(p operate.Redriven) {
			if p.Moved == 1 {
				r.send("dead", draft("new"), delayed("new and late", time.Hour))
			}
		}})
		check(t, err)
		if done.Moved != 1 {
			t.Errorf("redriven %+v to a queue", done)
		}
		wantBodies(t, r.contents("b", operate.Any), "direct")
		wantBodies(t, r.contents("dead", operate.Any), "new", "new and late")
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
