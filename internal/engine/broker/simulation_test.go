package broker_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/runlot/runlot/internal/adapter/memory"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker"
	"github.com/runlot/runlot/test/model"
)

var (
	simSeed = flag.Uint64("sim.seed", 0, "run only the simulation with this seed")
	simRuns = flag.Int("sim.runs", 30, "number of simulations")
)

// simulation runs senders, consumers and accidents against a broker, and checks every delivery against a model.
type simulation struct {
	t      *testing.T
	db     *memory.Database
	bounds broker.Bounds

	mu         sync.Mutex
	random     *rand.Rand
	calm       bool
	generation int
	b          *broker.Broker
	sent       int
	model      *model.Model
}

var simQueues = []string{"a", "b", "dead"}

// chance is true in one of n cases, and never when it is calm.
func (s *simulation) chance(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.calm && s.random.IntN(n) == 0
}

func (s *simulation) intN(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.random.IntN(n)
}

func (s *simulation) duration(most time.Duration) time.Duration {
	return time.Duration(s.intN(int(most/time.Microsecond))) * time.Microsecond
}

// faults slows calls down and lets some of them fail.
func (s *simulation) faults(call string) memory.Fault {
	f := memory.Fault{Before: s.duration(5 * time.Millisecond)}
	if s.chance(3) {
		f.After = s.duration(20 * time.Millisecond)
	}
	if s.chance(50) {
		f.Before = s.duration(3 * time.Second)
	}
	switch {
	case s.chance(20):
		f.Err = fault.New(fault.Unavailable, "simulated", "the store does not answer")
	case (call == "Append" || call == "Apply") && s.chance(40):
		f.Err = errors.New("the store refuses")
	}
	return f
}

func (s *simulation) current() (*broker.Broker, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b, s.generation
}

// begin starts a broker on the database. The store may be failing, so it may take several tries.
func (s *simulation) begin() {
	for {
		b := broker.New(broker.Options{Store: s.db.Open(), Bounds: s.bounds})
		err := b.Start(context.Background())
		if err == nil {
			err = b.Declare(context.Background(), simQueues)
		}
		if err == nil {
			s.mu.Lock()
			s.b = b
			s.generation++
			s.mu.Unlock()
			return
		}
		_ = b.Stop(context.Background())
		time.Sleep(10 * time.Millisecond)
	}
}

func (s *simulation) send(queueName string) {
	n := 1 + s.intN(5)
	drafts := make([]queue.Draft, n)
	names := make([]string, n)
	s.mu.Lock()
	for i := range drafts {
		s.sent++
		names[i] = fmt.Sprintf("m%d", s.sent)
		drafts[i] = draft(names[i])
		var delay time.Duration
		if s.random.IntN(3) == 0 {
			delay = []time.Duration{0, time.Millisecond, 300 * time.Millisecond, 5 * time.Second, time.Hour}[s.random.IntN(5)]
			drafts[i].Delay = &delay
		}
		s.model.Sending(queueName, names[i], delay)
	}
	s.mu.Unlock()
	b, _ := s.current()
	if _, err := b.Send(context.Background(), queueName, drafts); err == nil {
		s.model.Accepted(names...)
	}
}

// enqueue sends as SQL does.
func (s *simulation) enqueue(queueName string) {
	s.mu.Lock()
	s.sent++
	name := fmt.Sprintf("m%d", s.sent)
	delay := []time.Duration{0, 0, time.Second}[s.random.IntN(3)]
	s.mu.Unlock()
	s.model.Enqueuing(queueName, name, delay)
	if s.db.Enqueue(queueName, name, delay) == nil { // else the queue is being made anew
		s.model.Accepted(name)
	}
}

// decide draws what becomes of each message of a batch.
func (s *simulation) decide(batch *queue.Batch) []queue.Decision {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]queue.Decision, len(batch.Messages))
	outcome := s.random.IntN(6)
	for i := range list {
		m := &batch.Messages[i]
		d := queue.Decision{Seq: m.Seq, Verdict: queue.Ack, Failures: m.Failures, Losses: m.Losses}
		delay := []time.Duration{0, 0, 40 * time.Millisecond, 2 * time.Second, 20 * time.Minute}[s.random.IntN(5)]
		switch {
		case s.calm || outcome == 0:
		case outcome == 1:
			d.Verdict, d.Delay = queue.Retry, delay
			d.Losses++
		case s.random.IntN(3) == 0:
			d.Verdict, d.Delay, d.Losses = queue.Retry, delay, 0
			d.Failures++
		case s.random.IntN(5) == 0 && batch.Queue != "dead":
			d.Verdict = queue.DeadLetter
		case s.random.IntN(5) == 0:
			d.Verdict = queue.Drop
		}
		list[i] = d
	}
	return list
}

