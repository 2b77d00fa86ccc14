package cluster_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/runlot/runlot/internal/adapter/postgres/cluster"
	"github.com/runlot/runlot/internal/adapter/postgres/cluster/clustertest"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/fault/faulttest"
)

func TestSecondStartGoesOnWhereTheFirstStopped(t *testing.T) {
	dir := clustertest.Dir(t)
	began := time.Now()
	c, told := start(t, dir)
	t.Logf("first start %v", time.Since(began))
	if !told.told("Creating the database cluster") {
		t.Errorf("progress was %q", told.progress)
	}
	access := ensure(t, c, "default")
	conn := clustertest.Connect(t, access.AppURL())
	clustertest.Exec(t, conn, "CREATE TABLE kept AS SELECT 'here' AS word")
	// An open transaction must not hold a stop up.
	clustertest.Exec(t, conn, "BEGIN; INSERT INTO kept VALUES ('never')")
	stop(t, c)
	stop(t, c)
	<-c.Done()
	if err := c.Err(); err != nil {
		t.Errorf("Err after Stop is %v", err)
	}
	if left := cluster.ProcessesIn(dataOf(dir)); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}

	began = time.Now()
	c, told = start(t, dir)
	t.Logf("second start %v", time.Since(began))
	if told.told("Creating") || told.told("Recovering") {
		t.Errorf("progress was %q", told.progress)
	}
	again := ensure(t, c, "default")
	if again.App.Password != access.App.Password {
		t.Error("the password changed")
	}
	if got := clustertest.One[string](t, clustertest.Connect(t, again.AppURL()), "SELECT string_agg(word, ',') FROM kept"); got != "here" {
		t.Errorf("kept is %q", got)
	}
}

