package sqlite

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/runlot/runlot/internal/core/d1"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(writerDir); dir != "" {
		write(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

// patience bounds what a test waits for.
const patience = 60 * time.Second

func databases(t *testing.T, o Options) *Databases {
	t.Helper()
	if o.Dir == "" {
		o.Dir = filepath.Join(t.TempDir(), "d1")
	}
	o.Log = slog.New(slog.DiscardHandler)
	d := New(o)
	t.Cleanup(d.Close)
	return d
}

func query(sql string, params ...d1.Value) d1.Query { return d1.Query{SQL: sql, Params: params} }

// run runs queries that have to succeed.
func run(t *testing.T, d *Databases, queries ...d1.Query) []d1.Result {
	t.Helper()
	results, err := d.Run(t.Context(), "x", queries)
	if err != nil {
		t.Fatalf("%v: %v", queries, err)
	}
	return results
}

// value returns the one value of a query.
func value(t *testing.T, d *Databases, sql string, params ...d1.Value) d1.Value {
	t.Helper()
	rows := run(t, d, query(sql, params...))[0].Rows
	if len(rows) != 1 || len(rows[0]) != 1 {
		t.Fatalf("%s: %d rows", sql, len(rows))
	}
	return rows[0][0]
}

// refused runs queries that have to fail, and returns the text.
func refused(t *testing.T, d *Databases, queries ...d1.Query) *d1.Error {
	t.Helper()
	_, err := d.Run(t.Context(), "x", queries)
	e, ok := errors.AsType[*d1.Error](err)
	if !ok {
		t.Fatalf("%v: %v is no d1.Error", queries, err)
	}
	return e
}

// TestErrors: what fails, and in which words. The words are those of Cloudflare's own runtime.
func TestErrors(t *testing.T) {
	d := databases(t, Options{})
	run(t, d, query("CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT UNIQUE, b)"), query("INSERT INTO t VALUES (1, 'x', 1)"),
		query("CREATE TABLE c (id INTEGER PRIMARY KEY, t INTEGER REFERENCES t(id) DEFERRABLE INITIALLY DEFERRED)"),
		query("CREATE TABLE k (a INTEGER NOT NULL CHECK (a > 1)) STRICT"),
		query("CREATE TRIGGER tr BEFORE DELETE ON t BEGIN SELECT RAISE(ABORT, 'no delete'); END"))
	const auth = "not authorized: SQLITE_AUTH"
	ones := make([]d1.Value, 101)
	for _, test := range []struct {
		sql    string
		params []d1.Value
		want   string
	}{
		{"SELEC 1", nil, `near "SELEC": syntax error at offset 0: SQLITE_ERROR`},
		{"SELECT FROM t", nil, `near "FROM": syntax error at offset 7: SQLITE_ERROR`},
		{"SELECT * FROM nope", nil, "no such table: nope: SQLITE_ERROR"},
		{"SELECT 'é' || nope", nil, "no such column: nope at offset 15: SQLITE_ERROR"},
		{"SELECT 1; SELECT", nil, "incomplete input: SQLITE_ERROR"},
		{"INSERT INTO t (a) VALUES ('x')", nil, "UNIQUE constraint failed: t.a: SQLITE_CONSTRAINT (extended: SQLITE_CONSTRAINT_UNIQUE)"},
		{"INSERT INTO t (id) VALUES (1)", nil, "UNIQUE constraint failed: t.id: SQLITE_CONSTRAINT (extended: SQLITE_CONSTRAINT_PRIMARYKEY)"},
		{"INSERT INTO c (t) VALUES (9999)", nil, "FOREIGN KEY constraint failed: SQLITE_CONSTRAINT (extended: SQLITE_CONSTRAINT_FOREIGNKEY)"},
		{"INSERT INTO k VALUES (1)", nil, "CHECK constraint failed: a > 1: SQLITE_CONSTRAINT (extended: SQLITE_CONSTRAINT_CHECK)"},
		{"INSERT INTO k VALUES (?)", []d1.Value{nil}, "NOT NULL constraint failed: k.a: SQLITE_CONSTRAINT (extended: SQLITE_CONSTRAINT_NOTNULL)"},
		{"INSERT INTO k VALUES ('a')", nil, "cannot store TEXT value in INTEGER column k.a: SQLITE_CONSTRAINT (extended: SQLITE_CONSTRAINT_DATATYPE)"},
		{"DELETE FROM t", nil, "no delete: SQLITE_CONSTRAINT (extended: SQLITE_CONSTRAINT_TRIGGER)"},
		{"SELECT json('{')", nil, "malformed JSON: SQLITE_ERROR"},
		{"SELECT abs(-9223372036854775808)", nil, "integer overflow: SQLITE_ERROR"},
		{"", nil, d1.NoStatement},
		{"-- nothing", nil, d1.NoStatement},
		{"/* nothing */ ;", nil, d1.NoStatement},
		{"SELECT ?, ?", ones[:1], d1.WrongParams},
		{"SELECT ?", ones[:2], d1.WrongParams},
		{"SELECT ?; SELECT 1", ones[:1], d1.WrongParams},
		{"BEGIN", nil, d1.Transaction},
		{"COMMIT", nil, d1.Transaction},
		{"ROLLBACK", nil, d1.Transaction},
		{"SAVEPOINT a", nil, d1.Transaction},
		{"INSERT INTO t (id) VALUES (7); COMMIT; SELECT 1", nil, d1.Transaction},
		// Nothing of the machine but the database.
		{"ATTACH '/tmp/x' AS y", nil, auth},
		{"DETACH y", nil, auth},
		{"VACUUM", nil, "cannot VACUUM from within a transaction: SQLITE_ERROR"},
		{"VACUUM INTO '/tmp/x'", nil, "cannot VACUUM from within a transaction: SQLITE_ERROR"},
		{"SELECT load_extension('x')", nil, "no such function: load_extension at offset 7: SQLITE_ERROR"},
		{"SELECT readfile('/etc/passwd')", nil, "no such function: readfile at offset 7: SQLITE_ERROR"},
		{"SELECT sqlite_version()", nil, "not authorized to use function: sqlite_version at offset 7: SQLITE_ERROR"},
		{"CREATE TEMP TABLE tt (a)", nil, auth},
		{"CREATE TABLE _CF_x (a)", nil, auth},
		{"CREATE VIRTUAL TABLE v USING dbstat(main)", nil, auth},
		{"DELETE FROM sqlite_master", nil, "table sqlite_master may not be modified: SQLITE_ERROR"},
		{"PRAGMA journal_mode = delete", nil, auth},
		{"PRAGMA synchronous = off", nil, auth},
		{"PRAGMA writable_schema = on", nil, auth},
		{"PRAGMA temp_store_directory = '/tmp'", nil, auth},
		{"PRAGMA max_page_count = 1", nil, auth},
		{"PRAGMA nope", nil, auth},
		{"SELECT * FROM pragma_user_version", nil, auth},
		// Limits.
		{"SELECT ?500", nil, "variable number must be between ?1 and ?100 at offset 7: SQLITE_ERROR"},
		{"SELECT 1" + strings.Repeat(", 1", 100), nil, "too many columns in result set: SQLITE_ERROR"},
		{"SELECT 1" + strings.Repeat("+1", 100), nil, "Expression tree is too large (maximum depth 100): SQLITE_ERROR"},
		{"SELECT 1" + strings.Repeat(" UNION SELECT 1", 5), nil, "too many terms in compound SELECT: SQLITE_ERROR"},
		{"SELECT '" + strings.Repeat("x", 100_000) + "'", nil, "statement too long: SQLITE_TOOBIG"},
		{"SELECT 'a' LIKE '" + strings.Repeat("x", 51) + "'", nil, "LIKE or GLOB pattern too complex: SQLITE_ERROR"},
		{"SELECT zeroblob(2000001)", nil, "string or blob too big: SQLITE_TOOBIG"},
		{"SELECT ?", []d1.Value{strings.Repeat("x", 2_000_001)}, "string or blob too big: SQLITE_TOOBIG"},
		{"SELECT ?", []d1.Value{make([]byte, 2_000_001)}, "string or blob too big: SQLITE_TOOBIG"},
	} {
		if got := refused(t, d, query(test.sql, test.params...)); got.Text != test.want {
			t.Errorf("%.60s:\n got %s\nwant %s", test.sql, got.Text, test.want)
		}
		// Whatever failed, the next call finds the database as it was.
		if n := value(t, d, "SELECT count(*) FROM t"); n != int64(1) {
			t.Fatalf("%.60s: %v rows are there", test.sql, n)
		}
	}
}

// TestWorks: what D1 lets pass.
func TestWorks(t *testing.T) {
	d := databases(t, Options{})
	run(t, d, query("CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT)"), query(`INSERT INTO t (a) VALUES ("double quoted"), ('b')`))
	for _, test := range []struct {
		sql    string
		params []d1.Value
		want   d1.Value
	}{
		{`SELECT a FROM t WHERE a = "double quoted"`, nil, "double quoted"},
		{"SELECT 1; SELECT 2;  -- end", nil, int64(2)},
		{" ; SELECT 3 ;;", nil, int64(3)},
		{"INSERT INTO t (a) VALUES ('c'); SELECT count(*) FROM t", nil, int64(3)},
		{"SELECT a FROM t LIMIT ?", []d1.Value{1.0}, "double quoted"},
		{"SELECT typeof(?)", []d1.Value{1.0}, "real"},
		{"SELECT ?2 || ?1", []d1.Value{"a", "b"}, "ba"},
		{"SELECT :x || :y", []d1.Value{"a", "b"}, "ab"},
		{"SELECT json_extract('{\"a\":[1,2]}', '$.a[1]')", nil, int64(2)},
		{"SELECT value FROM json_each('[7]')", nil, int64(7)},
		{"SELECT sin(0)", nil, 0.0},
		{"PRAGMA foreign_keys", nil, int64(1)},
		{"PRAGMA foreign_keys = off; SELECT 1", nil, int64(1)},
		{"PRAGMA foreign_keys", nil, int64(1)},
		{"PRAGMA quick_check", nil, "ok"},
		{"SELECT count(*) FROM pragma_table_info('t')", nil, int64(2)},
		{"WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c WHERE x < 1000) SELECT count(*) FROM c", nil, int64(1000)},
		{"SELECT length(zeroblob(2000000))", nil, int64(2_000_000)},
		{"SELECT 1\x00 nonsense", nil, int64(1)},
		{"SELECT count(*) FROM (VALUES (?)" + strings.Repeat(",(?)", 99) + ")", make([]d1.Value, 100), int64(100)},
	} {
		if got := value(t, d, test.sql, test.params...); !cmp.Equal(got, test.want) {
			t.Errorf("%.60s: got %v, want %v", test.sql, got, test.want)
		}
	}
	run(t, d, query("CREATE VIRTUAL TABLE f USING fts5(body)"), query("INSERT INTO f VALUES ('the quick brown fox')"))
	if got := value(t, d, "SELECT highlight(f, 0, '[', ']') FROM f WHERE f MATCH 'quick'"); got != "the [quick] brown fox" {
		t.Errorf("full-text search found %v", got)
	}
}

func TestMeta(t *testing.T) {
	d := databases(t, Options{})
	created := run(t, d, query("CREATE TABLE t (id INTEGER PRIMARY KEY, a)"))[0].Meta
	if !created.Changed || created.SizeAfter != 12_288 || created.Changes != 0 {
		t.Errorf("create: %+v", created)
	}
	written := run(t, d, query("INSERT INTO t (a) VALUES (1), (2), (3)"))[0].Meta
	if !written.Changed || written.Changes != 3 || written.LastRowID != 3 || written.RowsWritten != 3 {
		t.Errorf("insert: %+v", written)
	}
	read := run(t, d, query("SELECT a FROM t WHERE a > 1"))[0].Meta
	if read.Changed || read.Changes != 0 || read.LastRowID != 3 || read.RowsRead != 3 || read.RowsWritten != 0 || read.SizeAfter != 12_288 {
		t.Errorf("select: %+v", read)
	}
	if computed := run(t, d, query("SELECT 1"))[0].Meta; computed.RowsRead != 0 {
		t.Errorf("select without a table: %+v", computed)
	}
	run(t, d, query("CREATE TABLE big (a)"), query("INSERT INTO big VALUES (zeroblob(100000))"))
	run(t, d, query("DROP TABLE big"))
	if after := run(t, d, query("SELECT 1"))[0].Meta; after.SizeAfter != 12_288 {
		t.Errorf("a dropped table leaves %d bytes", after.SizeAfter)
	}
	results := run(t, d, query("DELETE FROM t WHERE id = 1"), query("-- nothing"), query("SELECT 1 a, 2 a WHERE 0"))
	if len(results) != 2 || results[0].Meta.Changes != 1 || len(results[0].Columns) != 0 || !cmp.Equal(results[1].Columns, []string{"a", "a"}) {
		t.Errorf("batch: %+v", results)
	}
}

// TestAllOrNothing: a call whose last query fails leaves nothing, also of its schema, and says which query it was.
func TestAllOrNothing(t *testing.T) {
	d := databases(t, Options{})
	e := refused(t, d, query("CREATE TABLE t (a UNIQUE)"), query("INSERT INTO t VALUES (1)"), query("INSERT INTO t VALUES (2), (1)"))
	if e.Query != 2 {
		t.Errorf("query %d failed", e.Query)
	}
	if e := refused(t, d, query("CREATE TABLE t (a)"), query("SELEC")); e.Query != 1 {
		t.Errorf("query %d cannot be prepared", e.Query)
	}
	if n := value(t, d, "SELECT count(*) FROM sqlite_schema"); n != int64(0) {
		t.Errorf("%v things are left", n)
	}
}

// TestSettingsEndWithTheCall: what one call sets, the next one does not meet.
func TestSettingsEndWithTheCall(t *testing.T) {
	d := databases(t, Options{})
	run(t, d, query("CREATE TABLE t (a CHECK (a > 0))"))
	run(t, d, query("PRAGMA ignore_check_constraints = on"), query("INSERT INTO t VALUES (-1)"))
	if e := refused(t, d, query("INSERT INTO t VALUES (-2)")); !strings.HasPrefix(e.Text, "CHECK constraint failed") {
		t.Error(e)
	}
	refused(t, d, query("PRAGMA recursive_triggers = on"), query("SELECT nope"))
	if n := value(t, d, "SELECT count(*) FROM t"); n != int64(1) {
		t.Errorf("%v rows", n)
	}
}

const endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c) SELECT sum(x) FROM c"

