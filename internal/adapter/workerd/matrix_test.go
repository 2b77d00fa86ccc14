package workerd

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/internal/core/queue"
)

// settleCode performs the program in its first message: settle calls on that message and its batch, before the handler
// ends or inside waitUntil after it, and an end.
const settleCode = `
const perform = (calls, m, b) => { for (const call of calls) ({
  ack: () => m.ack(), retry: () => m.retry(), "retry 0": () => m.retry({ delaySeconds: 0 }), "retry 5": () => m.retry({ delaySeconds: 5 }),
  ackAll: () => b.ackAll(), retryAll: () => b.retryAll(), "retryAll 9": () => b.retryAll({ delaySeconds: 9 }),
})[call](); };
function handle(batch, waitUntil) {
  const first = batch.messages[0];
  const { calls, later, end } = first.body;
  perform(calls, first, batch);
  if (later.length > 0) waitUntil((async () => { await scheduler.wait(1); perform(later, first, batch); })());
  if (end === "reject") waitUntil((async () => { await 0; throw new Error("rejected"); })());
  if (end === "throw") throw new Error("thrown");
}
`

// settleForms are the ways to write a handler.
var settleForms = map[string]string{
	"object":     settleCode + `export default { async queue(batch, env, ctx) { handle(batch, (p) => ctx.waitUntil(p)); } };`,
	"entrypoint": `import { WorkerEntrypoint } from "cloudflare:workers";` + settleCode + `export default class extends WorkerEntrypoint { async queue(batch) { handle(batch, (p) => this.ctx.waitUntil(p)); } }`,
	"listener":   settleCode + `addEventListener("queue", (event) => handle(event, (p) => event.waitUntil(p)));`,
}

// program is what one handler call does.
type program struct {
	Calls []string `json:"calls"`
	Later []string `json:"later"`
	End   string   `json:"end"`
}

// sequences are all lists of up to most of these calls.
func sequences(calls []string, most int) [][]string {
	all := [][]string{{}}
	for last := all; most > 0; most-- {
		var next [][]string
		for _, s := range last {
			for _, call := range calls {
				next = append(next, append(slices.Clone(s), call))
			}
		}
		all, last = append(all, next...), next
	}
	return all
}

// documented is the documents' table of calls, and their rule of what becomes of a message, for the message that the
// program is about and for another of its batch. It shares nothing with queue.Settle.
func documented(calls []string, failed bool) (first, other string) {
	var acked, ackAll, retryAll bool
	var own, all string // the call that counts, "" when there is none
	for _, call := range calls {
		verb, delay, _ := strings.Cut(call, " ")
		switch {
		case verb == "ack" && own == "" && !retryAll && !ackAll:
			acked = true
		case verb == "retry" && !acked && !ackAll:
			own = "retry " + delay // a later one takes the place of the one before, with its delay
		case verb == "ackAll" && !retryAll:
			ackAll = true
		case verb == "retryAll" && !ackAll:
			retryAll = true
			if delay != "" {
				all = delay
			}
		}
	}
	const byDefault = "7"
	delayed := func(delays ...string) string {
		return "retried " + delays[slices.IndexFunc(delays, func(d string) bool { return d != "" })]
	}
	rest := func() string {
		switch {
		case ackAll:
			return "acked"
		case retryAll:
			return delayed(all, byDefault)
		case failed:
			return delayed(byDefault)
		default:
			return "acked"
		}
	}
	switch {
	case acked:
		return "acked", rest()
	case own != "":
		return delayed(strings.TrimPrefix(own, "retry "), all, byDefault), rest()
	default:
		return rest(), rest()
	}
}

// TestEverySequenceOfSettleCalls performs every sequence of up to three settle calls, with every way for a handler to end,
// in every form of a handler, with and without waiting for waitUntil; what queue.Settle makes of the reports has to be what
// the documents say.
func TestEverySequenceOfSettleCalls(t *testing.T) {
	all := sequences([]string{"ack", "retry", "retry 0", "retry 5", "ackAll", "retryAll", "retryAll 9"}, 3)
	consumer := &queue.Consumer{Queue: "jobs", MaxRetries: 3, Backoff: queue.Backoff{First: 7 * time.Second, Max: 7 * time.Second}}
	for form, code := range settleForms {
		for _, flag := range []bool{false, true} {
			name := form
			if flag {
				name += " without waiting"
			}
			t.Run(name, func(t *testing.T) {
				w := run(t, code, func(_ *Runtime, spec *Spec) {
					spec.Bundle.ServiceWorker = form == "listener"
					if flag {
						spec.Manifest.CompatibilityFlags = []string{"queue_consumer_no_wait_for_wait_until"}
					}
				})
				// A service worker waits for waitUntil in any case, except when its listener throws.
				waits := func(end string) bool { return !flag || form == "listener" && end != "throw" }
				var programs []program
				for _, calls := range all {
					for _, end := range []string{"return", "throw", "reject"} {
						programs = append(programs, program{Calls: calls, Later: []string{}, End: end})
						if len(calls) > 0 && len(calls) < 3 {
							programs = append(programs, program{Calls: []string{}, Later: calls, End: end}, program{Calls: calls[:1], Later: calls[1:], End: end})
						}
					}
				}
				got, want := make([]string, len(programs)), make([]string, len(programs))
				for i, p := range programs {
					failed := p.End == "throw" || p.End == "reject" && waits(p.End)
					calls := p.Calls
					if waits(p.End) {
						calls = slices.Concat(p.Calls, p.Later)
					}
					first, other := documented(calls, failed)
					want[i] = fmt.Sprintf("%v then %v, %s: %s, %s, failed %v", p.Calls, p.Later, p.End, first, other, failed)
				}
				var wg sync.WaitGroup
				const together = 8
				for worker := range together {
					wg.Go(func() {
						for i := worker; i < len(programs); i += together {
							got[i] = settled(t, w, consumer, int64(i), programs[i])
						}
					})
				}
				wg.Wait()
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("(-want +got):\n%.4000s", diff)
				}
			})
		}
	}
}

// settled delivers a program and tells what queue.Settle makes of its two messages.
func settled(t *testing.T, w *world, consumer *queue.Consumer, number int64, p program) string {
	body, err := json.Marshal(p)
	if err != nil {
		t.Error(err)
	}
	messages := []queue.Message{message(2*number, queue.JSON, string(body)), message(2*number+1, queue.JSON, `"other"`)}
	result, err := w.Deliver(t.Context(), delivery(fmt.Sprint("d", number), messages...))
	if err != nil {
		return err.Error()
	}
	text := fmt.Sprintf("%v then %v, %s: ", p.Calls, p.Later, p.End)
	decisions, _ := queue.Settle(consumer, messages, result.Outcome, &result.Report, 0)
	for _, d := range decisions {
		text += string(d.Verdict)
		if d.Verdict == queue.Retry {
			text += fmt.Sprintf(" %.0f", d.Delay.Seconds())
		}
		text += ", "
	}
	text += fmt.Sprintf("failed %v", result.Outcome == queue.Failed)
	if known := map[string]string{"throw": "thrown", "reject": "rejected"}[p.End]; result.Outcome == queue.Failed && (result.Error == nil || result.Error.Message != known) {
		text += fmt.Sprintf(" by %+v", result.Error)
	}
	return text
}
