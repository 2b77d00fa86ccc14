package workerd

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/runlot/runlot/internal/adapter/workerd/calls"
	"github.com/runlot/runlot/internal/adapter/workerd/invocation"
	"github.com/runlot/runlot/internal/adapter/workerd/reason"
	"github.com/runlot/runlot/internal/adapter/workerd/untold"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/dispatch"
)

// tailEvent is what the tail posts about one invocation. Early is set when the invocation goes on: what it threw so far is
// for who waits for its result, and comes again with its logs.
type tailEvent struct {
	Early         bool            `json:"early"`
	Outcome       string          `json:"outcome"`
	Kind          string          `json:"kind"`
	Queue         string          `json:"queue"`
	Cron          string          `json:"cron"`
	ScheduledTime int64           `json:"scheduledTime"`
	Mark          string          `json:"mark"`
	Truncated     bool            `json:"truncated"`
	Exceptions    []tailException `json:"exceptions"`
	Logs          []tailLog       `json:"logs"`
}

type tailException struct {
	Timestamp int64  `json:"timestamp"`
	Name      string `json:"name"`
	Message   string `json:"message"`
	Stack     string `json:"stack"`
}

type tailLog struct {
	Timestamp int64  `json:"timestamp"`
	Level     string `json:"level"`
	Text      string `json:"text"`
}

// serveTail takes one post of the tail.
func (p *Process) serveTail(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, queue.MaxTailBody))
	if err != nil {
		p.log.Warn("the logs of an invocation could not be read", "error", err)
		return
	}
	var event tailEvent
	if err := json.Unmarshal(body, &event); err != nil {
		p.log.Warn("the logs of an invocation could not be read", "error", err)
		return
	}
	p.tailed(&event)
}

// Watch makes the process tell Spec.Invoked of every invocation, or of none.
func (p *Process) Watch(ctx context.Context, on bool) error {
	return invocation.Watch(ctx, p.client, on)
}

// serveInvocation takes one invocation from the tail, for those who follow the app.
func (p *Process) serveInvocation(r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, queue.MaxTailBody))
	if err == nil && p.spec.Invoked != nil {
		err = invocation.Hand(body, p.spec.MapStack, p.failures.Explain, p.spec.Invoked)
	}
	if err != nil {
		p.log.Warn("an invocation could not be read for those who follow it", "error", err)
	}
}

// tailed hands the exceptions and logs of one invocation on.
func (p *Process) tailed(event *tailEvent) {
	mark := event.Mark
	if event.Kind == "scheduled" {
		mark = calls.CronMark(event.Cron, event.ScheduledTime)
	}
	line := Line{Event: event.Kind, Queue: event.Queue}
	var entry *calls.Call
	if event.Kind == "queue" || event.Kind == "scheduled" {
		if entry = p.calls.Find(mark); entry != nil {
			line.Delivery = entry.Delivery
		}
	}
	var first *dispatch.Exception
	uncaught := make([]Line, 0, len(event.Exceptions))
	for i := range event.Exceptions {
		e := &event.Exceptions[i]
		stack, location := reason.Map(p.spec.MapStack, e.Stack)
		exception := &dispatch.Exception{Name: e.Name, Message: p.failures.Explain(e.Message), Location: location, Stack: stack}
		if first == nil {
			first = exception
		}
		l := line
		l.Time, l.Level, l.Uncaught, l.Location = time.UnixMilli(e.Timestamp), levelError, true, location
		l.Text = exception.Name + ": " + exception.Message
		if stack != "" {
			l.Text += "\n" + stack
		}
		uncaught = append(uncaught, l)
	}
	if event.Early {
		if entry != nil {
			entry.Report(first)
		}
		return
	}
	if entry == nil && first == nil {
		first = missing(event.Logs)
	}
	// What a delivery logged stands before how it ended.
	p.logged(event, &line, uncaught)
	switch {
	case event.Kind == eventFetch:
		if first != nil {
			p.uncaught.Add(first)
		}
	case entry != nil:
		entry.Report(first)
		if p.spec.Logged != nil && entry.Delivery != "" {
			p.spec.Logged(entry.Delivery)
		}
	case first != nil && noHandler.MatchString(first.Message):
		p.calls.ReportAll(first)
	}
}

