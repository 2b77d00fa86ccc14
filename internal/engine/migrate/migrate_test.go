package migrate_test

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/internal/adapter/sqlite"
	"github.com/runlot/runlot/internal/core/d1"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/fault/faulttest"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/migrate"
)

// database is a real one.
type database struct{ files *sqlite.Databases }

func (d database) Run(ctx context.Context, queries []d1.Query) ([]d1.Result, error) {
	return d.files.Run(ctx, "x", queries)
}

// text returns the rows of a query, one a line.
func (d database) text(t *testing.T, sql string) string {
	t.Helper()
	results, err := d.Run(t.Context(), []d1.Query{{SQL: sql}})
	if err != nil {
		t.Fatal(err)
	}
	lines := make([]string, 0, len(results[0].Rows))
	for _, row := range results[0].Rows {
		cells := make([]string, len(row))
		for i, v := range row {
			cells[i], _ = v.(string)
		}
		lines = append(lines, strings.Join(cells, " "))
	}
	return strings.Join(lines, "\n")
}

func folder(files ...string) fstest.MapFS {
	tree := fstest.MapFS{}
	for i := 0; i < len(files); i += 2 {
		tree[files[i]] = &fstest.MapFile{Data: []byte(files[i+1])}
	}
	return tree
}

func set(t *testing.T, files fstest.MapFS) (*migrate.Set, database) {
	t.Helper()
	d := database{sqlite.New(sqlite.Options{Dir: t.TempDir()})}
	t.Cleanup(d.files.Close)
	return &migrate.Set{Database: d, Files: files, Table: "d1_migrations"}, d
}

func apply(t *testing.T, s *migrate.Set) []string {
	t.Helper()
	var done []string
	if err := s.Apply(t.Context(), func(name string) { done = append(done, name) }); err != nil {
		t.Fatal(err)
	}
	return done
}

func TestApply(t *testing.T) {
	trigger := "CREATE TRIGGER t AFTER INSERT ON a BEGIN\n  INSERT INTO b VALUES (new.x);\nEND;\n"
	files := folder("10_ten.sql", "INSERT INTO b VALUES ('ten');", "0001_one.sql", "\ufeffCREATE TABLE a (x);\nCREATE TABLE b (y);\n"+trigger,
		"9_nine.sql", "BEGIN TRANSACTION;\nINSERT INTO a VALUES ('nine');\nCOMMIT;\n", "readme.txt", "no SQL", "later.sql", "INSERT INTO b VALUES ('later')")
	s, d := set(t, files)
	if diff := cmp.Diff([]string{"0001_one.sql", "9_nine.sql", "10_ten.sql", "later.sql"}, apply(t, s)); diff != "" {
		t.Error(diff)
	}
	if got := d.text(t, "SELECT y FROM b ORDER BY rowid"); got != "nine\nten\nlater" {
		t.Errorf("b has %q", got)
	}
	if again := apply(t, s); again != nil {
		t.Errorf("applied twice: %v", again)
	}
	files["0011_more.sql"] = &fstest.MapFile{Data: []byte("INSERT INTO b VALUES ('more')")}
	delete(files, "9_nine.sql")
	list, err := s.List(t.Context())
	if err != nil || !cmp.Equal(migrate.Pending(list), []string{"0011_more.sql"}) {
		t.Errorf("pending: %v, %v", list, err)
	}
	if !list[0].Missing || list[0].Name != "9_nine.sql" || len(list) != 5 || list[1].Missing || len(list[1].Applied) != len("2026-01-01 00:00:00") {
		t.Errorf("list: %+v", list)
	}
	if more := apply(t, s); !cmp.Equal(more, []string{"0011_more.sql"}) {
		t.Errorf("then applied: %v", more)
	}
	// The table is wrangler's.
	want := "id INTEGER\nname TEXT\napplied_at TIMESTAMP"
	if got := d.text(t, "SELECT name, type FROM pragma_table_info('d1_migrations')"); got != want {
		t.Errorf("the table has %q", got)
	}
}

