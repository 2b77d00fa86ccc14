package conformance_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
)

// answered is a case that is judged by the answers of producer calls, and by what is left in the queue.
func answered(id, rule, source, app, queueName string, calls []call, want, left []string, wrongs ...wrong) testCase {
	c := testCase{id: id, rule: rule, source: source, app: app, queues: []string{queueName}, wrong: wrongs}
	c.drive = func(r *run) { r.calls(calls...) }
	c.check = func(o *observation) error {
		got := make([]string, len(o.Answers))
		for i := range o.Answers {
			got[i] = o.Answers[i].String()
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("answers (-want +got):\n%s", diff)
		}
		if o.Outside {
			return nil
		}
		names := make([]string, 0, len(o.Left))
		for i := range o.Left {
			name := o.Left[i].Name
			if len(name) > 40 {
				name = strconv.Itoa(len(name)) + " characters"
			}
			names = append(names, name)
		}
		if diff := cmp.Diff(left, names); diff != "" {
			return fmt.Errorf("left in the queue (-want +got):\n%s", diff)
		}
		return nil
	}
	return c
}

// accepted makes call i succeed, or takes away what it answered.
func accepted(name string, i int) wrong {
	return changes(name, func(o *observation) { o.Answers[i].Error = nil })
}

// stays leaves a message in the queue that was refused.
func stays(name string) wrong {
	return changes(name, func(o *observation) { o.Left = append(o.Left, row{Name: "half"}) })
}

// uncoded takes the code from the error of call i.
func uncoded(i int) wrong {
	return changes("the error has no code", func(o *observation) { o.Answers[i].Error.Code = nil })
}

// sendCases are the rules of send, sendBatch and metrics.
func sendCases() []testCase {
	text := func(size int) object { return object{"repeat": size} }
	asText := object{"contentType": "text"}
	messages := func(count, size int) []object {
		list := make([]object, count)
		for i := range list {
			list[i] = object{"body": text(size), "contentType": "text"}
		}
		return list
	}
	// Three messages that make up a whole sendBatch, and with one more byte are too much.
	full := func(total int) []object {
		return slices.Concat(messages(2, 100_000), []object{{"body": text(total - 200_000), "contentType": "text"}})
	}
	return []testCase{
		answered("limit-message", "a message has at most 128,000 bytes in the wrangler dialect; one more is refused with 10204", limits,
			"send", "limits",
			[]call{{"LIMITS", "send", text(128_000), asText}, {"LIMITS", "send", text(128_001), asText}, {"LIMITS", "send", text(127_999)}},
			[]string{
				"ok", "Error: message length of 128001 bytes exceeds limit of 128000 (10204) [10204]",
				"Error: message length of 128001 bytes exceeds limit of 128000 (10204) [10204]",
			},
			[]string{"128002 characters"},
			accepted("one byte too many is accepted", 1), accepted("the quotes of JSON are not counted", 2),
			uncoded(1), stays("a refused message exists"),
		),
		answered("limit-message-runlot", "a message has at most 131,072 bytes in the runlot dialect", limits,
			"runlot", "runlot-kept",
			[]call{{"KEPT", "send", strings.Repeat("x", 131_072), asText}, {"KEPT", "send", strings.Repeat("x", 131_073), asText}},
			[]string{"ok", "Error: message length of 131073 bytes exceeds limit of 131072 (10204) [10204]"},
			[]string{"131074 characters"},
			accepted("one byte too many is accepted", 1), uncoded(1),
		),
		answered("limit-batch", "a sendBatch has 1 to 100 messages and at most 256,000 bytes; more is refused with 10206 and 10205, whole", limits,
			"send", "whole",
			[]call{
				{"WHOLE", "sendBatch", messages(101, 1)},
				{"WHOLE", "sendBatch", full(256_001)},
				{"WHOLE", "sendBatch", []object{{"body": "small"}, {"body": text(128_001), "contentType": "text"}}},
				{"WHOLE", "sendBatch", []object{}},
				{"WHOLE", "sendBatch", []object{{"body": "small"}, {"body": object{"$": "undefined"}}}},
				{"WHOLE", "sendBatch", []object{{"body": "small"}, {"body": "late", "delaySeconds": 86_401}}},
			},
			[]string{
				"Error: batch message count of 101 exceeds limit of 100 (10206) [10206]",
				"Error: batch size of 256001 bytes exceeds limit of 256000 bytes (10205) [10205]",
				"Error: message 1: message length of 128001 bytes exceeds limit of 128000 (10204) [10204]",
				"TypeError: sendBatch() requires at least one message",
				"TypeError: Message body cannot be undefined",
				"Error: message 1: delay of 86401 seconds is outside 0 to 86400 (10203) [10203]",
			},
			[]string{},
			accepted("101 messages are accepted", 0), accepted("one byte too many is accepted", 1), uncoded(0),
			stays("a refused batch is half there"),
		),
		answered("limit-batch-full", "a sendBatch of 256,000 bytes and one of 100 messages are accepted", limits,
			"send", "kept",
			[]call{{"KEPT", "sendBatch", full(256_000)}, {"KEPT", "sendBatch", messages(97, 1)}},
			[]string{"ok", "ok"},
			slices.Concat(slices.Repeat([]string{`"x"`}, 97), []string{"56002 characters", "100002 characters", "100002 characters"}),
			gone("a message of the batch is lost", `"x"`),
			changes("the limit is one byte lower", func(o *observation) { o.Left = o.Left[:97] }),
		),
		bodies(),
		sendDelays(), batchDelays(), bindingDelay(), delayLimits(),
		afterCommit(), producerCalls(), backlogMetrics(), batchMetrics(),
	}
}

