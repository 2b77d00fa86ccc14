package rules

import (
	"path"
	"regexp"
	"strings"

	"github.com/runlot/runlot/internal/config/source"
	"github.com/runlot/runlot/internal/core/app"
)

// D1 reads the declarations of D1 databases of one dialect.
type D1 struct {
	Spelling Spelling
	// Keys are keys that only this dialect has; Entry reads them.
	Keys  []string
	Entry func(entry source.Value)
}

// Read reads the list of databases. An entry without a usable binding or identity is left out: it has been reported.
func (d *D1) Read(v source.Value, names Names, m *app.Manifest) {
	for _, entry := range v.Items() {
		if db, ok := d.database(entry, names); ok {
			m.D1Databases = append(m.D1Databases, db)
		}
	}
}

// table is what a table can be called without quotes.
var table = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`)

func (d *D1) database(entry source.Value, names Names) (app.D1Database, bool) {
	var db app.D1Database
	if !entry.IsObject() {
		return db, false
	}
	name, id := d.Spelling("databaseName"), d.Spelling("databaseId")
	dir, migrationsTable := d.Spelling("migrationsDir"), d.Spelling("migrationsTable")
	entry.Allow(append([]string{bindingKey, name, id, dir, migrationsTable}, d.Keys...)...)
	db = app.D1Database{
		Binding: names.Binding(entry, "DB"), MigrationsDir: app.DefaultMigrationsDir, MigrationsTable: app.DefaultMigrationsTable,
	}
	db.Name, _ = entry.Get(name).Text()
	db.ID, _ = entry.Get(id).Text()
	if !entry.Get(name).Exists() && !entry.Get(id).Exists() {
		entry.Refusef("add "+entry.Line(name, `"my-database"`), "`%s`, the database's name, is missing", name)
	}
	if v := entry.Get(dir); v.Exists() {
		if text, ok := v.Text(); ok {
			db.MigrationsDir = migrationsDir(v, text)
		}
	}
	if v := entry.Get(migrationsTable); v.Exists() {
		if text, ok := v.Text(); ok && !table.MatchString(text) {
			v.Refusef("write it like "+v.Line(v.Key(), `"`+app.DefaultMigrationsTable+`"`),
				"%s is no name of a table: at most 63 letters, digits and _, and no digit first", source.Quote(text))
		} else if ok {
			db.MigrationsTable = text
		}
	}
	if d.Entry != nil {
		d.Entry(entry)
	}
	if db.Name == "" {
		db.Name = db.Binding
	}
	return db, db.Binding != "" && db.Identity() != ""
}

// migrationsDir checks the path of a folder, which may lie beside the project.
func migrationsDir(v source.Value, text string) string {
	switch {
	case strings.Contains(text, `\`):
		v.Refusef("write "+v.Line(v.Key(), source.Quote(strings.ReplaceAll(text, `\`, "/"))), "a path is written with /, not with \\")
	case path.IsAbs(text):
		v.Refusef("give it relative to the folder of this file, like "+v.Line(v.Key(), `"migrations"`),
			"`%s` must be a relative path, found %s", v.Key(), source.Quote(text))
	default:
		return path.Clean(text)
	}
	return app.DefaultMigrationsDir
}
