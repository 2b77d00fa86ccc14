package conformance_test

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// retryCases are the rules of when a message comes back, and of where it goes when it is out of retries.
func retryCases() []testCase {
	plan := func(name string, do ...string) body { return body{N: name, Do: do} }
	return []testCase{
		planned("delay-zero", "an explicit delay of 0 beats the consumer's retry_delay", cloudflare+", Batching, Retries and Delays",
			[]body{plan("a", "retry=0")},
			[]string{"ok a1 → retried 1", "ok a2 → acked 1"},
			changes("0 is taken for nothing", func(o *observation) {
				o.Batches = o.Batches[:1]
				o.Left = []row{{Queue: "delay-zero", Name: "a", Attempts: 1, VisibleAt: o.Batches[0].end().Add(time.Hour)}}
			}),
		),
		planned("delay-own", "a message's own delay beats that of retryAll, which beats the consumer's", cloudflare+", Batching, Retries and Delays",
			[]body{plan("a", "retry=1200 retryAll=1800"), plan("b")},
			[]string{"ok a1 b1 → retried 2", "left a attempts 1 in 1200s", "left b attempts 1 in 1800s"},
			waits("retryAll's delay beats the message's", "a", 1800*time.Second),
			waits("the consumer's delay beats retryAll's", "b", time.Hour),
		),
		planned("delay-all", "a retry without a delay takes that of retryAll", cloudflare+", Batching, Retries and Delays",
			[]body{plan("a", "retry retryAll=1800"), plan("b")},
			[]string{"ok a1 b1 → retried 2", "left a attempts 1 in 1800s", "left b attempts 1 in 1800s"},
			waits("a retry without a delay comes at once", "a", 0),
			waits("a retry without a delay takes the consumer's", "a", time.Hour),
		),
		planned("delay-consumer", "a throw waits for the consumer's retry_delay", celldPage+", Configure",
			[]body{plan("a", "throw")},
			[]string{"failed a1 → retried 1", "left a attempts 1 in 3600s"},
			waits("retry_delay is not applied to a throw", "a", 0),
		),
		clamped("delay-most", "a delay above 24 h is cut to it, with a warning", "retry=100000",
			[]string{"ok a1 → retried 1", "left a attempts 1 in 86400s"},
			waits("the delay is taken as it is", "a", 100_000*time.Second)),
		clamped("delay-least", "a delay below 0 is taken as 0, with a warning", "retry=-5",
			[]string{"ok a1 → retried 1", "ok a2 → acked 1"},
			cut("a delay below 0 loses the message", 1)),
		dead(),
		planned("drop", "without a dead-letter queue, a message out of retries is deleted", celldPage+", Consume messages",
			[]body{plan("a", "throw", "throw")},
			[]string{"failed a1 → retried 1", "failed a2 → dropped 1"},
			again("there is one delivery more than max_retries + 1", "a"),
			cut("there is one delivery less", 1),
			changes("the message stays", func(o *observation) {
				o.Left = []row{{Queue: "drop", Name: "a", Attempts: 2, VisibleAt: o.Batches[1].end()}}
			}),
		),
		planned("drop-once", "max_retries 0 means one delivery in the wrangler dialect", cloudflare+", Configure Queues",
			[]body{plan("a", "throw")},
			[]string{"failed a1 → dropped 1"},
			again("0 is read as the default", "a"),
		),
		deadLeft("dead-once", "max_retries 0 with a dead-letter queue delivers once and keeps the failure", runlotPage+", The dead-letter queue",
			plan("a", "throw"),
			[]string{"failed a1 → dead 1", "dead-once-letters: left a attempts 0 in 0s"}),
		deadLeft("dead-asked", "a retry that the handler asks for, with a delay, spends a retry like a throw", cloudflare+", Batching, Retries and Delays",
			plan("a", "retry=0", "retry=3600"),
			[]string{"ok a1 → retried 1", "ok a2 → dead 1", "dead-asked-letters: left a attempts 0 in 0s"}),
		zeroRetries(),
		ownBackoff(),
	}
}

// clamped is a retry with a delay that is out of range.
func clamped(id, rule, step string, want []string, w wrong) testCase {
	c := planned(id, rule, limits, []body{{N: "a", Do: []string{step}}}, want, w,
		changes("nobody is told", func(o *observation) { o.Batches[0].Warnings = nil }))
	course := c.check
	c.check = func(o *observation) error {
		if w := o.Batches[0].Warnings; !o.Outside && (len(w) != 1 || !strings.Contains(w[0], "is outside 0 to 86400")) {
			return fmt.Errorf("the warnings are %q", w)
		}
		return course(o)
	}
	return c
}