// bodies are values that no message can carry.
func bodies() testCase {
	c := testCase{
		id: "limit-body", rule: "a body that its content type cannot carry is refused: undefined, a function or a symbol as JSON, cycles, an unknown type, a wrong type",
		source: cloudflare + ", JavaScript APIs", app: "send", queues: []string{"refused"},
	}
	special := func(kind string) object { return object{"$": kind} }
	as := func(contentType string) object { return object{"contentType": contentType} }
	c.drive = func(r *run) {
		r.calls(
			call{"REFUSED", "send", special("undefined")}, call{"REFUSED", "send", special("function")}, call{"REFUSED", "send", special("symbol")},
			call{"REFUSED", "send", special("cycle")}, call{"REFUSED", "send", special("bigint")},
			call{"REFUSED", "send", "x", as("xml")}, call{"REFUSED", "send", 1, as("text")}, call{"REFUSED", "send", special("buffer"), as("bytes")},
			call{"REFUSED", "send", special("function"), as("v8")},
		)
	}
	want := []string{
		"TypeError: Message body cannot be undefined",
		`Error: the body is undefined: content type "json" cannot carry a function, a symbol or undefined (10207) [10207]`,
		`Error: the body is undefined: content type "json" cannot carry a function, a symbol or undefined (10207) [10207]`,
		"TypeError: Converting circular structure to JSON",
		"TypeError: Do not know how to serialize a BigInt",
		"TypeError: Unsupported queue message content type: xml",
		`TypeError: Content Type "text" requires a value of type string, but received: number`,
		`TypeError: Content Type "bytes" requires a value of type ArrayBufferView, but received: object`,
		"DataCloneError: () => 1 could not be cloned.",
	}
	c.check = func(o *observation) error {
		for i := range o.Answers {
			got, _, _ := strings.Cut(o.Answers[i].String(), "\n")
			if got != want[i] {
				return fmt.Errorf("call %d: got %q, want %q", i, got, want[i])
			}
		}
		if len(o.Answers) != len(want) || len(o.Left) > 0 {
			return fmt.Errorf("%d answers, %d messages left", len(o.Answers), len(o.Left))
		}
		return nil
	}
	c.wrong = []wrong{
		accepted("undefined becomes null", 0), accepted("a function becomes null", 1), accepted("an unknown type is taken for JSON", 5),
		accepted("a number is made a string", 6), stays("a refused message exists"), uncoded(1),
	}
	return c
}

// notBefore looks whether every message was delivered a time after it was sent, and no earlier.
func notBefore(o *observation, wait time.Duration) error {
	for i := range o.Batches {
		b := &o.Batches[i]
		for j := range b.Messages {
			if waited := b.Start.Sub(time.UnixMilli(b.Messages[j].Timestamp)); waited < wait {
				return fmt.Errorf("message %s was delivered %s after it was sent; at least %s are wanted", b.Messages[j].name(), waited, wait)
			}
		}
	}
	return nil
}

