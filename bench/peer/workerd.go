package peer

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// Workerd is the runtime with its own durable queue, which keeps messages in SQLite, fsynced: "workerd serve
// wrangler.jsonc --experimental".
type Workerd struct {
	// URL is where the app listens.
	URL string

	cmd    *exec.Cmd
	errors bytes.Buffer
}

// StartWorkerd runs the project in dir and returns when it listens. State is kept inside dir.
func StartWorkerd(ctx context.Context, binary, dir string) (*Workerd, error) {
	control, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer control.Close()
	w := &Workerd{cmd: exec.CommandContext(ctx, binary, "serve", filepath.Join(dir, "wrangler.jsonc"), "--experimental",
		"--control-fd=3", "--socket-addr", "http=127.0.0.1:0")}
	w.cmd.Dir = dir
	w.cmd.ExtraFiles = []*os.File{write}
	w.cmd.Stderr = &w.errors
	w.cmd.WaitDelay = time.Second
	err = w.cmd.Start()
	_ = write.Close()
	if err != nil {
		return nil, err
	}
	var listen struct {
		Event string
		Port  int
	}
	line, err := bufio.NewReader(control).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &listen)
	}
	if err != nil || listen.Event != "listen" {
		return nil, errors.Join(fmt.Errorf("workerd does not start: %w: %s", err, bytes.TrimSpace(w.errors.Bytes())), w.Stop())
	}
	w.URL = "http://127.0.0.1:" + strconv.Itoa(listen.Port)
	return w, nil
}

// PID is the process.
func (w *Workerd) PID() int { return w.cmd.Process.Pid }

// Stop asks the process to end, and kills it when it does not.
func (w *Workerd) Stop() error {
	kill := time.AfterFunc(10*time.Second, func() { _ = w.cmd.Process.Kill() })
	defer kill.Stop()
	_ = w.cmd.Process.Signal(syscall.SIGTERM)
	err := w.cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.Exited() {
		return fmt.Errorf("workerd: %w: %s", err, bytes.TrimSpace(w.errors.Bytes()))
	}
	return nil
}
