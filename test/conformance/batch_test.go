package conformance_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/runlot/runlot/internal/core/queue"
)

// batchCases are the rules of when a batch is delivered, how large it is and how many run at a time.
func batchCases() []testCase {
	return []testCase{
		batchFull(), batchTime(), batchSize(), batchNow(), batchVisible(),
		serial(), three(), automatic(), handlerTime(),
	}
}

// fillers are messages without a plan, named after their number.
func fillers(count int) []body {
	list := make([]body, count)
	for i := range list {
		list[i] = body{N: fmt.Sprintf("m%d-", i)}
	}
	return list
}

func batchFull() testCase {
	c := planned("batch-full", "a batch is delivered as soon as it is full", runlotPage+", Batching", fillers(5),
		[]string{"ok m0-1 m1-1 m2-1 m3-1 m4-1 → acked 5"},
		changes("a full batch waits for its time", func(o *observation) { o.Batches[0].Start = o.Batches[0].Start.Add(time.Minute) }),
		changes("it comes in two", func(o *observation) {
			second := o.Batches[0]
			o.Batches[0].Messages, o.Batches[0].Acked = second.Messages[:2], 2
			second.Messages, second.Acked = second.Messages[2:], 3
			o.Batches = append(o.Batches, second)
		}),
	)
	course := c.check
	c.check = func(o *observation) error {
		// The batch would wait for a minute.
		if waited := o.Batches[0].Start.Sub(time.UnixMilli(o.Batches[0].Messages[0].Timestamp)); waited > patience/2 {
			return fmt.Errorf("the batch waited for %s", waited)
		}
		return course(o)
	}
	return c
}

func batchTime() testCase {
	c := testCase{
		id: "batch-time", rule: "a partial batch is delivered when max_batch_timeout is over, with all that is visible", source: runlotPage + ", Batching",
		app: "plan", queues: []string{"batch-time"},
	}
	c.drive = func(r *run) {
		r.accept(sendBatch("batch-time", body{N: "a"}, body{N: "b"}))
		r.batches(1)
	}
	c.check = func(o *observation) error {
		first := time.UnixMilli(o.Batches[0].Messages[0].Timestamp)
		if waited := o.Batches[0].Start.Sub(first); waited < time.Second {
			return fmt.Errorf("the batch waited for %s only", waited)
		}
		return wantTrace(o, &c, []string{"ok a1 b1 → acked 2"})
	}
	c.wrong = []wrong{
		changes("a partial batch does not wait", func(o *observation) {
			o.Batches[0].Start = time.UnixMilli(o.Batches[0].Messages[0].Timestamp).Add(time.Millisecond)
		}),
		changes("each message is a batch", func(o *observation) {
			second := o.Batches[0]
			o.Batches[0].Messages, o.Batches[0].Acked = second.Messages[:1], 1
			second.Messages, second.Acked = second.Messages[1:], 1
			o.Batches = append(o.Batches, second)
		}),
	}
	return c
}

func batchSize() testCase {
	c := testCase{
		id: "batch-size", rule: "no batch is empty or larger than max_batch_size, and every message comes once", source: runlotPage + ", Batching",
		app: "plan", queues: []string{"batch-size"},
	}
	const messages, most = 25, 10
	c.drive = func(r *run) {
		r.accept(sendBatch("batch-size", fillers(messages)...))
		r.batches(3)
	}
	c.check = func(o *observation) error {
		total, seen := 0, map[string]bool{}
		for i := range o.Batches {
			b := &o.Batches[i]
			if len(b.Messages) == 0 || len(b.Messages) > most || b.Delivered != len(b.Messages) || b.Acked != len(b.Messages) && !o.Outside {
				return fmt.Errorf("batch %d has %d messages, %d delivered, %d acked", i, len(b.Messages), b.Delivered, b.Acked)
			}
			total += len(b.Messages)
			for j := range b.Messages {
				seen[b.Messages[j].ID] = true
			}
		}
		if total != messages || len(seen) != messages || len(o.Batches) != 3 || len(o.Left) > 0 {
			return fmt.Errorf("%d deliveries of %d messages in %d batches, %d left", total, len(seen), len(o.Batches), len(o.Left))
		}
		return nil
	}
	c.wrong = []wrong{
		changes("a batch is larger than its size", func(o *observation) {
			last := o.Batches[2]
			o.Batches[0].Messages = append(o.Batches[0].Messages, last.Messages...)
			o.Batches = o.Batches[:2]
		}),
		changes("a batch is empty", func(o *observation) { o.Batches = append(o.Batches, batch{Outcome: "ok"}) }),
		changes("a message is lost", func(o *observation) { o.Batches[2].Messages = o.Batches[2].Messages[1:] }),
		changes("a message comes twice", func(o *observation) { o.Batches[2].Messages[0] = o.Batches[0].Messages[0] }),
	}
	return c
}

