// Package d1 wires the D1 databases of a node: their files in the state folder, the door through which workers reach them,
// and what a person does with them from the command line.
package d1

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/runlot/runlot/internal/adapter/sqlite"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/d1"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/migrate"
	server "github.com/runlot/runlot/internal/server/d1"
)

// Folder is the folder of the databases in the state folder.
const Folder = "d1"

// Databases are the D1 databases of a state folder.
type Databases struct {
	files *sqlite.Databases
	door  *server.Door
	// operators bounds what the calls of operators hold in memory.
	operators *semaphore.Weighted
	log       *slog.Logger
}

// New returns the databases in a state folder, each of at most maxBytes; 0 is queue.D1DatabaseBytes. Nothing is made before
// the first use. log takes what workers must not see.
func New(state string, maxBytes int64, log *slog.Logger) *Databases {
	files := sqlite.New(sqlite.Options{Dir: filepath.Join(state, Folder), MaxBytes: maxBytes, Log: log})
	return &Databases{files: files, door: server.NewDoor(files, log), operators: semaphore.NewWeighted(queue.D1Operators), log: log}
}

// Close ends what runs, rolls it back and closes every database. Twice is fine.
func (d *Databases) Close() { d.files.Close() }

// Run runs queries in the database of an identity as one transaction; Look does so with those that only read, see
// sqlite.Databases. Operators have a few such calls at a time.
func (d *Databases) Run(ctx context.Context, identity string, queries []d1.Query) ([]d1.Result, error) {
	return d.operate(ctx, func() ([]d1.Result, error) { return d.files.Run(ctx, identity, queries) })
}

// Look is described at Run.
func (d *Databases) Look(ctx context.Context, identity string, queries []d1.Query) ([]d1.Result, error) {
	return d.operate(ctx, func() ([]d1.Result, error) { return d.files.Look(ctx, identity, queries) })
}

func (d *Databases) operate(ctx context.Context, call func() ([]d1.Result, error)) ([]d1.Result, error) {
	if err := d.operators.Acquire(ctx, 1); err != nil {
		return nil, &d1.Error{Text: d1.QueuedLong, Query: -1, Cause: err}
	}
	defer d.operators.Release(1)
	return call()
}

// Bytes is the size of the database of an identity; 0 when it does not exist.
func (d *Databases) Bytes(identity string) int64 { return d.files.Bytes(identity) }

// Identities are those of the databases that were ever used. One whose identity is no plain name of a file is left out: it is
// known by the app that declares it.
func (d *Databases) Identities() ([]string, error) {
	files, err := d.files.Files()
	var list []string
	for _, name := range files {
		if identity := strings.TrimSuffix(name, filepath.Ext(name)); d1.FileName(identity) == name {
			list = append(list, identity)
		}
	}
	return list, err
}

// Backup copies the database of an identity, as it is between two calls, into a new file.
func (d *Databases) Backup(ctx context.Context, identity, path string) error {
	return d.files.Backup(ctx, identity, path)
}

// BackupAll copies each database that was ever used, as it is between two calls, to a file below scratch, hands that to each
// with the name that it has in the folder, and removes it again.
func (d *Databases) BackupAll(ctx context.Context, scratch string, each func(name, path string) error) error {
	names, err := d.files.Files()
	if err != nil {
		return err
	}
	for _, name := range names {
		path := filepath.Join(scratch, name)
		if err := d.files.BackupFile(ctx, name, path); err != nil {
			return err
		}
		if err := errors.Join(each(name, path), os.Remove(path)); err != nil {
			return err
		}
	}
	return nil
}

// Handler returns what serves a worker process's calls: those of its D1 bindings itself, all others through next, which
// may be nil.
func (d *Databases) Handler(m *app.Manifest, next http.Handler) http.Handler {
	if len(m.D1Databases) == 0 {
		return next
	}
	if next == nil {
		next = http.NotFoundHandler()
	}
	own := d.door.Handler(m)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(server.Header) != "" {
			own.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hintTime bounds the look at what is pending: it is not worth to wait for a database that is at work.
const hintTime = 10 * time.Second

// Hints says, for each database that has pending migrations, how many and how to apply them. dir is the project folder. It
// makes no database. What cannot be looked at is left to the command that it would name.
func (d *Databases) Hints(ctx context.Context, m *app.Manifest, dir string) []string {
	ctx, cancel := context.WithTimeout(ctx, hintTime)
	defer cancel()
	var hints []string
	for i := range m.D1Databases {
		db := &m.D1Databases[i]
		set := d.set(db, dir)
		if !d.files.Exists(db.Identity()) {
			set.Database = nothing{}
		}
		list, err := set.List(ctx)
		pending := migrate.Pending(list)
		if err != nil || len(pending) == 0 {
			continue
		}
		what := fmt.Sprintf("%d migrations", len(pending))
		if len(pending) == 1 {
			what = "1 migration"
		}
		at := ""
		if filepath.Clean(dir) != "." {
			at = " --dir " + dir
		}
		hints = append(hints, fmt.Sprintf("D1 database %s: %s to apply: runlot d1 migrations apply %s%s", db.Name, what, db.Name, at))
	}
	return hints
}

// set returns the migrations of a database.
func (d *Databases) set(db *app.D1Database, dir string) *migrate.Set {
	return &migrate.Set{
		Database: one{d.files, db.Identity()}, Table: db.MigrationsTable,
		Files: os.DirFS(filepath.Join(dir, filepath.FromSlash(db.MigrationsDir))),
	}
}

// one is one of the databases.
type one struct {
	files    *sqlite.Databases
	identity string
}

func (o one) Run(ctx context.Context, queries []d1.Query) ([]d1.Result, error) {
	return o.files.Run(ctx, o.identity, queries)
}

// nothing is a database that does not exist: it has no table.
type nothing struct{}

func (nothing) Run(context.Context, []d1.Query) ([]d1.Result, error) {
	return make([]d1.Result, 1), nil
}

// prepareState makes a state folder that is missing as the daemon would, hidden from git.
func prepareState(state string) error {
	ignore := filepath.Join(state, ".gitignore")
	if _, err := os.Stat(ignore); err == nil {
		return nil
	}
	//nolint:gosec // the PostgreSQL of a root process runs as another user and has to pass through
	err := os.MkdirAll(state, 0o711)
	if err == nil {
		err = os.WriteFile(ignore, []byte("*\n"), 0o600)
	}
	if err != nil {
		reason := err
		if p, ok := errors.AsType[*fs.PathError](err); ok {
			reason = p.Err
		}
		return fault.New(fault.Environment, "state_unusable", "the state folder %s cannot be used: %s", state, reason).
			WithHint("name a folder that you may write to with --state DIR (celld: --data DIR)").WithCause(err)
	}
	return nil
}