func TestStatementTime(t *testing.T) {
	d := databases(t, Options{})
	d.statementTime = 50 * time.Millisecond
	e := refused(t, d, query("CREATE TABLE t (a)"), query(endless))
	if e.Text != d1.TooLate || e.Query != 1 {
		t.Errorf("%d: %s", e.Query, e.Text)
	}
	if n := value(t, d, "SELECT count(*) FROM sqlite_schema"); n != int64(0) {
		t.Errorf("%v things are left", n)
	}
}

// TestCancel: a caller that goes away ends its statement, and what it wrote is rolled back; one that waits stops waiting;
// and neither does another database wait.
func TestCancel(t *testing.T) {
	d := databases(t, Options{})
	run(t, d, query("CREATE TABLE t (a)"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	var first, second error
	wg.Go(func() { _, first = d.Run(ctx, "x", []d1.Query{query("INSERT INTO t VALUES (1)"), query(endless)}) })
	for len(d.callersOf("x")) == 0 {
		<-time.After(time.Millisecond)
	}
	waiting, giveUp := context.WithCancel(t.Context())
	giveUp()
	if _, second = d.Run(waiting, "x", []d1.Query{query("SELECT 1")}); !errors.Is(second, context.Canceled) {
		t.Errorf("the one that waits: %v", second)
	}
	if _, err := d.Run(t.Context(), "y", []d1.Query{query("SELECT 1")}); err != nil {
		t.Errorf("another database: %v", err)
	}
	cancel()
	wg.Wait()
	if !errors.Is(first, context.Canceled) {
		t.Errorf("the one that runs: %v", first)
	}
	if n := value(t, d, "SELECT count(*) FROM t"); n != int64(0) {
		t.Errorf("%v rows", n)
	}
}

// callersOf has an entry when the database is busy.
func (d *Databases) callersOf(identity string) []int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if db := d.all[identity]; db != nil && db.callers > 0 {
		return []int{db.callers}
	}
	return nil
}

func TestCloseEndsWhatRuns(t *testing.T) {
	d := databases(t, Options{})
	ended := make(chan error)
	go func() {
		_, err := d.Run(context.Background(), "x", []d1.Query{query(endless)})
		ended <- err
	}()
	for len(d.callersOf("x")) == 0 {
		<-time.After(time.Millisecond)
	}
	d.Close()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("the call goes on")
	}
	if _, err := d.Run(t.Context(), "x", []d1.Query{query("SELECT 1")}); !errors.Is(err, errClosed) {
		t.Errorf("a call after the end: %v", err)
	}
}

