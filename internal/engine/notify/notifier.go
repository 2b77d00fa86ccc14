package notify

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/core/span"
)

// Options are what a Notifier is made of. Log is required.
type Options struct {
	Rules    Settings
	Channels []Channel
	// Node is what notices say of where they come from.
	Node string
	// Ages returns the ages of the queues of this node, for the rule QueueOld.
	Ages func(ctx context.Context) []Age
	// Number finds the number of a version of an app; 0 when it is not known.
	Number func(ctx context.Context, app, version string) int
	// GivenUp is told of a notice that could not be sent by a way.
	GivenUp func(ctx context.Context, n *Notice, way, problem string)
	Log     *slog.Logger
}

// Notifier takes facts and has people told. Its methods that take facts may be called from any goroutine, at any time, and
// never wait.
type Notifier struct {
	o    Options
	ways []string
	// pending are notices on their way to the outbox.
	pending chan *Notice
	// wake has a place for each channel: something may be due.
	wake []chan struct{}

	mu    sync.Mutex
	rules *Rules
	// lost counts notices that found the buffer full, and did not come again.
	lost int64

	// watching ends when nothing more is taken, working when even the last write has to.
	stopWatching, stopWorking context.CancelFunc
	writer, others            sync.WaitGroup
	stop                      sync.Once
}

// New returns a notifier that takes facts. Start lets it do something about them.
func New(o Options) *Notifier {
	n := &Notifier{o: o, rules: NewRules(o.Rules), pending: make(chan *Notice, queue.NotifyBuffer)}
	for _, c := range o.Channels {
		n.ways = append(n.ways, c.Ways()...)
		n.wake = append(n.wake, make(chan struct{}, 1))
	}
	return n
}

// Batch takes the end of a batch.
func (n *Notifier) Batch(b *Batch) { n.take(func() []*Notice { return n.rules.Batch(b) }) }

// Run takes the end of a run of a cron.
func (n *Notifier) Run(r *Run) { n.take(func() []*Notice { return n.rules.Run(r) }) }

// Operations takes an alert.
func (n *Notifier) Operations(o *Operations) {
	n.take(func() []*Notice { return n.rules.Operations(o) })
}

// Age takes the age of a queue.
func (n *Notifier) Age(a *Age) { n.take(func() []*Notice { return n.rules.Age(a) }) }

// Left takes note that the queues of a database are not delivered here any more.
func (n *Notifier) Left(database string) {
	n.take(func() []*Notice {
		n.rules.Left(database)
		return nil
	})
}

// Removed takes note that a queue was deleted.
func (n *Notifier) Removed(database, queueName string) {
	n.take(func() []*Notice {
		n.rules.Removed(database, queueName)
		return nil
	})
}

// Lost is how many notices the buffer had no room for.
func (n *Notifier) Lost() int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lost
}

func (n *Notifier) take(decide func() []*Notice) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, notice := range decide() {
		notice.Node = n.o.Node
		select {
		case n.pending <- notice:
		default:
			n.rules.Forget(notice) // the next such fact may find room
			n.lost++
		}
	}
}

// Start begins to write and to send, until Stop.
func (n *Notifier) Start(outbox Outbox) {
	working, stopWorking := context.WithCancel(context.Background())
	watching, stopWatching := context.WithCancel(working)
	n.stopWatching, n.stopWorking = stopWatching, stopWorking
	n.writer.Go(func() { n.write(watching, working, outbox) })
	for i, c := range n.o.Channels {
		n.others.Go(func() { n.send(watching, working, outbox, c, n.wake[i]) })
	}
	if n.o.Ages != nil && n.o.Rules.Old > 0 {
		n.others.Go(func() { n.watch(watching) })
	}
}

// Stop begins to send nothing more. What is being sent may finish, and what was noticed is written to the outbox, until ctx
// ends; what is cut off then is sent again by the next start. Twice is fine, and so is a notifier that was never started.
func (n *Notifier) Stop(ctx context.Context) {
	n.stop.Do(func() {
		if n.stopWatching == nil {
			return
		}
		n.stopWatching()
		cut := context.AfterFunc(ctx, n.stopWorking)
		n.others.Wait()
		n.writer.Wait()
		cut()
		n.stopWorking()
	})
}

// write brings notices to the outbox.
func (n *Notifier) write(watching, working context.Context, outbox Outbox) {
	told := int64(0)
	for {
		var notice *Notice
		select {
		case notice = <-n.pending:
		case <-watching.Done():
			select {
			case notice = <-n.pending:
			default:
				return
			}
		}
		if lost := n.Lost(); lost > told {
			n.o.Log.Warn("notices were lost: more came than could be written", "lost", lost-told)
			told = lost
		}
		n.add(working, outbox, notice)
	}
}

