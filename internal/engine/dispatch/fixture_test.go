package dispatch_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/dispatch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// crowded skips a test of very many events under the race detector: that of Go 1.26 may crash when it starts its clocks
// anew, which it does after some ten thousand of them. "make test" runs these tests without it too.
func crowded(t *testing.T) {
	t.Helper()
	if raced {
		t.Skip("too many events for the race detector")
	}
}

// lane is a Lane in memory with the semantics of the port. It checks the dispatcher's side of the contract: each batch is
// settled once, with one decision for each message.
type lane struct {
	t      testing.TB
	mu     sync.Mutex
	ready  []item
	leased map[*queue.Batch]bool
	// holders are those of all batches, in the order in which they were told.
	holders []queue.Holder
	closed  chan struct{}
	change  chan struct{}
	// commit is how long a settlement takes; stalled holds them back until it is closed.
	commit  time.Duration
	stalled chan struct{}
	work    sync.WaitGroup
	// delayed are the messages that wait for a retry, each with its timer.
	delayed map[int64]queue.Message

	seq       int64
	settled   map[int64]queue.Decision
	leases    int
	settles   int
	batches   []int
	maxLeased int
}

type item struct {
	queue.Message
	since time.Time
}

func newLane(t testing.TB) *lane {
	return &lane{
		t: t, leased: map[*queue.Batch]bool{}, delayed: map[int64]queue.Message{}, closed: make(chan struct{}), change: make(chan struct{}),
		settled: map[int64]queue.Decision{},
	}
}

func (l *lane) send(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for range n {
		l.seq++
		l.ready = append(l.ready, item{queue.Message{Seq: l.seq, ID: queue.NewID(1, l.seq), Format: queue.Text, Body: []byte("x")}, time.Now()})
	}
	l.changed()
}

func (l *lane) changed() {
	close(l.change)
	l.change = make(chan struct{})
}

var errLaneClosed = errors.New("closed")

func (l *lane) Next(ctx context.Context, size int, wait time.Duration) (*queue.Batch, error) {
	for {
		l.mu.Lock()
		batch, left := l.lease(size, wait)
		change := l.change
		l.mu.Unlock()
		if batch != nil {
			return batch, nil
		}
		timer := time.NewTimer(left)
		select {
		case <-change:
		case <-timer.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-l.closed:
			return nil, errLaneClosed
		}
		timer.Stop()
	}
}

func (l *lane) lease(size int, wait time.Duration) (*queue.Batch, time.Duration) {
	if len(l.ready) == 0 {
		return nil, time.Hour
	}
	n := 0
	if l.ready[0].Alone() {
		n = 1
	} else {
		for n < min(size, len(l.ready)) && !l.ready[n].Alone() {
			n++
		}
		full := n == size || n < len(l.ready)
		if left := wait - time.Since(l.ready[0].since); !full && left > 0 {
			return nil, left
		}
	}
	batch := &queue.Batch{Queue: "jobs"}
	for _, it := range l.ready[:n] {
		batch.Messages = append(batch.Messages, it.Message)
	}
	l.ready = l.ready[n:]
	l.leased[batch] = true
	l.leases++
	l.batches = append(l.batches, n)
	l.maxLeased = max(l.maxLeased, len(l.leased))
	return batch, 0
}

func (l *lane) Held(batch *queue.Batch, holder *queue.Holder) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.leased[batch] {
		l.t.Errorf("a batch is held that is not leased")
	}
	l.holders = append(l.holders, *holder)
}

func (l *lane) Settle(batch *queue.Batch, decisions []queue.Decision, _ string, done func(error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.leased[batch]; !ok || !l.leased[batch] {
		l.t.Errorf("a batch was settled that is not leased, or settled twice")
		return
	}
	l.leased[batch] = false
	l.settles++
	if len(decisions) != len(batch.Messages) {
		l.t.Errorf("%d decisions for %d messages", len(decisions), len(batch.Messages))
		return
	}
	stalled := l.stalled
	l.work.Go(func() {
		if stalled != nil {
			select {
			case <-stalled:
			case <-l.closed:
				done(errLaneClosed)
				return
			}
		}
		time.Sleep(l.commit)
		l.apply(batch, decisions)
		done(nil)
	})
}

func (l *lane) apply(batch *queue.Batch, decisions []queue.Decision) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.leased, batch)
	for i, d := range decisions {
		m := batch.Messages[i]
		if m.Seq != d.Seq {
			l.t.Errorf("decision for %d came in the place of %d", d.Seq, m.Seq)
		}
		l.settled[d.Seq] = d
		if d.Verdict != queue.Retry {
			continue
		}
		m.Failures, m.Losses = d.Failures, d.Losses
		l.delayed[m.Seq] = m
		l.work.Go(func() { l.wait(m.Seq, d.Delay) })
	}
}

