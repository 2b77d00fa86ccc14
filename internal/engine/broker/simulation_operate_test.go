package broker_test

import (
	"context"
	"slices"
	"time"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/operate"
)

// operated is what the model knows of one message because of an operator.
type operated struct {
	// goneAt is when the message was known to be gone; a delivery at this very time was made just before.
	goneAt time.Time
	// since is when its states were known last.
	since time.Time
	// maybeAt is when a purge may have taken it. doubtIn is the generation in which nobody learned whether it was deleted.
	maybeAt time.Time
	doubtIn int
	// hurried is the end of the last call that made it visible.
	hurried time.Time
}

// operations is what an operator does to the queues.
type operations struct {
	redrives []moving
	// paused is since when queues are known to be paused.
	paused map[string]time.Time
}

// moving is a redrive. It may have moved what was in one queue to another until its end.
type moving struct {
	from, to string
	end      time.Time
}

// forever is the end of a call that has not returned.
var forever = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// reach returns the queues to which redrives may have moved a message of a queue since a time, by one move or more: the
// queue itself may be among them. mu is held.
func (s *simulation) reach(queueName string, since time.Time) []string {
	var reached []string
	for from := []string{queueName}; len(from) > 0; from = from[1:] {
		for _, m := range s.redrives {
			if m.from == from[0] && !m.end.Before(since) && !slices.Contains(reached, m.to) {
				reached = append(reached, m.to)
				from = append(from, m.to)
			}
		}
	}
	return reached
}

// places are the queues in which a message may be. mu is held.
func (s *simulation) places(e *entry) []string {
	var queues []string
	for _, st := range e.states {
		queues = append(queues, st.queue)
	}
	if f := e.flight; f != nil && f.settling && !f.final {
		queues = append(queues, f.next.queue)
	}
	for _, name := range queues {
		queues = append(queues, s.reach(name, e.since)...)
	}
	return queues
}

// operatedState finds the state of the model in which a message came, or may have come after what an operator did to it.
// mu is held.
func (s *simulation) operatedState(e *entry, queueName string, m *queue.Message, now time.Time) (state, bool) {
	for _, st := range e.states {
		early := now.Before(st.notBefore) && (e.hurried.IsZero() || e.hurried.Before(e.since))
		if st.queue == queueName && st.failures == m.Failures && st.losses == m.Losses && !early {
			// It has come; should its lease end without a word, it may come again at once.
			st.notBefore = time.Time{}
			return st, true
		}
		if moved := s.reach(st.queue, e.since); m.Failures == 0 && m.Losses == 0 && slices.Contains(moved, queueName) {
			return state{queue: queueName}, true
		}
	}
	return state{}, false
}

// seen takes note of a delivery. mu is held.
func (s *simulation) seen(e *entry, queueName string, generation int, now time.Time) {
	if since, ok := s.paused[queueName]; ok && now.After(since) {
		s.t.Errorf("a message of %s came although the queue is paused", queueName)
	}
	if now.After(e.maybeAt) {
		e.maybeGone = false
	}
	if generation > e.doubtIn {
		e.doubtIn = 0
	}
	e.since = now
}

// operate does what an operator may do until ctx ends.
func (s *simulation) operate(ctx context.Context) {
	for ctx.Err() == nil {
		<-time.After(s.duration(800 * time.Millisecond))
		queueName := simQueues[s.intN(3)]
		patience, cancel := context.WithCancel(ctx)
		if s.chance(5) {
			cancel()
			patience, cancel = context.WithTimeout(ctx, s.duration(300*time.Millisecond))
		}
		switch s.intN(8) {
		case 0:
			s.pause(patience, queueName)
		case 1, 2:
			s.resume(patience, queueName)
		case 3:
			s.purge(patience, queueName)
		case 4, 5:
			s.redrive(patience, queueName)
		case 6:
			s.change(patience, queueName, true)
		case 7:
			s.change(patience, queueName, false)
		}
		cancel()
	}
}

