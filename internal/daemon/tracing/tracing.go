// Package tracing makes the spans of a node: of the requests that come in, of what their code sends, of each delivery of a
// traced message up to its settlement, and of scheduled runs. It stands around the parts and not in them; without a tracer
// it hands them through as they are.
package tracing

import (
	"context"
	"crypto/rand"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/runlot/runlot/internal/adapter/workerd"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/core/trace"
	"github.com/runlot/runlot/internal/daemon/crons"
	"github.com/runlot/runlot/internal/engine/dispatch"
	"github.com/runlot/runlot/internal/server/binding"
)

// The names of attributes: those of OpenTelemetry's conventions where they have one.
const (
	keyApp         = "runlot.app"
	keyVersion     = "runlot.version"
	keyQueue       = "messaging.destination.name"
	keyMessage     = "messaging.message.id"
	keyBatch       = "messaging.batch.message_count"
	keySystem      = "messaging.system"
	keyAttempt     = "runlot.attempt"
	keyOutcome     = "runlot.outcome"
	keyVerdict     = "runlot.verdict"
	keyCron        = "runlot.cron"
	keyMethod      = "http.request.method"
	keyStatus      = "http.response.status_code"
	keyPath        = "url.path"
	headerOfParent = "Traceparent"
)

// Tracing is that of one node.
type Tracing struct {
	tracer trace.Tracer

	mu sync.Mutex
	// marks are the handler calls under way, by what their code knows of them; guarded by mu.
	marks map[string]*trace.Context
}

// New returns the tracing of a node. The tracer may be trace.None.
func New(t trace.Tracer) *Tracing { return &Tracing{tracer: t, marks: map[string]*trace.Context{}} }

