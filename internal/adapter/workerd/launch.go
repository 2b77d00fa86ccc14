package workerd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/runlot/runlot/internal/adapter/workerd/output"
	"github.com/runlot/runlot/internal/adapter/workerd/render"
	"github.com/runlot/runlot/internal/adapter/workerd/resident"
	"github.com/runlot/runlot/internal/core/queue"
)

// socket is a listener that a child inherits under the name that its configuration gives it; one without a name is a file
// that it holds open.
type socket struct {
	name string
	file *os.File
}

// child is a running workerd.
type child struct {
	cmd            *exec.Cmd
	stdout, stderr *output.Output
	// exited is closed after the process is reaped; state is set before.
	exited chan struct{}
	state  *os.ProcessState
}

// errNotListening is a child that ended before it listened; its reason is on stderr.
var errNotListening = errors.New("workerd ended before it listened")

// raiseFiles lets children have as many open files as this process. Go raises its own limit to what the machine allows,
// and gives a child the lower one from before (often 1,024) unless the program has set one itself. A worker that has no
// descriptor left for a connection ends.
var raiseFiles = sync.OnceFunc(func() {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil {
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit) // it only repeats what holds
	}
})

// launch starts workerd on the configuration in dir and waits until it listens on every socket. When it fails, nothing
// is left running; the child is returned for its output when there was one.
func (r *Runtime) launch(ctx context.Context, dir string, env []string, sockets []socket, flags ...string) (*child, error) {
	raiseFiles()
	control, controlEnd, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("control pipe: %w", err)
	}
	defer control.Close()
	args := append([]string{"serve", filepath.Join(dir, render.ConfigFile), "config", "--control-fd=3"}, flags...)
	files := []*os.File{controlEnd}
	named := 0
	for i, s := range sockets {
		if s.name != "" {
			args = append(args, fmt.Sprintf("--socket-fd=%s=%d", s.name, 4+i))
			named++
		}
		files = append(files, s.file)
	}
	c := &child{
		cmd:    exec.Command(r.binary, args...), //nolint:noctx // the process outlives the context of its start; Kill and Drain end it
		stdout: output.New(queue.OutputBytes), stderr: output.New(queue.OutputBytes),
		exited: make(chan struct{}),
	}
	c.cmd.Env = env
	c.cmd.Dir = dir
	c.cmd.ExtraFiles = files
	c.cmd.Stdout, c.cmd.Stderr = c.stdout, c.stderr
	c.cmd.WaitDelay = time.Second
	c.cmd.SysProcAttr = sysProcAttr()
	started := make(chan error)
	go c.run(started, int64(r.wallMiB)<<20)
	err = <-started
	_ = controlEnd.Close()
	if err != nil {
		return nil, fmt.Errorf("start workerd: %w", err)
	}
	listening := make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() { waitListening(control, named, listening) })
	defer reader.Wait()
	defer control.Close()
	select {
	case <-listening:
		return c, nil
	case <-c.exited:
		return c, errNotListening
	case <-ctx.Done():
		c.kill()
		<-c.exited
		return c, ctx.Err()
	}
}

// waitListening closes listening when workerd has reported that many sockets; it returns at the end of the pipe, or then.
func waitListening(control *os.File, sockets int, listening chan<- struct{}) {
	lines := bufio.NewScanner(control)
	for lines.Scan() {
		if strings.Contains(lines.Text(), `"listen"`) {
			sockets--
		}
		if sockets == 0 {
			close(listening)
			return
		}
	}
}

// run starts the process and reaps it. It keeps its thread: the death of the thread that started a child is what the
// kernel takes for the death of its parent.
func (c *child) run(started chan<- error, wall int64) {
	runtime.LockOSThread() // for good: the thread ends with this goroutine
	err := c.cmd.Start()
	if err == nil {
		_ = resident.Wall(c.cmd.Process.Pid, wall) // what fails is the start itself: the process has ended
	}
	started <- err
	if err != nil {
		return
	}
	_ = c.cmd.Wait() // the state says the same
	c.state = c.cmd.ProcessState
	close(c.exited)
}

// kill ends the process at once; one that has ended is left alone.
func (c *child) kill() { _ = c.cmd.Process.Kill() }

// terminate asks the process to finish what is in flight and to end.
func (c *child) terminate() { _ = c.cmd.Process.Signal(syscall.SIGTERM) }
