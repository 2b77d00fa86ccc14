// Package binding answers what workerd's native queue binding calls: send, sendBatch and metrics of a producer in env.
// One handler serves one worker process on a private unix socket. It checks everything that workerd does not, and
// answers only after the commit.
package binding

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

// Header is the request header in which the runtime names the binding that is called. User code cannot set it.
const Header = "Runlot-Binding"

// Queues is the broker as producers need it.
type Queues interface {
	// Send accepts all drafts or none and returns after the commit. The bodies of the drafts belong to the broker from
	// then on. When ctx ends first, the messages may still be accepted, all or none.
	Send(ctx context.Context, queueName string, drafts []queue.Draft) (queue.Metrics, error)
	// Metrics returns the backlog of a queue.
	Metrics(ctx context.Context, queueName string) (queue.Metrics, error)
}

// Options are what a handler stands on.
type Options struct {
	Manifest *app.Manifest
	Queues   Queues
	// Gate is shared by all worker processes of a node.
	Gate *Gate
	// Trace makes spans of sends; nil makes none.
	Trace *Trace
	// Log takes what callers must not see.
	Log *slog.Logger
}

type handler struct {
	database  string
	limits    queue.Limits
	producers map[string]*app.Producer
	queues    Queues
	gate      *Gate
	trace     *Trace
	app       string
	log       *slog.Logger
}

// New returns the handler for one worker process. POST /message and POST /batch send, GET /metrics counts; the wire
// format is workerd's. An error is answered with a status other than 200 and the headers CF-Queues-Error-Code and
// CF-Queues-Error-Cause, out of which workerd makes the exception in JavaScript. A producer call fails with code 10250
// when queue.MaxProducerCalls of its queue are under way or when it is not committed within queue.SendTimeout. A caller
// that goes away, or whose time runs out, does not take its messages back: they may still be committed, all or none.
func New(options Options) http.Handler {
	h := &handler{
		database:  options.Manifest.Database,
		limits:    queue.LimitsOf(options.Manifest.Dialect),
		producers: make(map[string]*app.Producer, len(options.Manifest.Producers)),
		queues:    options.Queues,
		gate:      options.Gate,
		trace:     options.Trace,
		app:       options.Manifest.Name,
		log:       options.Log,
	}
	for i := range options.Manifest.Producers {
		p := &options.Manifest.Producers[i]
		h.producers[p.Binding] = p
	}
	return h
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	metrics, err := h.serve(w, r)
	if err != nil {
		discard(w, r)
		h.fail(w, r, err)
		return
	}
	reply(w, r.Method == http.MethodPost, &metrics)
}

// discard reads what is left of a refused body: workerd sends the whole of it before it looks at the answer. A caller
// that does not finish its request does not wait for the answer either, so errors mean nothing here.
func discard(w http.ResponseWriter, r *http.Request) {
	if err := readDeadline(w, time.Now().Add(queue.SendTimeout)); err == nil {
		_, _ = io.CopyN(io.Discard, r.Body, queue.MaxBindingDiscard)
	}
}

func (h *handler) serve(w http.ResponseWriter, r *http.Request) (queue.Metrics, error) {
	var none queue.Metrics
	name := r.Header.Get(Header)
	producer := h.producers[name]
	if producer == nil {
		return none, fault.New(fault.NotFound, queue.CodeQueueNotFound, "the app has no queue producer %q", name)
	}
	kind := send
	if r.URL.Path == "/metrics" {
		kind = metrics
	}
	leave, ok := h.gate.enter(place{h.database, producer.Queue, kind})
	if !ok {
		return none, overloaded()
	}
	defer leave()
	ctx, cancel := context.WithTimeout(r.Context(), queue.SendTimeout)
	defer cancel()
	switch r.Method + " " + r.URL.Path {
	case "POST /message":
		drafts, said, err := h.readMessage(w, r, producer)
		if err != nil {
			return none, err
		}
		return h.send(ctx, producer.Queue, drafts, said)
	case "POST /batch":
		drafts, said, err := h.readBatch(w, r, producer)
		if err != nil {
			return none, err
		}
		return h.send(ctx, producer.Queue, drafts, said)
	case "GET /metrics":
		return late(h.queues.Metrics(ctx, producer.Queue))
	default:
		return none, fault.New(fault.Internal, queue.CodeInternal, "workerd called %s %s", r.Method, r.URL.Path)
	}
}

func (h *handler) send(ctx context.Context, queueName string, drafts []queue.Draft, said string) (queue.Metrics, error) {
	end := h.trace.begin(h.app, queueName, said, drafts)
	m, err := late(h.queues.Send(ctx, queueName, drafts))
	end(err)
	return m, err
}

// late turns the end of a call's time into the fault that the caller sees.
func late(m queue.Metrics, err error) (queue.Metrics, error) {
	if errors.Is(err, context.DeadlineExceeded) || fault.KindOf(err) == fault.Timeout {
		return m, overloaded().WithCause(err)
	}
	return m, err
}

func overloaded() *fault.Error {
	return fault.New(fault.Unavailable, queue.CodeOverloaded, "Queue is overloaded. Please back off.")
}

// reply answers with the backlog. A send has it in an envelope.
func reply(w http.ResponseWriter, enveloped bool, m *queue.Metrics) {
	b := make([]byte, 0, 160)
	if enveloped {
		b = append(b, `{"metadata":{"metrics":`...)
	}
	b = append(b, `{"backlogCount":`...)
	b = strconv.AppendInt(b, m.Count, 10)
	b = append(b, `,"backlogBytes":`...)
	b = strconv.AppendInt(b, m.Bytes, 10)
	b = append(b, `,"oldestMessageTimestamp":`...)
	oldest := int64(0)
	if !m.Oldest.IsZero() {
		oldest = m.Oldest.UnixMilli()
	}
	b = strconv.AppendInt(b, oldest, 10)
	b = append(b, '}')
	if enveloped {
		b = append(b, `}}`...)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	// A caller that went away misses the answer; the messages are committed all the same.
	_, _ = w.Write(b) //nolint:gosec // three numbers in JSON, not HTML
}

// readDeadline bounds the time in which a body arrives, and is lifted once it has.
func readDeadline(w http.ResponseWriter, at time.Time) error {
	err := http.NewResponseController(w).SetReadDeadline(at)
	if errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return err
}
