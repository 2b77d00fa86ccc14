package conformance_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// lossCases are the rules of what happens when a process dies, is replaced, or gets what it cannot read. What kills its
// process is sent by another app: the process may die before it has answered.
func lossCases() []testCase {
	return []testCase{crash(), loop(), poison(), reload(), late()}
}

// crash lets a handler ack a message and then use all the memory of its process, once.
func crash() testCase {
	c := testCase{
		id: "loss-crash", rule: "a process that dies in a batch loses its acks and spends no retry: the batch is delivered again",
		source: runlotPage + ", Delivery", app: "plan", queues: []string{"crash"},
	}
	c.drive = func(r *run) {
		r.accept(sendBatch("crash", body{N: "a"}, body{N: "b"}, body{N: "c"}))
		r.batches(2)
	}
	c.check = func(o *observation) error {
		// On a busy machine the watchdog may be faster than the memory's end.
		if reason := o.Batches[0].Reason; !strings.Contains(reason, "memory") && !strings.Contains(reason, "did not answer") {
			return fmt.Errorf("the reason is %q", reason)
		}
		// There are no retries to spend in this queue: one spent would delete the messages.
		return wantTrace(o, &c, []string{"lost → redelivered 3", "ok a1 b1 c1 → acked 3"})
	}
	c.wrong = []wrong{
		attempt("a loss spends a retry", 1, 2), ends("a loss is a failure", "failed"), cut("the batch is lost for good", 1),
		changes("a loss is out of retries", func(o *observation) { o.Batches[0].Redelivered, o.Batches[0].Dropped = 0, 3 }),
		changes("nobody knows why", func(o *observation) { o.Batches[0].Reason = "" }),
	}
	return c
}

// loop lets a handler never give its thread back, once.
func loop() testCase {
	c := testCase{
		id: "loss-loop", rule: "a process stuck in a loop is found and killed, and its batch is delivered again without a spent retry",
		source: runlotPage + ", Delivery", app: "plan", queues: []string{"loop"},
	}
	c.drive = func(r *run) {
		r.accept(sendBatch("loop", body{N: "a"}, body{N: "b"}))
		r.batches(2)
	}
	c.check = func(o *observation) error {
		if reason := o.Batches[0].Reason; !strings.Contains(reason, "loop") {
			return fmt.Errorf("the reason is %q", reason)
		}
		return wantTrace(o, &c, []string{"lost → redelivered 2", "ok a1 b1 → acked 2"})
	}
	c.wrong = []wrong{
		attempt("a loss spends a retry", 1, 2), ends("the loop waits for the handler's time", "timeout"), cut("the batch is lost for good", 1),
		changes("nobody knows why", func(o *observation) { o.Batches[0].Reason = "EOF" }),
	}
	return c
}

// poison sends a message that kills every process that handles it, between others. The others tell the gate when they are
// handled, because their logs may go down with the process.
func poison() testCase {
	c := testCase{
		id: "loss-poison", rule: "a message that kills its process is found, ends in the dead-letter queue, and its batch-mates are delivered",
		source: guarantees + ", Deliveries", app: "plan", queues: []string{"poison", "poison-dead"}, unlogged: true,
	}
	c.drive = func(r *run) {
		r.accept(sendBatch("poison", body{N: "a"}, body{N: "bad"}, body{N: "b"}, body{N: "c"}))
		r.within(2*patience, "every message's end", func() bool {
			acked := map[string]int{}
			for _, b := range r.node.joined(r.c.queues, true) {
				acked[b.Queue] += b.Acked
			}
			return acked["poison"] == 3 && acked["poison-dead"] == 1
		})
		calls := r.house.gate.calls("poison ")
		slices.Sort(calls)
		r.fact("handled", strings.Join(calls, ", "))
	}
	c.check = func(o *observation) error {
		lost, dead := 0, 0
		for i := range o.Batches {
			b := &o.Batches[i]
			dead += b.Dead
			switch {
			case b.Outcome == "lost" && lost < 2 && b.Delivered != 4, b.Outcome == "lost" && lost >= 2 && b.Delivered != 1:
				return fmt.Errorf("loss %d has %d messages", lost+1, b.Delivered)
			case b.Outcome == "lost":
				lost++
			case b.Outcome != "ok" || b.Delivered != 1:
				return fmt.Errorf("batch %d of %s ends as %s with %d messages", i, b.Queue, b.Outcome, b.Delivered)
			}
		}
		if lost != 5 || dead != 1 || len(o.Left) != 0 {
			return fmt.Errorf("%d losses, %d dead letters, %d left; want 2 in company and 3 alone, 1, none", lost, dead, len(o.Left))
		}
		// The number is the attempt: losses have spent none. In the dead-letter queue the message is handled like any other.
		if handled := o.Facts["handled"]; handled != "poison a 1, poison b 1, poison c 1, poison dead bad 1" {
			return fmt.Errorf("handled: %s", handled)
		}
		return nil
	}
	lose := func(name string, number int, apply func(b *batch)) wrong {
		return changes(name, func(o *observation) {
			lost := 0
			for i := range o.Batches {
				if o.Batches[i].Outcome == "lost" {
					if lost++; lost == number {
						apply(&o.Batches[i])
					}
				}
			}
		})
	}
	handled := func(name, from, to string) wrong {
		return changes(name, func(o *observation) { o.Facts["handled"] = strings.Replace(o.Facts["handled"], from, to, 1) })
	}
	c.wrong = []wrong{
		lose("the poison never ends", 5, func(b *batch) { b.Dead, b.Retried = 0, 1 }),
		lose("a third batch is lost in company", 3, func(b *batch) { b.Delivered = 4 }),
		lose("the first loss is a failure", 1, func(b *batch) { b.Outcome = "failed" }),
		changes("a batch that came to the dead process is an outcome", func(o *observation) {
			o.Batches = append(o.Batches, batch{Queue: "poison", Outcome: "error", Delivered: 1, Redelivered: 1})
		}),
		handled("a batch-mate dies with it", "poison a 1, ", ""),
		handled("a batch-mate has spent a retry", "poison b 1", "poison b 2"),
		handled("a batch-mate is handled twice", "poison c 1", "poison c 1, poison c 1"),
	}
	return c
}

