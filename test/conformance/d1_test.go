package conformance_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ncruces/go-sqlite3"
)

const cloudflareD1 = "Workers docs, D1"

// database is a case that makes steps of SQL and is judged by their answers: a value as JSON, or "Error: …".
func database(id, rule string, calls []object, want []string, wrongs ...wrong) testCase {
	return steps("d1", cloudflareD1, id, rule, calls, want, wrongs...)
}

// answers makes call i answer with another value.
func answers(name string, i int, value string) wrong {
	return changes(name, func(o *observation) { o.Answers[i].Value, o.Answers[i].Error = json.RawMessage(value), nil })
}

// says makes call i fail with another text.
func says(name string, i int, text string) wrong {
	return changes(name, func(o *observation) { o.Answers[i].Error.Message = text })
}

// step is one statement.
func step(sql string, bind ...any) object {
	if len(bind) == 0 {
		return object{"sql": sql}
	}
	return object{"sql": sql, "bind": bind}
}

// as calls a statement by another method than all.
func as(s object, method string, args ...any) object {
	s["call"], s["args"] = method, args
	return s
}

func special(name string) object { return object{"$": name} }

// d1Cases are the rules of D1 databases.
func d1Cases() []testCase {
	return []testCase{
		d1Methods(), d1Types(), d1Refused(), d1Errors(), d1Batch(), d1Exec(), d1Sessions(), d1Limits(), d1Sandbox(),
		d1Meta(), d1Shared(), d1Cancel(),
	}
}

func d1Methods() testCase {
	const rows = "SELECT column1 AS a, column2 AS b FROM (VALUES (1, 'x'), (2, NULL)) WHERE column1 <= ?"
	results := func(method string) object { return as(step(rows, 2), method) }
	return database("d1-methods", "first gives a row, a column of it or null; raw gives lists, with the names of the columns when asked; of equal names the last wins in an object and none is lost in a list",
		[]object{
			results("first"), as(step(rows, 2), "first", "b"), as(step(rows, 2), "first", "a"), as(step(rows, 2), "first", "c"), as(step(rows, 0), "first"),
			results("raw"), as(step(rows, 2), "raw", object{"columnNames": true}), as(step(rows, 0), "raw", object{"columnNames": true}),
			as(step("SELECT 1 a, 2 a"), "first"), as(step("SELECT 1 a, 2 a"), "raw"),
			as(step("SELECT 1; SELECT 2 b; -- the last one counts"), "raw", object{"columnNames": true}),
		},
		[]string{
			`{"a":1,"b":"x"}`, `"x"`, `1`, `Error: D1_COLUMN_NOTFOUND: Column not found (c)`, `null`,
			`[[1,"x"],[2,null]]`, `[["a","b"],[1,"x"],[2,null]]`, `[["a","b"]]`,
			`{"a":2}`, `[[1,2]]`, `[["b"],[2]]`,
		},
		answers("first gives all rows", 0, `[{"a":1,"b":"x"}]`), answers("a missing column is null", 3, "null"), answers("no row is undefined", 4, "{}"),
		answers("the names are rows always", 5, `[["a","b"],[1,"x"],[2,null]]`), answers("the names need a row", 7, "[]"), answers("a column is lost", 9, "[[2]]"),
		answers("the first statement counts", 10, `[["1"],[1]]`),
	)
}

