package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
)

// How long the server that a killed process left behind may take for each step of its end: a fast shutdown, which
// writes a checkpoint, then an immediate one, then a kill.
const (
	leftoverFast      = 30 * time.Second
	leftoverImmediate = 7 * time.Second
	leftoverKill      = 5 * time.Second
	// pollEvery is the rhythm at which files are looked at that nothing announces.
	pollEvery = 5 * time.Millisecond
)

// LockFolder takes the state folder dir, which exists, for this process, until the file that it returns is closed or the
// process ends. A folder that another process has is a conflict, which names that process.
func LockFolder(dir string) (*os.File, error) {
	path := filepath.Join(dir, "lock")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, unusable(dir, err)
	}
	got, err := tryLock(file)
	if got {
		if err = file.Truncate(0); err == nil {
			_, err = file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
		}
		if err != nil {
			return nil, errors.Join(unusable(dir, err), file.Close())
		}
		return file, nil
	}
	defer file.Close()
	if err != nil {
		return nil, fault.New(fault.Environment, "state_lock", "the state folder %s cannot be locked", dir).
			WithHint("use a folder on a local disk").WithCause(err)
	}
	holder := "another process"
	text, err := os.ReadFile(path)
	if pid, errPID := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && errPID == nil {
		holder = "process " + strconv.Itoa(pid)
	}
	return nil, fault.New(fault.Conflict, "state_in_use", "the state folder %s is in use by %s", dir, holder).
		WithHint("stop it first, or choose another folder with --state (celld: --data)")
}

// tryLock reports whether it got the lock. Not getting it because another has it is no error.
func tryLock(file *os.File) (bool, error) {
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, syscall.EINTR):
			return false, err
		}
	}
}

// lockServer takes the lock that the server's processes hold, after it has ended those that an earlier process left
// behind, and clears away what they left in the data folder.
func (c *Cluster) lockServer(ctx context.Context) error {
	path := filepath.Join(c.dir, "server.lock")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return unusable(c.dir, err)
	}
	c.serverLock = file
	got, err := tryLock(file)
	if err != nil {
		return fmt.Errorf("lock %s: %w", path, err)
	}
	if !got {
		c.progress("Stopping the PostgreSQL server that an earlier process left behind")
		if err := c.endLeftover(ctx); err != nil {
			return err
		}
	}
	pid := postmasterPID(c.dataDir)
	if pid == 0 || !seesProcesses {
		return nil
	}
	if slices.Contains(processesIn(c.dataDir), pid) {
		return fault.New(fault.Conflict, "postgres_running", "a PostgreSQL server that this program did not start, process %d, runs in %s", pid, c.dataDir).
			WithHint("stop it first")
	}
	// No server runs here. The process id in the file may by now be that of something else, which PostgreSQL could not
	// tell from a server.
	if err := os.Remove(filepath.Join(c.dataDir, "postmaster.pid")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return unusable(c.dataDir, err)
	}
	return nil
}

// endLeftover makes the processes that hold the server lock end, gently at first.
func (c *Cluster) endLeftover(ctx context.Context) error {
	for _, step := range []struct {
		signal syscall.Signal
		wait   time.Duration
	}{{syscall.SIGINT, leftoverFast}, {syscall.SIGQUIT, leftoverImmediate}, {syscall.SIGKILL, leftoverKill}} {
		postmaster := postmasterPID(c.dataDir)
		pids := processesIn(c.dataDir)
		for _, pid := range pids {
			switch {
			case pid == postmaster || step.signal == syscall.SIGKILL:
				signalServer(pid, c.dataDir, step.signal)
			case !slices.Contains(pids, postmaster):
				// Its head is dead: what is left of the server has no work to save.
				signalServer(pid, c.dataDir, syscall.SIGQUIT)
			}
		}
		got, err := c.waitServerLock(ctx, step.wait)
		if got || err != nil {
			return err
		}
	}
	return fault.New(fault.Conflict, "postgres_running", "a PostgreSQL server that an earlier process started still runs in %s and cannot be stopped from here", c.dataDir).
		WithHint("it may run in another container that shares the folder: stop that one")
}

// signalServer signals a process if it still is one of the data folder's: a process id may be given to another program
// at any moment, which the handle rules out.
func signalServer(pid int, data string, signal syscall.Signal) {
	process, err := os.FindProcess(pid)
	if err != nil {
		return
	}
	defer func() { _ = process.Release() }()
	if slices.Contains(processesIn(data), pid) {
		_ = process.Signal(signal)
	}
}

func (c *Cluster) waitServerLock(ctx context.Context, wait time.Duration) (bool, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, wait, errStep)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		if got, err := tryLock(c.serverLock); got || err != nil {
			return got, err
		}
		select {
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), errStep) {
				return false, nil
			}
			return false, ctx.Err()
		case <-tick.C:
		}
	}
}

// errStep ends one step of endLeftover.
var errStep = errors.New("time for the next step")

// postmasterPID returns the process id in postmaster.pid, or 0.
func postmasterPID(data string) int {
	lines := postmasterFile(data)
	if len(lines) == 0 {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(lines[0]))
	if err != nil {
		return 0
	}
	return pid
}

func postmasterFile(data string) []string {
	text, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return nil
	}
	return strings.Split(string(text), "\n")
}

func unusable(dir string, err error) *fault.Error {
	f := fault.New(fault.Environment, "state_folder", "the state folder %s cannot be used: %v", dir, err).WithCause(err)
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return f.WithHint("free space on its disk")
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return f.WithHint("make it writable for this user, or choose another with --state (celld: --data)")
	}
	return f.WithHint("choose another with --state (celld: --data)")
}
