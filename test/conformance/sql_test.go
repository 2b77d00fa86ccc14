package conformance_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// sqlCases are the rules of what SQL enqueues and of what a Worker reaches beside its queues.
func sqlCases() []testCase {
	return []testCase{
		sqlCommit(), sqlRollback(), sqlInterleaved(), sqlDelay(), sqlRefused(),
		transaction("postgres"), transaction("pg"), appRole(),
		outbound("outbound-private", "a Worker reaches private addresses where the operator allows them, as runlot dev does", false, "reached: 200", "reached"),
		outbound("outbound-public", "a Worker of celld does not reach private addresses, by HTTP or by TCP", true, "refused: ", "refused: "),
	}
}

func (r *run) begin() pgx.Tx {
	r.Helper()
	tx, err := r.database().Begin(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = tx.Rollback(r.Context()) })
	return tx
}

// enqueue sends by SQL in a transaction.
func (r *run) enqueue(tx pgx.Tx, name string) {
	r.Helper()
	if _, err := tx.Exec(r.Context(), "SELECT runlot_queue.send($1, jsonb_build_object('n', $2::text))", r.c.queues[0], name); err != nil {
		r.Fatal(err)
	}
}

func (r *run) commit(tx pgx.Tx) {
	r.Helper()
	if err := tx.Commit(r.Context()); err != nil {
		r.Fatal(err)
	}
}

func sqlCommit() testCase {
	c := testCase{
		id: "sql-commit", rule: "what runlot_queue.send enqueues is delivered after the commit, and not before", source: guarantees + ", Messages",
		app: "plan", queues: []string{"sql-commit"},
	}
	c.drive = func(r *run) {
		tx := r.begin()
		r.enqueue(tx, "a")
		r.beacon("sql-commit")
		r.fact("before", len(r.node.joined(r.c.queues, true)))
		committed := time.Now()
		r.commit(tx)
		r.fact("in time", r.batches(1)[0].Start.Sub(committed) < 10*time.Second)
	}
	c.check = func(o *observation) error {
		if o.Facts["before"] != "0" || o.Facts["in time"] != "true" {
			return fmt.Errorf("%s batches before the commit; in time: %s", o.Facts["before"], o.Facts["in time"])
		}
		return wantTrace(o, &c, []string{"ok a1 → acked 1"})
	}
	c.wrong = []wrong{
		changes("it is delivered before the commit", func(o *observation) { o.Facts["before"] = "1" }),
		changes("it waits for something else to happen", func(o *observation) { o.Facts["in time"] = "false" }),
		again("it is delivered twice", "a"),
	}
	return c
}

func sqlRollback() testCase {
	c := testCase{
		id: "sql-rollback", rule: "what a transaction enqueues that rolls back never existed", source: guarantees + ", Messages",
		app: "plan", queues: []string{"sql-rollback"},
	}
	c.drive = func(r *run) {
		tx := r.begin()
		r.enqueue(tx, "never")
		if err := tx.Rollback(r.Context()); err != nil {
			r.Fatal(err)
		}
		tx = r.begin()
		r.enqueue(tx, "a")
		r.commit(tx)
		r.batches(1)
	}
	c.check = func(o *observation) error { return wantTrace(o, &c, []string{"ok a1 → acked 1"}) }
	c.wrong = []wrong{changes("a rollback does not take it back", func(o *observation) {
		never := o.Batches[0]
		never.Messages = []message{{ID: "0", Attempts: 1, Body: json.RawMessage(`{"n":"never"}`)}}
		o.Batches = append([]batch{never}, o.Batches...)
	})}
	return c
}

