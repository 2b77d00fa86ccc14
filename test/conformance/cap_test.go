package conformance_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/runlot/runlot/internal/adapter/postgres/cluster/clustertest"
	"github.com/runlot/runlot/internal/daemon"
	"github.com/runlot/runlot/internal/daemon/caps"
)

// The bounds of the databases of the fixtures of the same names. An empty database has about 8 MiB.
const (
	cappedOperations = 20
	smallSize        = 24 << 20
)

var capSettings = caps.Settings{
	Operations: map[string]int64{"capped": cappedOperations}, Sizes: map[string]int64{"small": smallSize},
}

// capCases are the rules of the bounds of a database.
func capCases() []testCase { return []testCase{operationCap(), sizeCap()} }

// told is what a person was told of a database, in order.
func (c *collector) told(database string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.notices), func(text string) bool { return !strings.HasPrefix(text, "database "+database) })
}

// beforeMidnight waits for the next day when this one is about to end, so that a case is on one day, and returns the
// next one.
func (r *run) beforeMidnight() string {
	r.Helper()
	day := time.Now().UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
	if left := time.Until(day); left < 3*patience {
		timer := time.NewTimer(left)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
		}
		day = day.Add(24 * time.Hour)
	}
	return day.Format("2006-01-02")
}

// asked repeats a question until its answer is as wanted, and returns the last answer.
func asked[T any](t testing.TB, ask func() T, wanted func(T) bool) T {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		answer := ask()
		if wanted(answer) || time.Now().After(deadline) {
			return answer
		}
	}
}

// sqlSend tries to enqueue by SQL in a transaction that is rolled back, and returns the error's code and text.
func (r *run) sqlSend() string {
	r.Helper()
	tx, err := r.database().Begin(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	defer func() { _ = tx.Rollback(r.Context()) }()
	_, err = tx.Exec(r.Context(), "SELECT runlot_queue.send($1, '1')", r.c.queues[0])
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		return refused.Code + " " + refused.Message
	}
	if err != nil {
		r.Fatal(err)
	}
	return "ok"
}

