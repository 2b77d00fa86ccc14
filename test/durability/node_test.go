//go:build linux

package durability_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	// The program is built by the test; the import has the test run again when the program changes.
	_ "github.com/runlot/runlot/internal/cli"
	"github.com/runlot/runlot/test/port"
)

const (
	// startTime bounds everything that a start or a recovery may take on a busy machine; the first start makes a cluster.
	startTime = 60 * time.Second
	// stopTime bounds a clean stop, and the end of what a killed process leaves behind.
	stopTime = 30 * time.Second
	// pollEvery is the rhythm at which things are looked at that nothing announces.
	pollEvery = 20 * time.Millisecond
)

// node is runlot dev over one state folder; it is started again and again.
type node struct {
	t       *testing.T
	binary  string
	app     string
	state   string
	port    int
	output  *output
	command *exec.Cmd
	exited  chan struct{} // closed when the process is reaped
	served  bool          // since its last start
	// excused: a part of it was killed before it served, and without its parts a start may fail.
	excused bool
}

// newNode builds the program and prepares a project that reports to a collector.
func newNode(t *testing.T, collector string) *node {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	// Not below t.TempDir, which other users cannot enter: PostgreSQL is one when the test runs as root.
	dir, err := os.MkdirTemp("", "runlot-durability-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	n := &node{
		t: t, binary: filepath.Join(dir, "runlot"), app: filepath.Join(dir, "app"), state: filepath.Join(dir, "state"),
		port: port.Free(t), output: newOutput(t),
	}
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", n.binary, "./cmd/runlot")
	build.Dir = root
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, text)
	}
	for _, err := range []error{
		os.Chmod(dir, 0o711),
		os.CopyFS(n.app, os.DirFS("testdata/app")),
		os.WriteFile(filepath.Join(n.app, ".dev.vars"), []byte("COLLECTOR="+collector+"\n"), 0o600),
		os.Symlink(filepath.Join(root, "node_modules"), filepath.Join(dir, "node_modules")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if n.running() {
			kill([]int{n.pid()}, func() {})
			<-n.exited
		}
		// None is left but after a failure.
		for _, p := range of(n.state) {
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
		}
		for _, line := range n.output.errors {
			t.Errorf("runlot reported an error: %s", line)
		}
		if t.Failed() {
			t.Logf("the last lines of runlot:\n%s", n.output.tail())
		}
	})
	return n
}

func (n *node) url() string { return "http://127.0.0.1:" + strconv.Itoa(n.port) }

func (n *node) pid() int { return n.command.Process.Pid }

// start starts the program; it does not wait until it serves.
func (n *node) start() {
	n.t.Helper()
	n.command = exec.Command(n.binary, "dev", n.app, "--state", n.state, "--port", strconv.Itoa(n.port), "--verbose")
	n.command.Dir = filepath.Dir(n.app)
	n.command.Stdout, n.command.Stderr = n.output, n.output
	n.command.WaitDelay = time.Second
	if err := n.command.Start(); err != nil {
		n.t.Fatal(err)
	}
	n.exited = make(chan struct{})
	n.served, n.excused = false, false
	go func(c *exec.Cmd, exited chan struct{}) {
		_ = c.Wait()
		close(exited)
	}(n.command, n.exited)
}

func (n *node) running() bool {
	if n.command == nil {
		return false
	}
	select {
	case <-n.exited:
		return false
	default:
		return true
	}
}

// await waits until a condition holds. It fails the test when that takes too long or when the node ends meanwhile; one
// that is excused is started again, and has to succeed then.
func (n *node) await(what string, holds func() bool) {
	n.t.Helper()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	deadline := time.After(startTime)
	for !holds() {
		select {
		case <-tick.C:
		case <-n.exited:
			if n.excused && n.command.ProcessState.ExitCode() == 1 {
				n.output.notef("the start failed, as it may; again")
				n.start()
				continue
			}
			n.t.Fatalf("%s: runlot ended by itself (%s)", what, n.command.ProcessState)
		case <-deadline:
			n.t.Fatalf("%s: not within %s", what, startTime)
		}
	}
}

// stop ends the node as Ctrl-C does.
func (n *node) stop() {
	n.t.Helper()
	if err := n.command.Process.Signal(syscall.SIGINT); err != nil {
		n.t.Fatal(err)
	}
	select {
	case <-n.exited:
	case <-time.After(stopTime):
		n.t.Fatalf("an interrupt does not stop runlot within %s", stopTime)
	}
	if code := n.command.ProcessState.ExitCode(); code != 0 {
		n.t.Errorf("runlot stopped with code %d, want 0", code)
	}
}

