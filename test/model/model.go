// Package model is the promise about messages as a program that a test can ask: where each message may be, what its next
// delivery looks like, and when it must not come any more. Whoever drives a broker tells the model what happens, and the
// model reports what must not have happened.
//
// The rule, for every message that was accepted: it is in the state that its last known step left it in, or in one of a few
// after a crash. A delivery comes from its queue, with its id, its failures and losses, not before its time, not under
// another lease, and not once it was settled for good. A lease ends in what was decided, or after a crash in either of
// before and after. An operator's verb moves, deletes or hurries what it names. In the end everything has left.
package model

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/runlot/runlot/internal/core/queue"
)

// Reporter takes what must not have happened; a testing.TB is one.
type Reporter interface {
	Errorf(format string, args ...any)
}

// slack is the most by which clocks that are read in whole milliseconds let a message come early.
const slack = time.Millisecond

// state is what a store may hold of a message.
type state struct {
	queue            string
	failures, losses int
	// notBefore is the earliest time of the next delivery.
	notBefore time.Time
}

// Flight is a delivery that is not known to be settled.
type Flight struct {
	name       string
	generation int
	settling   bool
	// final: the settlement deletes the message; else it leaves it in state next.
	final bool
	next  state
}

// entry is what the model knows of one message.
type entry struct {
	id queue.ID
	// accepted: the sender was told so. gone: a settlement that deletes it was confirmed; maybeGone: it was not, and may
	// have been carried out.
	accepted, gone, maybeGone bool
	// enqueued: SQL has sent it, and it may not have come into its queue until it is delivered.
	enqueued bool
	// sentAt is when it was sent, at the earliest.
	sentAt time.Time
	// states are those that the store may hold; more than one after a crash.
	states     []state
	flight     *Flight
	deliveries int
	operated
	// history is what happened to it, for reports.
	history []string
}

func (e *entry) notef(format string, args ...any) {
	e.history = append(e.history, time.Now().Format("05.000000 ")+fmt.Sprintf(format, args...))
}

// Model knows the messages of some queues. Its methods may be called from several goroutines.
type Model struct {
	report Reporter

	mu      sync.Mutex
	entries map[string]*entry
	operations
}

// New makes a model without messages.
func New(report Reporter) *Model {
	return &Model{report: report, entries: map[string]*entry{}, operations: operations{paused: map[string]time.Time{}, retention: map[string]time.Duration{}}}
}

// Sending says that a message is about to be sent. Its body is its name, and no other message has it.
func (m *Model) Sending(queueName, name string, delay time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	st := state{queue: queueName}
	if delay > 0 {
		st.notBefore = now.Add(delay)
	}
	m.entries[name] = &entry{sentAt: now, states: []state{st}}
}

// Enqueuing is Sending for a message that SQL sends: it comes into its queue some time later.
func (m *Model) Enqueuing(queueName, name string, delay time.Duration) {
	m.Sending(queueName, name, delay)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entries[name].enqueued = true
}

// Accepted says that the senders of messages were told that they are stored.
func (m *Model) Accepted(names ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range names {
		m.entries[name].accepted = true
	}
}

// Leased is told of a batch of at most size messages that the owner of this generation handed out. The call that got it
// began at a time; what was leased may have been so since.
func (m *Model) Leased(generation int, batch *queue.Batch, size int, began time.Time) []*Flight {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(batch.Messages) == 0 || len(batch.Messages) > size {
		m.report.Errorf("a batch of %d messages, asked for 1 to %d", len(batch.Messages), size)
	}
	now := time.Now()
	if since, ok := m.paused[batch.Queue]; ok && began.After(since) {
		m.report.Errorf("a message of %s came although the queue is paused", batch.Queue)
	}
	flights := make([]*Flight, len(batch.Messages))
	for i := range batch.Messages {
		message := &batch.Messages[i]
		flights[i] = &Flight{name: string(message.Body), generation: generation}
		e := m.entries[flights[i].name]
		if e == nil {
			m.report.Errorf("%s was never sent", message.Body)
			continue
		}
		if message.Losses >= queue.LossesBeforeAlone && len(batch.Messages) > 1 {
			m.report.Errorf("%s was lost %d times and was not alone", message.Body, message.Losses)
		}
		m.lease(e, flights[i], batch.Queue, message, began, now)
	}
	return flights
}