// used is what the database says about the operations of the day.
func used(t testing.TB, pool *pgxpool.Pool) string {
	t.Helper()
	var text string
	err := pool.QueryRow(t.Context(), `SELECT concat_ws(' ', written, delivered, deleted, total) FROM runlot_queue.usage_by_day
		WHERE day = (now() AT TIME ZONE 'UTC')::date`).Scan(&text)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// operationCap fills the day while a handler is held, and lets it go then.
func operationCap() testCase {
	c := testCase{
		id: "cap-operations", rule: "beyond the daily cap a send is refused whole with QueueLimitError queue_ops_cap until 00:00 UTC, a person is told at 90 % and at the cap, and what is stored drains",
		source: runlotPage + ", Limits", app: "capped", queues: []string{"capped"},
	}
	many := func(prefix string, count int) []body {
		list := make([]body, count)
		for i := range list {
			list[i] = body{N: fmt.Sprint(prefix, i)}
		}
		return list
	}
	c.drive = func(r *run) {
		r.fact("tomorrow", r.beforeMidnight())
		r.accept(send("capped", body{N: "held", Do: []string{"wait=cap-held"}}))
		r.arrives("cap-held", 1)
		// One is written and delivered; 16 more make 90 %.
		r.accept(sendBatch("capped", many("m", 16)...))
		r.until("the warning", func() bool { return len(r.node.told("capped")) == 1 })
		r.calls(sendBatch("capped", many("refused", 3)...))
		r.accept(send("capped", body{N: "fits"}), send("capped", body{N: "last"}))
		r.calls(send("capped", body{N: "refused"}))
		r.fact("sql", asked(r.TB, r.sqlSend, func(answer string) bool { return answer != "ok" }))
		r.house.gate.open("cap-held")
		r.batches(19)
		r.fact("used", asked(r.TB, func() string { return used(r.TB, r.database()) }, func(text string) bool { return text == "19 19 19 57" }))
		for i, text := range r.node.told("capped") {
			r.fact(fmt.Sprint("notice ", i), text)
		}
	}
	c.check = func(o *observation) error {
		refusal := "QueueLimitError: the queues of this database have used their 20 operations of the day; sends are accepted again from " +
			o.Facts["tomorrow"] + " 00:00 UTC - look for a consumer that sends into its own queue, or have the operator raise --queue-ops-cap [queue_ops_cap]"
		got := make([]string, len(o.Answers))
		for i := range o.Answers {
			got[i] = o.Answers[i].String()
		}
		if diff := cmp.Diff([]string{"ok", "ok", refusal, "ok", "ok", refusal}, got); diff != "" {
			return fmt.Errorf("answers (-want +got):\n%s", diff)
		}
		var delivered []string
		for i := range o.Batches {
			if b := &o.Batches[i]; b.Outcome == "ok" && b.Acked == 1 {
				delivered = append(delivered, b.Messages[0].name())
			}
		}
		want := []string{"held"}
		for _, b := range many("m", 16) {
			want = append(want, b.N)
		}
		if diff := cmp.Diff(append(want, "fits", "last"), delivered); diff != "" || len(o.Left) > 0 {
			return fmt.Errorf("%d messages are left; delivered (-want +got):\n%s", len(o.Left), diff)
		}
		for name, part := range map[string]string{
			"sql": "53400 the queues of this database have used their 20 operations", "used": "19 19 19 57",
			"notice 0": "has used 90 % of its 20 queue operations", "notice 1": "has used up its 20 queue operations",
		} {
			if !strings.Contains(o.Facts[name], part) {
				return fmt.Errorf("%s: %q does not say %q", name, o.Facts[name], part)
			}
		}
		if o.Facts["notice 2"] != "" {
			return fmt.Errorf("a person is told again: %s", o.Facts["notice 2"])
		}
		return nil
	}
	c.wrong = []wrong{
		accepted("a batch that does not fit is accepted", 2), accepted("a message beyond the cap is accepted", 5), uncoded(5),
		changes("the cap is one lower", func(o *observation) { o.Answers[4].Error = o.Answers[5].Error }),
		changes("the error is an ordinary one", func(o *observation) { o.Answers[5].Error.Name = "Error" }),
		changes("the text does not say when it ends", func(o *observation) { o.Facts["tomorrow"] = "2000-01-01" }),
		stays("a part of the refused batch exists"),
		cut("deliveries stop at the cap", 10),
		changes("SQL may send on", func(o *observation) { o.Facts["sql"] = "ok" }),
		changes("deliveries are not counted", func(o *observation) { o.Facts["used"] = "19 0 19 38" }),
		changes("nobody is warned at 90 %", func(o *observation) { delete(o.Facts, "notice 0") }),
		changes("it is told twice", func(o *observation) { o.Facts["notice 2"] = o.Facts["notice 1"] }),
	}
	return c
}

// sizeCap fills a database while a handler is held, lets it go then, and waits until there is space again. A table of someone
// else's takes up a part, so that a busy machine fills the rest before the time of the handler is over.
func sizeCap() testCase {
	c := testCase{
		id: "cap-size", rule: "a database at its size cap takes no sends (QueueLimitError database_full), drains, and takes them again when it has space",
		source: runlotPage + ", Queues", app: "small", queues: []string{"small"},
	}
	large := []body{{N: strings.Repeat("x", 100_000)}, {N: strings.Repeat("y", 100_000)}}
	c.drive = func(r *run) {
		r.exec("CREATE TABLE ballast AS SELECT sha512(n::text::bytea) AS part FROM generate_series(1, 80_000) AS n")
		r.accept(send("small", body{N: "held", Do: []string{"wait=size-held"}}))
		r.arrives("size-held", 1)
		try := func() answer {
			var list []answer
			if err := json.Unmarshal(r.post("/", []call{sendBatch("small", large...)}), &list); err != nil {
				r.Fatal(err)
			}
			return list[0]
		}
		before := 0
		r.o.Answers = append(r.o.Answers, asked(r.TB, func() answer {
			before = r.count()
			return try()
		}, func(a answer) bool { return a.Error != nil }))
		r.fact("stored by the refused call", r.count()-before)
		r.fact("sql", asked(r.TB, r.sqlSend, func(answer string) bool { return answer != "ok" }))
		r.house.gate.open("size-held")
		r.within(2*patience, "the drain", func() bool { return len(r.left()) == 0 })
		r.o.Answers = append(r.o.Answers, asked(r.TB, try, func(a answer) bool { return a.Error == nil }))
		r.within(2*patience, "the second drain", func() bool { return len(r.left()) == 0 })
		r.fact("sql after", asked(r.TB, r.sqlSend, func(answer string) bool { return answer == "ok" }))
		for i, text := range r.node.told("small") {
			r.fact(fmt.Sprint("notice ", i), text)
		}
	}
	c.check = func(o *observation) error {
		const name, code = "QueueLimitError: the database is full: it takes up ", " [database_full]"
		if text := o.Answers[1].String(); !strings.HasPrefix(text, name) || !strings.HasSuffix(text, code) || !strings.Contains(text, "of the 24 MiB") {
			return fmt.Errorf("a send into a full database: %s", text)
		}
		if o.Answers[2].Error != nil {
			return fmt.Errorf("a send after everything has drained: %s", &o.Answers[2])
		}
		for fact, part := range map[string]string{
			"stored by the refused call": "0", "sql": "53100 the database is full", "sql after": "ok",
			"notice 0": "sends are refused, deliveries go on", "notice 1": "has space again",
		} {
			if !strings.HasPrefix(o.Facts[fact], part) && !strings.Contains(o.Facts[fact], part) {
				return fmt.Errorf("%s: %q does not say %q", fact, o.Facts[fact], part)
			}
		}
		if len(o.Left) > 0 {
			return fmt.Errorf("%d messages are left", len(o.Left))
		}
		return nil
	}
	c.wrong = []wrong{
		accepted("a full database takes messages", 1), uncoded(1),
		changes("it stays full for good", func(o *observation) { o.Answers[2] = o.Answers[1] }),
		changes("a part of the refused call exists", func(o *observation) { o.Facts["stored by the refused call"] = "1" }),
		changes("SQL may send on", func(o *observation) { o.Facts["sql"] = "ok" }),
		stays("it does not drain"),
		changes("nobody is told", func(o *observation) { delete(o.Facts, "notice 0") }),
	}
	return c
}

// count is the number of messages in the case's database.
func (r *run) count() (n int) {
	r.Helper()
	if err := r.database().QueryRow(r.Context(), "SELECT count(*) FROM runlot_queue.message").Scan(&n); err != nil {
		r.Fatal(err)
	}
	return n
}

// TestCapSurvivesARestart: what a node has counted, the next one goes on from, and nobody is told twice.
func TestCapSurvivesARestart(t *testing.T) {
	access := clustertest.NewDatabase(t)
	pool, err := pgxpool.New(t.Context(), access.OwnerURL())
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	urls := map[string]string{"capped": access.OwnerURL(), "default": clustertest.NewDatabase(t).OwnerURL()}
	o := daemon.Options{DatabaseURLs: urls, Caps: caps.Settings{Operations: capSettings.Operations}, AllowPrivate: true, Watch: true}
	lives := func(t *testing.T, drive func(r *run)) {
		t.Helper()
		g := newGate(t)
		n := start(t, g, []string{"plan", "capped"}, o)
		if n == nil {
			t.FailNow()
		}
		drive(&run{
			TB: t, house: &house{development: n, gate: g, databases: map[string]*pgxpool.Pool{"capped": pool}}, node: n,
			c: &testCase{app: "capped", queues: []string{"capped"}}, o: &observation{},
		})
	}
	t.Run("first", func(t *testing.T) {
		lives(t, func(r *run) {
			r.beforeMidnight()
			r.accept(sendBatch("capped", body{N: "1"}, body{N: "2"}, body{N: "3"}, body{N: "4"}, body{N: "5"}, body{N: "6"}))
			r.batches(6)
			r.until("the warning", func() bool { return len(r.node.told("capped")) == 1 })
		})
	})
	if got, want := used(t, pool), "6 6 6 18"; got != want {
		t.Errorf("operations after a stop: %s, want %s", got, want)
	}
	t.Run("second", func(t *testing.T) {
		lives(t, func(r *run) {
			answers := r.calls(sendBatch("capped", body{N: "1"}, body{N: "2"}, body{N: "3"}), send("capped", body{N: "7"}))
			if answers[0].Error == nil || answers[0].Error.Code != "queue_ops_cap" || answers[1].Error != nil {
				t.Errorf("with 18 of 20 used, sends of 3 and of 1: %v, %v", &answers[0], &answers[1])
			}
			r.batches(1)
			r.until("the end of the day's operations", func() bool { return len(r.node.told("capped")) > 0 })
			if notices := r.node.told("capped"); len(notices) != 1 || !strings.Contains(notices[0], "used up") {
				t.Errorf("told after a restart: %q", notices)
			}
		})
	})
	// The last deliveries are written by the stop.
	if got, want := used(t, pool), "7 7 7 21"; got != want {
		t.Errorf("operations after a second stop: %s, want %s", got, want)
	}
}
