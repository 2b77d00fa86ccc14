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
)

// TestRefusals spoils one stopped cluster in one way after another.
func TestRefusals(t *testing.T) {
	dir := newDir(t)
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
			wantFault(t, err, fault.Environment, test.code, test.words...)
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
	dir := newDir(t)
	c, _ := start(t, dir)
	version := c.Version()
	stop(t, c)
	run, server := startByHand(t, dir)
	o, _ := options(t, dir)
	_, err := cluster.Start(t.Context(), o)
	wantFault(t, err, fault.Conflict, "postgres_running", "did not start")
	if err := server.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("PostgreSQL %s in %s was ended: %v", version, run, err)
	}
}

// startByHand runs the server on a stopped cluster's data, as a person could: without this package, with settings of
// their own. It returns the folder of its socket.
func startByHand(t *testing.T, dir string, settings ...string) (string, *exec.Cmd) {
	t.Helper()
	install := pristine(t)
	hydrate(t, install)
	run := newDir(t)
	if err := os.Chmod(run, 0o777); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(install, "bin", "postgres"), "-D", dataOf(dir), "-c", "unix_socket_directories="+run, "-c", "listen_addresses=")
	for _, s := range settings {
		cmd.Args = append(cmd.Args, "-c", s)
	}
	info, err := os.Stat(dataOf(dir))
	if err != nil {
		t.Fatal(err)
	}
	owner := info.Sys().(*syscall.Stat_t)
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}
	}
	cmd.Dir = "/"
	out := &recorder{}
	cmd.Stderr = out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Signal(syscall.SIGINT); cmd.Wait() })
	for !strings.Contains(out.text(), "ready to accept connections") {
		if strings.Contains(out.text(), "FATAL") {
			t.Fatal(out.text())
		}
	}
	return run, cmd
}

// pristine copies the build as npm delivers it, without the links between its libraries.
func pristine(t *testing.T) string {
	t.Helper()
	install, err := clustertest.Install()
	if err != nil {
		t.Fatal(err)
	}
	if install, err = filepath.EvalSymlinks(install); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(newDir(t), "build")
	if err := os.CopyFS(to, os.DirFS(install)); err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(to, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type()&fs.ModeSymlink != 0 {
			return os.Remove(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// hydrate makes the links that npm's install script makes.
func hydrate(t *testing.T, install string) {
	t.Helper()
	for name, target := range map[string]string{
		"libpq.so.5": "libpq.so.5.18", "libicui18n.so.60": "libicui18n.so.60.2", "libicuuc.so.60": "libicuuc.so.60.2", "libicudata.so.60": "libicudata.so.60.2",
	} {
		if err := os.Symlink(target, filepath.Join(install, "lib", name)); err != nil {
			t.Fatal(err)
		}
	}
}

func startInstall(t *testing.T, install, dir string) (*recorder, error) {
	t.Helper()
	o, r := options(t, dir)
	o.Install = install
	c, err := cluster.Start(t.Context(), o)
	if err == nil {
		ensure(t, c, "default")
		stop(t, c)
	}
	return r, err
}

func TestInstallAsNpmDeliversIt(t *testing.T) {
	install := pristine(t)
	entries, err := os.ReadDir(filepath.Join(install, "lib"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := startInstall(t, install, newDir(t)); err != nil {
		t.Fatal(fault.Detail(err))
	}
	if after, err := os.ReadDir(filepath.Join(install, "lib")); err != nil || len(after) != len(entries) {
		t.Errorf("the package was changed: %d entries, now %d (%v)", len(entries), len(after), err)
	}
}

func TestBrokenInstall(t *testing.T) {
	install := pristine(t)
	at := func(name string) string { return filepath.Join(install, name) }
	for name, spoil := range map[string]func() error{
		"bin/postgres":            func() error { return nil },
		"bin/initdb":              func() error { return nil },
		"lib/libicuuc.so.60.2":    func() error { return nil },
		"lib/libxml2.so.2":        func() error { return os.WriteFile(at("lib/libxml2.so.2"), nil, 0o644) },
		"share":                   func() error { return nil },
		"bin/postgres, no loader": func() error { return os.WriteFile(at("bin/postgres"), []byte("#!/nowhere\n"), 0o755) },
		"pg-symlinks.json":        func() error { return os.WriteFile(at("pg-symlinks.json"), []byte("{"), 0o644) },
	} {
		t.Run(name, func(t *testing.T) {
			file, _, _ := strings.Cut(name, ",")
			aside := at("aside")
			if err := os.Rename(at(file), aside); err != nil {
				t.Fatal(err)
			}
			if err := spoil(); err != nil {
				t.Fatal(err)
			}
			_, err := startInstall(t, install, newDir(t))
			if name == "share" {
				wantFault(t, err, fault.Environment, "postgres_start", "postgres.bki")
			} else {
				wantFault(t, err, fault.Environment, "postgres_install", "npm ci")
			}
			if err := os.Rename(aside, at(file)); err != nil {
				t.Fatal(err)
			}
		})
	}
	_, err := startInstall(t, at("nowhere"), newDir(t))
	wantFault(t, err, fault.Environment, "postgres_install", "npm ci")
}

func TestLongPath(t *testing.T) {
	dir := filepath.Join(newDir(t), strings.Repeat("long", 30))
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

func TestStateFolderThatCannotBe(t *testing.T) {
	file := filepath.Join(newDir(t), "file")
	write(t, file, "")
	o, _ := options(t, filepath.Join(file, "state"))
	_, err := cluster.Start(t.Context(), o)
	wantFault(t, err, fault.Environment, "state_folder", "--state")
}

func asRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root has a server under another user")
	}
}

// TestFoldersOutOfReach: as root, state folder and packages are often below /root, where the server's user has no way.
func TestFoldersOutOfReach(t *testing.T) {
	asRoot(t)
	t.Run("state", func(t *testing.T) {
		dir := newDir(t)
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
	})
	t.Run("install", func(t *testing.T) {
		install := pristine(t)
		if err := os.Chmod(filepath.Dir(install), 0o700); err != nil {
			t.Fatal(err)
		}
		dir := newDir(t)
		for i := range 2 {
			told, err := startInstall(t, install, dir)
			if err != nil {
				t.Fatal(fault.Detail(err))
			}
			if told.told("Copying") != (i == 0) {
				t.Errorf("start %d: progress was %q", i, told.progress)
			}
		}
	})
}

func TestDataGivenBackByRoot(t *testing.T) {
	asRoot(t)
	dir := newDir(t)
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
	dir := newDir(t)
	if out, err := exec.CommandContext(t.Context(), "mount", "-t", "tmpfs", "-o", "size=20m,mode=0711", "none", dir).CombinedOutput(); err != nil {
		t.Skipf("no small disk to be had: %s", out)
	}
	t.Cleanup(func() { exec.Command("umount", dir).Run() })
	o, _ := options(t, dir)
	_, err := cluster.Start(t.Context(), o)
	wantFault(t, err, fault.Environment, "postgres_start", "free space")
	if entries, err := os.ReadDir(dir); err != nil || len(entries) == 0 {
		t.Errorf("%v (%v)", entries, err)
	}
	if _, err := os.Stat(dataOf(dir)); err == nil {
		t.Error("half a data folder is left")
	}
}