// lease checks one delivery. mu is held.
func (m *Model) lease(e *entry, f *Flight, queueName string, message *queue.Message, began, now time.Time) {
	if e.gone && began.After(e.goneAt) {
		m.report.Errorf("%s was delivered from %s after it was known to be gone: %q", f.name, queueName, e.history)
	}
	if before := e.flight; before != nil && before.generation == f.generation {
		switch {
		case !before.settling:
			m.report.Errorf("%s was delivered under a lease", f.name)
		case before.final:
			m.report.Errorf("%s was delivered while it was being deleted", f.name)
		}
		e.states = []state{before.next}
	}
	st, known := m.operatedState(e, queueName, message, now)
	if !known {
		m.report.Errorf("%s came from %s at %s with %d failures and %d losses; the model has %+v after %q",
			f.name, queueName, now.Format(time.StampMicro), message.Failures, message.Losses, e.states, e.history)
	}
	if e.deliveries > 0 && e.id != message.ID {
		m.report.Errorf("%s changed its id from %s to %s", f.name, e.id, message.ID)
	}
	e.id, e.states = message.ID, []state{st}
	if began.After(e.maybeAt) {
		e.maybeGone = false
	}
	if f.generation > e.doubtIn {
		e.doubtIn = 0
	}
	e.since = now
	e.deliveries++
	e.enqueued = false
	e.notef("leased by %d from %s, seq %d", f.generation, queueName, message.Seq)
	e.flight = f
}

// Settling is told what is about to be decided of a batch, and where its dead letters go.
func (m *Model) Settling(flights []*Flight, queueName string, decisions []queue.Decision, dead string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	for i, f := range flights {
		d := &decisions[i]
		f.settling = true
		f.final = d.Verdict == queue.Ack || d.Verdict == queue.Drop
		f.next = state{queue: queueName}
		switch d.Verdict {
		case queue.Retry:
			f.next = state{queue: queueName, failures: d.Failures, losses: d.Losses, notBefore: now.Add(d.Delay)}
		case queue.DeadLetter:
			f.next.queue = dead
		case queue.Ack, queue.Drop:
		}
		// After the end of its broker, a handler's word says nothing about where the message is.
		if e := m.entries[f.name]; e != nil && e.flight == f {
			e.since = now
			e.notef("decided: %s", d.Verdict)
		}
	}
}

// Settled is told how a settlement ended.
func (m *Model) Settled(flights []*Flight, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range flights {
		e := m.entries[f.name]
		switch {
		case e == nil:
		case err != nil:
			e.unsure(f)
		case f.final:
			if e.flight != f {
				m.report.Errorf("%s was delivered again before its acknowledgement was confirmed", f.name)
			}
			e.leave(time.Now())
			e.notef("settled for good")
			e.flight = nil
		case e.flight == f:
			// It may have been there since before its commit was told, and moved on.
			e.states, e.flight = []state{f.next}, nil
			e.notef("settled")
		}
	}
}

// Left is told that whoever had these deliveries in hand left without a word.
func (m *Model) Left(flights []*Flight) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range flights {
		m.entries[f.name].unsure(f)
	}
}

// Doubt is told that a generation has ended: the outcome of what it had in flight is unknown.
func (m *Model) Doubt(generation int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.entries {
		if f := e.flight; f != nil && f.generation == generation {
			e.unsure(f)
		}
	}
}

// unsure takes note that nobody knows whether a settlement was carried out.
func (e *entry) unsure(f *Flight) {
	if e.flight != f {
		return
	}
	e.flight = nil
	e.notef("in doubt")
	switch {
	case f.final:
		e.maybeGone = true
	case f.settling:
		e.states = append(e.states, f.next)
	}
}

func (e *entry) leave(now time.Time) {
	if !e.gone {
		e.gone, e.goneAt = true, now
	}
}

// Waiting returns how many accepted messages have to come yet.
func (m *Model) Waiting() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, e := range m.entries {
		if m.due(e) {
			n++
		}
	}
	return n
}

// End is told that every queue is empty, and reports what was lost.
func (m *Model) End() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, e := range m.entries {
		if m.due(e) {
			m.report.Errorf("%s was accepted, delivered %d times and did not come to its end: %+v, in flight %+v", name, e.deliveries, e.states, e.flight)
		}
	}
}

// due reports whether a message has to come yet. mu is held.
func (m *Model) due(e *entry) bool {
	if !e.accepted || e.gone || e.maybeGone || e.doubtIn != 0 {
		return false
	}
	return !slices.ContainsFunc(m.places(e), func(name string) bool {
		kept, ok := m.retention[name]
		return ok && time.Since(e.sentAt) >= kept
	})
}