func d1Types() testCase {
	typed := func(v any) object { return as(step("SELECT typeof(?1), ?1", v), "raw") }
	return database("d1-types", "null, numbers, strings, buffers and booleans are bound as NULL, REAL, TEXT, BLOB and 0 or 1; integers come back as numbers, with 53 bits, blobs as lists, infinity as null",
		[]object{
			typed(nil), typed(1), typed(1.5), typed("é\u0000\"x"), typed(true), typed(false),
			typed(special("buffer")), typed(special("bytes")), typed(special("words")), typed(special("empty")), typed([]any{1, 2}),
			typed(special("nan")), typed(special("infinity")),
			as(step("SELECT 9007199254740991, 9007199254740993, 9223372036854775807, -9223372036854775808, 1e999, 1.0, x'00ff', CAST(x'ff41' AS TEXT)"), "raw"),
			{"batch": []object{
				step("CREATE TABLE typed (i INTEGER, t TEXT, n)"), step("INSERT INTO typed VALUES (?1, ?1, ?1)", 5), step("SELECT typeof(i), t, typeof(n) FROM typed"),
				step("DROP TABLE typed"),
			}},
			as(step("SELECT count(*) FROM (VALUES (1), (2)) LIMIT ?", 1), "raw"),
		},
		[]string{
			`[["null",null]]`, `[["real",1]]`, `[["real",1.5]]`, `[["text","é\u0000\"x"]]`, `[["real",1]]`, `[["real",0]]`,
			`[["blob",[0,1,255]]]`, `[["blob",[1,255]]]`, `[["blob",[1,0,255]]]`, `[["blob",[]]]`, `[["blob",[1,2]]]`,
			`[["null",null]]`, `[["null",null]]`,
			`[[9007199254740991,9007199254740992,9223372036854776000,-9223372036854776000,null,1,[0,255],"` + "\ufffd" + `A"]]`,
			`[[],[],[{"t":"5.0","typeof(i)":"integer","typeof(n)":"real"}],[]]`, `[[2]]`,
		},
		answers("an integer is bound as one", 1, `[["integer",1]]`), answers("a text ends at NUL", 3, `[["text","é"]]`), answers("true is a text", 4, `[["text","true"]]`),
		answers("a view is its whole buffer", 7, `[["blob",[0,1,255]]]`), answers("a blob is text", 10, `[["text","12"]]`), answers("an empty blob is NULL", 9, `[["null",null]]`),
	)
}

func d1Refused() testCase {
	bound := func(name string) object { return as(step("SELECT ?", special(name)), "raw") }
	refused := func(kind, value string) string {
		return "Error: D1_TYPE_ERROR: Type '" + kind + "' not supported for value '" + value + "'"
	}
	return database("d1-refused", "undefined, bigint, functions, dates and objects cannot be bound",
		[]object{bound("undefined"), bound("bigint"), bound("function"), bound("object"), as(step("SELECT ?", []any{"a"}), "raw")},
		[]string{
			refused("undefined", "undefined"), refused("bigint", "1"), refused("function", "() => 1"), refused("object", "[object Object]"), refused("object", "a"),
		},
		accepted("undefined is NULL", 0), accepted("a bigint is a number", 1), says("the error has no kind", 3, "Type 'object' not supported"),
	)
}

func d1Errors() testCase {
	const unique = "Error: D1_ERROR: UNIQUE constraint failed: errors.a: SQLITE_CONSTRAINT (extended: SQLITE_CONSTRAINT_UNIQUE)"
	return database("d1-errors", "an error is an Error whose text is D1_ERROR, what SQLite says, the place and the names of its codes",
		[]object{
			as(step("CREATE TABLE errors (a UNIQUE)"), "first"), as(step("INSERT INTO errors VALUES (1)"), "first"),
			step("INSERT INTO errors VALUES (1)"), step("SELEC 1"), step("SELECT nope FROM errors"), step("SELECT a FROM nope"), step("SELECT ?", 1, 2), step("SELECT ?"),
			step(""), step(" -- nothing"), step("BEGIN"), as(step("SELECT count(*) n FROM errors"), "first", "n"), as(step("DROP TABLE errors"), "first"),
		},
		[]string{
			"null", "null", unique, `Error: D1_ERROR: near "SELEC": syntax error at offset 0: SQLITE_ERROR`,
			"Error: D1_ERROR: no such column: nope at offset 7: SQLITE_ERROR", "Error: D1_ERROR: no such table: nope: SQLITE_ERROR",
			"Error: D1_ERROR: Wrong number of parameter bindings for SQL query.", "Error: D1_ERROR: Wrong number of parameter bindings for SQL query.",
			"Error: D1_ERROR: No SQL statements detected.", "Error: D1_ERROR: No SQL statements detected.",
			"Error: D1_ERROR: To execute a transaction, please use batch() instead of the SQL BEGIN TRANSACTION or SAVEPOINT statements: all statements of a batch succeed or fail together.",
			"1", "null",
		},
		accepted("a second equal row is taken", 2), says("the prefix is missing", 3, `near "SELEC": syntax error at offset 0: SQLITE_ERROR`),
		says("the place is missing", 4, "D1_ERROR: no such column: nope: SQLITE_ERROR"), accepted("SQL can begin a transaction", 10), answers("the refused row is there", 11, "2"),
	)
}

