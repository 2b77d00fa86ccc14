package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/internal/config"
	"github.com/runlot/runlot/internal/config/source"
	"github.com/runlot/runlot/internal/core/fault"
)

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestExampleLoads: what the hint tells a newcomer to create is right.
func TestExampleLoads(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"runlot.json": config.Example})
	loaded, err := config.Load(dir, config.Choice{})
	if err != nil || len(loaded.Warnings) > 0 {
		t.Fatal(loaded, err)
	}
	if loaded.Dir() != dir || loaded.File != filepath.Join(dir, "runlot.json") {
		t.Errorf("loaded from %s in %s", loaded.File, loaded.Dir())
	}
}

func TestFileAnywhere(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"wrangler.toml": "name = 1", ".env": "A=1"})
	_, err := config.Load(t.TempDir(), config.Choice{File: filepath.Join(dir, "wrangler.toml")})
	want := filepath.Join(dir, "wrangler.toml") + ":1:8: error: `name` must be a string, found 1"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestFileIsShownFromHere: a folder given relative to the working directory leads to the file in every diagnostic.
func TestFileIsShownFromHere(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.MkdirAll("apps/one", 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, "apps/one", map[string]string{"runlot.json": `{"name": 1}`, ".env": "x"})
	_, err := config.Load("apps/one", config.Choice{})
	want := "apps/one/.env:1:1: error: the line is not NAME=value\n    hint: write NAME=value, or begin a comment with #\n" +
		"apps/one/runlot.json:1:10: error: `name` must be a string, found 1"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestSecretFiles(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"runlot.json": `{"name": "a"}`, ".env": "", ".env.local": "A=1", ".env.other": "A=2"})
	loaded, err := config.Load(dir, config.Choice{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{filepath.Join(dir, ".env"), filepath.Join(dir, ".env.local")}
	if diff := cmp.Diff(want, loaded.SecretFiles); diff != "" {
		t.Error(diff)
	}
}

// TestWithoutSecrets: what a developer has beside the file changes nothing of what is deployed.
func TestWithoutSecrets(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"runlot.json": `{"name": "a", "vars": {"STAGE": "live"}}`, ".dev.vars": "STAGE=dev\nnot even valid"})
	loaded, err := config.Load(dir, config.Choice{NoSecrets: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := string(loaded.Manifest.Vars["STAGE"]); got != `"live"` || len(loaded.Secrets)+len(loaded.SecretFiles)+len(loaded.Warnings) > 0 {
		t.Errorf("loaded %+v", loaded)
	}
}

// TestEnvironmentIsNoPath: the name of an environment never reaches a file outside the project.
func TestEnvironmentIsNoPath(t *testing.T) {
	dir := t.TempDir()
	project := filepath.Join(dir, "project")
	if err := os.MkdirAll(filepath.Join(project, ".dev.vars."), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, dir, map[string]string{"secret": "OUTSIDE=1"})
	write(t, project, map[string]string{"wrangler.json": `{"name": "a", "env": {"/../../secret": {"name": "b"}}}`})
	loaded, err := config.Load(project, config.Choice{Env: "/../../secret"})
	if err != nil || len(loaded.Secrets) > 0 {
		t.Errorf("loaded %+v, %v", loaded, err)
	}
}

func TestWhatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "wrangler.json"), 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "wrangler.json")
	write(t, dir, map[string]string{"plain": ""})
	for _, c := range []struct {
		name, dir, code string
		choice          config.Choice
		kind            fault.Kind
	}{
		{"a folder for a file", dir, config.CodeUnreadable, config.Choice{}, fault.Invalid},
		{"a file for a folder", filepath.Join(dir, "plain"), config.CodeUnsupported, config.Choice{}, fault.Invalid},
		{"no such folder", filepath.Join(dir, "none"), config.CodeMissing, config.Choice{}, fault.NotFound},
		{"a name cut by NUL", "a\x00b", config.CodeUnreadable, config.Choice{}, fault.Environment},
		{"a folder that is named", t.TempDir(), config.CodeUnreadable, config.Choice{File: file}, fault.Invalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := config.Load(c.dir, c.choice)
			f, ok := errors.AsType[*fault.Error](err)
			if !ok || f.Kind != c.kind || f.Code != c.code || f.Hint == "" {
				t.Errorf("got %#v", err)
			}
		})
	}
}

// TestOnlyFilesAreRead: a pipe that nobody writes to holds nothing up, and a device that never ends is not read.
func TestOnlyFilesAreRead(t *testing.T) {
	pipe := func(t *testing.T, path string) {
		t.Helper()
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	device := func(t *testing.T, path string) {
		t.Helper()
		if err := os.Symlink("/dev/zero", path); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		file, kind string
		make       func(t *testing.T, path string)
	}{
		{"runlot.json", "a named pipe", pipe},
		{"wrangler.toml", "a named pipe", pipe},
		{"runlot.json", "a device", device},
		{".env", "a named pipe", pipe},
		{".dev.vars", "a device", device},
	} {
		t.Run(c.file+" is "+c.kind, func(t *testing.T) {
			dir := t.TempDir()
			if strings.HasPrefix(c.file, ".") {
				write(t, dir, map[string]string{"runlot.json": config.Example})
			}
			c.make(t, filepath.Join(dir, c.file))
			_, err := config.Load(dir, config.Choice{})
			f, ok := errors.AsType[*fault.Error](err)
			if !ok || f.Kind != fault.Invalid || f.Code != config.CodeUnreadable || !strings.Contains(f.Message, c.file+" is "+c.kind) || f.Hint == "" {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestSecretsAreNotShown: no diagnostic and no fault repeats what stands behind an equals sign.
func TestSecretsAreNotShown(t *testing.T) {
	const secret = "hunter2"
	for _, text := range []string{
		"DATABASE=" + secret, "A='" + secret, "A=" + secret + "#" + secret, "a.b=" + secret, "A=1\nA=" + secret, `A="" ` + secret,
	} {
		dir := t.TempDir()
		write(t, dir, map[string]string{"runlot.json": `{"name": "a", "database": "a"}`, ".dev.vars": text})
		_, err := config.Load(dir, config.Choice{})
		if problems, ok := errors.AsType[source.Problems](err); !ok || problems.Errors() != 1 {
			t.Errorf("%q: %v", text, err)
		}
		if strings.Contains(fault.Detail(err), secret) {
			t.Errorf("%q: the secret is shown: %s", text, fault.Detail(err))
		}
	}
}