func TestSettings(t *testing.T) {
	dir := clustertest.Dir(t)
	c, _ := start(t, dir)
	admin, err := c.Admin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// What would lose messages cannot be set even by an operator; the rest can.
	for _, sql := range []string{"fsync = off", "full_page_writes = off", "synchronous_commit = off", "listen_addresses = '*'", "checkpoint_timeout = '7min'"} {
		clustertest.Exec(t, admin, "ALTER SYSTEM SET "+sql)
	}
	admin.Close(t.Context())
	stop(t, c)
	c, _ = start(t, dir)
	access := ensure(t, c, "default")
	conn := clustertest.Connect(t, access.OwnerURL())
	for name, want := range map[string]string{
		"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on", "listen_addresses": "",
		"data_checksums": "on", "server_encoding": "UTF8", "password_encryption": "scram-sha-256",
		"max_wal_size": "4GB", "jit": "off", "max_connections": strconv.Itoa(cluster.MaxConnections), "checkpoint_timeout": "7min",
	} {
		if got := clustertest.One[string](t, conn, "SELECT current_setting($1)", name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	socketDir, port := c.Socket()
	info, err := os.Stat(socketDir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the socket's folder has mode %v (%v)", info.Mode(), err)
	}
	if got := filepath.Join(socketDir, ".s.PGSQL."+strconv.Itoa(port)); got != c.SocketPath() {
		t.Errorf("socket %s, path %s", got, c.SocketPath())
	}
	// A Ctrl-C at the terminal goes to a whole process group.
	if group, err := syscall.Getpgid(c.PID()); err != nil || group == syscall.Getpgrp() {
		t.Errorf("the server is in this process's group (%v)", err)
	}
	if os.Geteuid() == 0 {
		if info, err := os.Stat("/proc/" + strconv.Itoa(c.PID())); err != nil || info.Sys().(*syscall.Stat_t).Uid == 0 {
			t.Errorf("the server runs as root (%v)", err)
		}
	}
}

func TestSecondProcessIsRefused(t *testing.T) {
	dir := clustertest.Dir(t)
	holder := startHolder(t, dir)
	o, _ := options(t, dir)
	_, err := cluster.Start(t.Context(), o)
	faulttest.Want(t, err, fault.Conflict, "state_in_use", dir, "process "+strconv.Itoa(holder.Process.Pid))
}

// waitGone waits until no process of the server is left.
func waitGone(t *testing.T, dir string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for len(cluster.ProcessesIn(dataOf(dir))) > 0 {
		select {
		case <-ctx.Done():
			t.Fatalf("processes %v are left", cluster.ProcessesIn(dataOf(dir)))
		case <-tick.C:
		}
	}
}

func TestServerEndsWithItsKilledProcess(t *testing.T) {
	dir := clustertest.Dir(t)
	holder := startHolder(t, dir)
	if len(cluster.ProcessesIn(dataOf(dir))) == 0 {
		t.Fatal("no server runs")
	}
	holder.Process.Kill()
	holder.Wait()
	waitGone(t, dir)
	_, told := start(t, dir)
	if told.told("Recovering") {
		t.Error("the server was not shut down cleanly")
	}
}

func TestStartRightAfterAKilledProcess(t *testing.T) {
	dir := clustertest.Dir(t)
	for range 3 {
		holder := startHolder(t, dir)
		holder.Process.Kill()
		holder.Wait()
	}
	start(t, dir)
}

func TestServerLeftBehindIsEnded(t *testing.T) {
	dir := clustertest.Dir(t)
	first, _ := start(t, dir)
	conn := clustertest.Connect(t, ensure(t, first, "default").AppURL())
	clustertest.Exec(t, conn, "CREATE TABLE kept AS SELECT 'here' AS word")
	cluster.LoseFolder(first)
	second, told := start(t, dir)
	if !told.told("left behind") || told.told("Recovering") {
		t.Errorf("progress was %q", told.progress)
	}
	<-first.Done()
	if got := clustertest.One[string](t, clustertest.Connect(t, ensure(t, second, "default").AppURL()), "SELECT word FROM kept"); got != "here" {
		t.Errorf("kept is %q", got)
	}
}

func TestSessionsLeftBehindAreEnded(t *testing.T) {
	dir := clustertest.Dir(t)
	first, _ := start(t, dir)
	conn := clustertest.Connect(t, ensure(t, first, "default").AppURL())
	pid := conn.PgConn().PID()
	busy := make(chan error, 1)
	go func() {
		// A session in a loop does not notice the death of its server.
		_, err := conn.Exec(context.Background(), "DO $$ BEGIN LOOP END LOOP; END $$")
		busy <- err
	}()
	watcher, err := first.Admin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for clustertest.One[string](t, watcher, "SELECT count(*)::text FROM pg_stat_activity WHERE pid = $1 AND state = 'active'", pid) != "1" {
	}
	watcher.Close(t.Context())
	syscall.Kill(first.PID(), syscall.SIGKILL)
	cluster.LoseFolder(first)
	second, told := start(t, dir)
	if !told.told("left behind") || !told.told("Recovering") {
		t.Errorf("progress was %q", told.progress)
	}
	if err := <-busy; err == nil {
		t.Error("the session went on")
	}
	<-first.Done()
	ensure(t, second, "default")
}

func TestKilledServerIsReportedAndRecovers(t *testing.T) {
	dir := clustertest.Dir(t)
	c, _ := start(t, dir)
	conn := clustertest.Connect(t, ensure(t, c, "default").AppURL())
	clustertest.Exec(t, conn, "CREATE TABLE kept AS SELECT 'here' AS word")
	if c.Err() != nil {
		t.Errorf("Err of a running server is %v", c.Err())
	}
	syscall.Kill(c.PID(), syscall.SIGKILL)
	<-c.Done()
	faulttest.Want(t, c.Err(), fault.Unavailable, "postgres_ended", "killed")
	if _, err := os.Stat(c.SocketPath()); err != nil {
		t.Errorf("the socket is gone already (%v): nothing stale to start over", err)
	}
	c, told := start(t, dir)
	if !told.told("Recovering") {
		t.Errorf("progress was %q", told.progress)
	}
	if got := clustertest.One[string](t, clustertest.Connect(t, ensure(t, c, "default").AppURL()), "SELECT word FROM kept"); got != "here" {
		t.Errorf("kept is %q", got)
	}
}

// A server that starts itself over after a crash can hang when it is told to end meanwhile, so ours ends at once.
func TestKilledSessionEndsTheServer(t *testing.T) {
	dir := clustertest.Dir(t)
	c, _ := start(t, dir)
	conn := clustertest.Connect(t, ensure(t, c, "default").AppURL())
	clustertest.Exec(t, conn, "CREATE TABLE kept AS SELECT 'here' AS word")
	syscall.Kill(int(conn.PgConn().PID()), syscall.SIGKILL)
	select {
	case <-c.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("the server goes on")
	}
	faulttest.Want(t, c.Err(), fault.Unavailable, "postgres_ended", "terminated by signal 9")
	c, told := start(t, dir)
	if !told.told("Recovering") {
		t.Errorf("progress was %q", told.progress)
	}
	if got := clustertest.One[string](t, clustertest.Connect(t, ensure(t, c, "default").AppURL()), "SELECT word FROM kept"); got != "here" {
		t.Errorf("kept is %q", got)
	}
}

func TestStaleFilesDoNotHinder(t *testing.T) {
	dir := clustertest.Dir(t)
	c, _ := start(t, dir)
	socket := c.SocketPath()
	stop(t, c)
	// By now the process ids in the files are another program's, of the same user: PostgreSQL would refuse to start.
	another := exec.CommandContext(t.Context(), "sleep", "1000")
	info, err := os.Stat(dataOf(dir))
	if err != nil {
		t.Fatal(err)
	}
	if owner := info.Sys().(*syscall.Stat_t); os.Geteuid() == 0 {
		another.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}}
	}
	if err := another.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { another.Process.Kill(); another.Wait() })
	pid := strconv.Itoa(another.Process.Pid)
	write(t, filepath.Join(dataOf(dir), "postmaster.pid"), strings.Join([]string{pid, dataOf(dir), "1", "5432", filepath.Dir(socket), "", "1 1", "ready", ""}, "\n"))
	write(t, socket, "")
	write(t, socket+".lock", pid+"\n")
	start(t, dir)
}

func TestStopAtOnce(t *testing.T) {
	c, _ := start(t, clustertest.Dir(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Stop(ctx); err != nil {
		faulttest.Want(t, err, fault.Timeout, "postgres_stop", "recovers")
	}
	<-c.Done()
	if c.Err() != nil {
		t.Error(c.Err())
	}
}

func TestStartIsCancelled(t *testing.T) {
	dir := clustertest.Dir(t)
	o, r := options(t, dir)
	for _, at := range []string{"Creating", "Starting"} {
		ctx, cancel := context.WithCancel(t.Context())
		o.Progress = func(text string) {
			r.tell(text)
			if strings.Contains(text, at) {
				cancel()
			}
		}
		c, err := cluster.Start(ctx, o)
		if err == nil {
			stop(t, c)
			t.Errorf("%s: started", at)
			continue
		}
		faulttest.Want(t, err, fault.Timeout, "postgres_start")
		waitGone(t, dir)
		if _, err := os.Stat(dataOf(dir) + ".new"); err == nil {
			t.Errorf("%s: half a data folder is left", at)
		}
	}
	start(t, dir)
}
