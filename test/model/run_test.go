package model_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker"
	"github.com/runlot/runlot/internal/engine/broker/store"
	"github.com/runlot/runlot/internal/engine/dispatch"
	"github.com/runlot/runlot/test/model"
)

// world is a database under test with what happens to it from outside.
type world struct {
	// open opens a session for the next owner.
	open func() (s store.Store, end func())
	// enqueue sends as SQL does.
	enqueue func(queueName, body string, delay time.Duration) error
	// sever ends the session of the owner; with all, every session of its node.
	sever func(all bool)
	// unit is what programs count time in, and handlerTime how long handlers may take.
	unit, handlerTime time.Duration
	// retention is the shortest that programs set.
	retention time.Duration
	// patience is how long the queues may take to empty.
	patience time.Duration
}

// run carries one program out in a world.
type run struct {
	t       *testing.T
	w       *world
	p       *program
	model   *model.Model
	names   []string
	sent    int
	version int

	mu sync.Mutex
	// calm: every handler acknowledges everything. calls are the batches in hand. mu guards both.
	calm       bool
	calls      map[*queue.Batch]*call
	generation int
	node       *node
}

// call is one batch between its lease and its settlement.
type call struct {
	flights  []*model.Flight
	leasedAt time.Time
	version  int
	// deed is what the handler does with it; nil before it is called.
	deed *deed
}

// node is one owner: a broker with a dispatcher for each consumer.
type node struct {
	generation  int
	b           *broker.Broker
	closeStore  func()
	lanes       []*broker.Lane
	dispatchers []*dispatch.Dispatcher
	// ending: its handlers may be cancelled. The run's lock guards it.
	ending bool
}

// Errorf implements model.Reporter.
func (r *run) Errorf(format string, args ...any) {
	r.t.Errorf("seed %d: %s", r.p.seed, fmt.Sprintf(format, args...))
}

func (r *run) check(err error) {
	if err != nil {
		r.t.Helper()
		r.Errorf("%s", fault.Detail(err))
	}
}

// consumers are those of the program: retries into a dead-letter queue, retries and then nothing, and none for the dead
// letters until the end.
func (r *run) consumers(calm bool) []queue.Consumer {
	list := []queue.Consumer{
		{MaxRetries: 2, Backoff: queue.Backoff{First: 2 * r.w.unit, Max: 3 * r.w.unit}, DeadLetterQueue: r.names[2], MaxConcurrency: 2, BatchSize: 3},
		{MaxRetries: 1, MaxConcurrency: 1, BatchSize: 5},
		{MaxConcurrency: 1, BatchSize: 10, DeadLetterQueue: r.names[0]},
	}
	for i := range list {
		c := &list[i]
		c.Queue, c.BatchTimeout, c.HandlerTime, c.Retention = r.names[i], r.w.unit/4, r.w.handlerTime, queue.DefaultRetention
	}
	if !calm {
		list = list[:2]
	}
	return list
}

func (r *run) bounds() broker.Bounds {
	t := r.p.tiny
	return broker.Bounds{GroupRows: 5 + t[0], LaneRows: t[1], DueRows: t[2], ReadRows: t[3], InboxRows: t[4], SettleRows: t[5], OperateRows: t[6]}
}

// begin starts a broker; serve its deliveries.
func (r *run) begin() *node {
	s, end := r.w.open()
	n := &node{b: broker.New(broker.Options{Store: s, Bounds: r.bounds()}), closeStore: end}
	ctx, cancel := context.WithTimeout(context.Background(), r.w.patience)
	defer cancel()
	if err := n.b.Start(ctx); err != nil {
		r.t.Fatalf("seed %d: %v", r.p.seed, err)
	}
	if err := n.b.Declare(ctx, r.names); err != nil {
		r.t.Fatalf("seed %d: %v", r.p.seed, err)
	}
	return n
}

func (r *run) serve(n *node) {
	r.mu.Lock()
	r.generation++
	n.generation = r.generation
	calm := r.calm
	r.mu.Unlock()
	r.node = n
	for _, c := range r.consumers(calm) {
		r.consume(n, &c)
	}
}

func (r *run) consume(n *node, c *queue.Consumer) {
	l, err := n.b.Lane(c.Queue)
	if err != nil {
		r.check(err)
		return
	}
	n.lanes = append(n.lanes, l)
	d := dispatch.New(dispatch.Options{
		App: "app", Consumer: *c, Lane: &lane{Lane: l, r: r, c: c, n: n}, Recorder: r, Log: slog.New(slog.DiscardHandler),
	})
	n.dispatchers = append(n.dispatchers, d)
	d.SetRuntime(r, fmt.Sprint(r.version))
	d.Start(context.Background())
}

// end stops deliveries and the broker with the time that is left, and doubts what was not settled.
func (r *run) end(ctx context.Context, n *node) {
	r.mu.Lock()
	n.ending = true
	r.mu.Unlock()
	for _, d := range n.dispatchers {
		_ = d.Stop(ctx)
	}
	for _, l := range n.lanes {
		l.Close()
	}
	_ = n.b.Stop(ctx)
	n.closeStore()
	r.model.Doubt(n.generation)
}

// crash ends the ownership as a failure does. The node goes on until it is told, and the next may begin before.
func (r *run) crash(all, early bool) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	old := r.node
	r.w.sever(all)
	if early {
		next := r.begin()
		r.end(ctx, old)
		r.serve(next)
		return
	}
	<-old.b.Done()
	r.end(ctx, old)
	r.serve(r.begin())
}

// lane stands between a dispatcher and a broker, and tells the model what it sees.
type lane struct {
	*broker.Lane
	r *run
	c *queue.Consumer
	n *node
}

