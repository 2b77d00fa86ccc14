package workerd

import (
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/runlot/runlot/internal/adapter/workerd/calls"
	"github.com/runlot/runlot/internal/adapter/workerd/reason"
	"github.com/runlot/runlot/internal/adapter/workerd/uncaught"
	"github.com/runlot/runlot/internal/core/queue"
)

// detached is a process that is gone, as far as its answers and logs need one.
func detached(log func(Line)) *Process {
	done := make(chan struct{})
	close(done)
	return &Process{
		spec: Spec{Log: log}, log: slog.New(slog.DiscardHandler), calls: calls.New(), failures: reason.NewFailures(), uncaught: uncaught.New(),
		done: done, once: map[string]struct{}{},
	}
}

// FuzzResult reads any answer of the router to a batch of two: whatever it says, every message is decided once, and a
// retry comes within the limits.
func FuzzResult(f *testing.F) {
	a, b := queue.NewID(1, 1), queue.NewID(1, 2)
	for _, text := range []string{
		`{"outcome":"ok","ackAll":false,"retryBatch":{"retry":true,"delaySeconds":9},"explicitAcks":["` + a.String() + `"],"retryMessages":[{"msgId":"` + b.String() + `","delaySeconds":1e300}]}`,
		`{"outcome":"exception","undecodable":["` + a.String() + `","` + b.String() + `"]}`,
		`{"outcome":"ok","undecodable":["` + a.String() + `"],"ackAll":true,"retryMessages":[{"msgId":"` + a.String() + `","delaySeconds":-0.5},{}]}`,
		`{"outcome":"exception","undecodable":["x","y"]}`,
		`{}`,
	} {
		f.Add([]byte(text))
	}
	messages := []queue.Message{{ID: a, Seq: 1}, {ID: b, Seq: 2}}
	consumer := &queue.Consumer{Queue: "jobs", MaxRetries: 1, DeadLetterQueue: "dead"}
	f.Fuzz(func(t *testing.T, text []byte) {
		var answer result
		if json.Unmarshal(text, &answer) != nil {
			return
		}
		p := detached(nil)
		r, err := p.settle(t.Context(), p.calls.Begin(marks(messages), "d"), &answer, nil, len(messages))
		if err != nil {
			t.Fatal(err)
		}
		if r.Outcome != queue.OK && (r.Outcome != queue.Failed || r.Error == nil || r.Error.Message == "") {
			t.Errorf("outcome %s, error %+v", r.Outcome, r.Error)
		}
		decisions, warnings := queue.Settle(consumer, messages, r.Outcome, &r.Report, 0)
		if len(decisions) != len(messages) || len(warnings) > len(messages) {
			t.Fatalf("%d decisions and %d warnings about %d messages", len(decisions), len(warnings), len(messages))
		}
		for i, d := range decisions {
			if d.Seq != messages[i].Seq || d.Delay < 0 || d.Delay > queue.MaxDelay {
				t.Errorf("message %d: %+v", i, d)
			}
			if slices.Contains(r.Undecodable, messages[i].ID) && !answer.acks(messages[i].ID) && d.Verdict == queue.Ack {
				t.Errorf("message %d, which the handler never saw, is deleted", i)
			}
		}
	})
}

// acks tells whether the answer acks a message by name.
func (r *result) acks(id queue.ID) bool {
	return slices.ContainsFunc(r.ExplicitAcks, func(text string) bool { return strings.EqualFold(text, id.String()) })
}

// FuzzTail reads any post of the tail: each log and each exception becomes one line that can be shown.
func FuzzTail(f *testing.F) {
	for _, text := range []string{
		`{"kind":"queue","queue":"jobs","mark":"m 1","logs":[{"timestamp":1,"level":"log","text":"hello"}],"exceptions":[{"timestamp":2,"name":"Error","message":"x","stack":"    at f (file:///bundle/main.mjs:2:21)"}]}`,
		`{"kind":"scheduled","cron":"* * * * *","scheduledTime":9e18,"exceptions":[{}]}`,
		`{"kind":"fetch","truncated":true,"logs":[{"level":"warn","text":"unhandled promise rejection TypeError: This socket has been closed.\n    at f (x:1:1)"}]}`,
		`{"kind":"queue","exceptions":[{"message":"Handler does not export a queue() function."}]}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var event tailEvent
		// A reference that nothing explains is waited for, which is another test's concern.
		if json.Unmarshal(text, &event) != nil || strings.Contains(string(text), "reference") {
			return
		}
		var lines []Line
		p := detached(func(l Line) { lines = append(lines, l) })
		entry := p.calls.Begin([]string{"m 1"}, "d")
		p.tailed(&event)
		if most := len(event.Logs) + len(event.Exceptions) + 1; len(lines) > most || len(lines) < len(event.Exceptions) {
			t.Errorf("%d lines of %d logs and %d exceptions", len(lines), len(event.Logs), len(event.Exceptions))
		}
		for i := range lines {
			l := &lines[i]
			if !slices.Contains([]string{"debug", "info", "warn", "error"}, l.Level) || l.Event != event.Kind || strings.ContainsAny(l.Location, "\n ") {
				t.Errorf("line %+v", l)
			}
			if l.Delivery != "" && (l.Delivery != "d" || event.Mark != "m 1") {
				t.Errorf("the line belongs to a delivery that it does not name: %+v", l)
			}
		}
		select {
		case e := <-entry.Exception:
			if e != nil && len(event.Exceptions) == 0 {
				t.Errorf("an exception from nowhere: %+v", e)
			}
		default:
		}
	})
}
