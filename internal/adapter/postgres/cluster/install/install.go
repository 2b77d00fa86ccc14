package install

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
)

// The programs of a build that are used.
const (
	ServerProgram = "postgres"
	InitProgram   = "initdb"
)

// Hint is the way out when a build cannot be used.
const Hint = "install the packages again (npm ci), or name a PostgreSQL of your own with --database-url"

// pipeTime is how long the output of a program that was ended is waited for: a child of it may hold the pipe.
const pipeTime = 10 * time.Second

// Build is a PostgreSQL build that the account can run.
type Build struct {
	// Dir holds bin, lib and share.
	Dir string
	// Version is the full text, "18.4"; Major its first number.
	Version string
	Major   int

	account Account
	// env is what its programs need in their environment.
	env []string
}

// Options say which build is prepared, and for whom.
type Options struct {
	// Dir is the folder of the build.
	Dir     string
	Account Account
	// State is the folder of the cluster, where a copy of the build is tried first; Run is one of the account's own, for
	// links between libraries. Both exist.
	State, Run string
	// Progress, when set, is told in a few words what takes its time.
	Progress func(text string)
}

// Command prepares a program of the build to run as the account, with nothing in its environment but what it needs. One
// that runs for long is started by Start.
func (b *Build) Command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(b.Dir, "bin", program), args...)
	cmd.Env = append([]string{"LC_ALL=C", "TZ=UTC", "PATH=/usr/bin:/bin"}, b.env...)
	cmd.Dir = "/"
	cmd.SysProcAttr = b.account.attributes()
	cmd.WaitDelay = pipeTime
	return cmd
}

// Broken is the fault of a build whose programs cannot be used, for the reason given.
func (b *Build) Broken(cause error, format string, args ...any) *fault.Error {
	return broken(b.Dir, cause, format, args...)
}

func broken(dir string, cause error, format string, args ...any) *fault.Error {
	return fault.New(fault.Environment, "postgres_install", "the PostgreSQL programs in %s cannot be used: %s", dir, fmt.Sprintf(format, args...)).
		WithHint(Hint).WithCause(cause)
}

// Prepare makes the build usable for the account. The npm package comes without the links between its shared libraries
// where install scripts are off; they are then made in the run folder, and the package stays as it is. A build below a
// folder that the account may not enter is copied, once per content, to a place that it may. It fails with a fault of
// kind Environment.
func Prepare(ctx context.Context, o Options) (*Build, error) {
	dir, err := RealPath(o.Dir)
	if err != nil {
		return nil, broken(o.Dir, err, "%v", err)
	}
	for _, name := range []string{InitProgram, ServerProgram} {
		if _, err := os.Stat(filepath.Join(dir, "bin", name)); err != nil {
			return nil, broken(dir, err, "bin/%s is missing", name)
		}
	}
	missing, err := missingLinks(dir)
	if err != nil {
		return nil, err
	}
	b := &Build{Dir: dir, account: o.Account}
	if !o.Account.Reaches(filepath.Join(dir, "bin")) || (len(missing) > 0 && runtime.GOOS != "linux") {
		if b.Dir, err = o.copyBuild(dir); err != nil {
			return nil, err
		}
	} else if len(missing) > 0 {
		lib := filepath.Join(o.Run, "lib")
		if err := o.makeLinks(lib, missing); err != nil {
			return nil, fmt.Errorf("library links in %s: %w", lib, err)
		}
		// The second folder is for what the linked libraries need themselves: their own search path starts at the link.
		b.env = []string{"LD_LIBRARY_PATH=" + lib + ":" + filepath.Join(dir, "lib")}
	}
	return b, b.readVersion(ctx)
}

// RealPath returns the absolute path without symbolic links: the account may not be able to follow them.
func RealPath(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return path, err
	}
	return filepath.EvalSymlinks(path)
}

var versionPattern = regexp.MustCompile(`\(PostgreSQL\) ((\d+)\S*)`)

// readVersion runs the server's program as its user, which also shows that it starts at all.
func (b *Build) readVersion(ctx context.Context) error {
	cmd := b.Command(ctx, ServerProgram, "--version")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("postgres --version: %w", ctx.Err())
		}
		reason := strings.TrimSpace(stderr.String())
		if reason == "" {
			reason = err.Error()
		}
		if errors.Is(err, fs.ErrNotExist) {
			reason += " (the build needs glibc; Alpine Linux has none)"
		}
		return b.Broken(err, "%s", reason)
	}
	match := versionPattern.FindStringSubmatch(stdout.String())
	if match == nil {
		return b.Broken(nil, "unknown version %q", strings.TrimSpace(stdout.String()))
	}
	b.Version = match[1]
	b.Major, _ = strconv.Atoi(match[2])
	return nil
}

// link is one library link: at name, to the absolute path target.
type link struct{ name, target string }