func d1Batch() testCase {
	count := as(step("SELECT count(*) n FROM batched"), "first", "n")
	return database("d1-batch", "a batch is one transaction: its statements see each other, and none is left when one fails",
		[]object{
			{"batch": []object{step("CREATE TABLE batched (a UNIQUE)"), step("INSERT INTO batched VALUES (?), (?)", 1, 2), step("SELECT a FROM batched")}},
			{"batch": []object{step("INSERT INTO batched VALUES (3)"), step("DELETE FROM batched WHERE a = 1"), step("INSERT INTO batched VALUES (2)")}},
			count,
			{"batch": []object{}},
			{"batch": []object{step("DROP TABLE batched"), step("SELEC")}},
			count, as(step("DROP TABLE batched"), "first"),
		},
		[]string{
			`[[],[],[{"a":1},{"a":2}]]`, "Error: D1_ERROR: UNIQUE constraint failed: batched.a: SQLITE_CONSTRAINT (extended: SQLITE_CONSTRAINT_UNIQUE)", "2",
			"Error: D1_ERROR: No SQL statements detected.", `Error: D1_ERROR: near "SELEC": syntax error at offset 0: SQLITE_ERROR`, "2", "null",
		},
		answers("what stands before the failure is left", 2, "3"), answers("a table stays dropped", 5, "0"), accepted("a failed batch succeeds", 1),
	)
}

func d1Exec() testCase {
	count := as(step("SELECT count(*) n FROM executed"), "first", "n")
	return database("d1-exec", "exec runs each line, counts them, and is all or nothing; its errors say D1_EXEC_ERROR and a line",
		[]object{
			{"exec": "CREATE TABLE executed (a);\nINSERT INTO executed VALUES (1); INSERT INTO executed VALUES (2);\n\nINSERT INTO executed VALUES (3)"},
			count,
			{"exec": "INSERT INTO executed VALUES (4)\nINSERT INTO nope VALUES (1)"},
			count,
			{"exec": ""},
			{"exec": "DROP TABLE executed"},
		},
		[]string{
			"3", "3", "Error: D1_EXEC_ERROR: Error in line 1: INSERT INTO executed VALUES (4): no such table: nope: SQLITE_ERROR", "3",
			"Error: D1_EXEC_ERROR: Error in line 1: : No SQL statements detected.", "1",
		},
		answers("statements are counted", 0, "4"), answers("a line runs one statement", 1, "2"), answers("what stands before the failure is left", 3, "4"),
		says("the line is missing", 2, "D1_EXEC_ERROR: no such table: nope: SQLITE_ERROR"),
	)
}

func d1Sessions() testCase {
	session := func(constraint string) object {
		s := as(step("SELECT 1"), "raw")
		s["session"] = constraint
		return s
	}
	return database("d1-sessions", "a session takes any constraint or bookmark, and its answers bring a newer bookmark; dump is withdrawn, as on D1",
		[]object{session("first-primary"), session("first-unconstrained"), session(""), session("0000000000000001"), {"dump": true}},
		slices.Concat(slices.Repeat([]string{`{"bookmark":true,"value":[[1]]}`}, 4), []string{"Error: D1_DUMP_ERROR: Status + 404"}),
		answers("no bookmark comes", 0, `{"bookmark":false,"value":[[1]]}`), accepted("dump works", 4),
	)
}