// add writes one notice, however often it takes.
func (n *Notifier) add(ctx context.Context, outbox Outbox, notice *Notice) {
	wait := queue.Backoff{First: queue.StoreRetryFirst, Max: queue.StoreRetryMax}
	for try := 1; ; try++ {
		tryCtx, cancel := context.WithTimeout(ctx, queue.NotifyStoreTime)
		if n.o.Number != nil && notice.Version != "" && notice.VersionNumber == 0 {
			notice.VersionNumber = n.o.Number(tryCtx, notice.App, notice.Version)
		}
		added, err := outbox.Add(tryCtx, notice, n.ways, queue.KeptNotices)
		late := tryCtx.Err() != nil
		cancel()
		switch {
		case err == nil && !added:
			return // somebody has told it today
		case err == nil:
			n.o.Log.Info("a notice is to be sent", "rule", string(notice.Rule), "about", notice.Subject())
			for _, wake := range n.wake {
				select {
				case wake <- struct{}{}:
				default:
				}
			}
			return
		case fault.KindOf(err) != fault.Unavailable && !late || ctx.Err() != nil:
			n.o.Log.Error("a notice was not written and is lost", "rule", string(notice.Rule), "about", notice.Subject(), "error", fault.Detail(err))
			return
		case try == 1:
			n.o.Log.Warn("a notice cannot be written; trying again", "rule", string(notice.Rule), "about", notice.Subject(), "error", fault.Detail(err))
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait.Delay(try)):
		}
	}
}

// send sends what is due by a channel until ctx ends, and finishes a try under way until working does.
func (n *Notifier) send(ctx, working context.Context, outbox Outbox, c Channel, wake <-chan struct{}) {
	failures := 0
	for ctx.Err() == nil {
		claimCtx, cancel := context.WithTimeout(ctx, queue.NotifyStoreTime)
		d, next, err := outbox.Claim(claimCtx, c.Ways(), queue.NotifyLease)
		cancel()
		if d != nil {
			failures = 0
			n.deliver(working, outbox, c, d)
			continue
		}
		pause := queue.NotifyEvery
		switch {
		case err != nil && ctx.Err() != nil:
			return
		case err != nil:
			if failures++; failures == 1 {
				n.o.Log.Warn("the outbox of notices does not answer; trying again", "error", fault.Detail(err))
			}
			pause = queue.Backoff{First: queue.StoreRetryMax, Max: queue.NotifyEvery}.Delay(failures)
		case next > 0:
			failures, pause = 0, min(pause, next)
		default:
			failures = 0
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// deliver makes one try.
func (n *Notifier) deliver(ctx context.Context, outbox Outbox, c Channel, d *Delivery) {
	log := n.o.Log.With("rule", string(d.Notice.Rule), "about", d.Notice.Subject(), "way", d.Way, "attempt", d.Attempt)
	err := c.Send(ctx, d)
	// What was sent is noted even at a stop.
	noteCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), queue.NotifyStopTime)
	defer cancel()
	var noted error
	switch {
	case err == nil:
		log.Info("a notice was sent")
		noted = outbox.Sent(noteCtx, d)
	case ctx.Err() != nil:
		noted = outbox.Retry(noteCtx, d, 0, "cut off by a stop")
	default:
		problem := problemOf(err)
		delay := queue.Backoff{First: queue.NotifyRetryFirst, Max: queue.NotifyRetryMax}.Delay(d.Attempt)
		if !errors.Is(err, ErrRefused) && d.Age+delay <= queue.NotifyAge {
			log.Warn("a notice was not sent; trying again", "error", fault.Detail(err), "after", span.Text(delay))
			noted = outbox.Retry(noteCtx, d, delay, problem)
			break
		}
		log.Error("a notice was not sent and is given up", "error", fault.Detail(err))
		if noted = outbox.Failed(noteCtx, d, problem); noted == nil && n.o.GivenUp != nil {
			n.o.GivenUp(noteCtx, d.Notice, d.Way, problem)
		}
	}
	if noted != nil {
		// Its lease ends, and then it is sent again.
		log.Warn("what became of a notice was not noted", "error", fault.Detail(noted))
	}
}

// problemOf is an error for an operator.
func problemOf(err error) string {
	if f := fault.From(err); f.Kind != fault.Internal {
		return clean(f.Message)
	}
	return clean(fault.Detail(err))
}

// watch looks at the ages of queues.
func (n *Notifier) watch(ctx context.Context) {
	tick := time.NewTicker(queue.NotifyEvery)
	defer tick.Stop()
	for {
		for _, a := range n.o.Ages(ctx) {
			n.Age(&a)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