// wait makes a message ready after its delay, unless the lane closes first.
func (l *lane) wait(seq int64, delay time.Duration) {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		l.mu.Lock()
		defer l.mu.Unlock()
		l.due(seq)
	case <-l.closed:
	}
}

// due makes a delayed message ready, once.
func (l *lane) due(seq int64) {
	m, ok := l.delayed[seq]
	if !ok {
		return
	}
	delete(l.delayed, seq)
	l.ready = append(l.ready, item{m, time.Now()})
	l.changed()
}

func (l *lane) Ready() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int64(len(l.ready))
}

// lent returns how many batches were leased, how many at most at a time, and their sizes.
func (l *lane) lent() (leases, most int, sizes []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leases, l.maxLeased, slices.Clone(l.batches)
}

// decided returns the last decision on each message.
func (l *lane) decided() map[int64]queue.Decision {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.settled)
}

// outcomes counts the messages by their last verdict.
func (l *lane) outcomes() map[queue.Verdict]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	counts := map[queue.Verdict]int{}
	for _, d := range l.settled {
		counts[d.Verdict]++
	}
	return counts
}

func (l *lane) close() {
	close(l.closed)
	l.work.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	for seq := range l.delayed {
		l.due(seq)
	}
}

// runtime runs a script for each delivery and measures how many run at a time.
type runtime struct {
	script  func(ctx context.Context, d *dispatch.Delivery) (*dispatch.Result, error)
	mu      sync.Mutex
	running int
	most    int
	calls   int
	ids     map[string]bool
}

func newRuntime(script func(ctx context.Context, d *dispatch.Delivery) (*dispatch.Result, error)) *runtime {
	return &runtime{script: script, ids: map[string]bool{}}
}

func (r *runtime) Deliver(ctx context.Context, d *dispatch.Delivery) (*dispatch.Result, error) {
	r.mu.Lock()
	r.running++
	r.calls++
	r.most = max(r.most, r.running)
	r.ids[d.ID] = true
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.running--
		r.mu.Unlock()
	}()
	return r.script(ctx, d)
}

func (r *runtime) seen() (running, most, calls int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.running, r.most, r.calls
}

// lasting returns a handler that takes so long and then ends with this outcome.
func lasting(d time.Duration, outcome queue.Outcome) func(context.Context, *dispatch.Delivery) (*dispatch.Result, error) {
	return func(ctx context.Context, _ *dispatch.Delivery) (*dispatch.Result, error) {
		if err := sleep(ctx, d); err != nil {
			return nil, err
		}
		return &dispatch.Result{Outcome: outcome}, nil
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

type records struct {
	mu   sync.Mutex
	list []dispatch.Record
}

func (r *records) Batch(record *dispatch.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, *record)
}

func (r *records) all() []dispatch.Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.list)
}

func (r *records) outcomes() (list []queue.Outcome) {
	for _, record := range r.all() {
		list = append(list, record.Outcome)
	}
	return list
}

// bench is a dispatcher with its lane and records, in a synctest bubble.
type bench struct {
	*dispatch.Dispatcher
	lane    *lane
	records *records
}

func consumer() queue.Consumer {
	return queue.Consumer{
		Queue: "jobs", BatchSize: 10, BatchTimeout: 5 * time.Second, MaxRetries: 3, MaxConcurrency: 1,
		Backoff: queue.Backoff{First: 10 * time.Second, Max: time.Hour}, DeadLetterQueue: "dead",
		HandlerTime: 35 * time.Second, Retention: queue.DefaultRetention,
	}
}

// start runs a test in a bubble with a started dispatcher, and stops it in the end.
func start(t *testing.T, c queue.Consumer, test func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, c, nil, nil)
		b.Start(t.Context())
		test(t, b)
		b.end(t)
	})
}

func newBench(t testing.TB, c queue.Consumer, budget *dispatch.Budget, isolation *dispatch.Isolation) *bench {
	b := &bench{lane: newLane(t), records: &records{}}
	b.Dispatcher = dispatch.New(dispatch.Options{
		App: "app", Consumer: c, Lane: b.lane, Recorder: b.records, Log: slog.New(slog.DiscardHandler), Budget: budget, Isolation: isolation,
	})
	return b
}

// end stops the dispatcher and checks that every lease was settled.
func (b *bench) end(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := b.Stop(ctx); err != nil {
		t.Errorf("Stop: %v", err)
	}
	b.lane.mu.Lock()
	if b.lane.settles != b.lane.leases {
		t.Errorf("%d batches were settled of %d leased", b.lane.settles, b.lane.leases)
	}
	b.lane.mu.Unlock()
	b.lane.close()
}