// consume takes batches of one queue until ctx ends.
func (s *simulation) consume(ctx context.Context, queueName string) {
	for ctx.Err() == nil {
		b, generation := s.current()
		lane, err := b.Lane(queueName)
		if err != nil {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		for s.consumeBatch(ctx, lane, generation) {
		}
		lane.Close()
	}
}

// consumeBatch handles one batch, and reports whether to go on with the lane.
func (s *simulation) consumeBatch(ctx context.Context, lane *broker.Lane, generation int) bool {
	size, wait := 1+s.intN(6), s.duration(500*time.Millisecond)
	patience, cancel := ctx, context.CancelFunc(func() {})
	if s.chance(10) {
		patience, cancel = context.WithTimeout(ctx, s.duration(time.Second))
	}
	batch, err := lane.Next(patience, size, wait)
	cancel()
	if err != nil {
		return ctx.Err() == nil && patience.Err() != nil
	}
	flights := s.model.Leased(generation, batch, size, time.Now())
	time.Sleep(s.duration(200 * time.Millisecond))
	if s.chance(30) {
		// The consumer leaves without a word.
		s.model.Left(flights)
		return false
	}
	decisions := s.decide(batch)
	s.model.Settling(flights, batch.Queue, decisions, "dead")
	done := make(chan struct{})
	lane.Settle(batch, decisions, "dead", func(err error) {
		s.model.Settled(flights, err)
		close(done)
	})
	if s.chance(2) {
		<-done
	}
	if s.chance(100) {
		lane.Settle(batch, decisions, "dead", func(error) {})
	}
	return !s.chance(30)
}

// accident stops or crashes the broker and starts another.
func (s *simulation) accident() {
	b, generation := s.current()
	ctx, cancel := context.WithTimeout(context.Background(), s.duration(time.Second))
	defer cancel()
	if s.intN(3) > 0 {
		s.db.Crash(func() bool { return s.intN(2) == 0 })
		<-b.Done()
	}
	_ = b.Stop(ctx)
	s.model.Doubt(generation)
	s.begin()
}

// audit compares what the broker says about its queues with the store, while nothing happens.
func (s *simulation) audit() {
	b, _ := s.current()
	var count, size int64
	for _, name := range simQueues {
		m, err := b.Metrics(context.Background(), name)
		check(s.t, err)
		count += m.Count
		size += m.Bytes
	}
	messages, bytes := s.db.Size()
	if count != int64(messages) || size != int64(bytes) {
		s.t.Errorf("the broker counts %d messages of %d bytes, the store has %d of %d", count, size, messages, bytes)
	}
}

func (s *simulation) run() {
	s.db.SetFaults(s.faults)
	s.begin()
	ctx, stop := context.WithCancel(context.Background())
	senders, stopSending := context.WithCancel(ctx)
	var producers, consumers sync.WaitGroup
	for i := range 3 {
		producers.Go(func() {
			for senders.Err() == nil {
				if i == 0 && s.intN(3) == 0 {
					s.enqueue(simQueues[s.intN(3)])
				} else {
					s.send(simQueues[s.intN(3)])
				}
				time.Sleep(s.duration(150 * time.Millisecond))
			}
		})
	}
	for i := range 5 {
		consumers.Go(func() { s.consume(ctx, simQueues[i%3]) })
	}
	producers.Go(func() { s.operate(senders) })
	for range 6 {
		time.Sleep(s.duration(8 * time.Second))
		s.accident()
	}
	time.Sleep(5 * time.Second)
	stopSending()
	producers.Wait()
	s.mu.Lock()
	s.calm = true
	s.mu.Unlock()
	s.resumeAll()
	// Everything is due by then, and every consumer acknowledges.
	time.Sleep(3 * time.Hour)
	synctest.Wait()
	s.model.End()
	s.audit()
	if messages, _ := s.db.Size(); messages != 0 {
		s.t.Errorf("%d messages are left", messages)
	}
	stop()
	consumers.Wait()
	for range 20 {
		s.send("a")
		s.send("b")
	}
	s.audit()
	b, _ := s.current()
	check(s.t, b.Stop(context.Background()))
}

// TestSimulation: whatever happens to the store and to the broker, no accepted message is lost, none comes again after
// its acknowledgement was committed, none comes early or with wrong counters, and all come in the end.
func TestSimulation(t *testing.T) {
	seeds := make([]uint64, *simRuns)
	for i := range seeds {
		seeds[i] = uint64(i + 1)
	}
	if *simSeed != 0 {
		seeds = []uint64{*simSeed}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 0))
				tiny := func(most int) int { return 1 + random.IntN(most) }
				s := &simulation{
					t: t, db: memory.NewDatabase(), random: random, model: model.New(t),
					bounds: broker.Bounds{
						GroupRows: 4 + tiny(10), LaneRows: tiny(8), DueRows: tiny(8), ReadRows: tiny(5), InboxRows: tiny(4), SettleRows: tiny(10), OperateRows: tiny(5),
					},
				}
				s.run()
			})
		})
	}
}
