package conformance_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// deathCases are the rules of what fails again and again: when it comes back, where it ends, and what it takes along.
func deathCases() []testCase {
	return []testCase{backoffSteps(), deadFormats(), deadCycle(), lossOthers(), mire()}
}

// backoffSteps gives waiting messages a past of 0 to 10 failures before their consumer is deployed.
func backoffSteps() testCase {
	c := testCase{
		id: "runlot-backoff-steps", rule: "the back-off of the runlot dialect is 10 s after the first failure, doubles each time, and is at most an hour; attempts counts every failure",
		source: runlotPage + ", Retries and backoff", app: "backoff", queues: []string{"backoff-steps"},
	}
	const most = 10
	c.drive = func(r *run) {
		names := make([]string, 0, most+1)
		for i := range most + 1 {
			names = append(names, fmt.Sprintf("m%d-", i))
		}
		r.post("/", names)
		r.exec(`UPDATE runlot_queue.message m SET failures = n.n - 1 FROM (SELECT queue_id, seq, row_number() OVER (ORDER BY seq) AS n
			FROM runlot_queue.message WHERE queue_id = (SELECT id FROM runlot_queue.queue WHERE name = $1)) n
			WHERE m.queue_id = n.queue_id AND m.seq = n.seq`, c.queues[0])
		r.rewrite("runlot.json", `"queue": "backoff-steps" }]`, `"queue": "backoff-steps" }],
    "consumers": [{ "queue": "backoff-steps", "maxBatchSize": 11, "maxBatchTimeout": 1, "maxRetries": 10 }]`)
		r.reloaded()
		r.batches(1)
	}
	c.check = func(o *observation) error {
		left := make([]string, 0, most)
		course := "failed"
		for i := range most + 1 {
			course += fmt.Sprintf(" m%d-%d", i, i+1)
			if i == most {
				break
			}
			seconds := min(10<<i, 3600)
			left = append(left, fmt.Sprintf("left m%d- attempts %d in %ds", i, i+1, seconds))
		}
		course += fmt.Sprintf(" → retried %d dropped 1", most)
		return wantTrace(o, &c, append([]string{course}, left...))
	}
	c.wrong = []wrong{
		waits("the back-off does not double", "m3-", 20*time.Second), waits("there is no highest back-off", "m9-", 5120*time.Second),
		attempt("attempts is the count of this process", 0, 1),
		changes("there is an eleventh retry", func(o *observation) { o.Batches[0].Retried, o.Batches[0].Dropped = most+1, 0 }),
	}
	return c
}

func deadFormats() testCase {
	c := testCase{
		id: "dead-formats", rule: "a dead letter keeps its id, body, content type and send time, whatever the content type", source: runlotPage + ", The dead-letter queue",
		app: "letters", queues: []string{"letters", "letters-dead"},
	}
	c.drive = func(r *run) {
		r.post("/", nil)
		r.batches(2)
	}
	c.check = func(o *observation) error {
		bodies := `object{"json":["ü"]}1 string"ü"1 Uint8Array(0,255)1 Map([["a","1"]])1`
		if err := wantTrace(o, &c, []string{"failed " + bodies + " → dead 4", "letters-dead: ok " + bodies + " → acked 4"}); err != nil {
			return err
		}
		for i, m := range o.Batches[0].Messages {
			if d := o.Batches[1].Messages[i]; d.ID != m.ID || d.Timestamp != m.Timestamp {
				return fmt.Errorf("message %d has id %s and timestamp %d, and as a dead letter %s and %d", i, m.ID, m.Timestamp, d.ID, d.Timestamp)
			}
		}
		return nil
	}
	c.wrong = []wrong{
		changes("a Map is a dead letter in JSON", func(o *observation) { o.Batches[1].Messages[3].Body = []byte(`{"n":"object{}"}`) }),
		changes("bytes are a text", func(o *observation) { o.Batches[1].Messages[2].Body = []byte(`{"n":"string\"\""}`) }),
		changes("a dead letter is sent anew", func(o *observation) { o.Batches[1].Messages[1].Timestamp++ }),
		attempt("attempts go on", 1, 2),
		cut("the dead letters are lost", 1),
	}
	return c
}

