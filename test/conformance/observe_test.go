package conformance_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/runlot/runlot/internal/config/source"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/daemon"
)

// collector is the observer of a daemon: it keeps everything and tells those who wait.
type collector struct {
	mu      sync.Mutex
	change  chan struct{} // closed and replaced at every change; guarded by mu
	summary *daemon.Summary
	records []daemon.Record
	runs    []daemon.CronRun
	events  []event
	lines   []daemon.Line
	reloads map[string]int
	failed  map[string]error
	warned  map[string][]string
	notices []string
}

// event is what a handler logged: one line of JSON for each call.
type event struct {
	Queue    string
	Version  string
	Metrics  *metrics
	Messages []message
	delivery string
}

// message is one message as a handler saw it.
type message struct {
	ID        string
	Timestamp int64
	Attempts  int
	Body      json.RawMessage
}

// name is what a case calls the message: n of its body, or the body itself.
func (m *message) name() string {
	var body struct{ N string }
	if json.Unmarshal(m.Body, &body) == nil && body.N != "" {
		return body.N
	}
	return compact(m.Body)
}

type metrics struct {
	BacklogCount, BacklogBytes int64
	OldestMessageTimestamp     string
}

func newCollector() *collector {
	return &collector{change: make(chan struct{}), reloads: map[string]int{}, failed: map[string]error{}, warned: map[string][]string{}}
}

func (c *collector) add(keep func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	keep()
	close(c.change)
	c.change = make(chan struct{})
}

// changes returns a channel that is closed at the next change.
func (c *collector) changes() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.change
}

func (c *collector) ready() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.summary != nil
}

// url is where an app listens.
func (c *collector) url(app string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.summary.Apps {
		if a.Name == app {
			return a.URL
		}
	}
	return ""
}

// The methods of daemon.Observer.

func (c *collector) Batch(r *daemon.Record) { c.add(func() { c.records = append(c.records, *r) }) }

func (c *collector) Run(r *daemon.CronRun) { c.add(func() { c.runs = append(c.runs, *r) }) }

func (c *collector) Started(s *daemon.Summary) { c.add(func() { c.summary = s }) }

func (c *collector) Live(app, _ string, _ time.Duration, reload bool) {
	if reload {
		c.add(func() { c.reloads[app]++ })
	}
}

func (c *collector) Failed(app string, err error) { c.add(func() { c.failed[app] = err }) }

func (c *collector) Line(_ string, l *daemon.Line) {
	c.add(func() {
		c.lines = append(c.lines, *l)
		e := event{delivery: l.Delivery}
		if l.Event == "queue" && strings.HasPrefix(l.Text, "{") && json.Unmarshal([]byte(l.Text), &e) == nil {
			c.events = append(c.events, e)
		}
	})
}

func (c *collector) Warnings(app string, warnings []source.Diagnostic) {
	c.add(func() {
		for _, w := range warnings {
			c.warned[app] = append(c.warned[app], w.Message)
		}
	})
}

func (c *collector) Progress(string)  {}
func (c *collector) Down(_, _ string) {}
func (c *collector) Notice(text string) {
	c.add(func() { c.notices = append(c.notices, text) })
}
func (c *collector) Stopping() {}

// batches joins the records of these queues with what their handlers logged, in order of their start. A batch whose log
// is still on its way is left out, so that whoever waits for a number of batches waits for all of them; no log comes of a
// handler that did not end or was not called.
func (c *collector) batches(queues ...string) []batch { return c.joined(queues, false) }

// joined does the work of batches. With unlogged, a batch whose log is missing is in it too: a process that dies takes
// the logs along that it has not handed over.
func (c *collector) joined(queues []string, unlogged bool) []batch {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []batch
	for i := range c.records {
		r := &c.records[i]
		if !slices.Contains(queues, r.Queue) {
			continue
		}
		b := batch{
			Queue: r.Queue, Outcome: r.Outcome, Start: r.Start, Duration: r.Duration, Reason: r.Reason, Warnings: r.Warnings,
			Delivered: r.Delivered, Acked: r.Acked, Retried: r.Retried, Redelivered: r.Redelivered, Dead: r.Dead, Dropped: r.Dropped,
		}
		if r.Error != nil {
			b.Error, b.Location = r.Error.Name+": "+r.Error.Message, r.Error.Location
		}
		at := slices.IndexFunc(c.events, func(e event) bool { return e.delivery == r.Delivery })
		if at >= 0 {
			e := &c.events[at]
			b.Messages, b.Metrics, b.Version = slices.Clone(e.Messages), e.Metrics, e.Version
		} else if !unlogged && (r.Outcome == queue.OK || r.Outcome == queue.Failed && !strings.Contains(b.Error, "cannot be decoded")) {
			continue
		}
		list = append(list, b)
	}
	slices.SortStableFunc(list, func(a, b batch) int {
		return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(a.Queue, b.Queue))
	})
	return list
}

