package conformance_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// typed is a case of the types fixture: it sends the bodies that the fixture has for a binding, and is judged by what
// the handler made of them.
func typed(id, rule, bindingName string, want []string, wrongs ...wrong) testCase {
	c := testCase{id: id, rule: rule, source: cloudflare + ", JavaScript APIs", app: "types", queues: []string{id}, wrong: wrongs}
	c.drive = func(r *run) {
		r.post("/"+bindingName, nil)
		r.batches(1)
	}
	c.check = func(o *observation) error {
		course := "ok"
		for _, w := range want {
			course += " " + w + "1"
		}
		return wantTrace(o, &c, []string{fmt.Sprintf("%s → acked %d", course, len(want))})
	}
	return c
}

// arrivesAs changes what the handler made of a body.
func arrivesAs(name string, i int, described string) wrong {
	return changes(name, func(o *observation) {
		o.Batches[0].Messages[i].Body = []byte(fmt.Sprintf(`{"n":%q}`, described))
	})
}

// typeCases are the rules of bodies and of the forms that a handler can have.
func typeCases() []testCase {
	return []testCase{
		typed("types-json", "json, the default, carries what JSON.stringify makes of a body", "JSON_",
			[]string{`{nested:{list:[1,2.5,null,"ü🎉"]}}`, "null", "0", `"1970-01-01T00:00:00.000Z"`, `"by toJSON"`, "{}"},
			arrivesAs("a body arrives as text", 0, `"{\"nested\":{}}"`), arrivesAs("null is lost", 1, "undefined"),
			arrivesAs("a Date is cloned", 3, "Date(1970-01-01T00:00:00.000Z)")),
		typed("types-text", "text arrives as the string that was sent, an empty one too", "TEXT",
			[]string{`"plain ü🎉"`, `""`},
			arrivesAs("text is sent as Latin-1", 0, `"plain Ã¼"`), arrivesAs("an empty text is null", 1, "null")),
		typed("types-bytes", "bytes arrives as a Uint8Array over the bytes of the view that was sent", "BYTES",
			[]string{"Uint8Array(0,1,255)", "Uint8Array(1,0,2,1)", "Uint8Array()"},
			arrivesAs("bytes arrive as an ArrayBuffer", 0, "ArrayBuffer(3)"), arrivesAs("the view's type is kept", 1, "Uint16Array(1,258)")),
		typed("types-v8", "v8 carries what structured clone does: Map, Set, BigInt, cycles, dates, views", "V8",
			[]string{`Map("a"=>Set(1n))`, `{name:"round",self:cycle}`, "Date(1970-01-01T00:00:00.000Z)", "[RegExp(/a+/gi),undefined]", "Uint16Array(1,258)"},
			arrivesAs("a Map arrives as JSON", 0, "{}"), arrivesAs("a cycle is cut", 1, `{name:"round"}`)),
		fields(), entrypoint(), serviceWorker(),
	}
}

var messageID = regexp.MustCompile(`^[0-9a-f]{32}$`)

func fields() testCase {
	c := testCase{
		id: "form-fields", rule: "each message has an id of 32 hexadecimal digits of its own and the time of its send, and the batch the queue's name",
		source: cloudflare + ", JavaScript APIs", app: "plan", queues: []string{"fields"},
	}
	c.drive = func(r *run) {
		r.fact("before", time.Now().UnixMilli())
		r.accept(sendBatch("fields", body{N: "a"}, body{N: "b"}))
		r.fact("after", time.Now().UnixMilli())
		r.batches(1)
		r.fact("queue", r.node.queueOf("fields"))
	}
	c.check = func(o *observation) error {
		seen := map[string]bool{}
		before, _ := strconv.ParseInt(o.Facts["before"], 10, 64)
		after, _ := strconv.ParseInt(o.Facts["after"], 10, 64)
		for _, m := range o.Batches[0].Messages {
			switch {
			case !messageID.MatchString(m.ID) || seen[m.ID]:
				return fmt.Errorf("message %s has the id %q", m.name(), m.ID)
			case m.Timestamp < before || m.Timestamp > after:
				return fmt.Errorf("message %s has the timestamp %d; it was sent between %d and %d", m.name(), m.Timestamp, before, after)
			case o.Facts["queue"] != "fields":
				return fmt.Errorf("batch.queue is %q", o.Facts["queue"])
			}
			seen[m.ID] = true
		}
		return wantTrace(o, &c, []string{"ok a1 b1 → acked 2"})
	}
	c.wrong = []wrong{
		changes("ids are not unique", func(o *observation) { o.Batches[0].Messages[1].ID = o.Batches[0].Messages[0].ID }),
		changes("an id has another form", func(o *observation) { o.Batches[0].Messages[0].ID = "1" }),
		changes("the timestamp is in seconds", func(o *observation) { o.Batches[0].Messages[0].Timestamp /= 1000 }),
		changes("batch.queue is the binding", func(o *observation) { o.Facts["queue"] = "FIELDS" }),
	}
	return c
}

// queueOf is what the first handler call of a queue was told as its name.
func (c *collector) queueOf(queueName string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.records {
		for j := range c.events {
			if c.records[i].Queue == queueName && c.events[j].delivery == c.records[i].Delivery {
				return c.events[j].Queue
			}
		}
	}
	return ""
}

func entrypoint() testCase {
	c := testCase{
		id: "form-entrypoint", rule: "a WorkerEntrypoint class handles batches with its own env, ctx and private fields, and its acks and retries count",
		source: cloudflare + ", JavaScript APIs", app: "entrypoint", queues: []string{"entrypoint"},
	}
	c.drive = func(r *run) {
		r.post("/", nil)
		r.batches(1)
	}
	c.check = func(o *observation) error {
		return wantTrace(o, &c, []string{
			"ok one,kept,hello,2,function1 two,kept,hello,2,function1 → acked 1 retried 1", `left "two" attempts 1 in 3600s`,
		})
	}
	c.wrong = []wrong{
		arrivesAs("vars are missing", 0, "one,kept,,,function"),
		gone("a retry is an ack", `"two"`),
	}
	return c
}

func serviceWorker() testCase {
	c := testCase{
		id: "form-service-worker", rule: "a service worker handles the queue event; before 2024-03-18 bodies are cloned, not turned into JSON",
		source: cloudflare + ", JavaScript APIs; Workers docs, Compatibility flags", app: "serviceworker", queues: []string{"serviceworker"},
	}
	c.drive = func(r *run) {
		r.post("/", nil)
		r.batches(1)
	}
	c.check = func(o *observation) error {
		want := []string{"ok Map1 Date1 → acked 1 retried 1"}
		got := o.trace(&c)
		if len(got) != 2 || got[0] != want[0] || !strings.HasSuffix(got[1], "attempts 1 in 3600s") {
			return fmt.Errorf("course: %q", got)
		}
		return nil
	}
	c.wrong = []wrong{
		arrivesAs("bodies are JSON", 0, "Object"),
		changes("a retry is an ack", func(o *observation) { o.Left = nil }),
	}
	return c
}
