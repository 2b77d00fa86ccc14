// Package migrate brings a D1 database's schema up to date: files of SQL with a number before their name, each applied
// once, in order, and recorded in a table of the database itself, as wrangler does.
package migrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/runlot/runlot/internal/core/d1"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

// Database runs queries as one transaction, of which nothing is left when one fails. What a person may see of a failure is
// a d1.Error.
type Database interface {
	Run(ctx context.Context, queries []d1.Query) ([]d1.Result, error)
}

// Set is the migrations of one database.
type Set struct {
	Database Database
	// Files holds the migrations. One that does not exist holds none.
	Files fs.FS
	// Table is the table in which the applied ones are recorded: a plain name.
	Table string
}

// Migration is one file, or one that was applied and whose file is gone.
type Migration struct {
	Name string
	// Applied is when it was applied, as the database says it (UTC); "" while it is not.
	Applied string
	// Missing says that its file is gone.
	Missing bool
}

// List returns the migrations in their order; those without a file come first.
func (s *Set) List(ctx context.Context) ([]Migration, error) {
	names, err := s.names()
	if err != nil {
		return nil, err
	}
	applied, err := s.applied(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]Migration, 0, len(names))
	for _, m := range applied {
		if !slices.Contains(names, m.Name) {
			m.Missing = true
			list = append(list, m)
		}
	}
	for _, name := range names {
		m := Migration{Name: name}
		if i := slices.IndexFunc(applied, func(m Migration) bool { return m.Name == name }); i >= 0 {
			m = applied[i]
		}
		list = append(list, m)
	}
	return list, nil
}

// Pending are the names of those that are not applied.
func Pending(list []Migration) []string {
	var names []string
	for i := range list {
		if list[i].Applied == "" {
			names = append(names, list[i].Name)
		}
	}
	return names
}

// Apply applies what is pending, in order and each as one transaction together with its record, and calls done after each.
// It stops at the first that fails, of which nothing is left; the fault says which statement it was.
func (s *Set) Apply(ctx context.Context, done func(name string)) error {
	list, err := s.List(ctx)
	if err != nil {
		return err
	}
	pending := Pending(list)
	if len(pending) == 0 {
		return nil
	}
	create := `CREATE TABLE IF NOT EXISTS "` + s.Table + `" (
	id INTEGER PRIMARY KEY AUTOINCREMENT,
	name TEXT UNIQUE,
	applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL
)`
	if _, err := s.Database.Run(ctx, []d1.Query{{SQL: create}}); err != nil {
		return failed("the table "+s.Table, nil, 0, err)
	}
	for _, name := range pending {
		text, err := s.read(name)
		if err != nil {
			return err
		}
		// The record first: who else applies the same file at this moment fails by it before anything is done twice.
		record := d1.Query{SQL: `INSERT INTO "` + s.Table + `" (name) VALUES (?)`, Params: []d1.Value{name}}
		if _, err := run(ctx, s.Database, "the migration "+name, text, record); err != nil {
			return err
		}
		done(name)
	}
	return nil
}

// Script runs a text of SQL as one transaction and returns what each of its statements returned. what names the text in
// the fault that says which statement failed.
func Script(ctx context.Context, db Database, what, text string) ([]d1.Result, error) {
	return run(ctx, db, what, text)
}

func run(ctx context.Context, db Database, what, text string, before ...d1.Query) ([]d1.Result, error) {
	statements := d1.WithoutTransaction(d1.Statements(text))
	queries := before
	for _, s := range statements {
		queries = append(queries, d1.Query{SQL: s.Text})
	}
	if len(queries) == 0 {
		return nil, fault.New(fault.Invalid, "d1_empty", "%s holds no statement of SQL", what)
	}
	results, err := db.Run(ctx, queries)
	if err != nil {
		return nil, failed(what, statements, len(before), err)
	}
	return results, nil
}