func d1Limits() testCase {
	values := slices.Repeat([]any{1}, 101)
	marks := func(n int) string { return "VALUES (?)" + strings.Repeat(",(?)", n-1) }
	length := func(n int) object { return as(step("SELECT length(?)", object{"repeat": n}), "raw") }
	return database("d1-limits", "100 parameters, 100 KB of SQL, 2 MB in a value, 100 columns; more is refused",
		[]object{
			as(step("SELECT count(*) FROM ("+marks(100)+")", values[:100]...), "raw"), as(step("SELECT count(*) FROM ("+marks(101)+")", values...), "raw"),
			length(2_000_000), length(2_000_001),
			as(object{"sql": object{"repeat": 99_989}}, "first", "nope"), as(object{"sql": object{"repeat": 99_990}}, "raw"),
			as(step("SELECT 1"+strings.Repeat(",1", 100)), "raw"), as(step("SELECT zeroblob(2000001)"), "raw"),
		},
		[]string{
			"[[100]]", "Error: D1_ERROR: too many SQL variables at offset 430: SQLITE_ERROR",
			"[[2000000]]", "Error: D1_ERROR: string or blob too big: SQLITE_TOOBIG",
			"Error: D1_COLUMN_NOTFOUND: Column not found (nope)", "Error: D1_ERROR: statement too long: SQLITE_TOOBIG",
			"Error: D1_ERROR: too many columns in result set: SQLITE_ERROR", "Error: D1_ERROR: string or blob too big: SQLITE_TOOBIG",
		},
		accepted("a 101st parameter is taken", 1), accepted("one byte more is taken", 3), accepted("one byte more of SQL is taken", 5), accepted("a 101st column is taken", 6),
	)
}

func d1Sandbox() testCase {
	const auth = "Error: D1_ERROR: not authorized: SQLITE_AUTH"
	return database("d1-sandbox", "SQL reaches its own database and nothing else of the machine, and changes no setting of it",
		[]object{
			step("ATTACH '/tmp/other.sqlite' AS other"), step("VACUUM INTO '/tmp/other.sqlite'"), step("SELECT readfile('/etc/passwd')"),
			step("SELECT load_extension('/tmp/x')"), step("PRAGMA journal_mode = OFF"), step("PRAGMA synchronous = OFF"), step("PRAGMA writable_schema = ON"),
			step("CREATE TEMP TABLE t (a)"), as(step("PRAGMA foreign_keys"), "raw"), as(step("PRAGMA foreign_keys = OFF"), "raw"), as(step("PRAGMA foreign_keys"), "raw"),
			as(step("SELECT name FROM pragma_table_info('sqlite_schema') LIMIT 1"), "raw"),
		},
		[]string{
			auth, "Error: D1_ERROR: cannot VACUUM from within a transaction: SQLITE_ERROR", "Error: D1_ERROR: no such function: readfile at offset 7: SQLITE_ERROR",
			"Error: D1_ERROR: no such function: load_extension at offset 7: SQLITE_ERROR", auth, auth, auth, auth, "[[1]]", "[]", "[[1]]", `[["type"]]`,
		},
		accepted("another file can be attached", 0), accepted("a copy can be written", 1), accepted("the journal can be switched off", 4),
		answers("foreign keys can be switched off", 10, "[[0]]"),
	)
}

// d1Meta has a database of its own, so that its numbers are its own.
func d1Meta() testCase {
	own := func(s object) object { s["db"] = "META"; return s }
	replaced := func(name string, i int, part, by string) wrong {
		return changes(name, func(o *observation) {
			o.Answers[i].Value = json.RawMessage(strings.Replace(compact(o.Answers[i].Value), part, by, 1))
		})
	}
	c := database("d1-meta", "run and all give rows and meta: changes, the last row id, the size and whether anything changed",
		[]object{
			own(as(step("CREATE TABLE m (id INTEGER PRIMARY KEY, a)"), "run")), own(as(step("INSERT INTO m (a) VALUES (1), (2), (3)"), "run")),
			own(as(step("UPDATE m SET a = 5 WHERE id > 1 RETURNING id"), "run")), own(step("SELECT a FROM m WHERE id = 1")), own(step("SELECT a FROM m")), own(as(step("DROP TABLE m"), "first")),
		},
		nil,
		replaced("run loses a row", 2, `{"id":2},`, ""), replaced("changes are not counted", 1, `"changes":3`, `"changes":0`),
		replaced("a read changes", 3, `"changed_db":false`, `"changed_db":true`), replaced("the size is unknown", 4, `"size_after":`, `"size_was":`),
	)
	c.check = func(o *observation) error {
		want := []string{
			`"changed_db":true,"changes":0,`, `"changed_db":true,"changes":3,"last_row_id":3,`, `"changed_db":true,"changes":2,"last_row_id":3,`,
			`"changed_db":false,"changes":0,"last_row_id":3,`, `"changed_db":false,"changes":0,"last_row_id":3,"rows_read":3,"rows_written":0,"served_by":"runlot"`,
		}
		rows := []string{"[]", "[]", `[{"id":2},{"id":3}]`, `[{"a":1}]`, `[{"a":1},{"a":5},{"a":5}]`}
		for i, w := range want {
			got := compact(o.Answers[i].Value)
			if !strings.Contains(got, w) || !strings.Contains(got, `"size_after":`) || !strings.Contains(got, `"results":`+rows[i]+`,"success":true`) {
				return fmt.Errorf("answer %d: %s lacks %s or %s", i, got, w, rows[i])
			}
		}
		return nil
	}
	return c
}