// batchNow sends another message, a few times, when a busy machine may have taken for one what the default would take.
func batchNow() testCase {
	c := testCase{
		id: "batch-now", rule: "max_batch_timeout 0 delivers what is there at once", source: cloudflare + ", Configure Queues",
		app: "plan", queues: []string{"batch-now"},
	}
	const tries = 5
	waited := func(b *batch) time.Duration { return b.Start.Sub(time.UnixMilli(b.Messages[0].Timestamp)) }
	c.drive = func(r *run) {
		for n := 1; n <= tries; n++ {
			r.accept(sendBatch("batch-now", body{N: "a"}))
			if list := r.batches(n); waited(&list[n-1]) < queue.DefaultBatchTimeout {
				return
			}
		}
	}
	c.check = func(o *observation) error {
		last := &o.Batches[len(o.Batches)-1]
		if waited := waited(last); waited >= queue.DefaultBatchTimeout {
			return fmt.Errorf("the batch waited for %s", waited)
		}
		return wantTrace(o, &c, slices.Repeat([]string{"ok a1 → acked 1"}, len(o.Batches)))
	}
	c.wrong = []wrong{
		changes("0 is read as the default", func(o *observation) {
			last := &o.Batches[len(o.Batches)-1]
			last.Start = last.Start.Add(queue.DefaultBatchTimeout)
		}),
	}
	return c
}

func batchVisible() testCase {
	c := testCase{
		id: "batch-visible", rule: "the time of a batch runs from when its first message became visible", source: guarantees + ", Deliveries",
		app: "plan", queues: []string{"batch-visible"},
	}
	c.drive = func(r *run) {
		r.accept(send("batch-visible", body{N: "a"}, object{"delaySeconds": 1}))
		r.batches(1)
	}
	c.check = func(o *observation) error {
		// A delay of one second, then two seconds for the batch to fill.
		if err := notBefore(o, 3*time.Second); err != nil {
			return err
		}
		return wantTrace(o, &c, []string{"ok a1 → acked 1"})
	}
	c.wrong = []wrong{changes("the time runs from the send", func(o *observation) {
		o.Batches[0].Start = time.UnixMilli(o.Batches[0].Messages[0].Timestamp).Add(2100 * time.Millisecond)
	})}
	return c
}

// held is a case of handlers that wait at the gate: how many are there when a message of another queue has gone all the
// way, before any may leave?
func held(id, rule string, messages, together int, wrongs ...wrong) testCase {
	c := testCase{id: id, rule: rule, source: celldPage + ", Configure", app: "plan", queues: []string{id}}
	c.drive = func(r *run) {
		list := make([]body, messages)
		for i := range list {
			list[i] = body{N: fmt.Sprintf("m%d-", i), Do: []string{"wait=" + id + " leave=left-" + id}}
		}
		for few := range slices.Chunk(list, 100) {
			r.accept(sendBatch(id, few...))
		}
		r.arrives(id, together)
		r.beacon(id)
		r.fact("together", r.house.gate.arrivals(id))
		r.house.gate.open(id)
		r.batches(messages)
		r.fact("most", most(r.house.gate.calls(""), id))
	}
	c.check = func(o *observation) error {
		if o.Facts["together"] != fmt.Sprint(together) || o.Facts["most"] != fmt.Sprint(together) {
			return fmt.Errorf("%s handlers were held together, and at most %s ran at a time; want %d", o.Facts["together"], o.Facts["most"], together)
		}
		if len(o.Batches) != messages {
			return fmt.Errorf("%d batches of %d messages", len(o.Batches), messages)
		}
		return nil
	}
	c.wrong = wrongs
	return c
}