// Next implements dispatch.Lane.
func (l *lane) Next(ctx context.Context, size int, wait time.Duration) (*queue.Batch, error) {
	began := time.Now()
	batch, err := l.Lane.Next(ctx, size, wait)
	if err != nil {
		return nil, err
	}
	c := &call{flights: l.r.model.Leased(l.n.generation, batch, size, began), leasedAt: began}
	l.r.mu.Lock()
	defer l.r.mu.Unlock()
	c.version = l.r.version
	l.r.calls[batch] = c
	return batch, nil
}

// Settle implements dispatch.Lane.
func (l *lane) Settle(batch *queue.Batch, decisions []queue.Decision, dead string, done func(error)) {
	l.r.mu.Lock()
	c := l.r.calls[batch]
	delete(l.r.calls, batch)
	version := l.r.version
	l.r.mu.Unlock()
	for i := range batch.Messages {
		if m, d := &batch.Messages[i], &decisions[i]; !l.allows(c, m, len(batch.Messages), d, version) {
			l.r.Errorf("%s with %d failures and %d losses in a batch of %d was decided as %+v after %+v", m.Body, m.Failures, m.Losses, len(batch.Messages), *d, c.deed)
		}
	}
	l.r.model.Settling(c.flights, batch.Queue, decisions, dead)
	l.Lane.Settle(batch, decisions, dead, func(err error) {
		l.r.model.Settled(c.flights, err)
		done(err)
	})
}

// allows reports whether the rule allows a decision after what the handler did.
func (l *lane) allows(c *call, m *queue.Message, batch int, d *queue.Decision, version int) bool {
	if c.deed == nil {
		return model.Returned(m, d)
	}
	timeout := model.Ending{Outcome: queue.TimedOut}
	if time.Since(c.leasedAt) >= l.c.HandlerTime && timeout.Allows(l.c, m, batch, d) {
		return true
	}
	ended := l.stopped(c, version)
	switch {
	case c.deed.hangs && !c.deed.late:
		return ended && model.Returned(m, d)
	case c.deed.hangs:
		return ended && c.deed.ending.Allows(l.c, m, batch, d)
	}
	return c.deed.ending.Allows(l.c, m, batch, d) || ended && model.Returned(m, d)
}

// Deliver implements dispatch.Runtime.
func (r *run) Deliver(ctx context.Context, delivery *dispatch.Delivery) (*dispatch.Result, error) {
	d := r.p.deed(delivery.Batch, r.w.unit)
	r.mu.Lock()
	if r.calm {
		d = &deed{ending: model.Ending{Outcome: queue.OK}}
	}
	c := r.calls[delivery.Batch]
	c.deed = d
	r.mu.Unlock()
	if d.hangs {
		<-ctx.Done()
	} else {
		select {
		case <-time.After(time.Duration(d.lasts) * r.w.unit / 2):
		case <-ctx.Done():
		}
	}
	switch {
	case d.err != nil:
		return nil, d.err
	case d.hangs && !d.late:
		return nil, ctx.Err()
	}
	result := &dispatch.Result{Outcome: d.ending.Outcome}
	if report := d.ending.Report; report != nil {
		result.Report = *report
		result.Report.Acked, result.Report.Retried = maps.Clone(report.Acked), maps.Clone(report.Retried)
	}
	for id := range d.ending.Undecodable {
		result.Undecodable = append(result.Undecodable, id)
	}
	return result, nil
}

// Batch implements dispatch.Recorder.
func (*run) Batch(*dispatch.Record) {}

// finish lets everything come to its end: handlers acknowledge, nothing is paused, and the dead letters have a consumer.
func (r *run) finish() {
	ctx, cancel := context.WithTimeout(context.Background(), r.w.patience)
	defer cancel()
	for _, name := range r.names {
		r.resume(name)
	}
	r.mu.Lock()
	r.calm = true
	r.mu.Unlock()
	all := r.consumers(true)
	r.consume(r.node, &all[len(all)-1])
	for left := r.left(ctx); left != "" && ctx.Err() == nil; left = r.left(ctx) {
		<-time.After(r.w.unit)
	}
	if left := r.left(context.Background()); left != "" {
		r.Errorf("after %s there are %s", r.w.patience, left)
	}
	r.model.End()
	r.end(context.Background(), r.node)
}

// left says what is in the queues; "" when they are empty.
func (r *run) left(ctx context.Context) string {
	var list []string
	if n := r.model.Waiting(); n > 0 {
		list = append(list, fmt.Sprintf("%d messages that have to come", n))
	}
	select {
	case <-r.node.b.Counted():
	case <-ctx.Done():
	}
	for _, name := range r.names {
		m, err := r.node.b.Metrics(ctx, name)
		r.check(err)
		if m.Count != 0 || m.Bytes != 0 {
			list = append(list, fmt.Sprintf("%d messages of %d bytes in %s", m.Count, m.Bytes, name))
		}
	}
	return strings.Join(list, ", ")
}

// execute runs a program to its end.
func execute(t *testing.T, w *world, p *program) {
	defer func() {
		if t.Failed() {
			tell(t, p)
		}
	}()
	r := &run{t: t, w: w, p: p, calls: map[*queue.Batch]*call{}}
	r.model = model.New(r)
	for _, name := range []string{"a", "b", "dead"} {
		r.names = append(r.names, fmt.Sprintf("%s-%d", name, p.seed))
	}
	r.serve(r.begin())
	for i := range p.steps {
		r.step(&p.steps[i])
		if t.Failed() {
			break
		}
		<-time.After(time.Duration(p.steps[i].after) * w.unit)
	}
	r.finish()
}

// stopped reports whether the call may have ended because its node or version did.
func (l *lane) stopped(c *call, version int) bool {
	l.r.mu.Lock()
	defer l.r.mu.Unlock()
	return c.version != version || l.n.ending
}
