package clustertest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Superuser is the user of the server that Version15 starts; it needs no password.
const Superuser = "someone"

// Version15 starts the oldest PostgreSQL that serves, from Debian's package, and returns the folder of its socket. The
// test is skipped where it is not installed. The server ends with the test.
func Version15(t *testing.T) string {
	t.Helper()
	const bin = "/usr/lib/postgresql/15/bin"
	if _, err := os.Stat(bin); err != nil {
		t.Skip("no PostgreSQL 15 here")
	}
	dir, err := os.MkdirTemp("/tmp", "runlot-15-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	attributes := &syscall.SysProcAttr{}
	if os.Geteuid() == 0 {
		const nobody = 65534
		attributes.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
		if err := os.Chown(dir, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	data := filepath.Join(dir, "data")
	initdb := exec.CommandContext(t.Context(), filepath.Join(bin, "initdb"), "-D", data, "-U", Superuser, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	initdb.SysProcAttr, initdb.Dir = attributes, "/"
	if out, err := initdb.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	//nolint:noctx // the cleanup ends it with a signal that lets it stop
	server := exec.Command(filepath.Join(bin, "postgres"), "-D", data, "-c", "listen_addresses=", "-c", "unix_socket_directories="+dir)
	server.SysProcAttr, server.Dir = attributes, "/"
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Process.Signal(syscall.SIGINT); _ = server.Wait() })
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := pgx.Connect(ctx, fmt.Sprintf("host=%s user=%s dbname=postgres", dir, Superuser))
		if err == nil {
			_ = conn.Close(ctx)
			return dir
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal(err)
		}
	}
}
