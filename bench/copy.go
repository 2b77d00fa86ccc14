package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// copied is a copy of this program that runs a server in a process of its own.
type copied struct{ cmd *exec.Cmd }

// copy starts one, and reads the line of JSON that it writes when it is ready.
func (b *bench) copy(ctx context.Context, ready any, args ...string) (*copied, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &copied{cmd: exec.CommandContext(ctx, self, args...)}
	c.cmd.Cancel = func() error { return c.cmd.Process.Signal(syscall.SIGTERM) }
	c.cmd.WaitDelay = stopTime
	c.cmd.Env = append(os.Environ(), "RUNLOT_WORKERD="+b.paths.Workerd, "RUNLOT_POSTGRES="+b.paths.Postgres)
	c.cmd.Stderr = os.Stderr
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, ready)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s does not start: %w", args[0], err), c.stop())
	}
	return c, nil
}

func (c *copied) pid() int { return c.cmd.Process.Pid }

// stop ends it as Ctrl-C does and waits.
func (c *copied) stop() error {
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	return c.cmd.Wait()
}
