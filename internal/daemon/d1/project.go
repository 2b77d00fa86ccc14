package d1

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/runlot/runlot/internal/adapter/postgres/cluster"
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
	// Remote, when set, reaches the database where the app runs; State does not count then.
	Remote Remote
}

// Remote reaches the databases of an app where it runs.
type Remote interface {
	// Run runs queries in the database of a name as one transaction, see sqlite.Databases. With readOnly, they only read, and
	// no database is made.
	Run(ctx context.Context, database string, queries []d1.Query, readOnly bool) ([]d1.Result, error)
}

// remote is one database of a Remote.
type remote struct {
	Remote
	name     string
	readOnly bool
}

func (r remote) Run(ctx context.Context, queries []d1.Query) ([]d1.Result, error) {
	return r.Remote.Run(ctx, r.name, queries, r.readOnly)
}

// Project is one database of a project, from the command line: the file itself while no program has it open, and the
// program otherwise.
type Project struct {
	Database app.D1Database
	// MigrationsDir is the folder of the migrations.
	MigrationsDir string

	databases *Databases // nil of a remote one
	remote    *remote    // nil of one in a state folder
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
	db, err := Find(loaded.Manifest, filepath.Base(loaded.File), choice.Database)
	if err != nil {
		return nil, err
	}
	if choice.Remote != nil {
		return Reach(choice.Remote, db, loaded.Dir()), nil
	}
	state, err := filepath.Abs(choice.StateFolder())
	if err != nil {
		return nil, fmt.Errorf("state folder: %w", err)
	}
	if err := unused(state); err != nil {
		return nil, err
	}
	p := &Project{Database: *db, databases: New(state, 0, log)}
	p.set = p.databases.set(db, loaded.Dir())
	p.set.Database = lazy{one{p.databases.files, db.Identity()}, state}
	p.MigrationsDir = filepath.Join(loaded.Dir(), filepath.FromSlash(db.MigrationsDir))
	return p, nil
}

// StateFolder is the state folder that is meant.
func (c *Choice) StateFolder() string {
	if c.State == "" {
		return filepath.Join(c.Dir, ".runlot")
	}
	return c.State
}

// Reach returns a database where its app runs. dir is the project folder.
func Reach(r Remote, db *app.D1Database, dir string) *Project {
	at := &remote{Remote: r, name: db.Name}
	return &Project{
		Database: *db, remote: at, MigrationsDir: filepath.Join(dir, filepath.FromSlash(db.MigrationsDir)),
		set: &migrate.Set{Database: at, Table: db.MigrationsTable, Files: os.DirFS(filepath.Join(dir, filepath.FromSlash(db.MigrationsDir)))},
	}
}

// unused refuses a state folder that a program uses at this moment: what it has open is its own.
func unused(state string) error {
	if _, err := os.Lstat(filepath.Join(state, "lock")); err != nil {
		return nil //nolint:nilerr // no program has ever used it
	}
	lock, err := cluster.LockFolder(state)
	if err != nil {
		if f := fault.From(err); f.Kind == fault.Conflict {
			return f.WithHint("reach its databases through it: --server URL of the celld that runs there")
		}
		return err
	}
	return lock.Close()
}

// Sized is a database with its size in bytes; 0 while nothing has used it.
type Sized struct {
	app.D1Database

	Bytes int64
}

// List returns the databases that a project declares, as they are in its state folder.
func List(choice Choice) ([]Sized, error) {
	loaded, err := config.Load(choice.Dir, config.Choice{File: choice.Config, Env: choice.Env, NoSecrets: true})
	if err != nil {
		return nil, err
	}
	databases := New(choice.StateFolder(), 0, nil)
	defer databases.Close()
	list := make([]Sized, len(loaded.Manifest.D1Databases))
	for i := range list {
		db := loaded.Manifest.D1Databases[i]
		list[i] = Sized{db, databases.Bytes(db.Identity())}
	}
	return list, nil
}

// Find returns the database that a person means. file names what declares the databases.
func Find(m *app.Manifest, file, name string) (*app.D1Database, error) {
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
func (p *Project) Close() {
	if p.databases != nil {
		p.databases.Close()
	}
}

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
	if p.remote != nil {
		look := *p.remote
		look.readOnly = true
		set.Database = &look
		return set.List(ctx)
	}
	if !p.databases.files.Exists(p.Database.Identity()) {
		set.Database = nothing{}
	}
	return set.List(ctx)
}

// Apply applies the pending migrations in order and calls done after each.
func (p *Project) Apply(ctx context.Context, done func(name string)) error {
	return p.set.Apply(ctx, done)
}

// Declared are the migrations of a database that exists nowhere yet. dir is the project folder.
func Declared(db *app.D1Database, dir string) ([]Migration, error) {
	set := migrate.Set{Database: nothing{}, Table: db.MigrationsTable, Files: os.DirFS(filepath.Join(dir, filepath.FromSlash(db.MigrationsDir)))}
	return set.List(context.Background())
}

// Pending are the names of those that are not applied.
func Pending(list []Migration) []string { return migrate.Pending(list) }

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
