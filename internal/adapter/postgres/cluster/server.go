package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/runlot/runlot/internal/adapter/postgres/cluster/install"
	"github.com/runlot/runlot/internal/adapter/postgres/cluster/serverlog"
	"github.com/runlot/runlot/internal/core/fault"
)

// process is a program of the build that runs: initdb, or the server's first process.
type process struct {
	*install.Program
	cmd *exec.Cmd
	log *serverlog.Writer
}

// command prepares a program of the build to run as the server's user, with the server's lock handed down.
func (c *Cluster) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := c.build.Command(ctx, program, args...)
	if c.serverLock != nil {
		cmd.ExtraFiles = []*os.File{c.serverLock}
	}
	return cmd
}

// enterData makes the data folder the working folder of a program and returns how the program has to name it. Where the
// user may not enter a folder above it (a state folder below /root), no path leads there, but this process can hand the
// folder itself over: first as an open file, then as the working folder. What is returned stays open until the start.
func (c *Cluster) enterData(cmd *exec.Cmd, data string) (argument string, folder *os.File, err error) {
	folder, err = os.Open(data)
	if err != nil {
		return "", nil, unusable(data, err)
	}
	if c.account.Reaches(data) {
		cmd.Dir = data
		return data, folder, nil
	}
	cmd.Dir = "/proc/self/fd/" + strconv.Itoa(int(folder.Fd()))
	return "/proc/self/cwd", folder, nil
}

// launch starts a command.
func launch(cmd *exec.Cmd, log *serverlog.Writer) (*process, error) {
	cmd.Stderr = log
	program, err := install.Start(cmd)
	if err != nil {
		return nil, err
	}
	return &process{Program: program, cmd: cmd, log: log}, nil
}

// startServer starts the server and waits until it takes connections.
func (c *Cluster) startServer(ctx context.Context) error {
	// A socket that a killed server left behind, and its lock, which names a process that may be another's by now.
	for _, name := range []string{c.SocketPath(), c.SocketPath() + ".lock"} {
		if err := os.Remove(name); err != nil && !os.IsNotExist(err) {
			return unusable(c.runDir, err)
		}
	}
	log := serverlog.New(c.log, func(text string) {
		if strings.Contains(text, "automatic recovery in progress") {
			c.progress("Recovering the database after a crash")
		}
	})
	// The server outlives the context of its start; it is ended by signals alone.
	cmd := c.command(context.WithoutCancel(ctx), install.ServerProgram)
	data, folder, err := c.enterData(cmd, c.dataDir)
	if err != nil {
		return err
	}
	defer folder.Close()
	cmd.Args = append(append(cmd.Args, "-D", data), c.pinned()...)
	p, err := launch(cmd, log)
	if err != nil {
		return c.build.Broken(err, "postgres does not start: %v", err)
	}
	if err := c.waitReady(ctx, p); err != nil {
		stopCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		cancel()
		end(stopCtx, p)
		return err
	}
	c.server = p
	return nil
}

// waitReady watches the status line that the server keeps in postmaster.pid, as pg_ctl does.
func (c *Cluster) waitReady(ctx context.Context, p *process) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	pid := strconv.Itoa(p.cmd.Process.Pid)
	for {
		lines := postmasterFile(c.dataDir)
		if len(lines) > 7 && lines[0] == pid && strings.TrimSpace(lines[7]) == "ready" {
			return nil
		}
		select {
		case <-p.Done():
			return c.explain("PostgreSQL did not start", p)
		case <-ctx.Done():
			return fault.New(fault.Timeout, "postgres_start", "PostgreSQL was not ready in time; %s", p.log.Tail()).WithCause(ctx.Err())
		case <-tick.C:
		}
	}
}

// explain turns the end of a program into a fault with its last words, and with the way out where they are known.
func (c *Cluster) explain(what string, p *process) error {
	text := p.log.Tail()
	f := fault.New(fault.Environment, "postgres_start", "%s in %s; %s", what, c.dir, text).WithCause(p.Err())
	const fullDisk = "free space on the disk of the state folder"
	for _, known := range []struct{ words, hint string }{
		{"No space left on device", fullDisk},
		{"Check free disk space", fullDisk},
		{"Disk quota exceeded", fullDisk},
		{"Cannot allocate memory", "give the machine or the container more memory"},
		{"error while loading shared libraries", install.Hint},
		{"incompatible with server", "the data was made by another build of PostgreSQL: go back to that one"},
		{"could not look up effective user ID", "PostgreSQL makes a data folder only for a user with an entry in /etc/passwd: add one for user " + strconv.Itoa(c.account.UID)},
		{"Permission denied", "make the state folder and all in it belong to user " + c.account.Name},
		{"could not locate a valid checkpoint record", "the data folder is damaged: restore a backup"},
	} {
		if strings.Contains(text, known.words) {
			return f.WithHint("%s", known.hint)
		}
	}
	return f
}

// signal signals the server. One that has ended already needs none.
func (p *process) signal(signal syscall.Signal) { _ = p.cmd.Process.Signal(signal) }

// exit says how the server ended.
func (p *process) exit() string {
	if e, ok := errors.AsType[*exec.ExitError](p.Err()); ok {
		return e.Error()
	}
	return fmt.Sprint(p.Err())
}
