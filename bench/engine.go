package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/runlot/runlot/bench/measure"
	"github.com/runlot/runlot/bench/peer"
	"github.com/runlot/runlot/bench/report"
	"github.com/runlot/runlot/internal/adapter/postgres"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker"
	"github.com/runlot/runlot/internal/engine/ledger"
	"github.com/runlot/runlot/internal/engine/series"
)

const (
	// batchSize is the size of each send and each delivery.
	batchSize = 100
	// inFlight is the number of batches on their way from send to acknowledgement, each in the hands of a goroutine that
	// sends one, takes one, settles it and begins again.
	inFlight = 128
	// jobs is the queue of the rates.
	jobs = "jobs"
	// partialWait is how long the engine may wait to fill a batch. It never has to while as many are sent as are taken.
	partialWait = time.Second
	// turnTime is how long a last turn may wait for messages.
	turnTime = 5 * time.Second
	// stopTime bounds the stop of an engine or of the product.
	stopTime = 30 * time.Second
)

// engine is the broker over the PostgreSQL store, in this process, without workerd and HTTP.
type engine struct {
	store  *postgres.Store
	broker *broker.Broker
	pid    int
	// records takes a record of each batch; nil for none.
	records *ledger.Ledger
	// tally counts the batches; nil for none.
	tally *series.Tally
}

// openEngine opens the queues of a database.
func openEngine(ctx context.Context, s *server, url string, queues ...string) (*engine, error) {
	store, err := postgres.Open(ctx, postgres.Options{URL: url, Node: "bench"})
	if err != nil {
		return nil, err
	}
	e := &engine{store: store, broker: broker.New(broker.Options{Store: store}), pid: s.pid()}
	if err = e.broker.Start(ctx); err == nil {
		err = e.broker.Declare(ctx, queues)
	}
	if err != nil {
		return nil, errors.Join(err, e.Close(ctx))
	}
	return e, nil
}

// Close implements subject.
func (e *engine) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	return errors.Join(e.broker.Stop(ctx), e.store.Close(ctx))
}

// Measure implements subject.
func (e *engine) Measure(ctx context.Context, w measure.Window) (measure.Sample, error) {
	return e.measure(ctx, w, jobs)
}

// measure counts messages of a queue that were sent, delivered and acknowledged. As many are sent as are delivered, so
// what waits in the queue stays as it is.
func (e *engine) measure(ctx context.Context, w measure.Window, queueName string) (measure.Sample, error) {
	l, err := e.start(ctx, queueName, true)
	if err != nil {
		return measure.Sample{}, err
	}
	sample, err := w.Count(l.ctx, l.acked.Load, e.pid) //nolint:contextcheck // l.ctx is made from ctx
	return sample, errors.Join(err, l.stop())
}

// drain counts messages of a queue that were delivered and acknowledged while nothing is sent.
func (e *engine) drain(ctx context.Context, w measure.Window, queueName string) (measure.Sample, error) {
	l, err := e.start(ctx, queueName, false)
	if err != nil {
		return measure.Sample{}, err
	}
	w.Most = l.lane.Ready()
	sample, err := w.Count(l.ctx, l.acked.Load, e.pid) //nolint:contextcheck // l.ctx is made from ctx
	return sample, errors.Join(err, l.stop())
}

// load is what keeps a queue busy.
type load struct {
	e     *engine
	queue string
	lane  *broker.Lane
	acked atomic.Int64
	// ctx ends early when a goroutine fails, with its error as the cause.
	ctx      context.Context //nolint:containedctx // the lifetime of the goroutines
	fail     context.CancelCauseFunc
	stopping chan struct{}
	running  sync.WaitGroup
}

func (e *engine) start(ctx context.Context, queueName string, sends bool) (*load, error) {
	lane, err := e.broker.Lane(queueName)
	if err != nil {
		return nil, err
	}
	l := &load{e: e, queue: queueName, lane: lane, stopping: make(chan struct{})}
	l.ctx, l.fail = context.WithCancelCause(ctx)
	for range inFlight {
		l.running.Go(func() {
			if err := l.turns(sends); err != nil {
				l.fail(err)
			}
		})
	}
	return l, nil
}

// errStopped ends calls that wait for messages which nobody sends any more.
var errStopped = errors.New("the load is over")