func sendDelays() testCase {
	c := testCase{
		id: "send-delay", rule: "a message with delaySeconds is not delivered before that time", source: runlotPage + ", Sending",
		app: "plan", queues: []string{"send-delay"},
	}
	c.drive = func(r *run) {
		r.accept(send("send-delay", body{N: "a"}, object{"delaySeconds": 2}))
		r.batches(1)
	}
	c.check = func(o *observation) error {
		if err := notBefore(o, 2*time.Second); err != nil {
			return err
		}
		return wantTrace(o, &c, []string{"ok a1 → acked 1"})
	}
	c.wrong = []wrong{
		changes("the delay is ignored", func(o *observation) { o.Batches[0].Start = time.UnixMilli(o.Batches[0].Messages[0].Timestamp) }),
		changes("the timestamp is that of the delivery", func(o *observation) { o.Batches[0].Messages[0].Timestamp += 2000 }),
	}
	return c
}

func batchDelays() testCase {
	c := testCase{
		id: "send-batch-delay", rule: "sendBatch's delay holds for each message without one of its own; an explicit 0 beats it", source: cloudflare + ", JavaScript APIs",
		app: "plan", queues: []string{"send-batch-delay"},
	}
	c.drive = func(r *run) {
		r.accept(call{
			"SEND_BATCH_DELAY", "sendBatch",
			[]object{{"body": body{N: "a"}}, {"body": body{N: "b"}, "delaySeconds": 0}, {"body": body{N: "c"}, "delaySeconds": 600}},
			object{"delaySeconds": 1200},
		})
		r.batches(1)
	}
	c.check = func(o *observation) error {
		return wantTrace(o, &c, []string{"ok b1 → acked 1", "left a attempts 0 in 1200s", "left c attempts 0 in 600s"})
	}
	c.wrong = []wrong{
		waits("the call's delay is ignored", "a", 0), waits("the call's delay beats the message's", "c", 1200*time.Second),
		cut("0 is taken for nothing", 0),
	}
	return c
}

func bindingDelay() testCase {
	c := testCase{
		id: "send-binding-delay", rule: "a binding's delivery_delay holds for calls that name none; an explicit 0 beats it", source: celldPage + ", Configure",
		app: "plan", queues: []string{"send-binding-delay"},
	}
	c.drive = func(r *run) {
		r.accept(send("send-binding-delay", body{N: "a"}), send("send-binding-delay", body{N: "b"}, object{"delaySeconds": 0}))
		r.batches(1)
	}
	c.check = func(o *observation) error {
		return wantTrace(o, &c, []string{"ok b1 → acked 1", "left a attempts 0 in 3600s"})
	}
	c.wrong = []wrong{waits("delivery_delay is ignored", "a", 0), cut("0 is taken for nothing", 0)}
	return c
}

func delayLimits() testCase {
	c := answered("limit-delay", "a delay is 0 to 86,400 seconds; any other is refused with 10203, of a whole sendBatch with 10202", cloudflare+", Error codes",
		"send", "delays",
		[]call{
			{"DELAYS", "send", "most", object{"delaySeconds": 86_400}},
			{"DELAYS", "send", "x", object{"delaySeconds": 86_401}},
			{"DELAYS", "send", "x", object{"delaySeconds": -1}},
			{"DELAYS", "sendBatch", []object{{"body": "x"}}, object{"delaySeconds": 86_401}},
		},
		[]string{
			"ok", "Error: delay of 86401 seconds is outside 0 to 86400 (10203) [10203]", "Error: delay of -1 seconds is outside 0 to 86400 (10203) [10203]",
			"Error: delay of 86401 seconds is outside 0 to 86400 (10202) [10202]",
		},
		[]string{`"most"`},
		accepted("a longer delay is accepted", 1), accepted("a delay below 0 is accepted", 2), uncoded(3),
		gone("the longest delay is refused", `"most"`),
	)
	return c
}