// TestFailure: the first that fails stops, leaves nothing of itself, and says where.
func TestFailure(t *testing.T) {
	s, d := set(t, folder("1_a.sql", "CREATE TABLE a (x)", "2_b.sql", "INSERT INTO a VALUES (1);\n\n-- the next one fails\nINSERT INTO nope\n VALUES (1);", "3_c.sql", "CREATE TABLE c (x)"))
	var done []string
	err := s.Apply(t.Context(), func(name string) { done = append(done, name) })
	faulttest.Want(t, err, fault.Invalid, "d1_statement", "the migration 2_b.sql failed at line 4, statement 2 of 2: no such table: nope")
	if !slices.Equal(done, []string{"1_a.sql"}) {
		t.Errorf("done: %v", done)
	}
	if got := d.text(t, "SELECT name FROM d1_migrations UNION ALL SELECT 'row' FROM a UNION ALL SELECT name FROM sqlite_schema WHERE name = 'c'"); got != "1_a.sql" {
		t.Errorf("left: %q", got)
	}
	s.Files = folder("1_a.sql", "", "2_b.sql", "DROP TABLE a", "3_c.sql", "-- nothing")
	err = s.Apply(t.Context(), func(string) {})
	if err != nil { // a migration without a statement is applied by its record
		t.Fatal(err)
	}
	s.Files = folder("4_big.sql", strings.Repeat(" ", queue.D1MigrationBytes+1))
	faulttest.Want(t, s.Apply(t.Context(), func(string) {}), fault.Limit, "d1_file_size", "4_big.sql")
}

// TestTwoAtOnce: who applies what another has applied meanwhile does nothing twice.
func TestTwoAtOnce(t *testing.T) {
	s, d := set(t, folder("1_a.sql", "CREATE TABLE a (x)", "2_b.sql", "INSERT INTO a VALUES ('once')"))
	other := *s
	err := s.Apply(t.Context(), func(name string) {
		if name == "1_a.sql" {
			apply(t, &other)
		}
	})
	faulttest.Want(t, err, fault.Invalid, "d1_statement", "UNIQUE constraint failed: d1_migrations.name")
	if got := d.text(t, "SELECT x FROM a"); got != "once" {
		t.Errorf("a has %q", got)
	}
}

func TestNoFolder(t *testing.T) {
	s, _ := set(t, nil)
	s.Files = broken{}
	if _, err := s.List(t.Context()); fault.KindOf(err) != fault.Environment {
		t.Error(err)
	}
	s.Files = folder()
	if list, err := s.List(t.Context()); err != nil || len(list) > 0 {
		t.Errorf("%v, %v", list, err)
	}
}

type broken struct{ fstest.MapFS }

func (broken) ReadDir(string) ([]fs.DirEntry, error) { return nil, errors.New("broken") }

func TestNext(t *testing.T) {
	s, _ := set(t, folder())
	for description, want := range map[string]string{"create users": "0001_create_users.sql", " É tables; DROP ": "0001_tables_DROP.sql"} {
		if got, err := s.Next(description); err != nil || got != want {
			t.Errorf("%q: %s, %v", description, got, err)
		}
	}
	s.Files = folder("0007_a.sql", "", "12_b.sql", "", "x.sql", "")
	if got, err := s.Next("a-b"); err != nil || got != "0013_a-b.sql" {
		t.Error(got, err)
	}
	_, err := s.Next("é")
	faulttest.Want(t, err, fault.Invalid, "d1_migration_name", "create users")
}

func TestScript(t *testing.T) {
	_, d := set(t, folder())
	results, err := migrate.Script(t.Context(), d, "--command", "CREATE TABLE a (x); INSERT INTO a VALUES (1); SELECT x FROM a")
	if err != nil || len(results) != 3 || results[2].Rows[0][0] != int64(1) {
		t.Errorf("%v, %v", results, err)
	}
	_, err = migrate.Script(t.Context(), d, "--command", "DELETE FROM a;\nSELEC")
	faulttest.Want(t, err, fault.Invalid, "d1_statement", `--command failed at line 2, statement 2 of 2: near "SELEC": syntax error`)
	_, err = migrate.Script(t.Context(), d, "--command", "-- nothing")
	faulttest.Want(t, err, fault.Invalid, "d1_empty", "no statement")
	if got, err := d.Run(t.Context(), []d1.Query{{SQL: "SELECT x FROM a"}}); err != nil || len(got[0].Rows) != 1 {
		t.Errorf("%v, %v", got, err)
	}
}
