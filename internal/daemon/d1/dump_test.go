package d1_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	core "github.com/runlot/runlot/internal/core/d1"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/daemon/d1"
)

func run(t *testing.T, d *d1.Databases, identity, sql string) []core.Result {
	t.Helper()
	statements := core.WithoutTransaction(core.Statements(sql))
	list := make([]core.Query, 0, len(statements))
	for _, s := range statements {
		list = append(list, core.Query{SQL: s.Text})
	}
	results, err := d.Run(t.Context(), identity, list)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return results
}

func dumped(t *testing.T, d *d1.Databases, identity string, o core.Dump) string {
	t.Helper()
	var b strings.Builder
	if err := d.Dump(t.Context(), identity, &o, &b); err != nil {
		t.Fatal(fault.Detail(err))
	}
	return b.String()
}

// TestADumpMakesTheDatabaseAgain, with every kind of value and what hangs on tables.
func TestADumpMakesTheDatabaseAgain(t *testing.T) {
	d := d1.New(t.TempDir(), 0, slog.New(slog.DiscardHandler))
	defer d.Close()
	const schema = `CREATE TABLE "a ""b" (id INTEGER PRIMARY KEY, v, twice AS (id * 2), ref REFERENCES later(k));
CREATE TABLE later (k TEXT PRIMARY KEY, rowid TEXT) WITHOUT ROWID;
CREATE TABLE big (x);
CREATE TABLE huge (x);
CREATE TABLE counted (id INTEGER PRIMARY KEY AUTOINCREMENT, v);
CREATE INDEX by_v ON "a ""b" (v);
CREATE VIEW seen AS SELECT v FROM "a ""b";
CREATE TRIGGER t AFTER INSERT ON later BEGIN SELECT 1; END;`
	run(t, d, "one", schema)
	run(t, d, "one", `INSERT INTO later VALUES ('x''y', 'two
lines'), ('z', NULL);
INSERT INTO "a ""b" (id, v, ref) VALUES (1, NULL, 'z'), (2, 9223372036854775807, NULL), (-3, 0.1, NULL), (4, 1e300, NULL), (5, X'00ff', NULL), (6, CAST(X'610062' AS TEXT), NULL),
 (7, 9e999, NULL), (8, -9e999, NULL), (9, 2.0, NULL), (10, 'é', NULL), (11, X'', NULL), (12, '', NULL);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000) INSERT INTO big SELECT i FROM n;
INSERT INTO big VALUES (hex(zeroblob(40000))), (zeroblob(40000)), (zeroblob(1));
INSERT INTO counted (v) VALUES ('a'), ('b'), ('c');
DELETE FROM counted WHERE v <> 'a';
INSERT INTO huge VALUES (1), (2), (3), (4), (5), (6), (7), (zeroblob(1900000)), (zeroblob(1900000)), (zeroblob(1900000)), (zeroblob(1900000)), (zeroblob(1900000)), (zeroblob(1900000)), (9);
DELETE FROM big WHERE x BETWEEN 100 AND 2000;`)
	// Values that no statement has room for are written all the same.
	if got, want := dumped(t, d, "one", core.Dump{NoSchema: true, Tables: []string{"huge"}}), "('"+strings.Repeat("00", 1_900_000); strings.Count(got, want[2:]) != 6 || !strings.HasSuffix(got, "VALUES(9);\n") {
		t.Errorf("large values: %d bytes", len(got))
	}
	run(t, d, "one", "DELETE FROM huge")
	text := dumped(t, d, "one", core.Dump{})
	run(t, d, "two", text)
	const look = `SELECT id, v, typeof(v), twice, ref FROM "a ""b" ORDER BY id; SELECT * FROM later ORDER BY k; SELECT count(*), sum(length(x)) FROM big; SELECT name, seq FROM sqlite_sequence;
SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name`
	want, got := run(t, d, "one", look), run(t, d, "two", look)
	for i := range want {
		if diff := cmp.Diff(want[i].Rows, got[i].Rows); diff != "" {
			t.Error(diff)
		}
	}
	if again := dumped(t, d, "two", core.Dump{}); again != text {
		t.Errorf("the dump of what a dump made (-want +got):\n%s", cmp.Diff(text, again))
	}

	if text := dumped(t, d, "one", core.Dump{NoData: true}); strings.Contains(text, "INSERT INTO \"") || !strings.Contains(text, "CREATE INDEX by_v") {
		t.Errorf("the schema alone: %s", text)
	}
	if text := dumped(t, d, "one", core.Dump{NoSchema: true, Tables: []string{"later"}}); text !=
		"PRAGMA defer_foreign_keys=TRUE;\nINSERT INTO \"later\" (\"k\",\"rowid\") VALUES('x''y','two\nlines');\nINSERT INTO \"later\" (\"k\",\"rowid\") VALUES('z',NULL);\n" {
		t.Errorf("one table: %s", text)
	}
	if err := d.Dump(t.Context(), "one", &core.Dump{Tables: []string{"none"}}, &strings.Builder{}); fault.From(err).Code != "d1_table" {
		t.Errorf("a table that is not there: %v", err)
	}
	if text := dumped(t, d, "unused", core.Dump{}); text != "PRAGMA defer_foreign_keys=TRUE;\n" {
		t.Errorf("no database: %s", text)
	}
	run(t, d, "search", "CREATE VIRTUAL TABLE docs USING fts5(body)")
	if err := d.Dumpable(t.Context(), "search"); fault.From(err).Code != "d1_virtual" {
		t.Errorf("a virtual table: %v", err)
	}

	if err := d.Remove(t.Context(), "one"); err != nil || d.Bytes("one") != 0 {
		t.Errorf("after its deletion it has %d bytes, %v", d.Bytes("one"), err)
	}
	if list := run(t, d, "one", "SELECT count(*) FROM sqlite_master"); list[0].Rows[0][0] != int64(0) {
		t.Errorf("a database that was deleted has %v", list[0].Rows)
	}
	if err := d.Remove(t.Context(), "never"); err != nil {
		t.Error(err)
	}
}