func (s *simulation) pause(ctx context.Context, queueName string) {
	b, _ := s.current()
	if b.Pause(ctx, queueName) == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.paused[queueName] = time.Now()
	}
}

func (s *simulation) resume(ctx context.Context, queueName string) bool {
	s.mu.Lock()
	delete(s.paused, queueName)
	s.mu.Unlock()
	b, _ := s.current()
	return b.Resume(ctx, queueName) == nil
}

func (s *simulation) resumeAll() {
	for _, name := range simQueues {
		for !s.resume(context.Background(), name) {
			<-time.After(10 * time.Millisecond)
		}
	}
}

func (s *simulation) purge(ctx context.Context, queueName string) {
	b, generation := s.current()
	s.mu.Lock()
	there := map[string]bool{}
	for name, e := range s.entries {
		there[name] = e.accepted
	}
	s.mu.Unlock()
	made := false
	_, err := b.Purge(ctx, queueName, func(operate.Purged) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !made {
			s.purged(queueName, there)
		}
		made = true
	})
	if err == nil || made {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.entries {
		if slices.Contains(s.places(e), queueName) {
			e.doubtIn = generation
		}
	}
}

// purged takes note of a purge that takes effect now. There are the messages that had been accepted when it was called. mu
// is held.
func (s *simulation) purged(queueName string, there map[string]bool) {
	now := time.Now()
	for name, e := range s.entries {
		places := s.places(e)
		switch {
		case e.gone || !slices.Contains(places, queueName):
		case there[name] && !slices.ContainsFunc(places, func(place string) bool { return place != queueName }):
			e.gone, e.goneAt = true, now
		default:
			e.maybeGone, e.maybeAt = true, now
		}
	}
}

func (s *simulation) redrive(ctx context.Context, queueName string) {
	b, _ := s.current()
	to := simQueues[s.intN(3)]
	options := operate.RedriveOptions{To: to}
	targets := []string{to}
	if queueName == "dead" && s.intN(2) == 0 {
		options.To, targets = "", []string{"a", "b"}
	}
	if s.intN(3) == 0 {
		options.IDs, _ = s.some(ctx, queueName)
	}
	s.mu.Lock()
	first := len(s.redrives)
	for _, to := range targets {
		s.redrives = append(s.redrives, moving{from: queueName, to: to, end: forever})
	}
	s.mu.Unlock()
	_, _ = b.Redrive(ctx, queueName, options)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := first; i < len(s.redrives); i++ {
		s.redrives[i].end = time.Now()
	}
}

// some returns messages of a queue with their names.
func (s *simulation) some(ctx context.Context, queueName string) (ids []queue.ID, names []string) {
	b, _ := s.current()
	states := []operate.State{operate.Any, operate.Visible, operate.Delayed, operate.InFlight}
	page, err := b.Peek(ctx, queueName, operate.PeekOptions{State: states[s.intN(4)], Rows: 1 + s.intN(5)})
	if err != nil {
		return nil, nil
	}
	for _, m := range page.Messages {
		ids = append(ids, m.ID)
		names = append(names, string(m.Body))
	}
	return ids, names
}

// change deletes some messages or makes them visible.
func (s *simulation) change(ctx context.Context, queueName string, remove bool) {
	ids, names := s.some(ctx, queueName)
	if len(ids) == 0 {
		return
	}
	b, generation := s.current()
	if !remove {
		s.hurry(names, forever)
		_, _ = b.RetryNow(ctx, queueName, ids)
		s.hurry(names, time.Now())
		return
	}
	c, err := b.Delete(ctx, queueName, ids)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, name := range names {
		e := s.entries[name]
		switch {
		case err != nil:
			e.doubtIn = generation
		case slices.Contains(c.InFlight, ids[i]) || slices.Contains(c.Missing, ids[i]) || e.gone:
		default:
			e.gone, e.goneAt = true, time.Now()
		}
	}
}

func (s *simulation) hurry(names []string, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		s.entries[name].hurried = until
	}
}