// missingLinks reads the package's list of links and returns those that are not there. A build without a list has all.
func missingLinks(dir string) ([]link, error) {
	text, err := os.ReadFile(filepath.Join(dir, "pg-symlinks.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, broken(dir, err, "its list of library links cannot be read")
	}
	var listed []struct{ Source, Target string }
	if err := json.Unmarshal(text, &listed); err != nil {
		return nil, broken(dir, err, "its list of library links (pg-symlinks.json) is damaged")
	}
	var missing []link
	for _, l := range listed {
		target, at := listedPath(dir, l.Source), listedPath(dir, l.Target)
		if _, err := os.Stat(at); err == nil {
			continue
		}
		if _, err := os.Stat(target); err != nil {
			return nil, broken(dir, err, "%s is missing", l.Source)
		}
		missing = append(missing, link{name: filepath.Base(at), target: target})
	}
	return missing, nil
}

// listedPath places a path of the list, which begins with the build's own folder, below dir, whatever that is called.
func listedPath(dir, listed string) string {
	return filepath.Join(dir, filepath.Clean("/"+strings.TrimPrefix(listed, "native/")))
}

func (o *Options) makeLinks(dir string, links []link) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	if err := o.Account.Give(dir); err != nil {
		return err
	}
	for _, l := range links {
		if err := os.Symlink(l.target, filepath.Join(dir, l.name)); err != nil {
			return err
		}
	}
	return nil
}

// copyBuild copies the build to the first place that the account reaches, complete with its links, and returns the
// copy. Copies are named by content, so that several clusters share one.
func (o *Options) copyBuild(dir string) (string, error) {
	hash := sha256.New()
	for _, name := range []string{"bin/postgres", "bin/initdb", "pg-symlinks.json"} {
		if err := hashFile(hash, filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", broken(dir, err, "%s cannot be read", name)
		}
	}
	name := "postgresql-" + hex.EncodeToString(hash.Sum(nil))[:16]
	var last error
	for _, base := range []string{o.State, "/var/cache/runlot", filepath.Join(os.TempDir(), "runlot-"+strconv.Itoa(os.Geteuid()))} {
		if err := os.MkdirAll(base, 0o755); err != nil { //nolint:gosec // the server's user reads it
			last = err
			continue
		}
		if !ownedBy(base, os.Geteuid()) {
			continue
		}
		if base != o.State {
			// A strict umask must not close a folder that holds programs alone.
			last = os.Chmod(base, 0o755) //nolint:gosec // the server's user reads it
		}
		if !o.Account.Reaches(base) {
			continue
		}
		target := filepath.Join(base, name)
		if ownedBy(target, os.Geteuid()) {
			return filepath.Join(target, "native"), nil
		}
		o.progress("Copying the PostgreSQL programs to " + base + " (once)")
		if last = copyOnce(dir, target); last == nil {
			return filepath.Join(target, "native"), nil
		}
	}
	return "", fault.New(fault.Environment, "postgres_install", "the user %s cannot reach the PostgreSQL programs in %s, and they could not be copied to a place that it can", o.Account.Name, dir).
		WithHint("install the packages outside of private folders such as /root").WithCause(last)
}

func (o *Options) progress(text string) {
	if o.Progress != nil {
		o.Progress(text)
	}
}

// copyOnce copies the build beside target and renames it when it is whole and on disk.
func copyOnce(dir, target string) error {
	temp, err := os.MkdirTemp(filepath.Dir(target), ".copy-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temp) }()
	native := filepath.Join(temp, "native")
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		return copyEntry(path, filepath.Join(native, relative), entry)
	})
	if err != nil {
		return err
	}
	missing, err := missingLinks(native)
	if err != nil {
		return err
	}
	for _, l := range missing {
		// Relative, because the folder is about to be renamed.
		if err := os.Symlink(filepath.Base(l.target), filepath.Join(native, "lib", l.name)); err != nil {
			return err
		}
	}
	if err := os.Chmod(temp, 0o755); err != nil { //nolint:gosec // the server's user reads it
		return err
	}
	syscall.Sync()
	if err := os.Rename(temp, target); err != nil && !ownedBy(target, os.Geteuid()) {
		return err
	}
	return nil
}

func copyEntry(from, to string, entry fs.DirEntry) error {
	switch {
	case entry.IsDir():
		return errors.Join(os.Mkdir(to, 0o755), os.Chmod(to, 0o755)) //nolint:gosec // the server's user reads it, whatever the umask
	case entry.Type()&fs.ModeSymlink != 0:
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	case filepath.Ext(from) == ".a":
		return nil // libraries for building, not for running
	}
	info, err := entry.Info()
	if err != nil {
		return err
	}
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	mode := fs.FileMode(0o644)
	if info.Mode()&0o100 != 0 {
		mode = 0o755
	}
	copied, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(copied, source)
	return errors.Join(err, copied.Chmod(mode), copied.Close())
}

func hashFile(hash io.Writer, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.Copy(hash, file)
	return err
}
