package backup_test

import (
	"archive/tar"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/daemon/backup"
	"github.com/runlot/runlot/internal/daemon/backup/archive"
	"github.com/runlot/runlot/internal/daemon/state"
)

// killAt is the environment variable that makes of this program a restore that kills itself at a step.
const killAt = "RUNLOT_TEST_KILL_AT"

func TestMain(m *testing.M) {
	if at, err := strconv.Atoi(os.Getenv(killAt)); err == nil {
		restoreAndDie(os.Args[1], os.Args[2], at)
	}
	goleak.VerifyTestMain(m)
}

// restoreAndDie restores with --force and is killed when the restore tells of its progress for the at-th time; it exits with
// 0 when that did not come.
func restoreAndDie(file, data string, at int) {
	told := 0
	_, err := backup.Restore(context.Background(), backup.RestoreOptions{File: file, Data: data, Force: true, Progress: func(string, int64, int64) {
		if told++; told == at {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}})
	if err != nil {
		fmt.Fprintln(os.Stderr, fault.Detail(err))
		os.Exit(1)
	}
	os.Exit(0)
}

func quiet(string, int64, int64) {}

// small makes a backup without a database: what it holds lies on the disk as it is.
func small(t *testing.T) (file string, want map[string]string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "small.tar.gz")
	w, err := archive.Create(file, false, archive.Header{Version: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	want = map[string]string{"postgres/data/PG_VERSION": "18", "postgres/data/base/1/112": strings.Repeat("page", 1000), "d1/mine.sqlite": "new", "admin-token": "token"}
	for _, name := range []string{"postgres/data/PG_VERSION", "postgres/data/pg_wal/", "postgres/data/base/1/112", "d1/mine.sqlite", "admin-token"} {
		kind := byte(tar.TypeReg)
		if strings.HasSuffix(name, "/") {
			kind = tar.TypeDir
		}
		if err := w.Add(&tar.Header{Name: name, Typeflag: kind, Mode: 0o600, Size: int64(len(want[name]))}, strings.NewReader(want[name])); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Close(&archive.Manifest{}); err != nil {
		t.Fatal(err)
	}
	return file, want
}

// old is a data folder with something in it.
func old(t *testing.T) (dir string, holds map[string]string) {
	t.Helper()
	dir = t.TempDir()
	holds = map[string]string{"d1/mine.sqlite": "old", "secrets.key": "key"}
	for name, text := range holds {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir, holds
}

// files are the files below a folder, but for those of its lock, by name.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() == "lock" || e.Name() == ".gitignore" {
			return err
		}
		text, err := os.ReadFile(path)
		name, errName := filepath.Rel(dir, path)
		found[name] = string(text)
		if err == nil {
			err = errName
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func same(t *testing.T, what string, want, got map[string]string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: %s", what, diff)
	}
}

func refused(t *testing.T, o backup.RestoreOptions, code string) {
	t.Helper()
	o.Progress = quiet
	if _, err := backup.Restore(t.Context(), o); err == nil || fault.From(err).Code != code {
		t.Errorf("want %s, got %v", code, err)
	}
}

func TestRestoreIntoANewFolder(t *testing.T) {
	file, want := small(t)
	data := filepath.Join(t.TempDir(), "new", "data")
	r, err := backup.Restore(t.Context(), backup.RestoreOptions{File: file, Data: data, Progress: quiet})
	if err != nil {
		t.Fatal(fault.Detail(err))
	}
	if r.Aside != "" || r.KeyMissing {
		t.Errorf("it says %+v", r)
	}
	same(t, "the folder", want, files(t, data))
	if info, err := os.Stat(filepath.Join(data, "postgres", "data", "pg_wal")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("an empty folder is %v, %v", info, err)
	}
	f, err := state.Open(data, false)
	if err != nil {
		t.Fatalf("nothing can start on it: %v", err)
	}
	f.Close()
}

func TestRestoreRefuses(t *testing.T) {
	file, _ := small(t)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	damaged := filepath.Join(t.TempDir(), "damaged")
	if err := os.WriteFile(damaged, whole[:len(whole)-20], 0o600); err != nil {
		t.Fatal(err)
	}
	dir, before := old(t)
	refused(t, backup.RestoreOptions{File: file, Data: dir}, "data_not_empty")
	refused(t, backup.RestoreOptions{File: damaged, Data: dir, Force: true}, "backup_damaged")
	refused(t, backup.RestoreOptions{File: damaged + "-none", Data: dir, Force: true}, "backup_unreadable")
	refused(t, backup.RestoreOptions{File: file, Data: dir, Force: true, Key: filepath.Join(dir, "secrets.key")}, "secret_key")
	same(t, "what was there", before, files(t, dir))
	if _, err := os.Lstat(filepath.Join(dir, "lock")); err == nil {
		t.Error("a refused restore has left something")
	}
	missing := filepath.Join(t.TempDir(), "missing")
	refused(t, backup.RestoreOptions{File: damaged, Data: missing}, "backup_damaged")
	if _, err := os.Lstat(missing); err == nil {
		t.Error("a damaged backup has made a folder")
	}
	running, err := state.Open(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	defer running.Close()
	refused(t, backup.RestoreOptions{File: file, Data: dir, Force: true}, "state_in_use")
	same(t, "what was there", before, files(t, dir))
}

func TestForceKeepsWhatWasThere(t *testing.T) {
	file, want := small(t)
	dir, before := old(t)
	r, err := backup.Restore(t.Context(), backup.RestoreOptions{File: file, Data: dir, Force: true, Progress: quiet})
	if err != nil {
		t.Fatal(fault.Detail(err))
	}
	same(t, "what was there", before, files(t, r.Aside))
	kept, err := filepath.Rel(dir, r.Aside)
	if err != nil {
		t.Fatal(err)
	}
	now := files(t, dir)
	for name := range before {
		delete(now, filepath.Join(kept, name))
	}
	same(t, "the folder", want, now)
}

// TestAKilledRestore is killed at each of its steps. What is left is untouched, or nothing starts on it, or it is whole; and
// the next restore is.
func TestAKilledRestore(t *testing.T) {
	file, want := small(t)
	untouched, closed := 0, 0
	for at := 1; ; at++ {
		dir, before := old(t)
		cmd := exec.CommandContext(t.Context(), os.Args[0], file, dir)
		cmd.Env = append(os.Environ(), killAt+"="+strconv.Itoa(at))
		out, err := cmd.CombinedOutput()
		if err == nil {
			break
		}
		if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
			t.Fatalf("it ended with %v: %s", err, out)
		}
		f, err := state.Open(dir, false)
		switch {
		case err != nil && fault.From(err).Code == "restore_unfinished":
			closed++
		case err != nil:
			t.Fatal(fault.Detail(err))
		default:
			f.Close()
			if cmp.Equal(files(t, dir), before) {
				untouched++
			} else {
				t.Errorf("killed at %d it starts with %v", at, files(t, dir))
			}
		}
		if _, err := backup.Restore(t.Context(), backup.RestoreOptions{File: file, Data: dir, Force: true, Progress: quiet}); err != nil {
			t.Fatalf("after a kill at %d: %s", at, fault.Detail(err))
		}
		now, kept := map[string]string{}, map[string]bool{}
		for name, text := range files(t, dir) {
			if strings.HasPrefix(name, "before-restore-") {
				kept[text] = true
				continue
			}
			now[name] = text
		}
		same(t, "the folder", want, now)
		for name, text := range before {
			if !kept[text] {
				t.Errorf("killed at %d: the old %s is lost", at, name)
			}
		}
	}
	if untouched == 0 || closed < 8 {
		t.Errorf("%d kills left the folder as it was, %d closed: that is not all there is", untouched, closed)
	}
	t.Logf("%d untouched, %d closed", untouched, closed)
}
