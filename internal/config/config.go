// Package config turns the files of a project into its manifest. It finds the dialect, reads the app's declaration and
// the secrets of a developer's machine beside it, and reports every problem in one run.
package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/runlot/runlot/internal/config/dotenv"
	"github.com/runlot/runlot/internal/config/runlotjson"
	"github.com/runlot/runlot/internal/config/source"
	"github.com/runlot/runlot/internal/config/wrangler"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

// Codes of the faults that Load returns.
const (
	CodeMissing     = "config_missing"
	CodeAmbiguous   = "config_ambiguous"
	CodeUnreadable  = "config_unreadable"
	CodeUnsupported = "config_unsupported"
	CodeInvalid     = "config_invalid"
)

// files are the names that Load looks for.
var files = []string{"runlot.json", "wrangler.json", "wrangler.jsonc", "wrangler.toml"}

// Choice is what a person decides where the files leave it open.
type Choice struct {
	// File is the configuration file (--config), relative to the folder that is loaded or absolute; "" looks for one.
	File string
	// Env is the section of a wrangler file's `env` (--env); "" is the top level.
	Env string
	// NoSecrets leaves .dev.vars and .env alone: they are for a developer's machine and not part of what is deployed.
	NoSecrets bool
}

// Loaded is a project's configuration.
type Loaded struct {
	Manifest *app.Manifest
	// File is the configuration file, and the project folder the one that it is in: Manifest.Main is relative to it.
	File string
	// Warnings are the diagnostics that stop nothing, of all files.
	Warnings []source.Diagnostic
	// Secrets are the values of .dev.vars or .env, for env. No name is also a binding or in Manifest.Vars.
	Secrets map[string]string
	// SecretFiles are the files that Secrets come from.
	SecretFiles []string
}

// Dir returns the project folder.
func (l *Loaded) Dir() string { return filepath.Dir(l.File) }

// Load reads the configuration of the project in dir. Every error is a fault.Error: config_missing (not_found) when there
// is no file, config_ambiguous (invalid) when there are several and choice names none, config_unreadable (environment, and
// invalid for a folder, a pipe or a device), config_unsupported (invalid) for a choice that the dialect does not have, and
// config_invalid (invalid), whose message shows every problem and whose cause is the source.Problems.
func Load(dir string, choice Choice) (*Loaded, error) {
	file, err := find(dir, choice.File)
	if err != nil {
		return nil, err
	}
	shown := show(dir, file)
	text, err := read(file, shown)
	if err != nil {
		return nil, err
	}
	l := &Loaded{File: file}
	manifest, warnings, err := compile(shown, text, choice.Env)
	problems, broken := errors.AsType[source.Problems](err)
	if err != nil && !broken {
		return nil, err
	}
	env := &secrets{}
	if !choice.NoSecrets {
		if env, err = readSecrets(filepath.Dir(file), filepath.Dir(shown), choice.Env); err != nil {
			return nil, err
		}
	}
	problems = slices.Concat(problems, warnings, env.problems)
	if !broken {
		var found source.Problems
		l.Secrets, found = place(manifest, env.entries)
		problems = append(problems, found...)
	}
	problems.Sort()
	if problems.Errors() > 0 {
		return nil, fault.New(fault.Invalid, CodeInvalid, "%s", problems.Error()).WithCause(problems)
	}
	l.Manifest, l.Warnings, l.SecretFiles = manifest, problems, env.files
	return l, nil
}

// show names a file in diagnostics: as it is relative to the working directory when dir is, so that a terminal can open
// it, else relative to dir.
func show(dir, file string) string {
	if filepath.IsAbs(dir) {
		if rel, err := filepath.Rel(dir, file); err == nil && filepath.IsLocal(rel) {
			file = rel
		}
	}
	return filepath.ToSlash(file)
}

// Compile makes a manifest of the text of a configuration file, which is chosen by its name; env is an environment of a
// wrangler file, or "". The error has every problem of the text; the warnings are what else a person should know.
func Compile(file string, text []byte, env string) (*app.Manifest, []source.Diagnostic, error) {
	if !isRunlot(file) && !isWrangler(file) {
		return nil, nil, fault.New(fault.Invalid, CodeUnsupported, "%s is not the name of a configuration file", file).
			WithHint("it is runlot.json, wrangler.json, wrangler.jsonc or wrangler.toml")
	}
	m, warnings, err := compile(file, text, env)
	if problems, broken := errors.AsType[source.Problems](err); broken {
		problems = slices.Concat(problems, warnings)
		problems.Sort()
		return nil, nil, fault.New(fault.Invalid, CodeInvalid, "%s", problems.Error()).WithCause(problems)
	}
	if err != nil {
		return nil, nil, err
	}
	warnings.Sort()
	return m, warnings, nil
}

