package binding

import (
	"bytes"
	"strconv"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/core/trace"
)

// Trace is how sends become spans.
type Trace struct {
	Tracer trace.Tracer
	// Secret begins a message that says which code sent it. The worker's code does not know it.
	Secret string
	// Find is the span of that code, by what it says; nil for none.
	Find func(said string) *trace.Context
}

// room is how much longer a message may be than it is without its head.
func (t *Trace) room() int {
	if t == nil {
		return 0
	}
	return queue.MaxTraceHead
}

// formats are those that have a head, by its letter.
var formats = map[byte]queue.Format{'j': queue.JSON, 't': queue.Text, 'b': queue.Bytes}

// digits is how many the length of what is said has.
const digits = 3

// open takes the head off a message and returns what it says; "" where there is none.
func (t *Trace) open(d *queue.Draft) string {
	if t == nil || d.Format != queue.Bytes {
		return ""
	}
	rest, ok := bytes.CutPrefix(d.Body, []byte(t.Secret))
	if !ok || len(rest) < 1+digits {
		return ""
	}
	format, known := formats[rest[0]]
	n, err := strconv.Atoi(string(rest[1 : 1+digits]))
	rest = rest[1+digits:]
	if !known || err != nil || n < 0 || n > len(rest) {
		return ""
	}
	d.Format, d.Body = format, rest[n:]
	return string(rest[:n])
}

// begin begins the span of a send, which becomes that of its messages, and within it that of the commit. end is called with
// the outcome.
func (t *Trace) begin(app, queueName, said string, drafts []queue.Draft) (end func(error)) {
	if t == nil {
		return func(error) {}
	}
	var parent *trace.Context
	if said != "" {
		parent = t.Find(said)
	}
	sending := t.Tracer.Begin(trace.Start{Name: "send " + queueName, Kind: trace.Producer, Parent: parent, Attributes: []trace.Attribute{
		{Key: "messaging.system", Value: "runlot"},
		{Key: "messaging.destination.name", Value: queueName},
		{Key: "messaging.batch.message_count", Value: int64(len(drafts))},
		{Key: "runlot.app", Value: app},
	}})
	context := sending.Context()
	if context == nil {
		return func(err error) { sending.End(err) }
	}
	for i := range drafts {
		drafts[i].Trace = context
	}
	committing := t.Tracer.Begin(trace.Start{Name: "commit " + queueName, Parent: context})
	return func(err error) {
		committing.End(err)
		sending.End(err)
	}
}
