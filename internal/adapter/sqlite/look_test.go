package sqlite

import (
	"errors"
	"testing"

	"github.com/runlot/runlot/internal/core/d1"
)

func TestLookOnlyReads(t *testing.T) {
	d := databases(t, Options{})
	look := func(sql ...string) ([]d1.Result, error) {
		queries := make([]d1.Query, len(sql))
		for i := range sql {
			queries[i] = query(sql[i])
		}
		return d.Look(t.Context(), "x", queries)
	}
	if results, err := look("SELECT count(*) FROM sqlite_schema"); err != nil || results[0].Rows[0][0] != int64(0) || d.Exists("x") || d.Bytes("x") != 0 {
		t.Errorf("a database that does not exist: %+v, %v", results, err)
	}
	run(t, d, query("CREATE TABLE t (a)"), query("CREATE VIRTUAL TABLE words USING fts5 (a)"), query("INSERT INTO t VALUES (1)"))
	if d.Bytes("x") == 0 {
		t.Error("a database with a table has no size")
	}
	for _, sql := range [][]string{
		{"INSERT INTO t VALUES (2)"},
		{"SELECT 1", "DELETE FROM t"},
		{"SELECT 1; UPDATE t SET a = 2"},
		{"WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x"},
		{"DROP TABLE t"},
		{"CREATE INDEX i ON t (a)"},
		{"INSERT INTO words (words) VALUES ('optimize')"},
		{"INSERT INTO t VALUES (3) RETURNING a"},
		{"PRAGMA optimize"},
	} {
		_, err := look(sql...)
		if e, ok := errors.AsType[*d1.Error](err); !ok || e.Text != d1.ReadOnly || e.Query != len(sql)-1 {
			t.Errorf("%q: %v", sql, err)
		}
	}
	for _, sql := range [][]string{
		{"SELECT a FROM t"}, {"SELECT 1", "SELECT a FROM t"}, {"SELECT 1; SELECT a FROM t"}, {"PRAGMA table_info(t)", "SELECT a FROM t"},
	} {
		results, err := look(sql...)
		if err != nil || results[len(results)-1].Rows[0][0] != int64(1) {
			t.Errorf("%q: %+v, %v", sql, results, err)
		}
	}
	// What comes next may write again.
	run(t, d, query("INSERT INTO t VALUES (2)"))
	if n := value(t, d, "SELECT count(*) FROM t"); n != int64(2) {
		t.Errorf("%v rows, want 2", n)
	}
}