// compile chooses the dialect by the name of the file.
func compile(file string, text []byte, env string) (*app.Manifest, source.Problems, error) {
	switch {
	case isRunlot(file) && env != "":
		return nil, nil, fault.New(fault.Invalid, CodeUnsupported, "%s has no environments, so --env %s means nothing", file, env).
			WithHint("leave the flag out; --config FILE can name another file, like runlot.%s.json", env)
	case isRunlot(file):
		return runlotjson.Compile(file, text)
	case path.Ext(file) == ".toml":
		return wrangler.Compile(file, source.TOML, text, env)
	default:
		return wrangler.Compile(file, source.JSONC, text, env)
	}
}

// find returns the configuration file that Load would read.
func find(dir, chosen string) (string, error) {
	if chosen != "" {
		file := chosen
		if !filepath.IsAbs(file) {
			file = filepath.Join(dir, file)
		}
		if !isRunlot(file) && !isWrangler(file) {
			return "", fault.New(fault.Invalid, CodeUnsupported, "%s names no dialect", chosen).
				WithHint("a configuration file is called runlot.json, runlot.*.json, wrangler.json, wrangler.jsonc, wrangler.toml or wrangler.*.toml")
		}
		return file, nil
	}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fault.New(fault.NotFound, CodeMissing, "there is no folder %s", dir).WithHint("name the project's folder").WithCause(err)
	case err != nil:
		return "", unreadable(dir, err)
	case !info.IsDir():
		return "", fault.New(fault.Invalid, CodeUnsupported, "%s is not a folder", dir).
			WithHint("name the project's folder, and with --config FILE the file")
	}
	var present []string
	for _, name := range files {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			present = append(present, name)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", unreadable(name, err)
		}
	}
	where := dir
	if filepath.Clean(dir) == "." {
		where = "this folder"
	}
	switch len(present) {
	case 0:
		return "", fault.New(fault.NotFound, CodeMissing, "%s has no configuration: neither %s", where, strings.Join(files, " nor ")).
			WithHint("create runlot.json:\n\n%s", Example)
	case 1:
		return filepath.Join(dir, present[0]), nil
	}
	return "", fault.New(fault.Invalid, CodeAmbiguous, "%s has several configurations: %s", where, strings.Join(present, ", ")).
		WithHint("say which one with --config FILE, like --config %s, or keep one of them", present[0])
}

// Example is a small runlot.json: what to create where there is no configuration.
const Example = `{
  "name": "my-app",
  "main": "src/index.ts",
  "database": "my-app",
  "queues": {
    "producers": [{ "binding": "JOBS", "queue": "jobs" }],
    "consumers": [{ "queue": "jobs" }]
  }
}
`

func isRunlot(file string) bool {
	base := filepath.Base(file)
	return strings.HasPrefix(base, "runlot.") && strings.HasSuffix(base, ".json")
}

func isWrangler(file string) bool {
	base := filepath.Base(file)
	switch filepath.Ext(base) {
	case ".json", ".jsonc", ".toml":
		return strings.HasPrefix(base, "wrangler.")
	}
	return false
}

// read returns the text of a file. It reads no more than what is refused as too big, and nothing but a file: a named pipe
// would let it wait for ever for somebody who writes.
func read(file, shown string) ([]byte, error) {
	// Some devices do something when they are opened.
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.NotFound, CodeMissing, "there is no file %s", shown).
			WithHint("look at the path: --config FILE is relative to the project's folder").WithCause(err)
	}
	if err == nil && !info.Mode().IsRegular() {
		return nil, notRegular(shown, info.Mode())
	}
	var f *os.File
	if err == nil {
		// What has become a pipe since then opens without a writer.
		f, err = os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	}
	if err != nil {
		return nil, unreadable(shown, err)
	}
	text, err := io.ReadAll(io.LimitReader(f, queue.MaxConfigFile+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, unreadable(shown, err)
	}
	return text, nil
}