// observation is everything that a check may look at.
type observation struct {
	Batches []batch
	// Left is what the database still holds of the case's queues.
	Left    []row
	Answers []answer
	// Runs are those of a scheduled handler.
	Runs []cronRun
	// Calls are the calls at the gate, in order.
	Calls []string
	// Facts are what only this case looks at.
	Facts map[string]string
	// Outside says that only Answers, Calls, Facts and what handlers saw of Batches are known.
	Outside bool `json:",omitempty"`
}

// batch is one call of a handler.
type batch struct {
	Queue                                                 string
	Outcome                                               queue.Outcome
	Messages                                              []message
	Delivered, Acked, Retried, Redelivered, Dead, Dropped int
	Start                                                 time.Time
	Duration                                              time.Duration
	Error, Location, Reason, Version                      string
	Warnings                                              []string
	Metrics                                               *metrics
}

func (b *batch) end() time.Time { return b.Start.Add(b.Duration) }

// row is a line of the view runlot_queue.messages.
type row struct {
	Queue, ID, State, Name string
	Attempts               int
	SentAt, VisibleAt      time.Time
}

// answer is what one call of a producer came to.
type answer struct {
	Value  json.RawMessage
	IsDate bool
	Error  *struct {
		Name, Message string
		// Code is a text in the product's errors, a number in those of the web.
		Code    any
		IsError bool
	}
}

func (a *answer) String() string {
	if a.Error == nil {
		return "ok"
	}
	text := a.Error.Name + ": " + a.Error.Message
	if code, ok := a.Error.Code.(string); ok {
		text += " [" + code + "]"
	}
	return text
}

// metrics are those of a response to send, or of metrics().
func (a *answer) metrics() metrics {
	var envelope struct {
		metrics
		Metadata *struct{ Metrics metrics }
	}
	_ = json.Unmarshal(a.Value, &envelope)
	if envelope.Metadata != nil {
		return envelope.Metadata.Metrics
	}
	return envelope.metrics
}

// clone returns a deep copy.
func (o *observation) clone(t *testing.T) *observation {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	var copied observation
	if err := json.Unmarshal(text, &copied); err != nil {
		t.Fatal(err)
	}
	return &copied
}

func (o *observation) String() string {
	text, err := json.MarshalIndent(o, "", " ")
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// trace tells the course of a case in a line for each batch, and one for each message left:
//
//	failed a1 b1 → acked 1 retried 1
//	left b attempts 1 in 3600s
//
// A number behind a name is the attempt. The delay of a message that was not handled yet is counted from its send, any other
// from the end of its last batch. It is never shorter than what was asked for, but a busy machine settles later: it is read
// in whole steps of 5 s, long ones in steps of 20 s. The queue is named where it is not the first of the case.
func (o *observation) trace(c *testCase) []string {
	lines := make([]string, 0, len(o.Batches)+len(o.Left))
	in := func(name string) string {
		if name == c.queues[0] {
			return ""
		}
		return name + ": "
	}
	for i := range o.Batches {
		b := &o.Batches[i]
		line := in(b.Queue) + string(b.Outcome)
		for j := range b.Messages {
			line += fmt.Sprintf(" %s%d", b.Messages[j].name(), b.Messages[j].Attempts)
		}
		if o.Outside {
			lines = append(lines, strings.TrimPrefix(strings.Replace(line, ":  ", ": ", 1), " "))
			continue
		}
		line += " →"
		for _, count := range []struct {
			verb string
			n    int
		}{{"acked", b.Acked}, {"retried", b.Retried}, {"redelivered", b.Redelivered}, {"dead", b.Dead}, {"dropped", b.Dropped}} {
			if count.n > 0 {
				line += fmt.Sprintf(" %s %d", count.verb, count.n)
			}
		}
		lines = append(lines, line)
	}
	for i := range o.Left {
		r := &o.Left[i]
		wait := r.VisibleAt.Sub(r.SentAt)
		if r.Attempts > 0 {
			wait = r.VisibleAt.Sub(o.handled(r.Name))
		}
		step := 5 * time.Second
		if wait > 5*time.Minute {
			step = 20 * time.Second
		}
		wait = max(0, wait+clockGrain).Truncate(step)
		lines = append(lines, fmt.Sprintf("%sleft %s attempts %d in %.0fs", in(r.Queue), r.Name, r.Attempts, wait.Seconds()))
	}
	return lines
}

// clockGrain is what the database and a record of a batch may round times by, together.
const clockGrain = 10 * time.Millisecond

// handled is when the last batch with a message of a name ended; when none tells of its messages, when the last batch did.
func (o *observation) handled(name string) time.Time {
	var last time.Time
	for i := range o.Batches {
		b := &o.Batches[i]
		if slices.ContainsFunc(b.Messages, func(m message) bool { return m.name() == name }) {
			last = b.end()
		}
	}
	if last.IsZero() && len(o.Batches) > 0 {
		last = o.Batches[len(o.Batches)-1].end()
	}
	return last
}

// seen returns every message of a name, in the order of its deliveries.
func (o *observation) seen(name string) []message {
	var list []message
	for i := range o.Batches {
		for _, m := range o.Batches[i].Messages {
			if m.name() == name {
				list = append(list, m)
			}
		}
	}
	return list
}