// dead follows a message through every retry into the dead-letter queue, which has a consumer.
func dead() testCase {
	c := testCase{
		id: "dead", rule: "the fourth failure of max_retries 3 moves a message to the dead-letter queue: the same id, body and send time, attempts counted anew",
		source: runlotPage + ", The dead-letter queue", app: "plan", queues: []string{"dead", "dead-letters"},
	}
	c.drive = func(r *run) {
		throws := []string{"throw", "throw", "throw", "throw"}
		r.accept(send("dead", body{N: "a", Do: throws}))
		r.batches(8)
	}
	c.check = func(o *observation) error {
		want := []string{
			"failed a1 → retried 1", "failed a2 → retried 1", "failed a3 → retried 1", "failed a4 → dead 1",
			"dead-letters: failed a1 → retried 1", "dead-letters: failed a2 → retried 1", "dead-letters: failed a3 → retried 1",
			"dead-letters: failed a4 → dropped 1",
		}
		if err := wantTrace(o, &c, want); err != nil {
			return err
		}
		first := o.Batches[0].Messages[0]
		for _, m := range o.seen("a") {
			if m.ID != first.ID || m.Timestamp != first.Timestamp || compact(m.Body) != compact(first.Body) {
				return fmt.Errorf("delivery %d has id %s, timestamp %d, body %s; the first had %s, %d, %s",
					m.Attempts, m.ID, m.Timestamp, m.Body, first.ID, first.Timestamp, first.Body)
			}
		}
		return nil
	}
	c.wrong = []wrong{
		changes("the third failure is the last", func(o *observation) {
			o.Batches = append(o.Batches[:2:2], o.Batches[3:]...)
		}),
		changes("a dead letter goes on counting", func(o *observation) { o.Batches[4].Messages[0].Attempts = 5 }),
		changes("a dead letter has a new id", func(o *observation) { o.Batches[4].Messages[0].ID = strings.Repeat("0", 32) }),
		changes("a dead letter is sent anew", func(o *observation) { o.Batches[4].Messages[0].Timestamp += 1000 }),
		changes("a retry has a new id", func(o *observation) { o.Batches[1].Messages[0].ID = strings.Repeat("0", 32) }),
		cut("the dead letter is lost", 4),
	}
	return c
}

// deadLeft is a message that ends in a dead-letter queue without a consumer.
func deadLeft(id, rule, source string, b body, want []string) testCase {
	c := planned(id, rule, source, []body{b}, want,
		gone("the dead letter is lost", "a"),
		changes("the dead letter keeps its count", func(o *observation) { o.Left[0].Attempts = 1 }),
		changes("it is retried though it is out of retries", func(o *observation) {
			o.Left[0].Queue = id
		}),
	)
	c.queues = append(c.queues, id+"-letters")
	c.check = func(o *observation) error { return wantTrace(o, &c, want) }
	return c
}

func zeroRetries() testCase {
	c := testCase{
		id: "runlot-zero-retries", rule: "maxRetries 0 without a dead-letter queue is read as the default of 3, and the start says so",
		source: runlotPage + ", The dead-letter queue", app: "runlot", queues: []string{"runlot-zero-retries"},
	}
	c.drive = func(r *run) {
		r.accept(call{"ZERO_RETRIES", "send", body{N: "a", Do: []string{"throw", "throw", "throw", "throw"}}})
		r.batches(4)
		r.fact("warnings", r.node.warnings("runlot"))
	}
	c.check = func(o *observation) error {
		if !strings.Contains(o.Facts["warnings"], "is read as the default 3") {
			return errors.New("there is no warning")
		}
		return wantTrace(o, &c, []string{
			"failed a1 → retried 1", "failed a2 → retried 1", "failed a3 → retried 1", "failed a4 → dropped 1",
		})
	}
	c.wrong = []wrong{
		changes("0 means 0", func(o *observation) {
			o.Batches = o.Batches[:1]
			o.Batches[0].Retried, o.Batches[0].Dropped = 0, 1
		}),
		changes("nobody is told", func(o *observation) { o.Facts["warnings"] = "" }),
	}
	return c
}

// ownBackoff shows that a consumer's retryDelay replaces the dialect's back-off.
func ownBackoff() testCase {
	c := testCase{
		id: "runlot-own-backoff", rule: "a consumer's retryDelay takes the place of the dialect's back-off", source: limits,
		app: "runlot", queues: []string{"runlot-own-backoff"},
	}
	c.drive = func(r *run) {
		r.accept(call{"OWN_BACKOFF", "send", body{N: "a", Do: []string{"throw"}}})
		r.batches(1)
	}
	c.check = func(o *observation) error {
		return wantTrace(o, &c, []string{"failed a1 → retried 1", "left a attempts 1 in 100s"})
	}
	c.wrong = []wrong{waits("the dialect's back-off stays", "a", 10*time.Second)}
	return c
}

// warnings returns what the start said about an app.
func (c *collector) warnings(app string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.warned[app]
}
