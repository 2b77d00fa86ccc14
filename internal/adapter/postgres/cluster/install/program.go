package install

import (
	"os/exec"
	"runtime"
)

// Program is a program of a build that was started.
type Program struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

// Start starts a command that Build.Command made, as one that the kernel ends when this process dies. What the kernel
// looks at is the thread that started the program, so it gets one of its own that lives as long.
func Start(cmd *exec.Cmd) (*Program, error) {
	endWithParent(cmd.SysProcAttr)
	p := &Program{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// Never unlocked: the thread goes with the goroutine.
		runtime.LockOSThread()
		defer close(p.done)
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		<-p.done
		return nil, err
	}
	return p, nil
}

// Done is closed when the program has ended and its output is read.
func (p *Program) Done() <-chan struct{} { return p.done }

// Err waits for the end and returns how it ended, as exec.Cmd.Wait does.
func (p *Program) Err() error {
	<-p.done
	return p.err
}