func deadCycle() testCase {
	c := testCase{
		id: "dead-cycle", rule: "two queues may be each other's dead-letter queue; the message goes round, each time with attempts anew, until it is handled",
		source: cloudflare + ", Dead Letter Queues", app: "plan", queues: []string{"dead-cycle-one", "dead-cycle-two"},
	}
	c.drive = func(r *run) {
		r.accept(send("dead-cycle-one", body{N: "a", Do: []string{"thrice=dead-cycle"}}))
		r.batches(4)
	}
	c.check = func(o *observation) error {
		if id := o.Batches[0].Messages[0].ID; slices.ContainsFunc(o.seen("a"), func(m message) bool { return m.ID != id }) {
			return errors.New("the id changes")
		}
		return wantTrace(o, &c, []string{
			"failed a1 → dead 1", "dead-cycle-two: failed a1 → dead 1", "failed a1 → dead 1", "dead-cycle-two: ok a1 → acked 1",
		})
	}
	c.wrong = []wrong{
		cut("a dead letter dies only once", 2), attempt("attempts go on", 2, 3),
		changes("a new message is made", func(o *observation) { o.Batches[2].Messages[0].ID = strings.Repeat("0", 32) }),
	}
	return c
}

// lossOthers lets a handler keep the thread while one of another queue waits for its answer.
func lossOthers() testCase {
	c := testCase{
		id: "loss-others", rule: "a handler that never gives its thread back is killed with its process; what others had in flight there is lost, not failed, and comes again",
		source: guarantees + ", Deliveries", app: "plan", queues: []string{"spin", "spin-mate"}, unlogged: true,
	}
	c.drive = func(r *run) {
		r.accept(call{"SPIN_MATE", "send", body{N: "mate"}})
		r.arrives("spin-mate", 1)
		r.accept(call{"SPIN", "send", body{N: "spin"}})
		r.within(2*patience, "the losses", func() bool {
			return slices.ContainsFunc(r.node.joined([]string{"spin-mate"}, true), func(b batch) bool { return b.Outcome == "lost" })
		})
		r.house.gate.open("spin-mate")
		r.until("both messages", func() bool {
			acked := 0
			for _, b := range r.node.joined(r.c.queues, false) {
				acked += b.Acked
			}
			return acked == 2
		})
	}
	c.check = func(o *observation) error {
		got := map[string][]string{}
		for i := range o.Batches {
			b := &o.Batches[i]
			if b.Outcome == "lost" {
				// Whether a log left the process in time is chance.
				b.Messages = nil
			}
			own := observation{Batches: []batch{*b}}
			got[b.Queue] = append(got[b.Queue], strings.TrimPrefix(own.trace(&c)[0], b.Queue+": "))
		}
		if want := "map[spin:[lost → redelivered 1 ok spin1 → acked 1] spin-mate:[lost → redelivered 1 ok mate1 → acked 1]]"; fmt.Sprint(got) != want {
			return fmt.Errorf("got %v, want %s", got, want)
		}
		return nil
	}
	of := func(name, queueName string, apply func(b *batch)) wrong {
		return changes(name, func(o *observation) {
			apply(&o.Batches[slices.IndexFunc(o.Batches, func(b batch) bool { return b.Queue == queueName })])
		})
	}
	c.wrong = []wrong{
		of("the other's work is a failure", "spin-mate", func(b *batch) { b.Outcome = "failed" }),
		of("the other's message spends its retries", "spin-mate", func(b *batch) { b.Redelivered, b.Dropped = 0, 1 }),
		of("the loop is a time out", "spin", func(b *batch) { b.Outcome = "timeout" }),
		attempt("a loss is an attempt", 3, 2),
	}
	return c
}

// mire is the poison that never ends.
func mire() testCase {
	c := poison()
	c.id, c.queues = "loss-mire", []string{"mire", "mire-dead"}
	c.rule = "a message that keeps its process busy for ever is found, ends in the dead-letter queue after 5 deliveries, and its batch-mates are delivered"
	return c
}
