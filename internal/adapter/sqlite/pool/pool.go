// Package pool keeps SQLite files whose tables the product itself lays out: one file for each identity in one folder, opened
// at the first use and closed when it was not used for the longest time. Writes that wait for the same file share a commit,
// which is on the disk when they return.
package pool

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/runlot/runlot/internal/adapter/sqlite"
	"github.com/runlot/runlot/internal/core/d1"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

// Options say where the files are and what is in them.
type Options struct {
	// Dir is the folder of the files. It is made at the first use.
	Dir string
	// What names one file for a person, like "KV namespace".
	What string
	// Layout are the statements that make the tables, one text for each version of the layout. They are never changed: a
	// new version is added behind the others, and a file gets those that it lacks.
	Layout []string
	// Log takes what callers must not see.
	Log *slog.Logger
}

// Pool are the files of one folder. Its methods may be called from several goroutines.
type Pool struct {
	o Options

	mu     sync.Mutex
	closed bool
	all    map[string]*file // by identity; guarded by mu
}

// file is one file. Its connection is used by who has the turn.
type file struct {
	path string
	// turn is full while somebody has it.
	turn chan struct{}
	conn *Conn // nil while it is not open

	// callers counts those that have the turn or wait for it, used is when the last one left, and waiting are the writes
	// that nobody has begun; guarded by Pool.mu.
	callers int
	used    time.Time
	waiting []*write
}

// write is a write that waits for a commit. err is set before done is closed.
type write struct {
	ctx  context.Context //nolint:containedctx // that of the caller, who waits for done
	do   func(*Conn) error
	err  error
	done chan struct{}
}

// Errors that a caller may look for.
var (
	// ErrClosed is a call after Close.
	ErrClosed = errors.New("the store is closed")
	// ErrBusy is a call that finds too many before it, or waits for them too long.
	ErrBusy = errors.New("too many calls wait for the store")
)

// New returns the files of a folder. Nothing is made before the first use.
func New(o Options) *Pool { return &Pool{o: o, all: map[string]*file{}} }

// Path returns the file of an identity, which need not exist.
func (p *Pool) Path(identity string) string { return filepath.Join(p.o.Dir, d1.FileName(identity)) }

// Exists reports whether the file was ever used.
func (p *Pool) Exists(identity string) bool {
	_, err := os.Lstat(p.Path(identity))
	return err == nil
}

// Read runs do alone on the file, in one transaction that sees one moment and that do only reads in. When ctx ends, the
// statement under way is ended.
func (p *Pool) Read(ctx context.Context, identity string, do func(*Conn) error) error {
	f, err := p.enter(identity, nil)
	if err != nil {
		return err
	}
	defer p.leave(f)
	if _, err := f.take(ctx, nil); err != nil {
		return err
	}
	defer f.give()
	if err := p.open(f); err != nil {
		return err
	}
	f.conn.SetInterrupt(ctx)
	err = f.conn.Exec("BEGIN")
	if err == nil {
		err = do(f.conn)
	}
	f.conn.SetInterrupt(context.Background())
	if endErr := f.conn.rollBack(); endErr != nil {
		p.shut(f)
		err = errors.Join(err, endErr)
	}
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// Write runs do on the file as a whole, of which nothing is left when it fails, and returns when that is on the disk. A call
// whose ctx ends before it has begun does nothing; one that has begun comes to its end.
func (p *Pool) Write(ctx context.Context, identity string, do func(*Conn) error) error {
	w := &write{ctx: ctx, do: do, done: make(chan struct{})}
	f, err := p.enter(identity, w)
	if err != nil {
		return err
	}
	defer p.leave(f)
	turn, err := f.take(ctx, w.done)
	if err != nil && p.withdraw(f, w) {
		return err
	}
	if turn {
		for !w.isDone() {
			p.commit(f)
		}
		f.give()
	}
	<-w.done // at once, or soon: somebody has begun it
	return w.err
}

func (w *write) isDone() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// enter registers a caller, with its write unless that is nil.
func (p *Pool) enter(identity string, w *write) (*file, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, ErrClosed
	}
	f := p.all[identity]
	if f == nil {
		f = &file{path: p.Path(identity), turn: make(chan struct{}, 1)}
		p.all[identity] = f
	}
	if f.callers >= queue.StoreWaiting {
		return nil, ErrBusy
	}
	f.callers++
	if w != nil {
		f.waiting = append(f.waiting, w)
	}
	return f, nil
}

