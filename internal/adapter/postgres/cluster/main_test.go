package cluster_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/runlot/runlot/internal/adapter/postgres/cluster"
	"github.com/runlot/runlot/internal/adapter/postgres/cluster/clustertest"
	"github.com/runlot/runlot/internal/core/fault"
)

// holderVariable makes the test program run a cluster in the folder that it names, until it is killed.
const holderVariable = "RUNLOT_TEST_HOLD_CLUSTER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(holderVariable); dir != "" {
		hold(dir)
	}
	goleak.VerifyTestMain(clustertest.Main(m))
}

func hold(dir string) {
	install, err := clustertest.Install()
	if err == nil {
		_, err = cluster.Start(context.Background(), cluster.Options{Install: install, Dir: dir})
	}
	if err != nil {
		fmt.Println("failed:", fault.Detail(err))
		os.Exit(1)
	}
	fmt.Println("ready")
	select {}
}

// startHolder starts another process that runs the cluster of dir.
func startHolder(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), holderVariable+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	line, _ := bufio.NewReader(out).ReadString('\n')
	if line != "ready\n" {
		t.Fatalf("the other process says %q", line)
	}
	return cmd
}

// recorder keeps what a cluster logs and tells.
type recorder struct {
	mu       sync.Mutex
	progress []string
	log      strings.Builder
}

func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.Write(p)
}

func (r *recorder) tell(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.progress = append(r.progress, text)
}

func (r *recorder) told(words string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Contains(strings.Join(r.progress, "\n"), words)
}

func (r *recorder) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.String()
}

func options(t *testing.T, dir string) (cluster.Options, *recorder) {
	t.Helper()
	install, err := clustertest.Install()
	if err != nil {
		t.Fatal(err)
	}
	r := &recorder{}
	log := slog.New(slog.NewTextHandler(r, &slog.HandlerOptions{Level: slog.LevelDebug}))
	return cluster.Options{Install: install, Dir: dir, Log: log, Progress: r.tell}, r
}

// start starts a cluster that is stopped after the test.
func start(t *testing.T, dir string) (*cluster.Cluster, *recorder) {
	t.Helper()
	o, r := options(t, dir)
	c, err := cluster.Start(t.Context(), o)
	if err != nil {
		t.Fatalf("start: %s\n%s", fault.Detail(err), r.text())
	}
	t.Cleanup(func() { stop(t, c) })
	return c, r
}

func stop(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	if err := c.Stop(context.Background()); err != nil {
		t.Errorf("stop: %v", err)
	}
}

func ensure(t *testing.T, c *cluster.Cluster, name string) cluster.Access {
	t.Helper()
	access, err := c.EnsureDatabase(t.Context(), name)
	if err != nil {
		t.Fatal(fault.Detail(err))
	}
	return access
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func dataOf(dir string) string { return filepath.Join(dir, "data") }