func sqlInterleaved() testCase {
	c := testCase{
		id: "sql-interleaved", rule: "an open transaction that enqueued first holds nobody up, and its message comes when it commits", source: guarantees + ", Messages",
		app: "plan", queues: []string{"sql-interleaved"},
	}
	c.drive = func(r *run) {
		first, second := r.begin(), r.begin()
		r.enqueue(first, "first")
		r.enqueue(second, "second")
		r.commit(second)
		r.batches(1)
		third := r.begin()
		r.enqueue(third, "third")
		r.commit(third)
		r.batches(2)
		r.commit(first)
		r.batches(3)
	}
	c.check = func(o *observation) error {
		return wantTrace(o, &c, []string{"ok second1 → acked 1", "ok third1 → acked 1", "ok first1 → acked 1"})
	}
	c.wrong = []wrong{
		cut("what commits late is skipped", 2),
		changes("a late commit is delivered in its old place", func(o *observation) { o.Batches = append(o.Batches[2:], o.Batches[:2]...) }),
	}
	return c
}

func sqlDelay() testCase {
	c := testCase{
		id: "sql-delay", rule: "runlot_queue.send takes a delay", source: guarantees + ", Messages",
		app: "plan", queues: []string{"sql-delay"},
	}
	c.drive = func(r *run) {
		r.exec(`SELECT runlot_queue.send('sql-delay', '{"n":"a"}', interval '1 second')`)
		r.exec(`SELECT runlot_queue.send('sql-delay', '{"n":"b"}', interval '1 hour')`)
		r.batches(1)
	}
	c.check = func(o *observation) error {
		if err := notBefore(o, time.Second); err != nil {
			return err
		}
		return wantTrace(o, &c, []string{"ok a1 → acked 1", "left b attempts 0 in 3600s"})
	}
	c.wrong = []wrong{
		changes("the delay is ignored", func(o *observation) { o.Batches[0].Start = time.UnixMilli(o.Batches[0].Messages[0].Timestamp) }),
		waits("a long delay is cut", "b", time.Minute), gone("a delayed message is lost", "b"),
	}
	return c
}

func sqlRefused() testCase {
	c := testCase{
		id: "sql-refused", rule: "runlot_queue.send refuses an unknown queue, a delay out of range and a body that is too large or NULL", source: limits,
		app: "plan",
	}
	statements := []struct{ sql, want string }{
		{`SELECT runlot_queue.send('no-such-queue', '1')`, `queue "no-such-queue" does not exist in this database`},
		{`SELECT runlot_queue.send('beacon', '1', interval '25 hours')`, "is outside 0 to 24 hours"},
		{`SELECT runlot_queue.send('beacon', '1', interval '-1 second')`, "is outside 0 to 24 hours"},
		{`SELECT runlot_queue.send('beacon', to_jsonb(repeat('x', 131071)))`, "has 131073 bytes as text; a message has at most 131072"},
		{`SELECT runlot_queue.send('beacon', NULL)`, "is NULL"},
	}
	c.drive = func(r *run) {
		for i, s := range statements {
			_, err := r.database().Exec(r.Context(), s.sql)
			r.fact(fmt.Sprint(i), err)
		}
	}
	c.check = func(o *observation) error {
		for i, s := range statements {
			if !strings.Contains(o.Facts[fmt.Sprint(i)], s.want) {
				return fmt.Errorf("%s: %s", s.sql, o.Facts[fmt.Sprint(i)])
			}
		}
		return nil
	}
	c.wrong = []wrong{
		changes("an unknown queue is made", func(o *observation) { o.Facts["0"] = "<nil>" }),
		changes("one byte too many is accepted", func(o *observation) { o.Facts["3"] = "<nil>" }),
	}
	return c
}

// ask requests a path of the case's app and reads its JSON.
func (r *run) ask(path string, answer any) {
	r.Helper()
	if err := json.Unmarshal(r.post(path, nil), answer); err != nil {
		r.Fatal(err)
	}
}