// most is the largest number of handlers that were at work at a time, by when they came and when they left.
func most(calls []string, id string) int {
	now, top := 0, 0
	for _, name := range calls {
		switch name {
		case id:
			now++
			top = max(top, now)
		case "left-" + id:
			now--
		}
	}
	return top
}

func serial() testCase {
	return held("serial", "max_concurrency 1 runs one batch after the other", 4, 1,
		changes("two run together", func(o *observation) { o.Facts["most"] = "2" }))
}

func three() testCase {
	return held("three", "max_concurrency 3 runs three batches at a time, and no fourth", 7, 3,
		changes("a fourth runs beside them", func(o *observation) { o.Facts["together"] = "4" }),
		changes("a fourth runs later on", func(o *observation) { o.Facts["most"] = "4" }),
		changes("they run one after the other", func(o *observation) { o.Facts["most"] = "1" }))
}

// automatic shows that a queue without max_concurrency learns from its backlog while every handler is busy.
func automatic() testCase {
	c := held("automatic", "without max_concurrency, more handlers run when batches wait for those that are busy", 6, 3)
	c.check = func(o *observation) error {
		if o.Facts["together"] < "3" || o.Facts["together"] > "6" {
			return fmt.Errorf("%s handlers ran together", o.Facts["together"])
		}
		if len(o.Batches) != 6 {
			return fmt.Errorf("%d batches", len(o.Batches))
		}
		return nil
	}
	c.wrong = []wrong{
		changes("a slow handler holds the queue up", func(o *observation) { o.Facts["together"] = "1" }),
		cut("a batch is lost", 5),
	}
	return c
}

// handlerTime lets a handler outlive its time, which is 30 s with a batch timeout of 0.
func handlerTime() testCase {
	c := testCase{
		id: "handler-time", rule: "a handler that outlives its time is cancelled: the outcome is timeout, and its messages go back and spend a retry",
		source: runlotPage + ", Batching", app: "runlot", queues: []string{"runlot-timeout"},
	}
	c.drive = func(r *run) {
		// The first message is acked before the time is over; the handler that is cancelled reports nothing.
		r.accept(call{"TIMEOUT", "sendBatch", []object{{"body": body{N: "a", Do: []string{"ack"}}}, {"body": body{N: "hang", Do: []string{"hang"}}}}})
		r.within(2*patience, "the batch after the time out", func() bool { return len(r.node.batches(r.c.queues...)) >= 2 })
	}
	c.check = func(o *observation) error {
		first := &o.Batches[0]
		switch {
		case first.Outcome != "timeout" || first.Retried != 2 || first.Delivered != 2:
			return fmt.Errorf("the first batch ends as %s with %d of %d retried", first.Outcome, first.Retried, first.Delivered)
		case first.Duration < 30*time.Second || first.Duration > 45*time.Second:
			return fmt.Errorf("the handler had %s", first.Duration)
		case !strings.Contains(first.Reason, "did not finish within 30 s"):
			return fmt.Errorf("the reason is %q", first.Reason)
		case len(o.Left) > 0:
			return errors.New("messages are left")
		}
		for _, name := range []string{"a", "hang"} {
			if seen := o.seen(name); len(seen) == 0 || seen[len(seen)-1].Attempts != 2 {
				return fmt.Errorf("message %s was seen as %+v", name, seen)
			}
		}
		return nil
	}
	c.wrong = []wrong{
		ends("the time out is a failure like any other", "failed"),
		changes("the handler has half its time", func(o *observation) { o.Batches[0].Duration = 15 * time.Second }),
		changes("the handler is never cancelled", func(o *observation) { o.Batches[0].Duration = time.Minute }),
		attempt("a time out spends no retry", 1, 1),
		cut("a time out loses its messages", 1),
	}
	return c
}
