package cluster_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/runlot/runlot/internal/adapter/postgres/cluster"
	"github.com/runlot/runlot/internal/adapter/postgres/cluster/clustertest"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/fault/faulttest"
)

// TestRefusals spoils one stopped cluster in one way after another.
func TestRefusals(t *testing.T) {
	dir := clustertest.Dir(t)
	c, _ := start(t, dir)
	stop(t, c)
	data := dataOf(dir)
	for _, test := range []struct {
		name  string
		file  string
		spoil func(text string) string
		code  string
		words []string
	}{
		{"older version", "data/PG_VERSION", func(string) string { return "17\n" }, "postgres_version", []string{"PostgreSQL 17", "PostgreSQL 18", "pg_dump", "nothing was changed"}},
		{"newer version", "data/PG_VERSION", func(string) string { return "19\n" }, "postgres_version", []string{"PostgreSQL 19"}},
		{"empty version", "data/PG_VERSION", func(string) string { return "" }, "postgres_data", []string{"PG_VERSION", "damaged", "nothing was changed"}},
		{"foreign folder", "data/postgresql.conf", func(string) string { return "" }, "postgres_data", []string{data, "not a data folder", "nothing was changed"}},
		{"no passwords", "credentials.json", func(string) string { return "" }, "credentials", []string{"credentials.json", "backup"}},
		{"bad setting", "data/postgresql.conf", func(text string) string { return text + "\nshared_bufers = 1\n" }, "postgres_start", []string{"shared_bufers"}},
		{"damaged", "data/global/pg_control", func(string) string { return "" }, "postgres_start", []string{"pg_control"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(dir, test.file)
			was, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			overwrite(t, path, test.spoil(string(was)))
			o, _ := options(t, dir)
			c, err := cluster.Start(t.Context(), o)
			if err == nil {
				stop(t, c)
			}
			faulttest.Want(t, err, fault.Environment, test.code, test.words...)
			overwrite(t, path, string(was))
		})
	}
	start(t, dir)
}

// overwrite keeps a file's owner.
func overwrite(t *testing.T, path, text string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

func TestServerOfSomebodyElseIsLeftAlone(t *testing.T) {
	dir := clustertest.Dir(t)
	c, _ := start(t, dir)
	version := c.Version()
	stop(t, c)
	run, server := clustertest.Serve(t, dir)
	o, _ := options(t, dir)
	_, err := cluster.Start(t.Context(), o)
	faulttest.Want(t, err, fault.Conflict, "postgres_running", "did not start")
	if err := server.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("PostgreSQL %s in %s was ended: %v", version, run, err)
	}
}

func TestLongPath(t *testing.T) {
	dir := filepath.Join(clustertest.Dir(t), strings.Repeat("long", 30))
	c, _ := start(t, dir)
	ensure(t, c, "default")
	if len(c.SocketPath()) > 103 {
		t.Errorf("the socket's path has %d bytes", len(c.SocketPath()))
	}
	at, _ := c.Socket()
	stop(t, c)
	if _, err := os.Stat(at); err == nil {
		t.Errorf("%s is left", at)
	}
}

func TestOddPaths(t *testing.T) {
	for _, name := range []string{`"two" wörds, 'a'`, "100%2C + b&c=d?e#f ключ $HOME *"} {
		t.Run(name, func(t *testing.T) {
			c, _ := start(t, filepath.Join(clustertest.Dir(t), name))
			access, err := c.EnsureDatabase(t.Context(), "x")
			if err != nil {
				t.Fatal(fault.Detail(err))
			}
			clustertest.Connect(t, access.AppURL())
		})
	}
}

func TestStateFolderThatCannotBe(t *testing.T) {
	file := filepath.Join(clustertest.Dir(t), "file")
	write(t, file, "")
	o, _ := options(t, filepath.Join(file, "state"))
	_, err := cluster.Start(t.Context(), o)
	faulttest.Want(t, err, fault.Environment, "state_folder", "--state")
}

func asRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root has a server under another user")
	}
}

// TestFolderOutOfReach: as root, the state folder is often below /root, where the server's user has no way.
func TestFolderOutOfReach(t *testing.T) {
	asRoot(t)
	dir := clustertest.Dir(t)
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	o, _ := options(t, filepath.Join(dir, "state"))
	for range 2 {
		c, err := cluster.Start(t.Context(), o)
		if err != nil {
			t.Fatal(fault.Detail(err))
		}
		ensure(t, c, "default")
		if len(cluster.ProcessesIn(dataOf(o.Dir))) == 0 {
			t.Error("the server's processes are not found")
		}
		stop(t, c)
	}
}

func TestDataGivenBackByRoot(t *testing.T) {
	asRoot(t)
	dir := clustertest.Dir(t)
	c, _ := start(t, dir)
	stop(t, c)
	// As after a restore of a backup.
	err := filepath.WalkDir(dataOf(dir), func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, 0, 0)
	})
	if err != nil {
		t.Fatal(err)
	}
	start(t, dir)
}

func TestFullDisk(t *testing.T) {
	asRoot(t)
	dir := clustertest.Dir(t)
	if out, err := exec.CommandContext(t.Context(), "mount", "-t", "tmpfs", "-o", "size=20m,mode=0711", "none", dir).CombinedOutput(); err != nil {
		t.Skipf("no small disk to be had: %s", out)
	}
	t.Cleanup(func() { exec.Command("umount", dir).Run() })
	o, _ := options(t, dir)
	_, err := cluster.Start(t.Context(), o)
	faulttest.Want(t, err, fault.Environment, "postgres_start", "free space")
	if entries, err := os.ReadDir(dir); err != nil || len(entries) == 0 {
		t.Errorf("%v (%v)", entries, err)
	}
	if _, err := os.Stat(dataOf(dir)); err == nil {
		t.Error("half a data folder is left")
	}
}
