package postgres_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/runlot/runlot/internal/adapter/postgres"
	"github.com/runlot/runlot/internal/adapter/postgres/cluster/clustertest"
	"github.com/runlot/runlot/internal/adapter/postgres/session"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

const sendSQL = "SELECT runlot_queue.send($1, $2)"

// newDirect is newOwner without a proxy.
func newDirect(t *testing.T) *owner {
	t.Helper()
	d := newDatabase(t)
	o := &owner{Store: d.open(t), d: d}
	o.acquire(t)
	return o
}

// storeSession opens a session with the settings that the store's sessions have.
func storeSession(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	config, err := session.Parse(url)
	clustertest.Must(t, err)
	conn, err := session.Open(t.Context(), config, session.IdleName)
	clustertest.Must(t, err)
	t.Cleanup(func() { session.Close(context.Background(), conn) })
	return conn
}

func (o *owner) drain(t *testing.T) []string {
	t.Helper()
	return o.drainUpTo(t, queue.InboxRows)
}

func (o *owner) drainUpTo(t *testing.T, limit int) []string {
	t.Helper()
	rows, err := o.Drain(t.Context(), o.next+1, time.Now(), limit)
	clustertest.Must(t, err)
	o.next += int64(len(rows))
	bodies := make([]string, len(rows))
	for i := range rows {
		bodies[i] = string(rows[i].Body)
	}
	return bodies
}

func TestSendFollowsTheTransaction(t *testing.T) {
	o := newDirect(t)
	app := o.d.app(t)
	clustertest.Exec(t, app, "CREATE TABLE public.orders (id int)")
	for _, end := range []string{"ROLLBACK", "COMMIT"} {
		clustertest.Exec(t, app, "BEGIN")
		clustertest.Exec(t, app, "INSERT INTO public.orders VALUES (1)")
		clustertest.Exec(t, app, sendSQL, "jobs", `{"order":1}`)
		if got := o.drain(t); len(got) != 0 {
			t.Fatalf("%s: delivered before its commit: %v", end, got)
		}
		clustertest.Exec(t, app, end)
		want := map[string]int{"ROLLBACK": 0, "COMMIT": 1}[end]
		if got := o.drain(t); len(got) != want {
			t.Fatalf("%s: drained %v", end, got)
		}
	}
	// A savepoint that is rolled back takes its message with it.
	clustertest.Exec(t, app, "BEGIN; SAVEPOINT a")
	clustertest.Exec(t, app, sendSQL, "jobs", "1")
	clustertest.Exec(t, app, "ROLLBACK TO a")
	clustertest.Exec(t, app, sendSQL, "jobs", "2")
	clustertest.Exec(t, app, "COMMIT")
	if got := o.drain(t); !slices.Equal(got, []string{"2"}) {
		t.Errorf("after a savepoint: %v", got)
	}
}

// Rows commit in any order, some never; each that commits is drained exactly once, although the looks start at a mark.
func TestInboxInAnyOrderOfCommits(t *testing.T) {
	o := newDirect(t)
	const sessions, rounds = 6, 400
	random := rand.New(rand.NewPCG(1, 2))
	conns := make([]*pgx.Conn, sessions)
	open := make([][]string, sessions)
	for i := range conns {
		conns[i] = o.d.app(t)
	}
	var want, got []string
	low := int64(0)
	for round := range rounds {
		i := random.IntN(sessions)
		switch conn := conns[i]; {
		case open[i] == nil:
			clustertest.Exec(t, conn, "BEGIN")
			open[i] = []string{}
			if random.IntN(2) == 0 {
				break
			}
			fallthrough
		case random.IntN(2) == 0:
			body := fmt.Sprint(round)
			clustertest.Exec(t, conn, sendSQL, "jobs", body)
			open[i] = append(open[i], body)
		case random.IntN(4) == 0:
			clustertest.Exec(t, conn, "ROLLBACK")
			open[i] = nil
		default:
			clustertest.Exec(t, conn, "COMMIT")
			want = append(want, open[i]...)
			open[i] = nil
		}
		if random.IntN(3) == 0 {
			// Often less than what waits: what is left behind stays above the mark.
			got = append(got, o.drainUpTo(t, 1+random.IntN(4))...)
			if o.InboxLow() < low {
				t.Fatalf("the mark fell from %d to %d", low, o.InboxLow())
			}
			low = o.InboxLow()
		}
	}
	for i, conn := range conns {
		if open[i] != nil {
			clustertest.Exec(t, conn, "COMMIT")
			want = append(want, open[i]...)
		}
	}
	got = append(got, o.drain(t)...)
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("delivered (-committed +drained):\n%s", diff)
	}
	if low == 0 {
		t.Error("the mark never rose")
	}
}