func TestLargestSize(t *testing.T) {
	d := databases(t, Options{MaxBytes: 40_960})
	run(t, d, query("CREATE TABLE t (a)"))
	if e := refused(t, d, query("INSERT INTO t VALUES (zeroblob(100000))")); e.Text != d1.Full {
		t.Error(e)
	}
	run(t, d, query("INSERT INTO t VALUES (1)"))
}

func TestLargestResult(t *testing.T) {
	d := databases(t, Options{})
	const rows = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c WHERE x < ?) SELECT zeroblob(1000000) FROM c"
	if e := refused(t, d, query(rows, 9.0)); !strings.Contains(e.Text, "select fewer rows") {
		t.Error(e)
	}
	run(t, d, query(rows, 8.0))
}

// TestMemory: SQLite that runs out of memory fails the call and not the node, and the next call works.
func TestMemory(t *testing.T) {
	d := databases(t, Options{})
	run(t, d, query("CREATE TABLE t (a)"), query("INSERT INTO t VALUES (1)"))
	d.all["x"].conn.HardHeapLimit(1 << 20)
	e := refused(t, d, query("INSERT INTO t VALUES (2)"), query("SELECT length(zeroblob(1999999) || 'x')"))
	if e.Text != "out of memory: SQLITE_NOMEM" {
		t.Error(e)
	}
	if n := value(t, d, "SELECT count(*) FROM t"); n != int64(1) {
		t.Errorf("%v rows", n)
	}
}