// victims are the processes that a kind of kill ends, and those that have to be gone with them; nil while there are none.
func (n *node) victims(kind string, pick int) (pids []int, others func() []process) {
	list := processes()
	postmasters := children(list, n.pid(), "postgres")
	workers := children(list, n.pid(), "workerd")
	below := func() []process {
		now := processes()
		families := make([][]process, len(pids))
		for i, pid := range pids {
			families[i] = family(now, pid)
		}
		return slices.Concat(families...)
	}
	switch kind {
	case killNode:
		return []int{n.pid()}, func() []process { return family(processes(), n.pid()) }
	case killWorkerd:
		if len(workers) > 0 {
			pids = []int{workers[pick%len(workers)].pid}
		}
	case killPostmaster:
		if len(postmasters) > 0 {
			pids = []int{postmasters[0].pid}
		}
	case killBackend, killSession:
		if len(postmasters) == 0 {
			return nil, nil
		}
		s := sessions(list, postmasters[0].pid)
		if len(s) == 0 {
			return nil, nil
		}
		victim := s[pick%len(s)]
		if kind == killSession {
			return []int{victim.pid}, func() []process { return []process{victim} }
		}
		// The server ends all the others: one of them may have left the shared memory in disorder.
		return []int{victim.pid}, func() []process { return children(processes(), postmasters[0].pid, "postgres") }
	case killAll:
		if len(workers) > 0 && len(postmasters) > 0 {
			pids = []int{n.pid(), postmasters[0].pid, workers[0].pid}
		}
	default:
		panic("no such kind of kill: " + kind)
	}
	return pids, below
}

// kill ends processes of a kind, waits until what they left behind is gone, and starts the node again when it was one of
// them: at once if that is wanted, so that it meets what is left, else when everything is gone by itself. It returns the
// moment of the kill.
func (n *node) kill(kind string, pick int, atOnce bool) time.Time {
	n.t.Helper()
	var pids []int
	var others func() []process
	n.await("a process to kill ("+kind+")", func() bool {
		pids, others = n.victims(kind, pick)
		return len(pids) > 0
	})
	var orphans []process
	look := func() { orphans = others() }
	at := time.Now()
	switch kind {
	case killSession:
		look()
		_ = syscall.Kill(pids[0], syscall.SIGTERM)
	case killNode, killAll:
		kill(pids, look)
		<-n.exited
		if atOnce {
			n.start()
		}
	default:
		kill(pids, look)
	}
	if !n.gone(orphans) {
		n.t.Fatalf("%s after the kill of %s, still there: %v", stopTime, kind, alive(orphans))
	}
	switch {
	case kind != killNode && kind != killAll:
		n.excused = !n.served
	case !atOnce:
		n.start()
	}
	return at
}

// gone waits for the end of processes, whatever becomes of the node meanwhile.
func (n *node) gone(list []process) bool {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	deadline := time.After(stopTime)
	for len(alive(list)) > 0 {
		select {
		case <-tick.C:
		case <-deadline:
			return false
		}
	}
	return true
}

// output keeps what the node prints, in the folder of the test's artifacts and its last part in memory.
type output struct {
	file *os.File

	mu     sync.Mutex
	text   []byte   // guarded by mu
	errors []string // what the program takes for defects of its own; guarded by mu
}

// outputKept is how much of the output is shown when the test fails, in bytes.
const outputKept = 16 << 10

func newOutput(t *testing.T) *output {
	t.Helper()
	file, err := os.Create(filepath.Join(t.ArtifactDir(), "runlot.log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return &output{file: file}
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for line := range bytes.Lines(p) {
		// Lines of batches are many and tell little.
		if !bytes.Contains(line, []byte(" delivered")) && !bytes.Contains(line, []byte("on purpose")) {
			o.text = append(o.text, line...)
		}
		if bytes.Contains(line, []byte(`"level":"ERROR"`)) || bytes.HasPrefix(line, []byte("panic:")) {
			o.errors = append(o.errors, string(line))
		}
	}
	o.text = o.text[max(0, len(o.text)-outputKept):]
	return o.file.Write(p)
}

func (o *output) notef(format string, args ...any) {
	fmt.Fprintf(o, "%s  --- "+format+"\n", append([]any{time.Now().Format("15:04:05.000")}, args...)...)
}

func (o *output) tail() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.TrimSpace(string(o.text))
}

// client is what the test speaks to the app with. A call outlives the time that the product gives a send.
var client = &http.Client{Timeout: 15 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
