package install_test

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/runlot/runlot/internal/adapter/postgres/cluster"
	"github.com/runlot/runlot/internal/adapter/postgres/cluster/clustertest"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/fault/faulttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
	to := filepath.Join(clustertest.Dir(t), "build")
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

// start runs a cluster on a build once, with all that it is for, and returns what it told about its progress.
func start(t *testing.T, build, dir string) (progress string, err error) {
	t.Helper()
	c, err := cluster.Start(t.Context(), cluster.Options{Install: build, Dir: dir, Progress: func(text string) { progress += text + "\n" }})
	if err != nil {
		return progress, err
	}
	if _, err := c.EnsureDatabase(t.Context(), "default"); err != nil {
		t.Error(fault.Detail(err))
	}
	return progress, c.Stop(context.Background())
}

func TestInstallAsNpmDeliversIt(t *testing.T) {
	install := pristine(t)
	entries, err := os.ReadDir(filepath.Join(install, "lib"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := start(t, install, clustertest.Dir(t)); err != nil {
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
			_, err := start(t, install, clustertest.Dir(t))
			if name == "share" {
				faulttest.Want(t, err, fault.Environment, "postgres_start", "postgres.bki")
			} else {
				faulttest.Want(t, err, fault.Environment, "postgres_install", "npm ci")
			}
			if err := os.Rename(aside, at(file)); err != nil {
				t.Fatal(err)
			}
		})
	}
	_, err := start(t, at("nowhere"), clustertest.Dir(t))
	faulttest.Want(t, err, fault.Environment, "postgres_install", "npm ci")
}

// TestBuildOutOfReach: as root, the packages are often below /root, where the server's user has no way.
func TestBuildOutOfReach(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root has a server under another user")
	}
	install := pristine(t)
	if err := os.Chmod(filepath.Dir(install), 0o700); err != nil {
		t.Fatal(err)
	}
	dir := clustertest.Dir(t)
	for i := range 2 {
		told, err := start(t, install, dir)
		if err != nil {
			t.Fatal(fault.Detail(err))
		}
		if strings.Contains(told, "Copying") != (i == 0) {
			t.Errorf("start %d: progress was %q", i, told)
		}
	}
}