// afterCommit holds commits up by a lock and looks whether send waits for it.
func afterCommit() testCase {
	c := testCase{
		id: "send-commit", rule: "send returns when the message is committed, and not before", source: guarantees + ", Messages",
		app: "send", queues: []string{"commit"},
	}
	c.drive = func(r *run) {
		answer := make(chan []byte, 1)
		r.locked(func() {
			go func() { answer <- r.post("/", []call{{"COMMIT", "send", body{N: "a"}}}) }()
			r.blocked()
			r.fact("answered before the commit", len(answer) > 0)
		})
		r.keep(<-answer)
	}
	c.check = func(o *observation) error {
		if o.Facts["answered before the commit"] != "false" || o.Answers[0].Error != nil {
			return fmt.Errorf("answered before the commit: %s; answer: %s", o.Facts["answered before the commit"], &o.Answers[0])
		}
		return wantTrace(o, &c, []string{"left a attempts 0 in 0s"})
	}
	c.wrong = []wrong{
		changes("send returns before the commit", func(o *observation) { o.Facts["answered before the commit"] = "true" }),
		gone("what was accepted is not there", "a"),
	}
	return c
}

// producerCalls fills a queue's calls while none can end, and looks what becomes of the surplus.
func producerCalls() testCase {
	const calls, most = 300, 256
	c := testCase{
		id: "send-calls", rule: "256 producer calls of a queue can be under way; one more throws with 10250 and may be made again", source: celldPage + ", Send messages",
		app: "send", queues: []string{"many"},
	}
	c.drive = func(r *run) {
		answer := make(chan []byte, 1)
		r.locked(func() {
			go func() { answer <- r.post("/flood", object{"calls": calls, "surplus": calls - most}) }()
			r.arrives("flood", 1)
		})
		r.keep(<-answer)
		r.calls(call{"MANY", "send", "after"})
	}
	c.check = func(o *observation) error {
		counts := map[string]int{}
		for i := range o.Answers {
			counts[o.Answers[i].String()]++
		}
		want := map[string]int{"ok": most + 1, "Error: Queue is overloaded. Please back off. (10250) [10250]": calls - most}
		if diff := cmp.Diff(want, counts); diff != "" {
			return fmt.Errorf("answers (-want +got):\n%s", diff)
		}
		if len(o.Left) != most+1 {
			return fmt.Errorf("%d messages are there of %d accepted calls", len(o.Left), most+1)
		}
		return nil
	}
	c.wrong = []wrong{
		changes("one call more is let through", func(o *observation) {
			for i := range o.Answers {
				if o.Answers[i].Error != nil {
					o.Answers[i].Error = nil
					return
				}
			}
		}),
		stays("a refused message exists"),
		changes("the error has another code", func(o *observation) {
			for i := range o.Answers {
				if e := o.Answers[i].Error; e != nil {
					e.Code = "15000"
				}
			}
		}),
	}
	return c
}

// locked keeps every write of messages in the database of the send fixture waiting while do runs, one case at a time.
func (r *run) locked(do func()) {
	r.Helper()
	tx, err := r.database().Begin(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	defer func() { _ = tx.Rollback(r.Context()) }()
	// The lock is also what the cases that need it wait for.
	if _, err := tx.Exec(r.Context(), "LOCK TABLE runlot_queue.message IN SHARE ROW EXCLUSIVE MODE"); err != nil {
		r.Fatal(err)
	}
	do()
}

// blocked waits until a session of the product waits for the lock.
func (r *run) blocked() {
	r.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		var waiting bool
		err := r.database().QueryRow(r.Context(), `SELECT EXISTS (SELECT FROM pg_locks l JOIN pg_stat_activity a USING (pid)
			WHERE NOT l.granted AND l.relation = 'runlot_queue.message'::regclass AND a.application_name LIKE 'runlot/%')`).Scan(&waiting)
		if err != nil {
			r.Fatal(err)
		}
		if waiting {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			r.Fatal("no write of the product waits for the lock")
		}
	}
}