// A transaction that has written and stays open holds the mark where its rows may still come; one that only reads does not.
func TestInboxMarkAndLongTransactions(t *testing.T) {
	o := newDirect(t)
	app, reader, writer := o.d.app(t), o.d.app(t), o.d.app(t)
	clustertest.Exec(t, reader, "BEGIN ISOLATION LEVEL REPEATABLE READ")
	clustertest.Exec(t, reader, "SELECT count(*) FROM runlot_queue.messages")
	step := func() {
		t.Helper()
		clustertest.Exec(t, app, sendSQL, "jobs", "1")
		if got := o.drain(t); len(got) != 1 {
			t.Fatalf("drained %v", got)
		}
		o.drain(t)
	}
	step()
	before := o.InboxLow()
	if before == 0 {
		t.Fatal("a reader holds the mark")
	}
	clustertest.Exec(t, writer, "BEGIN")
	clustertest.Exec(t, writer, sendSQL, "jobs", `"late"`)
	step()
	step()
	late := clustertest.One[int64](t, o.d.connect(t), "SELECT last_value FROM runlot_queue.inbox_id_seq") - 2
	if o.InboxLow() >= late {
		t.Fatalf("the mark %d passed the id %d of an open transaction", o.InboxLow(), late)
	}
	clustertest.Exec(t, writer, "COMMIT")
	if got := o.drain(t); !slices.Equal(got, []string{`"late"`}) {
		t.Fatalf("drained %v", got)
	}
	step()
	if o.InboxLow() <= late {
		t.Errorf("the mark %d did not rise above %d after the commit", o.InboxLow(), late)
	}
}

func TestSendRefuses(t *testing.T) {
	o := newDirect(t)
	app := o.d.app(t)
	largest := `"` + strings.Repeat("x", 131_070) + `"`
	for _, c := range []struct {
		name, sql string
		args      []any
		message   string
	}{
		{"unknown queue", sendSQL, []any{"jbos", "1"}, `queue "jbos" does not exist.*runlot\.json`},
		{"no queue", sendSQL, []any{nil, "1"}, `queue "NULL" does not exist`},
		{"over-size", sendSQL, []any{"jobs", largest[:10] + largest[9:]}, `131073 bytes.*at most 131072`},
		{"null body", sendSQL, []any{"jobs", nil}, `message 1 is NULL.*'null'::jsonb`},
		{"negative delay", "SELECT runlot_queue.send('jobs', '1', '-1 second')", nil, `delay -00:00:01 is outside 0 to 24 hours`},
		{"long delay", "SELECT runlot_queue.send('jobs', '1', '24 hours 1 second')", nil, `delay 24:00:01 is outside`},
		{"null delay", "SELECT runlot_queue.send('jobs', '1', NULL)", nil, `delay NULL is outside`},
		{"empty batch", "SELECT runlot_queue.send_batch('jobs', '{}')", nil, `at least one message`},
		{"no batch", "SELECT runlot_queue.send_batch('jobs', NULL)", nil, `at least one message`},
		{"one bad of three", "SELECT runlot_queue.send_batch('jobs', ARRAY['1', NULL, '3']::jsonb[])", nil, `message 2 is NULL`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := app.Exec(t.Context(), c.sql, c.args...)
			pg, ok := errors.AsType[*pgconn.PgError](err)
			if !ok || !regexp.MustCompile(`(?s)`+c.message).MatchString(pg.Message+" "+pg.Hint) {
				t.Fatalf("error %v, want %s", err, c.message)
			}
			if pg.Hint == "" {
				t.Error("no hint")
			}
		})
	}
	if got := o.drain(t); len(got) != 0 {
		t.Fatalf("refused messages arrived: %v", got)
	}
	clustertest.Exec(t, app, sendSQL, "jobs", largest)
	clustertest.Exec(t, app, "SELECT runlot_queue.send('jobs', 'null', '24 hours')")
	if got := o.drain(t); !slices.Equal(got, []string{largest, "null"}) {
		t.Errorf("drained %d messages, want the largest body and the longest delay", len(got))
	}
}

