package model_test

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/dispatch"
	"github.com/runlot/runlot/test/model"
)

// verb is a kind of step of a program.
type verb string

const (
	send     verb = "send"
	enqueue  verb = "send by SQL"
	pause    verb = "pause"
	resume   verb = "resume"
	purge    verb = "purge"
	cutPurge verb = "purge, crash in the middle"
	redrive  verb = "redrive all"
	choose   verb = "redrive some"
	remove   verb = "delete some"
	hurry    verb = "retry some now"
	sever    verb = "lose the owner's session"
	kill     verb = "lose every session"
	restart  verb = "stop and start"
	reload   verb = "new version"
	retain   verb = "change the retention"
	rest     verb = "wait"
)

// verbs has each verb as often as programs should.
var verbs = []verb{
	send, send, send, send, send, send, enqueue, enqueue, pause, resume, resume, purge, cutPurge, redrive, redrive, choose, remove,
	hurry, sever, sever, kill, restart, reload, retain, rest,
}

// step is one thing that happens to the queues. Times are in units of the store's clock.
type step struct {
	verb  verb
	queue int
	to    int
	// delays has one entry for each message, -1 for none given.
	delays []int
	n      int
	after  int
}

// String is the step as a log shows it.
func (s *step) String() string {
	return fmt.Sprintf("%s (queue %d, to %d, n %d, delays %v), then %d", s.verb, s.queue, s.to, s.n, s.delays, s.after)
}

// program is what happens to three queues: the steps, and what handlers do, both from one seed.
type program struct {
	seed  uint64
	steps []step
	tiny  []int
}

// delays are those of sends and retries.
var delays = []int{-1, -1, -1, 0, 1, 3, 8}

func newProgram(seed uint64) *program {
	random := rand.New(rand.NewPCG(seed, 0))
	p := &program{seed: seed}
	for range 4 + random.IntN(26) {
		s := step{verb: verbs[random.IntN(len(verbs))], queue: random.IntN(3), to: random.IntN(4), n: 1 + random.IntN(5), after: random.IntN(4)}
		for range 1 + random.IntN(6) {
			s.delays = append(s.delays, delays[random.IntN(len(delays))])
		}
		p.steps = append(p.steps, s)
	}
	for range 8 {
		p.tiny = append(p.tiny, 1+random.IntN(8))
	}
	return p
}

// deed is what a handler does with a batch: how long it takes, how it ends, and what it asked for.
type deed struct {
	ending model.Ending
	lasts  int
	// hangs: the handler waits for its cancellation. late: it returns a result all the same.
	hangs, late bool
	err         error
}

var errNoHandler = fmt.Errorf("no handler: %w", dispatch.ErrCannotRun)

// deed draws what the handler does with a batch. It depends on the seed and on the deliveries in it alone.
func (p *program) deed(batch *queue.Batch, unit time.Duration) *deed {
	h := fnv.New64a()
	for i := range batch.Messages {
		m := &batch.Messages[i]
		_, _ = fmt.Fprintf(h, "%s %d %d,", m.Body, m.Failures, m.Losses)
	}
	random := rand.New(rand.NewPCG(p.seed, h.Sum64()))
	d := &deed{lasts: random.IntN(2), ending: model.Ending{Outcome: queue.OK, Undecodable: map[queue.ID]bool{}}}
	switch random.IntN(30) {
	case 0:
		d.err, d.ending.Outcome = errNoHandler, queue.Errored
		return d
	case 1, 2:
		d.err, d.ending.Outcome = errors.Join(dispatch.ErrLost), queue.Lost
		return d
	case 3, 4:
		d.hangs = true
		d.late = random.IntN(2) == 0
	case 5, 6, 7, 8:
		d.ending.Outcome = queue.Failed
	}
	delay := func() *time.Duration {
		if n := delays[random.IntN(len(delays))]; n >= 0 {
			return new(time.Duration(n) * unit)
		}
		return nil
	}
	r := &queue.Report{Acked: map[queue.ID]struct{}{}, Retried: map[queue.ID]*time.Duration{}}
	for i := range batch.Messages {
		id := batch.Messages[i].ID
		switch random.IntN(8) {
		case 0, 1:
			r.Acked[id] = struct{}{}
		case 2, 3:
			r.Retried[id] = delay()
		case 4:
			if random.IntN(3) == 0 {
				d.ending.Undecodable[id] = true
			}
		}
	}
	r.AckAll = random.IntN(12) == 0
	if r.RetryAll = random.IntN(8) == 0; r.RetryAll {
		r.RetryAllDelay = delay()
	}
	d.ending.Report = r
	return d
}