// backlogMetrics looks at metrics() and at the metrics in the answers of send and sendBatch.
func backlogMetrics() testCase {
	c := testCase{
		id: "metrics", rule: "metrics() and the answers of send and sendBatch count every message that is not settled, delayed ones too, and name the oldest",
		source: cloudflare + ", JavaScript APIs", app: "send", queues: []string{"backlog"},
	}
	c.drive = func(r *run) {
		as := object{"contentType": "text"}
		r.accept(
			call{"BACKLOG", "metrics"},
			call{"BACKLOG", "send", "12345", as}, call{"BACKLOG", "metrics"},
			call{"BACKLOG", "sendBatch", []object{{"body": "123", "contentType": "text"}, {"body": "12", "contentType": "text", "delaySeconds": 3600}}},
			call{"BACKLOG", "metrics"},
		)
	}
	c.check = func(o *observation) error {
		want := [][2]int64{{0, 0}, {1, 5}, {1, 5}, {3, 10}, {3, 10}}
		for i := range o.Answers {
			m := o.Answers[i].metrics()
			if got := [2]int64{m.BacklogCount, m.BacklogBytes}; got != want[i] {
				return fmt.Errorf("call %d: count and bytes are %v, want %v", i, got, want[i])
			}
			if i == 0 {
				if m.OldestMessageTimestamp != "" {
					return fmt.Errorf("an empty queue has an oldest message of %s", m.OldestMessageTimestamp)
				}
				continue
			}
			oldest, err := time.Parse(time.RFC3339, m.OldestMessageTimestamp)
			var sent time.Time
			for j := range o.Left {
				if o.Left[j].Name == `"12345"` {
					sent = o.Left[j].SentAt
				}
			}
			if err != nil || !o.Answers[i].IsDate || oldest.UnixMilli() != sent.UnixMilli() && !o.Outside {
				return fmt.Errorf("call %d: the oldest is of %s (a Date: %v), want %s", i, m.OldestMessageTimestamp, o.Answers[i].IsDate, sent)
			}
		}
		return nil
	}
	say := func(name string, i int, text string) wrong {
		return changes(name, func(o *observation) {
			if at := time.Now().Format(time.RFC3339); strings.Contains(text, "NOW") {
				text = strings.ReplaceAll(text, "NOW", at)
			}
			o.Answers[i].Value = []byte(text)
		})
	}
	c.wrong = []wrong{
		say("delayed messages do not count", 4, `{"backlogCount":2,"backlogBytes":8,"oldestMessageTimestamp":"NOW"}`),
		say("the message just sent does not count", 1, `{"metadata":{"metrics":{"backlogCount":0,"backlogBytes":0}}}`),
		say("the oldest is the newest", 2, `{"backlogCount":1,"backlogBytes":5,"oldestMessageTimestamp":"2026-01-01T00:00:00Z"}`),
		changes("the timestamp is a number", func(o *observation) { o.Answers[2].IsDate = false }),
	}
	return c
}

// batchMetrics holds a first delivery while more messages are sent, and looks what the next batch is told.
func batchMetrics() testCase {
	c := testCase{
		id: "metrics-batch", rule: "batch.metadata.metrics is the backlog as the batch was taken", source: cloudflare + ", JavaScript APIs",
		app: "plan", queues: []string{"backlog"},
	}
	c.drive = func(r *run) {
		r.accept(send("backlog", body{N: "a", Do: []string{"wait=backlog"}}))
		r.arrives("backlog", 1)
		r.accept(send("backlog", body{N: "b"}), send("backlog", body{N: "c"}))
		r.house.gate.open("backlog")
		r.batches(3)
	}
	c.check = func(o *observation) error {
		var counts []int64
		for i := range o.Batches {
			m := o.Batches[i].Metrics
			if m == nil || m.OldestMessageTimestamp == "" {
				return fmt.Errorf("batch %d has metrics %+v", i, m)
			}
			counts = append(counts, m.BacklogCount)
		}
		// What is in flight belongs to the backlog until it is settled, and a batch is taken before the one in front of it is.
		ok := len(counts) == 3 && counts[0] == 1 && counts[1] >= 2 && counts[1] <= 3 && counts[2] >= 1 && counts[2] <= 3
		if !ok {
			return fmt.Errorf("the batches see backlogs of %v", counts)
		}
		return nil
	}
	c.wrong = []wrong{
		changes("the backlog is empty", func(o *observation) { o.Batches[1].Metrics.BacklogCount = 0 }),
		changes("there are no metrics", func(o *observation) { o.Batches[1].Metrics = nil }),
	}
	return c
}
