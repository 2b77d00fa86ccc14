package metered_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/internal/adapter/memory"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker"
	"github.com/runlot/runlot/internal/engine/broker/metered"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// meter adds up what it is told.
type meter struct {
	mu      sync.Mutex
	tallies map[string]*tally
	Groups  map[string][]int
}

type tally struct {
	m                          *meter
	Sent, Bytes, Arrived, Left int
}

func (m *meter) Tally(name string) metered.Tally {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tallies[name] == nil {
		m.tallies[name] = &tally{m: m}
	}
	return &counting{m.tallies[name]}
}

func (m *meter) Appended(n int, took time.Duration) { m.group("appended", n, took) }
func (m *meter) Applied(n int, took time.Duration)  { m.group("applied", n, took) }

func (m *meter) group(kind string, n int, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if took < 0 {
		n = -1
	}
	m.Groups[kind] = append(m.Groups[kind], n)
}

type counting struct{ t *tally }

func (c *counting) add(f func(*tally)) {
	c.t.m.mu.Lock()
	defer c.t.m.mu.Unlock()
	f(c.t)
}

func (c *counting) Sent(n, bytes int) {
	c.add(func(t *tally) { t.Sent, t.Bytes = t.Sent+n, t.Bytes+bytes })
}
func (c *counting) Arrived(n int) { c.add(func(t *tally) { t.Arrived += n }) }
func (c *counting) Left(n int)    { c.add(func(t *tally) { t.Left += n }) }

func drafts(n int) []queue.Draft {
	list := make([]queue.Draft, n)
	for i := range list {
		list[i] = queue.Draft{Format: queue.Text, Body: []byte("12345")}
	}
	return list
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestWhatABrokerDoesIsCounted(t *testing.T) {
	ctx := t.Context()
	m := &meter{tallies: map[string]*tally{}, Groups: map[string][]int{}}
	database := memory.NewDatabase()
	b := broker.New(broker.Options{Store: metered.New(database.Open(), m)})
	must(t, b.Start(ctx))
	defer func() { must(t, b.Stop(t.Context())) }()
	must(t, b.Declare(ctx, []string{"jobs", "dead", "mail"}))
	_, err := b.Send(ctx, "jobs", drafts(6))
	must(t, err)
	_, err = b.Send(ctx, "mail", drafts(1))
	must(t, err)
	lane, err := b.Lane("jobs")
	must(t, err)
	defer lane.Close()
	batch, err := lane.Next(ctx, 6, 0)
	must(t, err)
	verdicts := []queue.Verdict{queue.Ack, queue.Ack, queue.Drop, queue.Retry, queue.DeadLetter, queue.DeadLetter}
	decisions := make([]queue.Decision, len(verdicts))
	for i, v := range verdicts {
		decisions[i] = queue.Decision{Seq: batch.Messages[i].Seq, Verdict: v, Failures: 1, Delay: time.Hour}
	}
	settled := make(chan error, 1)
	lane.Settle(batch, decisions, "dead", func(err error) { settled <- err })
	must(t, <-settled)
	m.mu.Lock()
	defer m.mu.Unlock()
	want := map[string][4]int{"jobs": {6, 30, 0, 5}, "dead": {0, 0, 2, 0}, "mail": {1, 5, 0, 0}}
	got := map[string][4]int{}
	for name, t := range m.tallies {
		got[name] = [4]int{t.Sent, t.Bytes, t.Arrived, t.Left}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sent, bytes, arrived and left (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string][]int{"appended": {6, 1}, "applied": {6}}, m.Groups); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
}

// TestQueuesThatTakeTurns has more queues than places in which a group is added up, with their messages in any order.
func TestQueuesThatTakeTurns(t *testing.T) {
	ctx := t.Context()
	m := &meter{tallies: map[string]*tally{}, Groups: map[string][]int{}}
	s := metered.New(memory.NewDatabase().Open(), m)
	own, err := s.Acquire(ctx)
	must(t, err)
	const queues, messages = 100, 1_000
	names, want := make([]string, queues), map[string][4]int{}
	for i := range names {
		names[i] = fmt.Sprintf("queue-%d", i)
	}
	infos, err := s.Declare(ctx, names)
	must(t, err)
	must(t, s.Reserve(ctx, own.NextSeq+2*messages))
	rows, change := make([]store.Row, messages), &store.Change{}
	for i := range rows {
		to := infos[rand.IntN(queues)]
		rows[i] = store.Row{Queue: to.ID, Seq: own.NextSeq + int64(i), Format: queue.Text, SentAt: 1, Body: make([]byte, i%7)}
		w := want[to.Name]
		w[0], w[1] = w[0]+1, w[1]+i%7
		key := store.Key{Queue: to.ID, Seq: rows[i].Seq}
		switch i % 3 {
		case 0:
			change.Delete = append(change.Delete, key)
			w[3]++
		case 1:
			dead := infos[rand.IntN(queues)]
			change.Move = append(change.Move, store.Move{From: key, To: store.Key{Queue: dead.ID, Seq: own.NextSeq + messages + int64(i)}})
			w[3]++
			want[to.Name] = w
			w = want[dead.Name]
			w[2]++
			want[dead.Name] = w
			continue
		}
		want[to.Name] = w
	}
	must(t, s.Append(ctx, rows, nil))
	must(t, s.Apply(ctx, change))
	must(t, s.Release(ctx))
	for name, w := range want {
		if c := m.tallies[name]; [4]int{c.Sent, c.Bytes, c.Arrived, c.Left} != w {
			t.Errorf("%s: %+v, want sent, bytes, arrived and left of %v", name, *c, w)
		}
	}
}
