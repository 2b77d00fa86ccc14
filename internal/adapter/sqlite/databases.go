// Package sqlite keeps D1 databases: one SQLite file for each identity in one folder, in WAL mode with every commit synced.
// A database runs one call at a time, in the order in which the calls came; different databases do not wait for each other.
// SQL reaches its own database and nothing else of the machine. Another process may open the same files: SQLite's locks
// let one write at a time.
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/runlot/runlot/internal/core/d1"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

// Options say where the databases are.
type Options struct {
	// Dir is the folder of the files. It is made at the first use.
	Dir string
	// MaxBytes is the largest size of one database in bytes; 0 means queue.D1DatabaseBytes.
	MaxBytes int64
	// Log takes what callers must not see.
	Log *slog.Logger
}

// Databases are the databases of one folder. Its methods may be called from several goroutines.
type Databases struct {
	o Options
	// statementTime is less in tests.
	statementTime time.Duration
	alive         context.Context //nolint:containedctx // the life of the databases, which no call's context is
	stop          context.CancelFunc

	// running has the calls that run.
	running *semaphore.Weighted

	mu     sync.Mutex
	closed bool
	all    map[string]*database // by identity; guarded by mu
}

// database is one file. Its connection is used by who has the turn.
type database struct {
	path string
	turn *semaphore.Weighted
	conn *conn // nil while it is not open
	// callers counts those that have the turn or wait for it, and used is when the last one left; guarded by Databases.mu.
	callers int
	used    time.Time
}

// errClosed is the reason of calls that come after Close.
var errClosed = errors.New("the D1 databases are closed")

// New returns the databases of a folder. Nothing is opened before the first use.
func New(o Options) *Databases {
	if o.MaxBytes == 0 {
		o.MaxBytes = queue.D1DatabaseBytes
	}
	d := &Databases{o: o, statementTime: queue.D1StatementTime, running: semaphore.NewWeighted(queue.D1Running), all: map[string]*database{}}
	d.alive, d.stop = context.WithCancel(context.Background())
	return d
}

// Path returns the file of an identity, which need not exist.
func (d *Databases) Path(identity string) string {
	return filepath.Join(d.o.Dir, d1.FileName(identity))
}

// Bytes is the size of a database, with what is not in its file yet; 0 when it does not exist.
func (d *Databases) Bytes(identity string) int64 {
	size := int64(0)
	for _, part := range []string{"", "-wal"} {
		if info, err := os.Lstat(d.Path(identity) + part); err == nil {
			size += info.Size()
		}
	}
	return size
}

// Exists reports whether the database has been used before.
func (d *Databases) Exists(identity string) bool {
	_, err := os.Lstat(d.Path(identity))
	return err == nil
}

// Run runs the queries in order as one transaction, of which nothing is left when one of them fails, and returns what each
// of them returned; queries that hold no statement return nothing. The database is made when it does not exist. An error
// that the caller made, or may see, is a d1.Error; when ctx ends, the statement under way is ended and rolled back.
func (d *Databases) Run(ctx context.Context, identity string, queries []d1.Query) ([]d1.Result, error) {
	return d.enterAndRun(ctx, identity, queries, false)
}

// Look is Run for queries that only read: one that writes is refused. A database that does not exist is empty, and is not
// made.
func (d *Databases) Look(ctx context.Context, identity string, queries []d1.Query) ([]d1.Result, error) {
	if d.Exists(identity) {
		return d.enterAndRun(ctx, identity, queries, true)
	}
	dir, err := os.MkdirTemp("", "runlot-d1-")
	if err != nil {
		return nil, fault.New(fault.Environment, "d1_folder", "no temporary folder can be made").WithCause(err)
	}
	defer os.RemoveAll(dir)
	empty := New(Options{Dir: dir, Log: d.o.Log})
	defer empty.Close()
	return empty.enterAndRun(ctx, "empty", queries, true)
}

func (d *Databases) enterAndRun(ctx context.Context, identity string, queries []d1.Query, readOnly bool) ([]d1.Result, error) {
	db, err := d.enter(identity)
	if err != nil {
		return nil, err
	}
	defer d.leave(db)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.alive, cancel)()
	if err := take(ctx, db.turn); err != nil {
		return nil, err
	}
	defer db.turn.Release(1)
	if err := take(ctx, d.running); err != nil {
		return nil, err
	}
	defer d.running.Release(1)
	results, err := db.run(ctx, d, queries, readOnly)
	if broken(err) {
		d.o.Log.ErrorContext(ctx, "a D1 database cannot be read or written", "file", db.path, "error", fault.Detail(err))
	}
	return results, err
}