// notRegular refuses what is no file, and says what it is.
func notRegular(shown string, mode fs.FileMode) error {
	kind := "a device"
	switch {
	case mode.IsDir():
		kind = "a folder"
	case mode&fs.ModeNamedPipe != 0:
		kind = "a named pipe"
	case mode&fs.ModeSocket != 0:
		kind = "a socket"
	}
	return fault.New(fault.Invalid, CodeUnreadable, "%s is %s, not a file", shown, kind).
		WithHint("put a file in its place, or remove it")
}

func unreadable(name string, err error) error {
	reason := err
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		reason = p.Err
	}
	return fault.New(fault.Environment, CodeUnreadable, "%s cannot be read: %s", name, reason).
		WithHint("look at its kind and its rights").WithCause(err)
}

// secrets are what .dev.vars or .env say.
type secrets struct {
	files    []string
	entries  []dotenv.Entry
	problems source.Problems
}

// readSecrets reads .dev.vars, or where there is none .env, and the files that belong to an environment. A later entry
// replaces an earlier one of the same name.
func readSecrets(dir, shown, env string) (*secrets, error) {
	devVars, dotEnv := secretFiles(env)
	s := &secrets{}
	for _, name := range devVars {
		if err := s.add(dir, shown, name); err != nil || len(s.files) > 0 {
			return s, err
		}
	}
	for _, name := range dotEnv {
		if err := s.add(dir, shown, name); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// secretFiles names the files of secrets: the first of devVars that is there counts alone, otherwise all of dotEnv.
func secretFiles(env string) (devVars, dotEnv []string) {
	if env != "" && filepath.Base(env) == env {
		return []string{".dev.vars." + env, ".dev.vars"}, []string{".env", ".env." + env, ".env.local", ".env." + env + ".local"}
	}
	return []string{".dev.vars"}, []string{".env", ".env.local"}
}

// add reads one file; one that does not exist adds nothing.
func (s *secrets) add(dir, shown, name string) error {
	file := filepath.Join(dir, name)
	shown = path.Join(filepath.ToSlash(shown), name)
	text, err := read(file, shown)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	entries, problems := dotenv.Parse(shown, text)
	s.files = append(s.files, file)
	s.entries = append(s.entries, entries...)
	s.problems = append(s.problems, problems...)
	return nil
}

// place gives the secrets their names in env. A secret with the name of a binding is an error; one with the name of a var
// takes its place, so that a developer can have values of their own, and is named in a warning.
func place(m *app.Manifest, entries []dotenv.Entry) (map[string]string, source.Problems) {
	var found source.Problems
	taken := map[string]string{}
	if m.DatabaseBinding != "" {
		taken[m.DatabaseBinding] = "the binding of the app's database"
	}
	for i := range m.Producers {
		taken[m.Producers[i].Binding] = fmt.Sprintf("the binding of queue `%s`", m.Producers[i].Queue)
	}
	for _, s := range m.Stores() {
		taken[s.Binding] = fmt.Sprintf("the binding of %s `%s`", s.Kind, s.Name)
	}
	placed := map[string]string{}
	for i := range entries {
		e := &entries[i]
		if what, ok := taken[e.Name]; ok {
			found = append(found, e.Diagnostic(source.Error, "give one of them another name", "the name `%s` is taken in env by %s", e.Name, what))
			continue
		}
		if _, ok := m.Vars[e.Name]; ok {
			delete(m.Vars, e.Name)
			found = append(found, e.Diagnostic(source.Warning, "", "`%s` takes the place of the var of the same name", e.Name))
		}
		placed[e.Name] = e.Value
	}
	return placed, found
}

// Watched returns the files, absolute, that Load reads or would read if they were there: a change of any of them may
// change what it returns.
func Watched(dir string, choice Choice) []string {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil
	}
	var watched []string
	if choice.File == "" {
		for _, name := range files {
			watched = append(watched, filepath.Join(dir, name))
		}
	} else {
		file := choice.File
		if !filepath.IsAbs(file) {
			file = filepath.Join(dir, file)
		}
		watched, dir = append(watched, file), filepath.Dir(file)
	}
	devVars, dotEnv := secretFiles(choice.Env)
	for _, name := range slices.Concat(devVars, dotEnv) {
		watched = append(watched, filepath.Join(dir, name))
	}
	return watched
}
