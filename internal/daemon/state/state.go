// Package state is the folder that holds everything that lasts: who uses it, and what is in it.
package state

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/runlot/runlot/internal/adapter/postgres/cluster"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/daemon/d1"
	"github.com/runlot/runlot/internal/daemon/kv"
	"github.com/runlot/runlot/internal/daemon/r2"
)

const (
	// lockName is the file in the state folder that its user has locked. It stays when the rest is deleted: a lock on a
	// file without a name keeps nobody out.
	lockName = "lock"
	// leftoverTime is how long the workers of a killed process may take to let go of their port, leftoverEvery the rhythm
	// at which it is tried.
	leftoverTime  = 5 * time.Second
	leftoverEvery = 20 * time.Millisecond
)

// Objects is the folder, in a state folder, of what Durable Objects store: one folder for each app.
const Objects = "durable-objects"

// Restoring is the folder, in a state folder, of a restore that is under way or was cut off. With it, nothing starts.
const Restoring = ".restoring"

// Folder is a state folder that this process uses, and no other.
type Folder struct {
	Dir  string
	lock *os.File
	// leftover says that the process that used it before was killed.
	leftover bool
}

// RunDir is where the processes of a state folder keep their files; it is emptied by Open.
func RunDir(dir string) string { return filepath.Join(dir, "run") }

// Open makes the state folder if it is new, takes it for this process, empties it when clean is set, and hides it from
// git. Nothing in it is touched while another process uses it. The caller closes it.
func Open(state string, clean bool) (*Folder, error) {
	if clean {
		if err := ours(state); err != nil {
			return nil, err
		}
	}
	//nolint:gosec // the PostgreSQL of a root process runs as another user and has to pass through
	if err := os.MkdirAll(state, 0o711); err != nil {
		return nil, unusable(state, err)
	}
	lock, err := cluster.LockFolder(state)
	if err != nil {
		return nil, err
	}
	f := &Folder{Dir: state, lock: lock}
	if _, err := os.Lstat(filepath.Join(state, Restoring)); err == nil && !clean {
		f.Close()
		return nil, fault.New(fault.Environment, "restore_unfinished", "a restore into %s was cut off before its end", state).
			WithHint("restore the backup again: celld restore FILE --force --data %s", state)
	}
	if err := f.prepare(clean); err != nil {
		f.Close()
		return nil, unusable(state, err)
	}
	return f, nil
}

func (f *Folder) prepare(clean bool) error {
	if clean {
		if err := empty(f.Dir); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(f.Dir, ".gitignore"), []byte("*\n"), 0o600); err != nil {
		return err
	}
	run := RunDir(f.Dir)
	// A process that stops takes its workers' folders with it.
	left, err := os.ReadDir(run)
	f.leftover = err == nil && len(left) > 0
	if err := os.RemoveAll(run); err != nil {
		return err
	}
	return os.Mkdir(run, 0o700)
}

// Close lets another process use the folder.
func (f *Folder) Close() { _ = f.lock.Close() }

// ours refuses a folder that does not look like the state of this program. One that is missing is fine.
func ours(state string) error {
	entries, err := os.ReadDir(state)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return unusable(state, err)
	}
	known := map[string]bool{".gitignore": true, "run": true, "postgres": true, d1.Folder: true, kv.Folder: true, r2.Folder: true, Objects: true, lockName: true, Restoring: true}
	for _, e := range entries {
		if !known[e.Name()] {
			return fault.New(fault.Invalid, "state_foreign", "%s holds %s, which is not the state of Runlot: it is not deleted", state, e.Name()).
				WithHint("name another folder with --state (celld: --data), or delete it yourself")
		}
	}
	return nil
}

// empty deletes what a state folder holds, but for its lock.
func empty(state string) error {
	entries, err := os.ReadDir(state)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == lockName {
			continue
		}
		if err := os.RemoveAll(filepath.Join(state, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

func unusable(state string, err error) error {
	reason := err
	if p, ok := errors.AsType[*os.PathError](err); ok {
		reason = p.Err
	}
	return fault.New(fault.Environment, "state_unusable", "the state folder %s cannot be used: %s", state, reason).
		WithHint("name a folder that you may write to with --state DIR (celld: --data DIR)").WithCause(err)
}

// Listen takes a TCP address. The workers of a process that was killed end with it, but hold its ports until the
// kernel is done with them: after such an end a port in use is tried again for a moment.
func (f *Folder) Listen(ctx context.Context, address string) (net.Listener, error) {
	patience := time.NewTimer(leftoverTime)
	defer patience.Stop()
	tick := time.NewTicker(leftoverEvery)
	defer tick.Stop()
	for {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		if !f.leftover || !errors.Is(err, syscall.EADDRINUSE) {
			return listener, err
		}
		select {
		case <-tick.C:
		case <-patience.C:
			return nil, err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