// failed says which statement failed. The first of the queries were not the text's.
func failed(what string, statements []d1.Statement, first int, err error) error {
	e, ok := errors.AsType[*d1.Error](err)
	if !ok {
		return err
	}
	f := fault.New(fault.Invalid, "d1_statement", "%s failed: %s", what, e.Text)
	if i := e.Query - first; i >= 0 && i < len(statements) {
		s := &statements[i]
		f = fault.New(fault.Invalid, "d1_statement", "%s failed at line %d, statement %d of %d: %s", what, s.Line, i+1, len(statements), e.Text)
	}
	return f.WithHint("nothing of it was applied; correct it and run this again").WithCause(err)
}

// names returns the names of the files in their order: by number, then by name; those without a number come last.
func (s *Set) names() ([]string, error) {
	entries, err := fs.ReadDir(s.Files, ".")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, unreadable("the folder of the migrations", err)
	}
	var names []string
	for _, e := range entries {
		if path.Ext(e.Name()) == ".sql" && !e.IsDir() {
			names = append(names, e.Name())
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(number(a), number(b)), cmp.Compare(a, b)) })
	return names, nil
}

const noNumber = 1 << 62

func number(name string) int64 {
	digits, _, _ := strings.Cut(strings.TrimSuffix(name, ".sql"), "_")
	n, err := strconv.ParseInt(digits, 10, 62)
	if err != nil || n < 0 {
		return noNumber
	}
	return n
}

func (s *Set) read(name string) (string, error) {
	f, err := s.Files.Open(name)
	if err != nil {
		return "", unreadable(name, err)
	}
	text, err := ReadSQL(name, f)
	return text, errors.Join(err, f.Close())
}

// ReadSQL reads a text of SQL of at most queue.D1MigrationBytes. name names it in the fault.
func ReadSQL(name string, r io.Reader) (string, error) {
	text, err := io.ReadAll(io.LimitReader(r, queue.D1MigrationBytes+1))
	switch {
	case err != nil:
		return "", unreadable(name, err)
	case len(text) > queue.D1MigrationBytes:
		return "", fault.New(fault.Limit, "d1_file_size", "%s has more than %d bytes", name, queue.D1MigrationBytes).
			WithHint("divide it into several files")
	}
	return strings.TrimPrefix(string(text), "\ufeff"), nil
}

func unreadable(name string, err error) error {
	reason := err
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		reason = p.Err
	}
	return fault.New(fault.Environment, "d1_unreadable", "%s cannot be read: %s", name, reason).WithHint("look at its kind and its rights").WithCause(err)
}

// applied returns what the table says, in the order in which it was applied.
func (s *Set) applied(ctx context.Context) ([]Migration, error) {
	results, err := s.Database.Run(ctx, []d1.Query{{SQL: "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?", Params: []d1.Value{s.Table}}})
	if err == nil && len(results[0].Rows) > 0 {
		results, err = s.Database.Run(ctx, []d1.Query{{SQL: `SELECT name, applied_at FROM "` + s.Table + `" ORDER BY id`}})
	}
	if err != nil {
		return nil, failed("the table "+s.Table, nil, 0, err)
	}
	var list []Migration
	for _, row := range results[0].Rows {
		if len(row) == 2 {
			list = append(list, Migration{Name: fmt.Sprint(row[0]), Applied: fmt.Sprint(row[1])})
		}
	}
	return list, nil
}

var notNameCharacters = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// Next returns the file name of a new migration with this description, numbered behind all that are there.
func (s *Set) Next(description string) (string, error) {
	slug := strings.Trim(notNameCharacters.ReplaceAllString(description, "_"), "_")
	if slug == "" {
		return "", fault.New(fault.Invalid, "d1_migration_name", "%q names no migration", description).
			WithHint(`say what it does, like "create users"`)
	}
	names, err := s.names()
	if err != nil {
		return "", err
	}
	next := int64(1)
	for _, name := range names {
		if n := number(name); n < noNumber {
			next = max(next, n+1)
		}
	}
	return fmt.Sprintf("%04d_%s.sql", next, slug), nil
}
