package operations_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	memory "github.com/runlot/runlot/internal/adapter/memory/operations"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/operations"
)

// queues are the fake of what carries operations out: each queue holds so many messages, numbered from 0, and a step handles
// some of them.
type queues struct {
	mu   sync.Mutex
	left map[string]map[int]bool // by queue, the messages that wait; guarded by mu
	// fail says what a step fails with; nil is nothing. took is how long one takes.
	fail func(step int) error
	took time.Duration
	// steps counts them, running those under way by queue, most is the most at a time, and rows are those asked for.
	steps, running, most int
	busy                 map[string]bool
	rows                 []int
	began, ended         []string
}

func (q *queues) fill(name string, n int) {
	if q.left == nil {
		q.left, q.busy = map[string]map[int]bool{}, map[string]bool{}
	}
	q.left[name] = map[int]bool{}
	for i := range n {
		q.left[name][i] = true
	}
}

func (q *queues) Begin(_ context.Context, o *operations.Operation) (operations.Run, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, ok := q.left[o.Queue]; !ok {
		return nil, fault.New(fault.NotFound, queue.CodeQueueNotFound, "there is no queue %q", o.Queue)
	}
	at, _ := strconv.Atoi(o.Place)
	return &run{q: q, name: o.Queue, at: at}, nil
}

func (q *queues) Began(o *operations.Operation) { q.note(&q.began, o) }
func (q *queues) Ended(o *operations.Operation) { q.note(&q.ended, o) }

func (q *queues) note(list *[]string, o *operations.Operation) {
	q.mu.Lock()
	defer q.mu.Unlock()
	*list = append(*list, fmt.Sprintf("%d %s %d", o.ID, o.State, o.Done))
}

type run struct {
	q    *queues
	name string
	at   int
	over bool
}

func (r *run) Place() string { return strconv.Itoa(r.at) }
func (r *run) Over() bool    { return r.over }

func (r *run) Step(ctx context.Context, rows int) (c operations.Counts, err error) {
	q := r.q
	q.mu.Lock()
	q.steps++
	q.rows = append(q.rows, rows)
	q.running++
	q.most = max(q.most, q.running)
	if q.busy[r.name] {
		panic("two operations of one queue at a time")
	}
	q.busy[r.name] = true
	if q.fail != nil {
		err = q.fail(q.steps)
	}
	q.mu.Unlock()
	if q.took > 0 {
		select {
		case <-time.After(q.took):
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.running--
	q.busy[r.name] = false
	if err != nil {
		return c, err
	}
	const most = 10
	c.Skipped = map[string]int64{"missing": 0}
	for range min(rows, most) {
		if r.at >= 100 {
			break
		}
		c.Looked++
		c.Matched++
		if q.left[r.name][r.at] {
			delete(q.left[r.name], r.at)
			c.Done++
		} else {
			c.Skipped["missing"]++
		}
		r.at++
	}
	r.over = r.at >= 100
	return c, nil
}

func engine(t *testing.T, s operations.Store, q *queues) *operations.Engine {
	t.Helper()
	e := operations.New(operations.Options{Store: s, Runs: q, Observer: q, Log: slog.New(slog.DiscardHandler)})
	must(t, e.Start(t.Context()))
	return e
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(fault.Detail(err))
	}
}

func begin(t *testing.T, e *operations.Engine, queueName string, rate int) int64 {
	t.Helper()
	o, err := e.Add(t.Context(), &operations.Spec{Kind: operations.Delete, Database: "db", Queue: queueName, Rate: rate})
	must(t, err)
	return o.ID
}

func get(t *testing.T, e *operations.Engine, id int64) *operations.Operation {
	t.Helper()
	o, err := e.Get(t.Context(), id)
	must(t, err)
	return o
}

func TestRunsToItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queues{took: 10 * time.Millisecond}
		q.fill("jobs", 90)
		e := engine(t, &memory.Store{}, q)
		defer e.Stop()
		id := begin(t, e, "jobs", 0)
		began := time.Now()
		time.Sleep(time.Minute)
		o := get(t, e, id)
		want := operations.Counts{Looked: 100, Matched: 100, Done: 90, Skipped: map[string]int64{"missing": 10}}
		if diff := cmp.Diff(want, o.Counts); diff != "" || o.State != operations.Done {
			t.Errorf("%s (-want +got):\n%s", o.State, diff)
		}
		// Ten steps, with as much time between them for others.
		if took := o.Ended.Sub(began); took != 190*time.Millisecond {
			t.Errorf("took %s", took)
		}
		if diff := cmp.Diff([][]string{{"1 running 0"}, {"1 done 90"}}, [][]string{q.began, q.ended}); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
	})
}

func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queues{}
		q.fill("jobs", 100)
		e := engine(t, &memory.Store{}, q)
		defer e.Stop()
		began := time.Now()
		id := begin(t, e, "jobs", 4)
		time.Sleep(time.Minute)
		o := get(t, e, id)
		if took := o.Ended.Sub(began); o.Done != 100 || took != 24*time.Second || q.rows[0] != 4 {
			t.Errorf("%d done in %s by %d", o.Done, took, q.rows[0])
		}
	})
}

