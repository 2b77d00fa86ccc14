package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
)

// server is the server's first process.
type server struct {
	cmd  *exec.Cmd
	log  *logWriter
	done chan struct{}
	err  error
}

// command prepares a program of the build to run as the server's user, with nothing in its environment but what it
// needs, and with the server's lock handed down.
func (c *Cluster) command(ctx context.Context, inst *install, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, inst.bin(name), args...)
	cmd.Env = append([]string{"LC_ALL=C", "TZ=UTC", "PATH=/usr/bin:/bin"}, inst.env...)
	cmd.Dir = "/"
	cmd.SysProcAttr = processAttributes(c.account)
	if c.serverLock != nil {
		cmd.ExtraFiles = []*os.File{c.serverLock}
	}
	cmd.WaitDelay = stopImmediate
	return cmd
}

// dataArgument returns how a program whose working folder is the data folder names it. Where the user may not enter
// a folder above it (a state folder below /root), only the working folder itself, inherited, leads there.
func (c *Cluster) dataArgument(data string) string {
	if c.account.reaches(data) {
		return data
	}
	return "/proc/self/cwd"
}

// launch starts a command on a thread of its own that lives until it ends: the kernel ends the child of a thread that
// is gone. ended is closed after the end.
func launch(cmd *exec.Cmd) (ended <-chan struct{}, result func() error, err error) {
	started, done := make(chan error, 1), make(chan struct{})
	var exit error
	go func() {
		// Never unlocked: the thread goes with the goroutine.
		runtime.LockOSThread()
		defer close(done)
		err := cmd.Start()
		started <- err
		if err == nil {
			exit = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		<-done
		return nil, nil, err
	}
	return done, func() error { <-done; return exit }, nil
}

// startServer starts the server and waits until it takes connections.
func (c *Cluster) startServer(ctx context.Context) error {
	// A socket that a killed server left behind, and its lock, which names a process that may be another's by now.
	for _, name := range []string{c.SocketPath(), c.SocketPath() + ".lock"} {
		if err := os.Remove(name); err != nil && !os.IsNotExist(err) {
			return unusable(c.runDir, err)
		}
	}
	log := &logWriter{log: c.log, line: func(text string) {
		if strings.Contains(text, "automatic recovery in progress") {
			c.progress("Recovering the database after a crash")
		}
	}}
	// The server outlives the context of its start; it is ended by signals alone.
	cmd := c.command(context.WithoutCancel(ctx), c.install, "postgres", append([]string{"-D", c.dataArgument(c.dataDir)}, c.pinned()...)...)
	cmd.Dir = c.dataDir
	cmd.Stderr = log
	ended, result, err := launch(cmd)
	if err != nil {
		return brokenInstall(c.install.dir, err, "postgres does not start: %v", err)
	}
	s := &server{cmd: cmd, log: log, done: make(chan struct{})}
	go func() {
		<-ended
		s.err = result()
		close(s.done)
	}()
	if err := c.waitReady(ctx, s); err != nil {
		stopCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		cancel()
		end(stopCtx, s)
		return err
	}
	c.server = s
	return nil
}

// waitReady watches the status line that the server keeps in postmaster.pid, as pg_ctl does.
func (c *Cluster) waitReady(ctx context.Context, s *server) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	pid := strconv.Itoa(s.cmd.Process.Pid)
	for {
		lines := postmasterFile(c.dataDir)
		if len(lines) > 7 && lines[0] == pid && strings.TrimSpace(lines[7]) == "ready" {
			return nil
		}
		select {
		case <-s.done:
			return c.explain("PostgreSQL did not start", s.log, s.err)
		case <-ctx.Done():
			return fault.New(fault.Timeout, "postgres_start", "PostgreSQL was not ready in time; %s", s.log.tail()).WithCause(ctx.Err())
		case <-tick.C:
		}
	}
}

// explain turns the end of a program into a fault with its last words, and with the way out where they are known.
func (c *Cluster) explain(what string, log *logWriter, err error) error {
	text := log.tail()
	f := fault.New(fault.Environment, "postgres_start", "%s in %s; %s", what, c.dir, text).WithCause(err)
	for _, known := range []struct{ words, hint string }{
		{"No space left on device", "free space on the disk of the state folder"},
		{"Disk quota exceeded", "free space on the disk of the state folder"},
		{"Cannot allocate memory", "give the machine or the container more memory"},
		{"error while loading shared libraries", installHint},
		{"incompatible with server", "the data was made by another build of PostgreSQL: go back to that one"},
		{"could not look up effective user ID", "PostgreSQL makes a data folder only for a user with an entry in /etc/passwd: add one for user " + strconv.Itoa(c.account.uid)},
		{"Permission denied", "make the state folder and all in it belong to user " + c.account.name},
		{"could not locate a valid checkpoint record", "the data folder is damaged: restore a backup"},
	} {
		if strings.Contains(text, known.words) {
			return f.WithHint("%s", known.hint)
		}
	}
	return f
}

// signal signals the server. One that has ended already needs none.
func (s *server) signal(signal syscall.Signal) { _ = s.cmd.Process.Signal(signal) }

// exit says how the server ended.
func (s *server) exit() string {
	if e, ok := errors.AsType[*exec.ExitError](s.err); ok {
		return e.Error()
	}
	return fmt.Sprint(s.err)
}