// d1Shared is judged by what one app finds of what another wrote.
func d1Shared() testCase {
	rows := as(step("SELECT n FROM shared_rows ORDER BY rowid"), "raw")
	create := as(step("CREATE TABLE shared_rows (n)"), "first")
	create["db"], rows["db"] = "SHARED", "SHARED"
	c := database("d1-shared", "bindings of one identity share the database, in one app and across apps, also one in the classic syntax; other databases do not have it",
		nil, []string{"null", "1", `[["from the script"]]`, "Error: D1_ERROR: no such table: shared_rows: SQLITE_ERROR"},
		answers("the other app's row is not there", 2, "[]"), accepted("another database has the table", 3),
	)
	c.drive = func(r *run) {
		r.keep(r.post("/", []object{create}))
		script := *r
		script.c = &testCase{app: "d1script"}
		r.keep(script.post("/", nil))
		r.keep(r.post("/", []object{rows, step("SELECT n FROM shared_rows")}))
	}
	return c
}

// d1Cancel is judged by what follows a caller that goes away in the middle of a batch: its statement would run for a
// minute, or to the end of its time.
func d1Cancel() testCase {
	const long = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c) SELECT sum(x) FROM c"
	own := func(s object) object { s["db"] = "SLOW"; return s }
	c := database("d1-cancel", "a request that is cancelled ends its statement, whose batch is rolled back, and the next caller has its turn",
		nil, []string{"null", "0", "true"},
		answers("the cancelled batch is there", 1, "1"), answers("the statement runs on to the end of its time", 2, "false"),
	)
	c.drive = func(r *run) {
		r.keep(r.post("/", []object{own(as(step("CREATE TABLE slow (a)"), "first"))}))
		batch, err := json.Marshal([]object{own(object{"batch": []object{step("INSERT INTO slow VALUES (1)"), step(long)}})})
		if err != nil {
			r.Fatal(err)
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.node.url("d1"), strings.NewReader(string(batch)))
		if err != nil {
			r.Fatal(err)
		}
		went := make(chan struct{})
		go func() {
			defer close(went)
			if response, err := http.DefaultClient.Do(request); err == nil {
				_ = response.Body.Close()
				r.Error("the endless statement has an answer")
			}
		}()
		r.writes(filepath.Join(r.node.dir, "state", "d1", "slow.sqlite"))
		cancel()
		<-went
		began := time.Now()
		r.keep(r.post("/", []object{own(as(step("SELECT count(*) n FROM slow"), "first", "n"))}))
		r.o.Answers = append(r.o.Answers, answer{Value: json.RawMessage(fmt.Sprint(time.Since(began) < 20*time.Second))})
	}
	return c
}

// writes waits until somebody is in the middle of writing to a SQLite file: until then this can begin to write itself.
func (r *run) writes(path string) {
	r.Helper()
	c, err := sqlite3.Open(path)
	if err != nil {
		r.Fatal(err)
	}
	defer c.Close()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for {
		err := c.Exec("BEGIN IMMEDIATE")
		if errors.Is(err, sqlite3.BUSY) {
			return
		}
		if err = errors.Join(err, c.Exec("ROLLBACK")); err != nil {
			r.Fatal(err)
		}
		select {
		case <-tick.C:
		case <-deadline:
			r.Fatalf("nobody writes to %s", path)
		}
	}
}
