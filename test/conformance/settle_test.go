package conformance_test

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// settleCases are the rules of what becomes of a message when its handler has ended.
func settleCases() []testCase {
	const none = ""
	plan := func(name string, do ...string) body { return body{N: name, Do: do} }
	return []testCase{
		planned("settle-return", "a handler that returns acks every message", runlotPage+", Receiving",
			[]body{plan("a"), plan("b"), plan("c")},
			[]string{"ok a1 b1 c1 → acked 3"},
			again("silence is a retry", "a", "b", "c"),
			ends("a return is a failure", "failed"),
		),
		planned("settle-throw", "a handler that throws retries the whole batch and spends a retry", runlotPage+", Receiving",
			[]body{plan("a"), plan("b", "throw")},
			[]string{"failed a1 b1 → retried 2", "ok a2 b2 → acked 2"},
			cut("a throw loses its messages", 1),
			attempt("a throw spends no retry", 1, 1),
			ends("a throw is a success", "ok"),
		),
		planned("settle-ack-throw", "an ack before a throw counts; an explicit retry and silence are retries", celldPage+", Consume messages",
			[]body{plan("a", "ack"), plan("b", "retry"), plan("c", "throw")},
			[]string{"failed a1 b1 c1 → acked 1 retried 2", "ok b2 c2 → acked 2"},
			changes("a throw forgets acks", func(o *observation) {
				o.Batches[0].Acked, o.Batches[0].Retried = 0, 3
				o.Batches[1].Acked = 3
				a := o.Batches[0].Messages[0]
				a.Attempts++
				o.Batches[1].Messages = append(o.Batches[1].Messages, a)
			}),
			cut("a throw after an ack acks the rest", 1),
		),
		planned("settle-retry", "an explicit retry brings back one message and acks its neighbours", runlotPage+", Receiving",
			[]body{plan("a", "retry"), plan("b")},
			[]string{"ok a1 b1 → acked 1 retried 1", "ok a2 → acked 1"},
			again("a retry brings back the batch", "b"),
			cut("a retry in a batch that returns is an ack", 1),
		),
		planned("settle-ack-all", "ackAll acks every message, even when the handler throws later", cloudflare+", Batching, Retries and Delays",
			[]body{plan("a", "ackAll"), plan("b", "throw")},
			[]string{"failed a1 b1 → acked 2"},
			again("a throw forgets ackAll", "a", "b"),
			ends("ackAll hides a throw", "ok"),
		),
		planned("settle-retry-all", "retryAll retries every message though the handler returns, and is no failure", cloudflare+", Batching, Retries and Delays",
			[]body{plan("a", "retryAll"), plan("b")},
			[]string{"ok a1 b1 → retried 2", "ok a2 b2 → acked 2"},
			cut("a return beats retryAll", 1),
			ends("retryAll is a failure", "failed"),
		),
		planned("settle-ack-retry-all", "an ack before retryAll stays an ack", cloudflare+", Batching, Retries and Delays",
			[]body{plan("a", "ack"), plan("b", "retryAll")},
			[]string{"ok a1 b1 → acked 1 retried 1", "ok b2 → acked 1"},
			again("retryAll takes acks back", "a"),
		),
		planned("settle-retry-ack-all", "a retry before ackAll stays a retry", cloudflare+", Batching, Retries and Delays",
			[]body{plan("a", "retry"), plan("b", "ackAll")},
			[]string{"ok a1 b1 → acked 1 retried 1", "ok a2 → acked 1"},
			cut("ackAll takes retries back", 1),
		),
		planned("settle-first-ack", "of ack and retry on one message the first counts: ack", cloudflare+", Batching, Retries and Delays",
			[]body{plan("a", "ack retry")},
			[]string{"ok a1 → acked 1"},
			again("the last call counts", "a"),
		),
		planned("settle-first-retry", "of ack and retry on one message the first counts: retry", cloudflare+", Batching, Retries and Delays",
			[]body{plan("a", "retry ack")},
			[]string{"ok a1 → retried 1", "ok a2 → acked 1"},
			cut("the last call counts", 1),
		),
		planned("settle-first-ack-all", "of ackAll and retryAll the first counts: ackAll", cloudflare+", Batching, Retries and Delays",
			[]body{plan("a", "ackAll retryAll retry")},
			[]string{"ok a1 → acked 1"},
			again("the last call counts", "a"),
		),
		planned("settle-first-retry-all", "of ackAll and retryAll the first counts: retryAll", cloudflare+", Batching, Retries and Delays",
			[]body{plan("a", "retryAll ackAll ack")},
			[]string{"ok a1 → retried 1", "ok a2 → acked 1"},
			cut("the last call counts", 1),
		),
		planned("settle-swallow", "an error that the handler catches is no failure", cloudflare+", Batching, Retries and Delays",
			[]body{plan("a", "swallow", none)},
			[]string{"ok a1 → acked 1"},
			again("a caught error is a retry", "a"),
		),
		planned("settle-reject", "a promise given to waitUntil that rejects fails the batch", workersFlags,
			[]body{plan("a", "reject")},
			[]string{"failed a1 → retried 1", "ok a2 → acked 1"},
			cut("waitUntil fails unheard", 1),
			ends("a failed waitUntil is a success", "ok"),
		),
		waitUntil(),
		errorLocation(),
	}
}