func TestViewOfMessages(t *testing.T) {
	o := newDirect(t)
	bodies := []struct {
		format queue.Format
		body   string
		want   string
	}{
		{queue.JSON, `{"a": [1, null]}`, `{"a": [1, null]}`},
		{queue.JSON, `{"a":`, `"{\"a\":"`},
		{queue.JSON, `"\u0000"`, `"\"\\u0000\""`},
		{queue.JSON, "\xff\x00", `"/wA="`},
		{queue.JSON, strings.Repeat("[", 10_000), ""},
		{queue.Text, "späť", `"späť"`},
		{queue.Text, "a\x00b", `"YQBi"`},
		{queue.Bytes, strings.Repeat("\x00", 100), `"` + strings.Repeat("A", 134) + `=="`},
		{queue.V8, "\xff\x0f", `"/w8="`},
	}
	rows := o.rows(len(bodies))
	for i := range rows {
		rows[i].Format, rows[i].Body = bodies[i].format, []byte(bodies[i].body)
	}
	rows[1].VisibleAt = time.Now().Add(time.Hour).UnixMilli()
	rows[2].VisibleAt, rows[2].Failures = 1, 3
	clustertest.Must(t, o.Append(t.Context(), rows, nil))
	moved := o.next + 1
	clustertest.Must(t, o.Apply(t.Context(), &store.Change{Move: []store.Move{{
		From: store.Key{Queue: o.queue, Seq: rows[0].Seq}, To: store.Key{Queue: o.queue, Seq: moved},
	}}}))
	app := o.d.app(t)
	clustertest.Exec(t, app, sendSQL, "jobs", `{"in":"box"}`)
	type message struct {
		Queue, State, Format string
		Attempts, Size       int
		Body                 string
	}
	got := map[string]message{}
	result, err := app.Query(t.Context(), "SELECT coalesce(id, ''), queue, state, format, attempts, size, body::text FROM runlot_queue.messages")
	clustertest.Must(t, err)
	var id string
	var m message
	_, err = pgx.ForEachRow(result, []any{&id, &m.Queue, &m.State, &m.Format, &m.Attempts, &m.Size, &m.Body}, func() error {
		got[id] = m
		return nil
	})
	clustertest.Must(t, err)
	want := map[string]message{"": {"jobs", "inbox", "json", 0, len(`{"in": "box"}`), `{"in": "box"}`}}
	for i, b := range bodies {
		w := message{"jobs", "visible", b.format.String(), int(rows[i].Failures), len(b.body), b.want}
		if b.want == "" {
			text, err := json.Marshal(b.body)
			clustertest.Must(t, err)
			w.Body = string(text)
		}
		if i == 1 {
			w.State = "delayed"
		}
		want[queue.NewID(o.own.Store, rows[i].Seq).String()] = w
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("view (-want +got):\n%s", diff)
	}
}