// leave takes the caller back, and closes the file that nobody has called for the longest time when too many are open.
func (p *Pool) leave(f *file) {
	if oldest := p.left(f); oldest != nil {
		p.shut(oldest)
	}
}

// left returns the file that is to be closed, which nobody can reach any more, or nil.
func (p *Pool) left(f *file) *file {
	p.mu.Lock()
	defer p.mu.Unlock()
	f.callers--
	f.used = time.Now()
	if len(p.all) <= queue.StoreOpen {
		return nil
	}
	var name string
	var oldest *file
	for identity, other := range p.all {
		if other.callers == 0 && (oldest == nil || other.used.Before(oldest.used)) {
			name, oldest = identity, other
		}
	}
	if oldest != nil {
		delete(p.all, name)
	}
	return oldest
}

// take waits for the turn and reports whether it has it: not when done is closed before.
func (f *file) take(ctx context.Context, done <-chan struct{}) (bool, error) {
	patience := time.NewTimer(queue.StoreWaitTime)
	defer patience.Stop()
	select {
	case f.turn <- struct{}{}:
		return true, nil
	case <-done:
		return false, nil
	case <-ctx.Done():
		return false, ctx.Err()
	case <-patience.C:
		return false, ErrBusy
	}
}

// give lets the next one have the turn.
func (f *file) give() { <-f.turn }

// withdraw takes back a write that nobody has begun, and reports whether it could.
func (p *Pool) withdraw(f *file, w *write) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := slices.Index(f.waiting, w)
	if at < 0 {
		return false
	}
	f.waiting = slices.Delete(f.waiting, at, at+1)
	return true
}

// next takes the writes of one commit.
func (p *Pool) next(f *file) []*write {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := min(len(f.waiting), queue.StoreGroup)
	group := slices.Clone(f.waiting[:n])
	f.waiting = slices.Delete(f.waiting, 0, n)
	return group
}

// commit makes the writes that wait, and has the turn.
func (p *Pool) commit(f *file) {
	group := p.next(f)
	err := p.open(f)
	if err == nil {
		err = f.conn.all(group)
	}
	if f.conn != nil && f.conn.spent {
		p.shut(f)
	}
	if err != nil && !errors.Is(err, sqlite3.FULL) {
		p.o.Log.Error("a "+p.o.What+" cannot be written", "file", f.path, "error", fault.Detail(err))
	}
	for _, w := range group {
		if w.err == nil {
			w.err = err
		}
		close(w.done)
	}
}

// Close waits for who has a turn, refuses all others and closes every file. Twice is fine.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	all := p.all
	p.all = map[string]*file{}
	p.mu.Unlock()
	for _, f := range all {
		f.turn <- struct{}{}
		for {
			p.mu.Lock()
			rest := len(f.waiting)
			p.mu.Unlock()
			if rest == 0 {
				break
			}
			p.commit(f)
		}
		p.shut(f)
		f.give()
	}
}

// Remove removes the file of an identity with all that is in it, unless allow, which looks at it alone, returns an error. A
// call that comes later finds an empty file. One that does not exist is removed already.
func (p *Pool) Remove(ctx context.Context, identity string, allow func(*Conn) error) error {
	if !p.Exists(identity) {
		return nil
	}
	f, err := p.enter(identity, nil)
	if err != nil {
		return err
	}
	defer p.leave(f)
	if _, err := f.take(ctx, nil); err != nil {
		return err
	}
	defer f.give()
	if err := p.open(f); err != nil {
		return err
	}
	if err := allow(f.conn); err != nil {
		return err
	}
	p.shut(f)
	// The file itself goes first: without it, nobody opens what is left.
	for _, ending := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(f.path + ending); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return sqlite.SyncFolder(p.o.Dir)
}

// shut closes the file, which nobody else uses.
func (p *Pool) shut(f *file) {
	if f.conn == nil {
		return
	}
	if err := f.conn.Close(); err != nil {
		p.o.Log.Warn("a "+p.o.What+" did not close cleanly", "file", f.path, "error", err.Error())
	}
	f.conn = nil
}

// Files returns the names of the files that were ever used. A missing folder has none.
func (p *Pool) Files() ([]string, error) { return sqlite.FilesIn(p.o.Dir) }

// Backup copies the file with this name, one of Files, as it is at one moment between two commits, into a new file, which is
// whole and synced when Backup returns and absent when it fails.
func (p *Pool) Backup(ctx context.Context, name, path string) error {
	return sqlite.Copy(ctx, "the "+p.o.What+" "+name, filepath.Join(p.o.Dir, name), path)
}
