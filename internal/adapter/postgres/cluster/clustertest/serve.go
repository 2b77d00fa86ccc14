package clustertest

import (
	"bufio"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/runlot/runlot/internal/adapter/postgres/cluster"
	"github.com/runlot/runlot/internal/adapter/postgres/cluster/install"
	"github.com/runlot/runlot/internal/core/fault"
)

// Start starts a cluster of the test's own, to be stopped early, changed or broken, and returns it with its state folder. It
// is stopped after the test at the latest.
func Start(tb testing.TB) (c *cluster.Cluster, state string) {
	tb.Helper()
	dir, err := Install()
	if err != nil {
		tb.Fatalf("clustertest: %v", err)
	}
	state = Dir(tb)
	if c, err = cluster.Start(tb.Context(), cluster.Options{Install: dir, Dir: state}); err != nil {
		tb.Fatalf("clustertest: %s", fault.Detail(err))
	}
	tb.Cleanup(func() {
		if err := c.Stop(context.Background()); err != nil {
			tb.Errorf("clustertest: %v", err)
		}
	})
	return c, state
}

// Serve runs the server on the data of a stopped cluster, as a person could: not by the package cluster, and with
// settings of their own ("fsync=off") that it does not allow. State is the cluster's state folder. Serve returns the
// folder of the socket and the server's process, which ends after the test.
func Serve(tb testing.TB, state string, settings ...string) (socketDir string, server *os.Process) {
	tb.Helper()
	dir, err := Install()
	if err != nil {
		tb.Fatalf("clustertest: %v", err)
	}
	return ServeBuild(tb, dir, state, settings...)
}

// ServeBuild is Serve with another build of PostgreSQL, the one in the folder dir.
func ServeBuild(tb testing.TB, dir, state string, settings ...string) (socketDir string, server *os.Process) {
	tb.Helper()
	data := filepath.Join(state, "data")
	account, err := install.FindAccount(data)
	if err != nil {
		tb.Fatalf("clustertest: %v", err)
	}
	socketDir = Dir(tb)
	if err := account.Give(socketDir); err != nil {
		tb.Fatalf("clustertest: %v", err)
	}
	build, err := install.Prepare(tb.Context(), install.Options{Dir: dir, Account: account, State: state, Run: socketDir})
	if err != nil {
		tb.Fatalf("clustertest: %v", err)
	}
	cmd := build.Command(context.Background(), install.ServerProgram, "-D", data, "-c", "unix_socket_directories="+socketDir, "-c", "listen_addresses=")
	for _, setting := range settings {
		cmd.Args = append(cmd.Args, "-c", setting)
	}
	log, logEnd, err := os.Pipe()
	if err != nil {
		tb.Fatalf("clustertest: %v", err)
	}
	cmd.Stderr = logEnd
	program, err := install.Start(cmd)
	_ = logEnd.Close()
	if err != nil {
		_ = log.Close()
		tb.Fatalf("clustertest: %v", err)
	}
	lines := bufio.NewScanner(log)
	read := make(chan struct{})
	tb.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = program.Err()
		<-read
		_ = log.Close()
	})
	var said strings.Builder
	for lines.Scan() {
		said.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), "ready to accept connections") {
			// A server whose log nobody reads comes to a standstill.
			go func() {
				defer close(read)
				for lines.Scan() {
				}
			}()
			return socketDir, cmd.Process
		}
	}
	close(read)
	tb.Fatalf("clustertest: PostgreSQL does not start:\n%s", said.String())
	return "", nil
}