// The planner has no choice: also an empty, never analyzed table is read and written by index from a known place.
func TestPlansUseTheIndexes(t *testing.T) {
	o := newDirect(t)
	conn := storeSession(t, o.d.access.OwnerURL())
	index := map[string]string{
		"read ready": "message_pkey", "read due": "message_due", "runlot_delete": "message_pkey", "runlot_retry": "message_pkey",
		"runlot_move": "message_pkey", "runlot_exists": "message_pkey", "runlot_range": "message_pkey", "runlot_return": "message_pkey",
		"runlot_drain": "inbox_pkey",
	}
	cond := regexp.MustCompile(`Index Cond: \(+(queue_id|id)`)
	for name, sql := range postgres.Statements() {
		if name == "runlot_insert" || name == "runlot_usage" {
			continue
		}
		description, err := conn.Prepare(t.Context(), name, sql)
		clustertest.Must(t, err)
		nulls := strings.TrimSuffix(strings.Repeat("NULL,", len(description.ParamOIDs)), ",")
		result, err := conn.Query(t.Context(), fmt.Sprintf("EXPLAIN EXECUTE %s (%s)", pgx.Identifier{name}.Sanitize(), nulls), pgx.QueryExecModeSimpleProtocol)
		clustertest.Must(t, err)
		lines, err := pgx.CollectRows(result, pgx.RowTo[string])
		clustertest.Must(t, err)
		plan := strings.Join(lines, "\n")
		if !strings.Contains(plan, "using "+index[name]) || !cond.MatchString(plan) || strings.Contains(plan, "Seq Scan on message") {
			t.Errorf("%s does not go through %s:\n%s", name, index[name], plan)
		}
	}
}

// Dead rows that a long transaction keeps cost a read nothing, because it starts above them.
func TestReadsStartAboveDeadRows(t *testing.T) {
	o := newDirect(t)
	reader := o.d.app(t)
	clustertest.Exec(t, reader, "BEGIN ISOLATION LEVEL REPEATABLE READ")
	clustertest.Exec(t, reader, "SELECT count(*) FROM runlot_queue.messages")
	for range 4 {
		dead := o.rows(5_000)
		clustertest.Must(t, o.Append(t.Context(), dead, nil))
		clustertest.Must(t, o.Apply(t.Context(), &store.Change{Delete: keysOf(dead)}))
	}
	cursor := o.next
	clustertest.Must(t, o.Append(t.Context(), o.rows(10), nil))
	conn := storeSession(t, o.d.access.OwnerURL())
	pages := func(after int64) int {
		var plan []struct {
			Plan map[string]any `json:"Plan"`
		}
		text := clustertest.One[string](t, conn, "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+postgres.ReadReadySQL, pgx.QueryExecModeSimpleProtocol, o.queue, after, o.next, 100, 1<<20)
		clustertest.Must(t, json.Unmarshal([]byte(text), &plan))
		pages := 0.0
		for _, kind := range []string{"Shared Hit Blocks", "Shared Read Blocks"} {
			n, _ := plan[0].Plan[kind].(float64)
			pages += n
		}
		return int(pages)
	}
	if n := pages(cursor); n > 30 {
		t.Errorf("a read from the cursor touches %d pages", n)
	}
	if n := pages(0); n < 100 {
		t.Errorf("a read from the left edge touches only %d pages: the test proves nothing", n)
	}
}

// The size of a body that is stored out of line is known without reading it.
func TestSizesAreKnownWithoutReading(t *testing.T) {
	o := newDirect(t)
	rows := o.rows(20)
	for i := range rows {
		rows[i].Format, rows[i].Body = queue.Bytes, slices.Repeat([]byte{1}, 100_000)
	}
	clustertest.Must(t, o.Append(t.Context(), rows, nil))
	conn := o.d.connect(t)
	text := clustertest.One[string](t, conn, "EXPLAIN (ANALYZE, BUFFERS, FORMAT TEXT) SELECT sum(octet_length(body)) FROM runlot_queue.message", pgx.QueryExecModeSimpleProtocol)
	if strings.Contains(text, "toast") {
		t.Errorf("counting reads bodies: %s", text)
	}
	const toast = `SELECT pg_stat_get_blocks_fetched(reltoastrelid) FROM pg_class WHERE oid = 'runlot_queue.message'::regclass`
	clustertest.Exec(t, conn, "SELECT pg_stat_force_next_flush()")
	before := clustertest.One[int64](t, conn, toast)
	clustertest.Exec(t, conn, "SELECT sum(octet_length(body)) FROM runlot_queue.message; SELECT pg_stat_force_next_flush()")
	if after := clustertest.One[int64](t, conn, toast); after != before {
		t.Errorf("counting read %d pages of bodies", after-before)
	}
}