// Find is the span of the code that makes a call, by what it says of itself: a traceparent, or the mark of a handler call.
// It is nil when there is none.
func (t *Tracing) Find(said string) *trace.Context {
	if c := trace.Parse(said); c != nil {
		return c
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.marks[said]
}

// Sends makes spans of what the worker of a new process sends; nil without a tracer.
func (t *Tracing) Sends() *binding.Trace {
	if !t.tracer.Enabled() {
		return nil
	}
	return &binding.Trace{Tracer: t.tracer, Secret: rand.Text(), Find: t.Find}
}

// note remembers the span of a handler call under its marks until forget is called.
func (t *Tracing) note(c *trace.Context, marks ...string) (forget func()) {
	if c == nil {
		return func() {}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, m := range marks {
		t.marks[m] = c
	}
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		for _, m := range marks {
			if t.marks[m] == c {
				delete(t.marks, m)
			}
		}
	}
}

// MessageMark and CronMark are what the code of a handler says of its call.
func MessageMark(id queue.ID, attempt int) string { return id.String() + " " + strconv.Itoa(attempt) }

// CronMark is that of a scheduled handler.
func CronMark(cron string, at time.Time) string {
	return "cron " + cron + " " + strconv.FormatInt(at.UnixMilli(), 10)
}

// Door stands before a process of an app: each request is a span, whose context the worker gets as its traceparent.
func (t *Tracing) Door(appName, version string, p http.RoundTripper) http.RoundTripper {
	if !t.tracer.Enabled() {
		return p
	}
	return &door{t: t, app: appName, version: version, process: p}
}

type door struct {
	t            *Tracing
	app, version string
	process      http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (d *door) RoundTrip(r *http.Request) (*http.Response, error) {
	s := d.t.tracer.Begin(trace.Start{
		Name: r.Method, Kind: trace.Server, Parent: trace.Parse(r.Header.Get(headerOfParent)), Attributes: []trace.Attribute{
			{Key: keyApp, Value: d.app}, {Key: keyVersion, Value: d.version}, {Key: keyMethod, Value: r.Method}, {Key: keyPath, Value: r.URL.Path},
		},
	})
	if c := s.Context(); c != nil {
		r = r.Clone(r.Context())
		r.Header.Set(headerOfParent, c.String())
	}
	response, err := d.process.RoundTrip(r)
	if err != nil {
		s.End(err)
		return nil, err
	}
	response.Body = &body{ReadCloser: response.Body, end: sync.OnceFunc(func() {
		s.End(nil, trace.Attribute{Key: keyStatus, Value: int64(response.StatusCode)})
	})}
	return response, nil
}

// body ends a span when it is closed.
type body struct {
	io.ReadCloser

	end func()
}

// Close implements io.Closer.
func (b *body) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}

// Write lets an upgraded connection be written to, which is what such a body is.
func (b *body) Write(p []byte) (int, error) {
	w, ok := b.ReadCloser.(io.Writer)
	if !ok {
		return 0, http.ErrNotSupported
	}
	return w.Write(p)
}

// Scheduled stands before the scheduled handler of an app.
func (t *Tracing) Scheduled(appName, version string, p crons.Process) crons.Process {
	if !t.tracer.Enabled() {
		return p
	}
	return &scheduled{t: t, app: appName, version: version, process: p}
}

type scheduled struct {
	t            *Tracing
	app, version string
	process      crons.Process
}

// Scheduled implements crons.Process.
func (s *scheduled) Scheduled(ctx context.Context, cron string, at time.Time) (*workerd.Run, error) {
	span := s.t.tracer.Begin(trace.Start{Name: "scheduled " + cron, Attributes: []trace.Attribute{
		{Key: keyApp, Value: s.app}, {Key: keyVersion, Value: s.version}, {Key: keyCron, Value: cron},
	}})
	forget := s.t.note(span.Context(), CronMark(cron, at))
	defer forget()
	result, err := s.process.Scheduled(ctx, cron, at)
	if err != nil {
		span.End(err)
		return nil, err
	}
	span.End(thrown(result.Error), trace.Attribute{Key: keyOutcome, Value: string(result.Outcome)})
	return result, nil
}

// Queue makes the spans of one queue's deliveries to an app.
type Queue struct {
	t         *Tracing
	app, name string

	mu sync.Mutex
	// open are the deliveries that are not settled yet; guarded by mu.
	open map[*queue.Batch]*delivery
}

// Queue returns what stands around the deliveries of a queue.
func (t *Tracing) Queue(appName, queueName string) *Queue {
	return &Queue{t: t, app: appName, name: queueName, open: map[*queue.Batch]*delivery{}}
}

// delivery is one that has traced messages: the span of each of those, by its place in the batch.
type delivery struct{ spans map[int]trace.Span }

func (d *delivery) end(err error, attributes ...trace.Attribute) {
	for _, s := range d.spans {
		s.End(err, attributes...)
	}
}

// Runtime stands before the queue handler.
func (q *Queue) Runtime(version string, r dispatch.Runtime) dispatch.Runtime {
	if !q.t.tracer.Enabled() {
		return r
	}
	return &runtime{q: q, version: version, next: r}
}

type runtime struct {
	q       *Queue
	version string
	next    dispatch.Runtime
}

// Deliver implements dispatch.Runtime. The deliver span of a message is part of the trace that the message was sent in. The
// handler's span is part of the first message's, with links to the others.
func (r *runtime) Deliver(ctx context.Context, d *dispatch.Delivery) (*dispatch.Result, error) {
	opened, handler := r.begin(d)
	if opened == nil {
		return r.next.Deliver(ctx, d)
	}
	marks := make([]string, len(d.Batch.Messages))
	for i := range d.Batch.Messages {
		marks[i] = MessageMark(d.Batch.Messages[i].ID, d.Batch.Messages[i].Attempts())
	}
	forget := r.q.t.note(handler.Context(), marks...)
	result, err := r.next.Deliver(ctx, d)
	forget()
	if err != nil {
		// Whether and how it is settled is decided without the handler, and may be long after.
		handler.End(err)
		opened.end(err)
		return nil, err
	}
	handler.End(thrown(result.Error), trace.Attribute{Key: keyOutcome, Value: string(result.Outcome)})
	r.q.mu.Lock()
	r.q.open[d.Batch] = opened
	r.q.mu.Unlock()
	return result, nil
}

// begin is nil for a batch without traced messages.
func (r *runtime) begin(d *dispatch.Delivery) (*delivery, trace.Span) {
	opened := &delivery{spans: map[int]trace.Span{}}
	var first *trace.Context
	var links []*trace.Context
	for i := range d.Batch.Messages {
		m := &d.Batch.Messages[i]
		if !m.Trace.Sampled() {
			continue
		}
		s := r.q.t.tracer.Begin(trace.Start{Name: "deliver " + r.q.name, Kind: trace.Consumer, Parent: m.Trace, Attributes: []trace.Attribute{
			{Key: keySystem, Value: "runlot"},
			{Key: keyApp, Value: r.q.app},
			{Key: keyVersion, Value: r.version},
			{Key: keyQueue, Value: r.q.name},
			{Key: keyMessage, Value: m.ID.String()},
			{Key: keyAttempt, Value: int64(m.Attempts())},
		}})
		opened.spans[i] = s
		if first == nil {
			first = s.Context()
		} else {
			links = append(links, s.Context())
		}
	}
	if len(opened.spans) == 0 {
		return nil, nil
	}
	return opened, r.q.t.tracer.Begin(trace.Start{Name: "process " + r.q.name, Parent: first, Links: links, Attributes: []trace.Attribute{
		{Key: keyApp, Value: r.q.app},
		{Key: keyVersion, Value: r.version},
		{Key: keyQueue, Value: r.q.name},
		{Key: keyBatch, Value: int64(len(d.Batch.Messages))},
	}})
}

// Lane stands before the lane that supplies the queue.
func (q *Queue) Lane(l dispatch.Lane) dispatch.Lane {
	if !q.t.tracer.Enabled() {
		return l
	}
	return &lane{l, q}
}

type lane struct {
	dispatch.Lane

	q *Queue
}

// Settle implements dispatch.Lane.
func (l *lane) Settle(batch *queue.Batch, decisions []queue.Decision, deadLetterQueue string, done func(error)) {
	l.q.mu.Lock()
	opened := l.q.open[batch]
	delete(l.q.open, batch)
	l.q.mu.Unlock()
	if opened == nil {
		l.Lane.Settle(batch, decisions, deadLetterQueue, done)
		return
	}
	settles := map[int]trace.Span{}
	for i, s := range opened.spans {
		settles[i] = l.q.t.tracer.Begin(trace.Start{Name: "settle " + l.q.name, Parent: s.Context()})
	}
	l.Lane.Settle(batch, decisions, deadLetterQueue, func(err error) {
		for i, s := range opened.spans {
			verdict := trace.Attribute{Key: keyVerdict, Value: string(decisions[i].Verdict)}
			settles[i].End(err, verdict)
			s.End(err, verdict)
		}
		done(err)
	})
}

func thrown(e *dispatch.Exception) error {
	if e == nil {
		return nil
	}
	return exception{e}
}

// exception is an error of the user's code.
type exception struct{ *dispatch.Exception }

// Error implements error.
func (e exception) Error() string {
	text := e.Name + ": " + e.Message
	if e.Location != "" {
		text += " (" + e.Location + ")"
	}
	return text
}
