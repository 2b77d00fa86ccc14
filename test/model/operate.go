package model

import (
	"slices"
	"time"

	"github.com/runlot/runlot/internal/core/queue"
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
	redrives []*Redrive
	// paused is since when queues are known to be paused.
	paused map[string]time.Time
	// retention is the shortest time for which queues may have kept their messages, where it is not the default.
	retention map[string]time.Duration
}

// Redrive may have moved what was in one queue to others until its end.
type Redrive struct {
	from string
	to   []string
	end  time.Time
	// sure are the messages that were nowhere else when it began, and since when that was known.
	sure map[*entry]time.Time
}

// forever is the end of a call that has not returned.
var forever = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// reach returns the queues to which redrives may have moved a message of a queue since a time, by one move or more: the
// queue itself may be among them. mu is held.
func (m *Model) reach(queueName string, since time.Time) []string {
	var reached []string
	for from := []string{queueName}; len(from) > 0; from = from[1:] {
		for _, r := range m.redrives {
			if r.from != from[0] || r.end.Before(since) {
				continue
			}
			for _, to := range r.to {
				if !slices.Contains(reached, to) {
					reached = append(reached, to)
					from = append(from, to)
				}
			}
		}
	}
	return reached
}

// places are the queues in which a message may be. mu is held.
func (m *Model) places(e *entry) []string {
	var queues []string
	for _, st := range e.states {
		queues = append(queues, st.queue)
	}
	if f := e.flight; f != nil && f.settling && !f.final {
		queues = append(queues, f.next.queue)
	}
	for _, name := range queues {
		queues = append(queues, m.reach(name, e.since)...)
	}
	return queues
}

// operatedState finds the state of the model in which a message came, or may have come after what an operator did to it.
// mu is held.
func (m *Model) operatedState(e *entry, queueName string, message *queue.Message, now time.Time) (state, bool) {
	for _, st := range e.states {
		early := now.Before(st.notBefore.Add(-slack)) && (e.hurried.IsZero() || e.hurried.Before(e.since))
		if st.queue == queueName && st.failures == message.Failures && st.losses == message.Losses && !early {
			// It has come; should its lease end without a word, it may come again at once.
			st.notBefore = time.Time{}
			return st, true
		}
		if moved := m.reach(st.queue, e.since); message.Failures == 0 && message.Losses == 0 && slices.Contains(moved, queueName) {
			return state{queue: queueName}, true
		}
	}
	return state{}, false
}

// Paused is told that a pause was made; Resuming that it is about to be taken back.
func (m *Model) Paused(queueName string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.paused[queueName] = time.Now()
}

// Resuming is described at Paused.
func (m *Model) Resuming(queueName string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.paused, queueName)
}

// Retention is told that a queue may keep its messages no longer than this from now on.
func (m *Model) Retention(queueName string, kept time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if before, ok := m.retention[queueName]; !ok || kept < before {
		m.retention[queueName] = kept
	}
}

// Purging returns what to call when a purge that is about to begin is known to be made.
func (m *Model) Purging(queueName string) (made func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	there := map[string]bool{}
	for name, e := range m.entries {
		there[name] = e.accepted && m.within(e, queueName)
	}
	return func() { m.purged(queueName, there) }
}

// within reports whether a message can be in one queue alone. mu is held.
func (m *Model) within(e *entry, queueName string) bool {
	return !slices.ContainsFunc(m.places(e), func(place string) bool { return place != queueName })
}

// purged takes note of a purge that has taken effect. There are the messages that were in the queue when it was called. Of
// one that came or left since, nobody knows on which side of the purge that was.
func (m *Model) purged(queueName string, there map[string]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	for name, e := range m.entries {
		switch {
		case e.gone:
		case there[name] && m.within(e, queueName):
			e.leave(now)
			e.notef("purged from %s", queueName)
		case there[name], slices.Contains(m.places(e), queueName):
			e.maybeGone, e.maybeAt = true, now
			e.notef("perhaps purged from %s", queueName)
		}
	}
}

// PurgeUnknown is told that nobody knows whether a purge of this generation was made.
func (m *Model) PurgeUnknown(queueName string, generation int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.entries {
		if slices.Contains(m.places(e), queueName) {
			e.doubtIn = generation
		}
	}
}

// Redriving is told that a redrive begins, of everything or else of some messages.
func (m *Model) Redriving(from string, to []string, everything bool) *Redrive {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := &Redrive{from: from, to: to, end: forever, sure: map[*entry]time.Time{}}
	for _, e := range m.entries {
		if everything && m.due(e) && e.flight == nil && !e.enqueued && m.within(e, from) {
			r.sure[e] = e.since
		}
	}
	m.redrives = append(m.redrives, r)
	return r
}

// Redriven is told that a redrive has ended. When it ended well and nothing consumes the queue it took from, all that was
// there is where it was to go, and it returns how many messages have to be among those moved.
func (m *Model) Redriven(r *Redrive, whole bool) (least int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	r.end = now
	if !whole || len(r.to) > 1 {
		return 0
	}
	for e, since := range r.sure {
		if !m.due(e) {
			continue
		}
		least++
		// Of what was delivered meanwhile, more is known already.
		if e.since.Equal(since) && e.flight == nil && !e.gone {
			e.states, e.since = []state{{queue: r.to[0]}}, now
			e.notef("redriven to %s", r.to[0])
		}
	}
	return least
}

// Deleted is told of the outcome of a call that deletes messages: those that it says are gone, or err.
func (m *Model) Deleted(names []string, generation int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range names {
		switch e := m.entries[name]; {
		case err != nil:
			e.doubtIn = generation
		default:
			e.leave(time.Now())
			e.notef("deleted")
		}
	}
}

// Hurrying is told that messages are about to be made visible, and returns what to call after it.
func (m *Model) Hurrying(names []string) (done func()) {
	hurry := func(until time.Time) {
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, name := range names {
			m.entries[name].hurried = until
		}
	}
	hurry(forever)
	return func() { hurry(time.Now()) }
}
