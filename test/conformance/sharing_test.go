package conformance_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// sharingCases are the rules of apps that share a database, and of several apps in one process.
func sharingCases() []testCase {
	return []testCase{rival(), leaver(), alone()}
}

// reloadsOf is how often a changed version of an app went live, and failure why the last one did not.
func (r *run) reloadsOf(app string) int {
	r.node.mu.Lock()
	defer r.node.mu.Unlock()
	return r.node.reloads[app]
}

func (r *run) failure(app string) string {
	r.node.mu.Lock()
	defer r.node.mu.Unlock()
	if err := r.node.failed[app]; err != nil {
		return err.Error()
	}
	return ""
}

// rewriteOf changes a file of any app.
func (r *run) rewriteOf(app, file, from, to string) {
	r.Helper()
	other := *r
	c := *r.c
	c.app, other.c = app, &c
	other.rewrite(file, from, to)
}

// handledBy tells who handled a message, as "version name attempt", in order.
func (o *observation) handledBy() []string {
	var list []string
	for i := range o.Batches {
		for j := range o.Batches[i].Messages {
			m := &o.Batches[i].Messages[j]
			list = append(list, fmt.Sprintf("%s %s%d", o.Batches[i].Version, m.name(), m.Attempts))
		}
	}
	return list
}

// rival lets a second app ask for a queue that has a consumer, and then the first one let go.
func rival() testCase {
	c := testCase{
		id: "share-one-consumer", rule: "a second consumer of a queue is refused, naming the one that has it, and what ran before goes on; it takes over when the first one lets go",
		source: guarantees + ", Deliveries", app: "pretender", queues: []string{"rival"},
	}
	c.drive = func(r *run) {
		r.rewriteOf("pretender", "wrangler.json", `"queue": "pretender"`, `"queue": "rival"`)
		r.until("the refusal", func() bool { return r.failure("pretender") != "" })
		r.fact("refusal", r.failure("pretender"))
		r.fact("serves", string(r.post("/", nil)))
		r.sendFromPlan("rival", "a")
		r.batches(1)
		r.rewriteOf("rival", "wrangler.json", `"queue": "rival"`, `"queue": "rival-other"`)
		r.until("the first one's reload", func() bool { return r.reloadsOf("rival") == 1 })
		r.sendFromPlan("rival", "b")
		r.batches(2)
	}
	c.check = func(o *observation) error {
		if got, want := o.Facts["refusal"], "pretender cannot consume the queue rival of database default: rival consumes it already"; !strings.HasPrefix(got, want) {
			return fmt.Errorf("the refusal is %q, want %q", got, want)
		}
		if o.Facts["serves"] != `"at your service"` {
			return fmt.Errorf("it serves %q", o.Facts["serves"])
		}
		if got, want := o.handledBy(), []string{"rival a1", "pretender b1"}; !slices.Equal(got, want) {
			return fmt.Errorf("handled: %q, want %q", got, want)
		}
		return nil
	}
	c.wrong = []wrong{
		changes("nobody is named", func(o *observation) { o.Facts["refusal"] = "rival consumes it already" }),
		changes("the refused app is down", func(o *observation) { o.Facts["serves"] = "" }),
		changes("the second one takes the queue", func(o *observation) { o.Batches[0].Version = "pretender" }),
		cut("nobody has the queue after the first one", 1),
	}
	return c
}

// sendFromPlan sends with the plan fixture.
func (r *run) sendFromPlan(queueName, name string) {
	r.Helper()
	other := *r
	c := *r.c
	c.app, other.c = "plan", &c
	other.accept(send(queueName, body{N: name}))
}