// rewrite changes a file of the case's app.
func (r *run) rewrite(file, from, to string) {
	r.Helper()
	path := filepath.Join(r.node.dir, r.c.app, file)
	text, err := os.ReadFile(path)
	if err != nil {
		r.Fatal(err)
	}
	changed := strings.Replace(string(text), from, to, 1)
	if changed == string(text) {
		r.Fatalf("%s has no %q", file, from)
	}
	if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
		r.Fatal(err)
	}
}

// reloaded waits until a changed app is live.
func (r *run) reloaded() {
	r.Helper()
	r.until("the reload", func() bool {
		r.node.mu.Lock()
		defer r.node.mu.Unlock()
		if err := r.node.failed[r.c.app]; err != nil {
			r.Fatal(err)
		}
		return r.node.reloads[r.c.app] > 0
	})
}

// reload changes an app while four senders keep it busy.
func reload() testCase {
	c := testCase{
		id: "loss-reload", rule: "a new version takes over under load: no request is refused, every message is handled, none twice, and no retry is spent",
		source: runlotPage + ", Delivery", app: "reload", queues: []string{"reload"},
	}
	const senders, eachSide = 4, 100
	c.drive = func(r *run) {
		var accepted atomic.Int64
		var wg sync.WaitGroup
		stop, half := make(chan struct{}), make(chan struct{})
		var once sync.Once
		var names, refused sync.Map
		for s := range senders {
			wg.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					default:
					}
					name := fmt.Sprintf("s%d-%d-", s, i)
					response, err := http.Get(r.node.url("reload") + "/" + name)
					if err != nil {
						refused.Store(name, err.Error())
						continue
					}
					text, err := io.ReadAll(response.Body)
					_ = response.Body.Close()
					if err != nil || string(text) != "accepted" {
						refused.Store(name, fmt.Sprintf("%s %s %v", response.Status, text, err))
						continue
					}
					names.Store(name, true)
					if accepted.Add(1) >= eachSide {
						once.Do(func() { close(half) })
					}
				}
			})
		}
		<-half
		r.rewrite("index.js", `"one"`, `"two"`)
		r.reloaded()
		r.until("work of the new version", func() bool {
			count := 0
			for _, b := range r.node.batches("reload") {
				if b.Version == "two" {
					count += len(b.Messages)
				}
			}
			return count >= eachSide
		})
		close(stop)
		wg.Wait()
		r.until("every message", func() bool {
			count := 0
			for _, b := range r.node.batches("reload") {
				count += b.Acked
			}
			return count >= int(accepted.Load())
		})
		missing, twice := 0, 0
		r.observe()
		counts := map[string]int{}
		for i := range r.o.Batches {
			for j := range r.o.Batches[i].Messages {
				counts[r.o.Batches[i].Messages[j].name()]++
			}
		}
		names.Range(func(name, _ any) bool {
			if counts[name.(string)] == 0 {
				missing++
			}
			return true
		})
		for _, count := range counts {
			twice += count - 1
		}
		r.fact("missing", missing)
		r.fact("twice", twice)
		refusals := map[any]any{}
		refused.Range(func(name, why any) bool {
			refusals[name] = why
			return true
		})
		r.fact("refused", len(refusals))
		r.fact("refusals", refusals)
	}
	c.check = func(o *observation) error {
		versions := map[string]int{}
		for i := range o.Batches {
			b := &o.Batches[i]
			versions[b.Version]++
			if b.Outcome != "ok" {
				return fmt.Errorf("batch %d ends as %s: %s", i, b.Outcome, b.Reason)
			}
			for j := range b.Messages {
				if b.Messages[j].Attempts != 1 {
					return fmt.Errorf("message %s has spent a retry", b.Messages[j].name())
				}
			}
		}
		if o.Facts["missing"] != "0" || o.Facts["twice"] != "0" || o.Facts["refused"] != "0" || versions["one"] == 0 || versions["two"] == 0 {
			return fmt.Errorf("missing %s, twice %s, %s requests refused: %s, batches by version %v",
				o.Facts["missing"], o.Facts["twice"], o.Facts["refused"], o.Facts["refusals"], versions)
		}
		return nil
	}
	c.wrong = []wrong{
		changes("a message is lost in the change", func(o *observation) { o.Facts["missing"] = "1" }),
		changes("a message is handled by both", func(o *observation) { o.Facts["twice"] = "1" }),
		changes("a request is refused in the change", func(o *observation) { o.Facts["refused"] = "1" }),
		changes("the old version goes on", func(o *observation) {
			for i := range o.Batches {
				o.Batches[i].Version = "one"
			}
		}),
		ends("the change cuts a batch short", "lost"),
		attempt("the change spends a retry", 0, 2),
	}
	return c
}