// logged hands the lines of one invocation on, each like line.
func (p *Process) logged(event *tailEvent, line *Line, uncaught []Line) {
	if p.spec.Log == nil {
		return
	}
	for _, l := range event.Logs {
		if l.Level == levelWarn || l.Level == levelError {
			p.warned.Told(l.Text)
		} else {
			p.said.Told(l.Text)
		}
		out := *line
		out.Time, out.Level = time.UnixMilli(l.Timestamp), level(l.Level)
		out.Text, out.Location = p.logText(l.Text)
		if out.Location == "" && strings.HasPrefix(out.Text, rejection) && strings.Contains(out.Text, frames) {
			// Packages leave promises behind that their authors know to be harmless, with every call. The PostgreSQL clients
			// leave the read that is pending when they close their socket, which says nothing to anybody.
			if strings.Contains(out.Text, closedSocket) || !p.first(out.Text) {
				continue
			}
			out.Level = levelDebug
		}
		p.spec.Log(out)
	}
	for _, l := range uncaught {
		p.spec.Log(l)
	}
	if event.Truncated {
		out := *line
		out.Time, out.Level, out.Text = time.Now(), levelWarn, "this invocation logged more than is kept; the rest is left out"
		p.spec.Log(out)
	}
}

// missing returns the exception of a worker without a queue handler when only its logs speak of it, as they do under the
// flag queue_consumer_no_wait_for_wait_until; else nil.
func missing(logs []tailLog) *dispatch.Exception {
	if slices.ContainsFunc(logs, func(l tailLog) bool { return strings.Contains(l.Text, "we lack a handler for QueueEvents") }) {
		return &dispatch.Exception{Name: plainError, Message: "Handler does not export a queue() function."}
	}
	return nil
}

// eventFetch is the event of a request.
const eventFetch = "fetch"

// The levels of what the product itself notices.
const (
	levelDebug = "debug"
	levelWarn  = "warn"
	levelError = "error"
)

// rejection begins the line of a rejected promise that nothing awaits, as render/js/setup.mjs writes it.
const rejection = "unhandled promise rejection"

// closedSocket is the error of a read that was pending when its socket was closed.
const closedSocket = "TypeError: This socket has been closed."

// mostOnce bounds the lines that are said once.
const mostOnce = 100

// first reports whether a line that is said once for each process is new. When there are too many, none is.
func (p *Process) first(text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, said := p.once[text]; said || len(p.once) >= mostOnce {
		return false
	}
	p.once[text] = struct{}{}
	return true
}

// frames begins the places in the stack of an error that was logged.
const frames = "    at "

// logText is a logged text with the reasons of failures, and the stacks of errors in it mapped; location is that of the first error.
func (p *Process) logText(text string) (mapped, location string) {
	text = p.failures.Explain(text)
	if !strings.Contains(text, frames) {
		return text, ""
	}
	return reason.Map(p.spec.MapStack, text)
}

// reported takes one failure from stderr. When the logs do not mention it soon, since the worker caught it, it becomes a
// line of its own.
func (p *Process) reported(id, text string) {
	why := reason.Failure(text, p.spec.AllowPrivate)
	one, worth := p.failures.Learn(id, why, time.Now())
	if !worth || p.spec.Log == nil {
		return
	}
	p.tasks.Go(func() {
		patience := time.NewTimer(queue.ExceptionWait)
		defer patience.Stop()
		select {
		case <-patience.C:
		case <-p.alive.Done():
		}
		if p.failures.Silent(one) {
			p.spec.Log(Line{Time: time.Now(), Level: levelWarn, Text: why})
		}
	})
}

// untold hands on what a process that was killed wrote and its tail did not come to tell.
func (p *Process) untold() {
	for _, o := range []struct {
		from  *untold.Lines
		level string
	}{{&p.said, level("log")}, {&p.warned, levelWarn}} {
		for _, text := range o.from.Rest() {
			line := Line{Time: time.Now(), Level: o.level}
			line.Text, line.Location = p.logText(text)
			p.spec.Log(line)
		}
	}
}

// level brings a console method into the four levels.
func level(console string) string {
	switch console {
	case levelDebug, levelWarn, levelError:
		return console
	default:
		return "info"
	}
}

// startLines are what a worker wrote while its modules were loaded, when no invocation is there that could own it.
func startLines(stdout, stderr string) []Line {
	var lines []Line
	add := func(text, level string) {
		for line := range strings.Lines(text) {
			if line = reason.Line(line); line != "" {
				lines = append(lines, Line{Time: time.Now(), Level: level, Text: line, Event: "start"})
			}
		}
	}
	add(stdout, "info")
	add(stderr, levelWarn)
	return lines
}