// stop lets each goroutine finish its turn, as long as there are messages to take.
func (l *load) stop() error {
	close(l.stopping)
	over := time.AfterFunc(turnTime, func() { l.fail(errStopped) })
	defer over.Stop()
	l.running.Wait()
	err := context.Cause(l.ctx)
	l.fail(nil)
	l.lane.Close()
	if errors.Is(err, errStopped) {
		return nil
	}
	return err
}

// turns sends a batch, takes a batch and settles it, until told to stop.
func (l *load) turns(sends bool) error {
	drafts := make([]queue.Draft, batchSize)
	for i := range drafts {
		drafts[i] = queue.Draft{Format: queue.JSON, Body: peer.Body}
	}
	for {
		select {
		case <-l.stopping:
			return nil
		case <-l.ctx.Done():
			return nil
		default:
		}
		if sends {
			if _, err := l.e.broker.Send(l.ctx, l.queue, drafts); err != nil {
				return fmt.Errorf("send: %w", err)
			}
		}
		if err := l.take(); err != nil {
			return err
		}
	}
}

// take has one batch delivered and acknowledges it.
func (l *load) take() error {
	batch, err := l.lane.Next(l.ctx, batchSize, partialWait)
	if err != nil {
		return fmt.Errorf("next: %w", err)
	}
	start := time.Now()
	decisions := make([]queue.Decision, len(batch.Messages))
	for i := range decisions {
		decisions[i] = queue.Decision{Seq: batch.Messages[i].Seq, Verdict: queue.Ack}
	}
	settled := make(chan error, 1)
	l.lane.Settle(batch, decisions, "", func(err error) { settled <- err })
	if err := <-settled; err != nil {
		return fmt.Errorf("settle: %w", err)
	}
	l.acked.Add(int64(len(decisions)))
	if l.e.records != nil {
		l.e.record(start, batch.Messages)
	}
	if l.e.tally != nil {
		l.e.count(start, len(decisions))
	}
	return nil
}

// engineRates is the engine next to what does the same work over the same PostgreSQL.
func (b *bench) engineRates(ctx context.Context) error {
	entries := []entry{
		{name: "bare", inside: true, open: over(b, func(ctx context.Context, s *server, url string) (subject, error) {
			// The table is the product's.
			store, err := postgres.Open(ctx, postgres.Options{URL: url, Node: "bench"})
			if err != nil {
				return nil, err
			}
			if err := store.Close(ctx); err != nil {
				return nil, err
			}
			return peer.NewBare(ctx, url, s.pid())
		}), note: "COPY in, DELETE out, the same table"},
		{name: "river", open: over(b, func(ctx context.Context, s *server, url string) (subject, error) {
			return peer.NewRiver(ctx, url, s.pid())
		}), note: "no-op jobs worked off, 2,000 workers; inserts not counted"},
		{name: "graphile", open: over(b, func(ctx context.Context, s *server, url string) (subject, error) {
			return peer.NewGraphile(ctx, url, b.dir, s.pid())
		}), note: "no-op jobs worked off, 2 processes, batching; inserts not counted"},
		{name: "engine", inside: true, open: over(b, func(ctx context.Context, s *server, url string) (subject, error) {
			return openEngine(ctx, s, url, jobs)
		}), note: "sent, delivered and acknowledged, batches of 100", targets: []report.Target{
			{Want: 120_000}, {Peer: "bare", Want: 0.6}, {Peer: "river", Want: 8}, {Peer: "graphile", Want: 4},
		}},
		{name: "recorded", inside: true, open: over(b, openRecorded), note: "the same with a record of each batch", targets: []report.Target{{Peer: "engine", Want: 0.98}}},
		{name: "watched", inside: true, open: over(b, openWatched), note: "the same with the numbers behind charts and metrics", targets: []report.Target{{Peer: "engine", Want: 0.99}}},
		{name: "paged", inside: true, open: over(b, openPaged), note: "with records, numbers, and the page open in three windows", targets: []report.Target{{Peer: "recorded", Want: 0.97}}},
	}
	return b.rates(ctx, entries)
}

// over opens a subject over an empty database of its own.
func over(b *bench, open func(ctx context.Context, s *server, url string) (subject, error)) func(context.Context) (subject, error) {
	return func(ctx context.Context) (subject, error) {
		s, err := b.postgres(ctx)
		if err != nil {
			return nil, err
		}
		url, err := s.database(ctx)
		if err != nil {
			return nil, err
		}
		return open(ctx, s, url)
	}
}