// TestNoDatabase: a file that is none is said to be none, and stays as it is.
func TestNoDatabase(t *testing.T) {
	d := databases(t, Options{})
	if err := os.MkdirAll(d.o.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	text := []byte(strings.Repeat("this is no database. ", 1000))
	if err := os.WriteFile(d.Path("x"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	if e := refused(t, d, query("SELECT 1")); e.Text != "file is not a database: SQLITE_NOTADB" {
		t.Error(e)
	}
	if after, err := os.ReadFile(d.Path("x")); err != nil || string(after) != string(text) {
		t.Errorf("the file has changed: %v", err)
	}
}

// TestManyDatabases: more than stay open work all the same.
func TestManyDatabases(t *testing.T) {
	d := databases(t, Options{})
	for round := range 2 {
		for i := range queue.D1Open + 3 {
			id := "db" + strings.Repeat("x", i)
			results, err := d.Run(t.Context(), id, []d1.Query{query("CREATE TABLE IF NOT EXISTS t (a)"), query("INSERT INTO t VALUES (1)"), query("SELECT count(*) FROM t")})
			if err != nil || results[2].Rows[0][0] != int64(round+1) {
				t.Fatalf("%s: %v, %v", id, results, err)
			}
		}
	}
	if len(d.all) > queue.D1Open {
		t.Errorf("%d stay open", len(d.all))
	}
}

func TestOpenFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d := databases(t, Options{Dir: dir})
	if _, err := d.Run(t.Context(), "x", []d1.Query{query("SELECT 1")}); fault.KindOf(err) != fault.Environment {
		t.Error(err)
	}
	d = databases(t, Options{})
	if err := os.MkdirAll(d.Path("x"), 0o700); err != nil { // a folder in the place of the file
		t.Fatal(err)
	}
	if _, err := d.Run(t.Context(), "x", []d1.Query{query("SELECT 1")}); fault.KindOf(err) != fault.Environment {
		t.Error(err)
	}
}