// enter registers a caller.
func (d *Databases) enter(identity string) (*database, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, errClosed
	}
	db := d.all[identity]
	if db == nil {
		db = &database{path: d.Path(identity), turn: semaphore.NewWeighted(1)}
		d.all[identity] = db
	}
	if db.callers > queue.D1Waiting {
		return nil, &d1.Error{Text: d1.QueuedMany, Query: -1}
	}
	db.callers++
	return db, nil
}

// leave takes the caller back, and closes the database that nobody has called for the longest time when too many are open.
func (d *Databases) leave(db *database) {
	if oldest := d.left(db); oldest != nil {
		d.shut(oldest)
	}
}

// left returns the database that is to be closed, which nobody can reach any more, or nil.
func (d *Databases) left(db *database) *database {
	d.mu.Lock()
	defer d.mu.Unlock()
	db.callers--
	db.used = time.Now()
	if len(d.all) <= queue.D1Open {
		return nil
	}
	var name string
	var oldest *database
	for identity, other := range d.all {
		if other.callers == 0 && (oldest == nil || other.used.Before(oldest.used)) {
			name, oldest = identity, other
		}
	}
	delete(d.all, name)
	return oldest
}

// shut closes a database that has no callers.
func (d *Databases) shut(db *database) {
	if db.conn == nil {
		return
	}
	if err := db.conn.Close(); err != nil {
		d.o.Log.Warn("a D1 database did not close cleanly", "file", db.path, "error", err.Error())
	}
	db.conn = nil
}

// take waits for a turn.
func take(ctx context.Context, turn *semaphore.Weighted) error {
	wait, cancel := context.WithTimeout(ctx, queue.D1WaitTime)
	defer cancel()
	if err := turn.Acquire(wait, 1); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("wait for the D1 database: %w", ctx.Err())
		}
		return &d1.Error{Text: d1.QueuedLong, Query: -1}
	}
	return nil
}

// run has the turn. A connection that is not as it was is given up, and the next call opens another.
func (db *database) run(ctx context.Context, d *Databases, queries []d1.Query, readOnly bool) (results []d1.Result, err error) {
	if db.conn == nil {
		if err := makeFolder(d.o.Dir); err != nil {
			return nil, err
		}
		if db.conn, err = open(ctx, db.path, d.o.MaxBytes); err != nil {
			return nil, err
		}
		db.conn.statementTime = d.statementTime
	}
	sound := false
	defer func() {
		if sound && !db.conn.spent {
			return
		}
		d.shut(db)
		if reason := recover(); reason != nil {
			if err = outOfMemory(reason); err == nil {
				panic(reason)
			}
		}
	}()
	results, err = db.conn.call(ctx, queries, readOnly)
	sound = true
	return results, err
}

// Remove deletes the database of an identity when the calls before have ended. One that comes behind makes it anew. Faults:
// those of a call that waits.
func (d *Databases) Remove(ctx context.Context, identity string) error {
	db, err := d.enter(identity)
	if err != nil {
		return err
	}
	defer d.leave(db)
	if err := take(ctx, db.turn); err != nil {
		return err
	}
	defer db.turn.Release(1)
	d.shut(db)
	var errs error
	for _, part := range []string{"-wal", "-shm", ""} { // the file last: without it, the others are nothing
		if err := os.Remove(db.path + part); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = errors.Join(errs, err)
		}
	}
	if errs != nil {
		return fault.New(fault.Environment, "d1_remove", "the D1 database %s cannot be deleted", identity).WithCause(errs)
	}
	return nil
}

// Close ends what runs, rolls it back and closes every database. Twice is fine.
func (d *Databases) Close() {
	d.stop()
	d.mu.Lock()
	d.closed = true
	all := d.all
	d.all = map[string]*database{}
	d.mu.Unlock()
	for _, db := range all {
		// Those that wait have been sent away, and what runs is being interrupted.
		if err := db.turn.Acquire(context.Background(), 1); err == nil {
			d.shut(db)
			db.turn.Release(1)
		}
	}
}

func makeFolder(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		reason := err
		if p, ok := errors.AsType[*fs.PathError](err); ok {
			reason = p.Err
		}
		return fault.New(fault.Environment, "d1_folder", "the folder %s of the D1 databases cannot be made: %s", dir, reason).
			WithHint("look at the rights of the state folder").WithCause(err)
	}
	return nil
}
