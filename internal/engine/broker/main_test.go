package broker_test

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/runlot/runlot/internal/adapter/memory"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a broker over a database in memory, with queues "a", "b" and "dead".
type rig struct {
	t  *testing.T
	db *memory.Database
	b  *broker.Broker
}

func start(t *testing.T, bounds broker.Bounds) *rig {
	t.Helper()
	r := &rig{t: t, db: memory.NewDatabase()}
	r.restart(bounds)
	return r
}

// restart starts a broker on the rig's database; the one before has to be stopped.
func (r *rig) restart(bounds broker.Bounds) {
	r.t.Helper()
	r.b = broker.New(broker.Options{Store: r.db.Open(), Bounds: bounds})
	b := r.b
	check(r.t, b.Start(r.t.Context()))
	check(r.t, b.Declare(r.t.Context(), []string{"a", "b", "dead"}))
	r.t.Cleanup(func() { _ = b.Stop(context.Background()) })
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (r *rig) send(queueName string, drafts ...queue.Draft) {
	r.t.Helper()
	_, err := r.b.Send(r.t.Context(), queueName, drafts)
	check(r.t, err)
}

func (r *rig) lane(queueName string) *broker.Lane {
	r.t.Helper()
	l, err := r.b.Lane(queueName)
	check(r.t, err)
	return l
}

func draft(body string) queue.Draft { return queue.Draft{Format: queue.JSON, Body: []byte(body)} }

func delayed(body string, delay time.Duration) queue.Draft {
	d := draft(body)
	d.Delay = &delay
	return d
}

// next takes a batch and returns its bodies.
func next(t *testing.T, l *broker.Lane, size int, wait time.Duration) (*queue.Batch, []string) {
	t.Helper()
	batch, err := l.Next(t.Context(), size, wait)
	check(t, err)
	return batch, bodies(batch)
}

func bodies(batch *queue.Batch) []string {
	list := make([]string, len(batch.Messages))
	for i := range batch.Messages {
		list[i] = string(batch.Messages[i].Body)
	}
	return list
}

// decide makes one decision for every message of a batch, keeping its counters.
func decide(batch *queue.Batch, verdict queue.Verdict, delay time.Duration) []queue.Decision {
	list := make([]queue.Decision, len(batch.Messages))
	for i := range batch.Messages {
		m := &batch.Messages[i]
		list[i] = queue.Decision{Seq: m.Seq, Verdict: verdict, Delay: delay, Failures: m.Failures, Losses: m.Losses}
		if verdict == queue.Retry {
			list[i].Failures++
		}
	}
	return list
}

// settle settles and waits for the commit.
func settle(l *broker.Lane, batch *queue.Batch, decisions []queue.Decision) error {
	done := make(chan error, 1)
	l.Settle(batch, decisions, "dead", func(err error) { done <- err })
	return <-done
}

func ack(t *testing.T, l *broker.Lane, batch *queue.Batch) {
	t.Helper()
	check(t, settle(l, batch, decide(batch, queue.Ack, 0)))
}
