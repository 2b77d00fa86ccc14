package conformance_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
)

// sequenceCases are the rules of settling that need more than one course to show, and of the forms of a handler.
func sequenceCases() []testCase {
	return []testCase{
		settleMatrix(),
		noWait("nowait", "with queue_consumer_no_wait_for_wait_until a batch ends with its handler: a waitUntil that goes on, rejects or settles later changes nothing",
			body{N: "a"}, []string{"ok a1 → acked 1"}, "",
			ends("a late rejection fails the batch", "failed"),
			changes("a late retryAll counts", func(o *observation) { o.Batches[0].Acked, o.Batches[0].Retried = 0, 1 })),
		noWait("nowait-throw", "with queue_consumer_no_wait_for_wait_until a throw is known, with its place, before waitUntil has ended",
			body{N: "a", Do: []string{"throw"}}, []string{"failed a1 → retried 1", "left a attempts 1 in 3600s"},
			"RangeError: thrown before waitUntil has ended at index.js:12:24",
			changes("nobody knows why", func(o *observation) {
				o.Batches[0].Error = "Error: the handler failed without saying why (outcome exception)"
			}),
			changes("nobody knows where", func(o *observation) { o.Batches[0].Location = "" })),
		named(),
	}
}

// programs are all sequences of up to three settle calls on the first message of a batch, each with each way to end.
func programs() []string {
	calls := []string{"", "ack", "retry", "retry=1200", "ackAll", "retryAll", "retryAll=1800"}
	var list []string
	for _, first := range calls {
		for _, second := range calls {
			for _, third := range calls {
				if first == "" && second != "" || second == "" && third != "" {
					continue // a shorter sequence has its calls in front
				}
				for _, end := range []string{"", "throw", "reject"} {
					list = append(list, strings.TrimSpace(first+" "+second+" "+third)+"/"+end)
				}
			}
		}
	}
	return list
}

// documented is what the documents say of a program: what becomes of its message and of the other of its batch, in the
// words of fate.
func documented(program string) (first, other string) {
	calls, end, _ := strings.Cut(program, "/")
	var acked, retried, ackAll, retryAll bool
	own, all := "3600", "3600" // the consumer's delay, until a call names another
	named := false
	for call := range strings.FieldsSeq(calls) {
		verb, delay, given := strings.Cut(call, "=")
		switch {
		case verb == "ack" && !retried && !ackAll && !retryAll:
			acked = true
		case verb == "retry" && !acked && !ackAll:
			retried, named, own = true, given, delay
		case verb == "ackAll" && !retryAll:
			ackAll = true
		case verb == "retryAll" && !ackAll:
			retryAll = true
			if given {
				all = delay
			}
		}
	}
	other = "acked"
	if retryAll || end != "" && !ackAll {
		other = all
	}
	switch {
	case acked:
		return "acked", other
	case retried && named:
		return own, other
	case retried:
		return all, other
	default:
		return other, other
	}
}

// fate tells what became of a message of a batch: "acked", or the seconds until it comes again.
func fate(o *observation, b *batch, name string) string {
	for i := range o.Left {
		if o.Left[i].Name == name {
			return fmt.Sprintf("%.0f", o.Left[i].VisibleAt.Sub(b.end()).Round(5*time.Minute).Seconds())
		}
	}
	return "acked"
}

func settleMatrix() testCase {
	c := testCase{
		id: "settle-matrix", rule: "every sequence of up to three settle calls, ended by a return, a throw or a rejection, settles a batch as the table says",
		source: cloudflare + ", JavaScript APIs", app: "plan", queues: []string{"settle-matrix"},
	}
	all := programs()
	c.drive = func(r *run) {
		for few := range slices.Chunk(all, 50) {
			var bodies []body
			for _, program := range few {
				calls, end, _ := strings.Cut(program, "/")
				bodies = append(bodies, body{N: program, Do: []string{calls}}, body{N: program + " other", Do: []string{end}})
			}
			r.accept(sendBatch(c.id, bodies...))
		}
		r.within(3*patience, "every batch", func() bool { return len(r.node.batches(c.id)) >= len(all) })
	}
	c.check = func(o *observation) error {
		var got, want []string
		for i := range o.Batches {
			b := &o.Batches[i]
			if len(b.Messages) != 2 {
				return fmt.Errorf("batch %d has %d messages", i, len(b.Messages))
			}
			program := b.Messages[0].name()
			got = append(got, fmt.Sprintf("%s: %s, %s", program, fate(o, b, program), fate(o, b, program+" other")))
		}
		for _, program := range all {
			first, other := documented(program)
			want = append(want, fmt.Sprintf("%s: %s, %s", program, first, other))
		}
		slices.Sort(got)
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("(-want +got):\n%s", diff)
		}
		return nil
	}
	lasts := func(name, message string, delay time.Duration) wrong {
		return changes(name, func(o *observation) {
			for i := range o.Left {
				if o.Left[i].Name == message {
					o.Left[i].VisibleAt = o.Left[i].VisibleAt.Add(delay)
				}
			}
		})
	}
	c.wrong = []wrong{
		lasts("a second retry keeps the first one's delay", "retry=1200 retry/", -2400*time.Second),
		lasts("a second retryAll without a delay forgets the first one's", "retryAll=1800 retryAll/ other", 1800*time.Second),
		gone("the last of ack and retry counts", "retry ack/"), gone("a call after retryAll counts", "retryAll ack/"),
		gone("ackAll takes a retry back", "retry ackAll/"), gone("a rejection is nothing", "/reject"),
	}
	return c
}

// noWait holds what was given to waitUntil at the gate until the batch is over.
func noWait(queueName, rule string, b body, want []string, wantError string, wrongs ...wrong) testCase {
	c := testCase{id: "settle-" + queueName, rule: rule, source: cloudflare + ", JavaScript APIs; Workers docs, Compatibility flags", app: "plan", queues: []string{queueName}, wrong: wrongs}
	c.drive = func(r *run) {
		r.accept(send(queueName, b))
		// The log of the call comes when its waitUntil is over; the record does not wait for it.
		r.until("the end of the batch", func() bool { return len(r.node.joined(r.c.queues, true)) == 1 })
		r.house.gate.open(queueName)
		r.until("its log", func() bool { return len(r.node.joined(r.c.queues, true)[0].Messages) == 1 })
	}
	c.check = func(o *observation) error {
		got := o.Batches[0].Error
		if o.Batches[0].Location != "" {
			got += " at " + o.Batches[0].Location
		}
		if got != wantError {
			return fmt.Errorf("the error is %q, want %q", got, wantError)
		}
		return wantTrace(o, &c, want)
	}
	return c
}

func named() testCase {
	c := testCase{
		id: "form-named", rule: "the default export handles batches, also a class that is exported by name too, beside others with a queue handler",
		source: cloudflare + ", JavaScript APIs", app: "named", queues: []string{"named"},
	}
	c.drive = func(r *run) {
		r.post("/", nil)
		r.batches(1)
	}
	c.check = func(o *observation) error {
		if got := o.Batches[0].Error; got != "RangeError: after the ack" {
			return fmt.Errorf("the error is %q", got)
		}
		return wantTrace(o, &c, []string{"failed Jobs,hello1 → acked 1"})
	}
	c.wrong = []wrong{
		changes("another export is called", func(o *observation) { o.Batches[0].Error = "Error: this is not the default export" }),
		again("the ack is lost with the class", "Jobs,hello"),
	}
	return c
}
