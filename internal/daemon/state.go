package daemon

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/runlot/runlot/internal/adapter/postgres/cluster"
	"github.com/runlot/runlot/internal/core/fault"
)

// prepareState makes the state folder, takes it for this process, and hides it from git. Nothing in a folder that another
// process has is touched: the sockets and the database in it are in use.
func (d *Daemon) prepareState() error {
	//nolint:gosec // the PostgreSQL of a root process runs as another user and has to pass through
	if err := os.MkdirAll(d.o.State, 0o711); err != nil {
		return stateFault(d.o.State, err)
	}
	lock, err := cluster.LockFolder(d.o.State)
	if err != nil {
		return err
	}
	d.lock = lock
	if d.o.Clean {
		if err := clean(d.o.State); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(d.o.State, ".gitignore"), []byte("*\n"), 0o600); err != nil {
		return stateFault(d.o.State, err)
	}
	run := d.runDir()
	if err := os.RemoveAll(run); err != nil {
		return stateFault(d.o.State, err)
	}
	if err := os.Mkdir(run, 0o700); err != nil {
		return stateFault(d.o.State, err)
	}
	return nil
}

// clean empties a state folder, and nothing that does not look like one. The lock stays: this process holds it.
func clean(state string) error {
	entries, err := os.ReadDir(state)
	if err != nil {
		return stateFault(state, err)
	}
	known := map[string]bool{".gitignore": true, "lock": true, "run": true, "postgres": true}
	for _, e := range entries {
		if !known[e.Name()] {
			return fault.New(fault.Invalid, "state_foreign", "%s holds %s, which is not the state of Runlot: it is not deleted", state, e.Name()).
				WithHint("name another folder with --state, or delete it yourself")
		}
	}
	for _, e := range entries {
		if e.Name() == "lock" {
			continue
		}
		if err := os.RemoveAll(filepath.Join(state, e.Name())); err != nil {
			return stateFault(state, err)
		}
	}
	return nil
}

func stateFault(state string, err error) error {
	reason := err
	if p, ok := errors.AsType[*os.PathError](err); ok {
		reason = p.Err
	}
	return fault.New(fault.Environment, "state_unusable", "the state folder %s cannot be used: %s", state, reason).
		WithHint("name a folder that you may write to with --state DIR").WithCause(err)
}