// transaction lets a Worker write a row and enqueue a message in one transaction, with an ordinary npm client.
func transaction(client string) testCase {
	kept, undone := client+"-kept", client+"-undone"
	c := testCase{
		id: "database-" + client, rule: "a Worker writes a row and enqueues a message in one transaction through env.DATABASE, with the npm package " + client,
		source: runlotPage + ", Sending", app: "database", production: true, queues: []string{"orders"},
	}
	c.drive = func(r *run) {
		for _, step := range []struct{ name, last string }{{undone, "rollback"}, {kept, "commit"}} {
			var answer string
			r.ask("/"+client+"/"+step.name+"/"+step.last, &answer)
			r.fact(step.last, answer)
		}
		r.until("the order of "+client, func() bool {
			o := observation{Batches: r.node.batches("orders")}
			return len(o.seen(kept)) > 0
		})
		var state struct{ Orders, Waiting []string }
		r.ask("/state", &state)
		r.fact("orders", state.Orders)
		r.fact("waiting", state.Waiting)
	}
	c.check = func(o *observation) error {
		rows, waiting := o.Facts["orders"], o.Facts["waiting"]
		switch {
		case o.Facts["commit"] != "committed" || o.Facts["rollback"] != "rolled back":
			return fmt.Errorf("commit: %s; rollback: %s", o.Facts["commit"], o.Facts["rollback"])
		case !strings.Contains(rows, kept) || strings.Contains(rows, undone):
			return fmt.Errorf("the rows are %s", rows)
		case len(o.seen(kept)) != 1 || len(o.seen(undone)) != 0 || strings.Contains(waiting, undone):
			return fmt.Errorf("%d deliveries of %s, %d of %s, waiting %s", len(o.seen(kept)), kept, len(o.seen(undone)), undone, waiting)
		}
		return nil
	}
	deliver := func(name, m string) wrong {
		return changes(name, func(o *observation) {
			o.Batches = append(o.Batches, batch{Queue: "orders", Messages: []message{{Body: json.RawMessage(fmt.Sprintf(`{"n":%q}`, m))}}})
		})
	}
	c.wrong = []wrong{
		deliver("the message does not roll back", undone), deliver("the message comes twice", kept),
		changes("the row does not roll back", func(o *observation) { o.Facts["orders"] += undone }),
		changes("the row is missing", func(o *observation) { o.Facts["orders"] = "[]" }),
		changes("the message is missing", func(o *observation) { o.Batches = nil }),
	}
	return c
}

// appRole looks at what the role of env.DATABASE may do.
func appRole() testCase {
	c := testCase{
		id: "database-role", rule: "the role of env.DATABASE is an ordinary one: it reads the view of the messages and changes none", source: guarantees + ", Messages",
		app: "database", production: true, queues: []string{"orders"},
	}
	c.drive = func(r *run) {
		var answer string
		r.ask("/pg/role/commit", &answer)
		var state struct {
			Mighty bool
			Denied string
		}
		r.ask("/state", &state)
		r.fact("mighty", state.Mighty)
		r.fact("denied", state.Denied)
	}
	c.check = func(o *observation) error {
		if o.Facts["mighty"] != "false" || !strings.Contains(o.Facts["denied"], "permission denied") {
			return fmt.Errorf("mighty: %s; a deletion of messages: %q", o.Facts["mighty"], o.Facts["denied"])
		}
		return nil
	}
	c.wrong = []wrong{
		changes("the app is a superuser", func(o *observation) { o.Facts["mighty"] = "true" }),
		changes("the app deletes messages", func(o *observation) { o.Facts["denied"] = "" }),
	}
	return c
}

// outbound lets a Worker try a server on a private address.
func outbound(id, rule string, production bool, http, tcp string) testCase {
	c := testCase{id: id, rule: rule, source: guarantees + ", Resources", app: "outbound", production: production}
	c.drive = func(r *run) {
		var answer struct{ HTTP, TCP string }
		r.ask("/", &answer)
		r.fact("http", answer.HTTP)
		r.fact("tcp", answer.TCP)
	}
	c.check = func(o *observation) error {
		if !strings.HasPrefix(o.Facts["http"], http) || !strings.HasPrefix(o.Facts["tcp"], tcp) {
			return fmt.Errorf("HTTP: %s; TCP: %s", o.Facts["http"], o.Facts["tcp"])
		}
		return nil
	}
	other := map[bool]string{false: "refused: not permitted", true: "reached: 200"}[production]
	c.wrong = []wrong{
		changes("HTTP is decided otherwise", func(o *observation) { o.Facts["http"] = other }),
		changes("TCP is decided otherwise", func(o *observation) { o.Facts["tcp"] = other }),
	}
	return c
}