// late spoils a message that waits, then deploys a consumer for its queue.
func late() testCase {
	c := testCase{
		id: "loss-undecodable", rule: "what waits in a queue is delivered once a consumer is deployed, and a body that cannot be decoded is dead-lettered alone, whatever the handler acks",
		source: runlotPage + ", Changing or removing a queue", app: "late", queues: []string{"late", "late-dead"},
	}
	c.drive = func(r *run) {
		r.post("/", []string{"a", "bad", "b"})
		r.exec(`UPDATE runlot_queue.message SET body = '\xff0fdeadbeef' WHERE queue_id = (SELECT id FROM runlot_queue.queue WHERE name = 'late')
			AND seq = (SELECT seq FROM runlot_queue.message m JOIN runlot_queue.queue q ON q.id = m.queue_id WHERE q.name = 'late' ORDER BY seq OFFSET 1 LIMIT 1)`)
		r.rewrite("wrangler.json", `"queue": "late" }]`, `"queue": "late" }],
    "consumers": [{ "queue": "late", "max_batch_size": 3, "max_batch_timeout": 1, "max_retries": 1, "dead_letter_queue": "late-dead" }]`)
		r.reloaded()
		r.batches(2)
	}
	c.check = func(o *observation) error {
		if len(o.Batches) != 2 || len(o.Left) != 1 {
			return fmt.Errorf("%d batches, %d messages left", len(o.Batches), len(o.Left))
		}
		first, second := &o.Batches[0], &o.Batches[1]
		switch {
		case first.Outcome != "ok" || first.Acked != 2 || first.Retried != 1 || len(o.seen("a")) != 1 || len(o.seen("b")) != 1:
			return fmt.Errorf("the first batch ends as %s, %d acked, %d retried", first.Outcome, first.Acked, first.Retried)
		case second.Outcome != "failed" || second.Dead != 1 || len(second.Messages) != 0:
			return fmt.Errorf("the second batch ends as %s, %d dead", second.Outcome, second.Dead)
		case !strings.Contains(second.Error, "cannot be decoded"):
			return fmt.Errorf("the error is %q", second.Error)
		case o.Left[0].Queue != "late-dead":
			return errors.New("it is not in the dead-letter queue")
		}
		return nil
	}
	c.wrong = []wrong{
		changes("its batch-mates go down with it", func(o *observation) { o.Batches[0].Acked, o.Batches[0].Retried = 0, 3 }),
		changes("ackAll deletes what the handler never saw", func(o *observation) {
			o.Batches[0].Acked, o.Batches[0].Retried = 3, 0
			o.Batches, o.Left = o.Batches[:1], nil
		}),
		changes("it stays for ever", func(o *observation) { o.Left[0].Queue = "late" }),
		changes("nobody knows why", func(o *observation) { o.Batches[1].Error = "" }),
	}
	return c
}
