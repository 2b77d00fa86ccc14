package d1

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/runlot/runlot/internal/config"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/d1"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/engine/migrate"
	server "github.com/runlot/runlot/internal/server/d1"
)

// Choice names a project and its state, as a person does.
type Choice struct {
	// Dir is the project folder; Config and Env choose where it leaves a choice.
	Dir, Config, Env string
	// State is the state folder; "" is the one that a development run of the project uses.
	State string
	// Database is the name, the binding or the id of one of the project's databases; "" is the only one.
	Database string
}

// Project is one database of a project, from the command line: the file itself, which a development run may have open at
// the same time. SQLite lets one of them write at a time.
type Project struct {
	Database app.D1Database
	// MigrationsDir is the folder of the migrations.
	MigrationsDir string

	databases *Databases
	set       *migrate.Set
}

// Migration is one migration of a project.
type Migration = migrate.Migration

// Open finds a database of a project. It makes nothing.
func Open(choice Choice, log *slog.Logger) (*Project, error) {
	loaded, err := config.Load(choice.Dir, config.Choice{File: choice.Config, Env: choice.Env, NoSecrets: true})
	if err != nil {
		return nil, err
	}
	db, err := find(loaded.Manifest, filepath.Base(loaded.File), choice.Database)
	if err != nil {
		return nil, err
	}
	state := choice.State
	if state == "" {
		state = filepath.Join(choice.Dir, ".runlot")
	}
	if state, err = filepath.Abs(state); err != nil {
		return nil, fmt.Errorf("state folder: %w", err)
	}
	p := &Project{Database: *db, databases: New(state, log)}
	p.set = p.databases.set(db, loaded.Dir())
	p.set.Database = lazy{one{p.databases.files, db.Identity()}, state}
	p.MigrationsDir = filepath.Join(loaded.Dir(), filepath.FromSlash(db.MigrationsDir))
	return p, nil
}

// find returns the database that a person means.
func find(m *app.Manifest, file, name string) (*app.D1Database, error) {
	var known []string
	for i := range m.D1Databases {
		db := &m.D1Databases[i]
		if name != "" && (db.Name == name || db.Binding == name || db.ID == name) {
			return db, nil
		}
		known = append(known, db.Name)
	}
	switch {
	case len(known) == 0:
		return nil, fault.New(fault.NotFound, "d1_none", "%s declares no D1 database", file).
			WithHint("add one to `d1_databases` (in runlot.json: `d1Databases`)")
	case name == "" && len(known) == 1:
		return &m.D1Databases[0], nil
	case name == "":
		return nil, fault.New(fault.Invalid, "d1_several", "%s declares several D1 databases", file).
			WithHint("name one of %s", strings.Join(known, ", "))
	}
	return nil, fault.New(fault.NotFound, "d1_unknown", "%s declares no D1 database %s", file, name).WithHint("it declares %s", strings.Join(known, ", "))
}

// lazy makes the state folder before the database.
type lazy struct {
	one
	state string
}

func (l lazy) Run(ctx context.Context, queries []d1.Query) ([]d1.Result, error) {
	if err := prepareState(l.state); err != nil {
		return nil, err
	}
	return l.one.Run(ctx, queries)
}

// Close closes the database.
func (p *Project) Close() { p.databases.Close() }

// Execute runs a text of SQL as one transaction and returns what each statement returned. what names the text in the fault
// that says which statement failed.
func (p *Project) Execute(ctx context.Context, what, text string) ([]d1.Result, error) {
	return migrate.Script(ctx, p.set.Database, what, text)
}

// ExecuteFile does the same with a file.
func (p *Project) ExecuteFile(ctx context.Context, path string) ([]d1.Result, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fault.New(fault.NotFound, "d1_file", "the file %s cannot be opened", path).WithHint("look at its path and its rights").WithCause(err)
	}
	defer f.Close()
	text, err := migrate.ReadSQL(path, f)
	if err != nil {
		return nil, err
	}
	return p.Execute(ctx, path, text)
}

// JSON writes results as D1 does: for each statement its rows as objects, and its meta.
func JSON(results []d1.Result) []byte { return server.Encode(results, false) }

// Migrations returns the migrations in their order. It makes no database.
func (p *Project) Migrations(ctx context.Context) ([]Migration, error) {
	set := *p.set
	if !p.databases.files.Exists(p.Database.Identity()) {
		set.Database = nothing{}
	}
	return set.List(ctx)
}

// Apply applies the pending migrations in order and calls done after each.
func (p *Project) Apply(ctx context.Context, done func(name string)) error {
	return p.set.Apply(ctx, done)
}

// Create makes the file of a new migration and returns its path.
func (p *Project) Create(description string, now time.Time) (string, error) {
	name, err := p.set.Next(description)
	if err != nil {
		return "", err
	}
	path := filepath.Join(p.MigrationsDir, name)
	text := fmt.Sprintf("-- Migration number: %s \t %s\n", strings.SplitN(name, "_", 2)[0], now.UTC().Format("2006-01-02T15:04:05.000Z"))
	if err = os.MkdirAll(p.MigrationsDir, 0o755); err == nil { //nolint:gosec // the folder is part of the project's sources
		err = os.WriteFile(path, []byte(text), 0o644) //nolint:gosec // so is the file
	}
	if err != nil {
		return "", fault.New(fault.Environment, "d1_create", "%s cannot be written", path).WithHint("look at the rights of the folder").WithCause(err)
	}
	return path, nil
}