// One operation of a queue runs at a time, a few of all queues, and the others have their turn later.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queues{took: time.Second}
		e := engine(t, &memory.Store{}, q)
		defer e.Stop()
		ids := make([]int64, 0, 14)
		for i := range 7 {
			name := fmt.Sprint("q", i)
			q.mu.Lock()
			q.fill(name, 100)
			q.mu.Unlock()
			ids = append(ids, begin(t, e, name, 0), begin(t, e, name, 0))
		}
		synctest.Wait()
		if o := get(t, e, ids[1]); o.State != operations.Waiting {
			t.Errorf("the second of a queue is %s", o.State)
		}
		list, err := e.List(t.Context(), operations.Query{Limit: 100})
		must(t, err)
		running := 0
		for i := range list {
			if list[i].State == operations.Running {
				running++
			}
		}
		if running != queue.OperationsRunning {
			t.Errorf("%d run", running)
		}
		time.Sleep(time.Hour)
		for _, id := range ids {
			if o := get(t, e, id); o.State != operations.Done {
				t.Errorf("%d is %s", id, o.State)
			}
		}
		if q.most != queue.OperationsRunning {
			t.Errorf("%d ran at a time", q.most)
		}
	})
}

func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queues{took: time.Second}
		q.fill("jobs", 100)
		e := engine(t, &memory.Store{}, q)
		defer e.Stop()
		first, second := begin(t, e, "jobs", 0), begin(t, e, "jobs", 0)
		time.Sleep(2500 * time.Millisecond)
		o, err := e.Cancel(t.Context(), second)
		must(t, err)
		if o.State != operations.Cancelled || o.Looked != 0 {
			t.Errorf("the one that waited: %+v", o)
		}
		at := time.Now()
		o, err = e.Cancel(t.Context(), first)
		must(t, err)
		if o.State != operations.Cancelled || o.Done != 10 || time.Since(at) > time.Second || len(q.left["jobs"]) != 90 {
			t.Errorf("%+v after %s, %d left", o, time.Since(at), len(q.left["jobs"]))
		}
		if again, err := e.Cancel(t.Context(), first); err != nil || again.State != operations.Cancelled {
			t.Errorf("again: %v, %v", again, err)
		}
		third := begin(t, e, "jobs", 0)
		time.Sleep(time.Minute)
		if _, err := e.Cancel(t.Context(), third); fault.KindOf(err) != fault.Conflict {
			t.Errorf("one that is done: %v", err)
		}
		if _, err := e.Cancel(t.Context(), 99); fault.KindOf(err) != fault.NotFound {
			t.Errorf("none: %v", err)
		}
	})
}

// Stopped in the middle, it goes on from where it was; killed, from where it was stored last, and does nothing twice.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &memory.Store{}
		q := &queues{took: 300 * time.Millisecond}
		q.fill("jobs", 100)
		e := engine(t, s, q)
		id := begin(t, e, "jobs", 0)
		time.Sleep(2 * time.Second)
		before, err := s.Operation(t.Context(), id) // as a kill would leave it
		must(t, err)
		time.Sleep(time.Second)
		e.Stop()
		e.Stop()
		stopped, err := s.Operation(t.Context(), id)
		must(t, err)
		if stopped.State != operations.Running || stopped.Done <= before.Done || before.Done == 0 || stopped.Done != int64(100-len(q.left["jobs"])) {
			t.Errorf("stored %d, then %d, of %d", before.Done, stopped.Done, 100-len(q.left["jobs"]))
		}
		must(t, s.SaveOperation(t.Context(), before, 10))
		e = engine(t, s, q)
		defer e.Stop()
		time.Sleep(time.Minute)
		o := get(t, e, id)
		if o.State != operations.Done || len(q.left["jobs"]) != 0 || o.Done+o.Skipped["missing"] != 100 || len(q.began) != 1 || len(q.ended) != 1 {
			t.Errorf("%+v, told %v %v", o, q.began, q.ended)
		}
	})
}

func TestFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := fault.New(fault.Unavailable, "away", "the database does not answer")
		q := &queues{fail: func(step int) error {
			if step%2 == 0 && step < 20 {
				return away
			}
			return nil
		}}
		q.fill("jobs", 100)
		e := engine(t, &memory.Store{}, q)
		defer e.Stop()
		id, none := begin(t, e, "jobs", 0), begin(t, e, "none", 0)
		time.Sleep(10 * time.Minute)
		if o := get(t, e, id); o.State != operations.Done || o.Done != 100 {
			t.Errorf("%+v", o)
		}
		if o := get(t, e, none); o.State != operations.Failed || o.Error != `there is no queue "none"` {
			t.Errorf("%+v", o)
		}
		q.fail = func(int) error { return errors.New("a defect") }
		id = begin(t, e, "jobs", 0)
		time.Sleep(time.Minute)
		if o := get(t, e, id); o.State != operations.Failed || o.Error != "internal error — the log has the details" {
			t.Errorf("%+v", o)
		}
		q.fail = func(int) error { return away }
		id = begin(t, e, "jobs", 0)
		time.Sleep(time.Minute)
		if o, err := e.Cancel(t.Context(), id); err != nil || o.State != operations.Cancelled {
			t.Errorf("while the database is away: %+v, %v", o, err)
		}
	})
}

func TestOpenOnesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &queues{took: time.Hour}
		q.fill("jobs", 100)
		e := engine(t, &memory.Store{}, q)
		defer e.Stop()
		for range queue.OperationsOpen {
			begin(t, e, "jobs", 0)
		}
		if _, err := e.Add(t.Context(), &operations.Spec{Queue: "jobs"}); fault.KindOf(err) != fault.Limit {
			t.Error(err)
		}
	})
}