func leaver() testCase {
	c := testCase{
		id: "share-no-consumer", rule: "without a consumer nothing is delivered and nothing is lost; a consumer that is deployed again gets what has come meanwhile",
		source: runlotPage + ", Changing or removing a queue", app: "leaver", queues: []string{"leaver"},
	}
	const none, one = `"consumers": []`, `"consumers": [{ "queue": "leaver", "max_batch_size": 1, "max_batch_timeout": 0 }]`
	c.drive = func(r *run) {
		r.sendFromPlan("leaver", "a")
		r.batches(1)
		r.rewrite("wrangler.json", one, none)
		r.until("the reload without a consumer", func() bool { return r.reloadsOf("leaver") == 1 })
		r.sendFromPlan("leaver", "b")
		r.sendFromPlan("beacon", "leaver")
		r.until("the beacon", func() bool {
			return slices.ContainsFunc(r.node.batches("beacon"), func(b batch) bool { return b.Messages[0].name() == "leaver" })
		})
		for _, left := range r.left() {
			r.fact("left "+left.Name, fmt.Sprint(left.State, " ", left.Attempts))
		}
		r.rewrite("wrangler.json", none, one)
		r.batches(2)
	}
	c.check = func(o *observation) error {
		if got := o.Facts["left b"]; got != "visible 0" || o.Facts["left a"] != "" {
			return fmt.Errorf("without a consumer b is %q, and a %q", got, o.Facts["left a"])
		}
		return wantTrace(o, &c, []string{"ok a1 → acked 1", "ok b1 → acked 1"})
	}
	c.wrong = []wrong{
		changes("a message without a consumer is dropped", func(o *observation) { delete(o.Facts, "left b") }),
		changes("it is delivered to nobody", func(o *observation) { o.Facts["left b"] = "delayed 1" }),
		cut("it is not delivered later", 1),
		attempt("the wait is an attempt", 1, 2),
	}
	return c
}

// alone breaks one of two apps that share a queue, and changes the other.
func alone() testCase {
	c := testCase{
		id: "share-reload-alone", rule: "of several apps in one process each is reloaded alone: one that does not build, or takes the other's name, leaves what it ran before serving, and the other can change",
		source: runlotPage + ", Changing or removing a queue", app: "api", queues: []string{"api-jobs"},
	}
	const good, broken = `const version = "one";`, `const version = ;`
	c.drive = func(r *run) {
		served := func(name string) { r.fact("served "+name, string(r.post("/", name))) }
		served("a")
		r.batches(1)
		r.rewrite("index.js", good, broken)
		r.until("the broken build", func() bool { return r.failure("api") != "" })
		served("b")
		r.rewriteOf("jobs", "index.js", `"one"`, `"two"`)
		r.until("the other's reload", func() bool { return r.reloadsOf("jobs") == 1 })
		served("c")
		r.rewrite("index.js", broken, `const version = "two";`)
		r.until("the mended build", func() bool { return r.reloadsOf("api") == 1 })
		served("d")
		r.batches(4)
		r.fact("failure", r.failure("api"))
		r.fact("failure of jobs", r.failure("jobs"))
		r.rewriteOf("jobs", "runlot.json", `"name": "jobs"`, `"name": "api"`)
		r.until("the refusal of a second app of the name", func() bool { return strings.Contains(r.failure("jobs"), "are both named api") })
		served("e")
		r.batches(5)
	}
	c.check = func(o *observation) error {
		if got := o.handledBy(); len(got) != 5 || got[0] != "one a1" || !strings.HasSuffix(got[1], " b1") || got[2] != "two c1" || got[3] != "two d1" || got[4] != "two e1" {
			return fmt.Errorf("handled: %q", got)
		}
		for name, want := range map[string]string{"a": `"one"`, "b": `"one"`, "c": `"one"`, "d": `"two"`, "e": `"two"`} {
			if got := o.Facts["served "+name]; got != want {
				return fmt.Errorf("request %s was served by %s, want %s", name, got, want)
			}
		}
		if !strings.Contains(o.Facts["failure"], "index.js") || o.Facts["failure of jobs"] != "" {
			return errors.New("the failure is " + o.Facts["failure"] + "; of the other " + o.Facts["failure of jobs"])
		}
		return nil
	}
	c.wrong = []wrong{
		changes("a broken build serves nothing", func(o *observation) { o.Facts["served b"] = "" }),
		changes("a broken build stops the other's reload", func(o *observation) { o.Batches[2].Version = "one" }),
		changes("a mended build does not go live", func(o *observation) { o.Facts["served d"] = `"one"` }),
		changes("the failure is the other's", func(o *observation) { o.Facts["failure of jobs"] = "index.js" }),
		changes("the app that took the other's name is down", func(o *observation) { o.Batches[4].Version = "" }),
		cut("a message is lost in a change", 4),
	}
	return c
}