// waitUntil holds a promise that was given to waitUntil back, and looks whether the batch waits for it.
func waitUntil() testCase {
	c := testCase{
		id: "settle-wait-until", rule: "a batch ends when the handler and what it gave to waitUntil have ended", source: workersFlags,
		app: "plan", queues: []string{"settle-wait-until"},
	}
	c.drive = func(r *run) {
		r.accept(sendBatch("settle-wait-until", body{N: "a", Do: []string{"later=wait-until"}}))
		r.arrives("wait-until", 1)
		r.beacon("wait-until")
		r.fact("batches before", len(r.node.joined(r.c.queues, true)))
		r.house.gate.open("wait-until")
		r.batches(1)
	}
	c.check = func(o *observation) error {
		if o.Facts["batches before"] != "0" {
			return errors.New("the batch ended before its waitUntil")
		}
		return wantTrace(o, &c, []string{"ok a1 → acked 1"})
	}
	c.wrong = []wrong{changes("the batch does not wait", func(o *observation) { o.Facts["batches before"] = "1" })}
	return c
}

// beacon sends a message through a queue of its own and waits until it is settled: by then, whatever could have been
// delivered beside it would have been.
func (r *run) beacon(name string) {
	r.Helper()
	r.accept(send("beacon", body{N: name}))
	r.until("the beacon of "+name, func() bool {
		for _, b := range r.node.batches("beacon") {
			if b.Messages[0].name() == name {
				return true
			}
		}
		return false
	})
}

// errorLocation looks at how a throw in a TypeScript file is shown.
func errorLocation() testCase {
	c := testCase{
		id: "settle-error", rule: "the record of a batch names what was thrown, with the file and line of the source", source: runlotPage + ", Watching it",
		app: "runlot", queues: []string{"runlot-backoff"},
	}
	c.drive = func(r *run) {
		r.accept(call{"FIRST_BACKOFF", "send", body{N: "a", Do: []string{"throw"}}})
		r.batches(1)
	}
	c.check = func(o *observation) error {
		b := &o.Batches[0]
		if b.Error != "Error: on purpose" || !strings.HasPrefix(b.Location, "index.ts:43:") {
			return fmt.Errorf("the error is %q at %q", b.Error, b.Location)
		}
		// The same batch shows the first back-off of the dialect.
		return wantTrace(o, &c, []string{"failed a1 → retried 1", "left a attempts 1 in 10s"})
	}
	c.wrong = []wrong{
		changes("the place is that of the bundle", func(o *observation) { o.Batches[0].Location = "index.js:25:9" }),
		changes("the message is lost", func(o *observation) { o.Batches[0].Error = "Error: the handler failed" }),
		waits("the runlot dialect has no back-off", "a", 0),
		waits("the back-off begins with its second step", "a", 20*time.Second),
	}
	return c
}
