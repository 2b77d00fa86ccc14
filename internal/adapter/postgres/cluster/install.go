package cluster

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
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/runlot/runlot/internal/core/fault"
)

// Package is the place of the PostgreSQL build for this machine below a node_modules folder.
func Package() string {
	arch := runtime.GOARCH
	if arch == "amd64" {
		arch = "x64"
	}
	return filepath.Join("@embedded-postgres", runtime.GOOS+"-"+arch, "native")
}

// install is a PostgreSQL build that the server's user can run.
type install struct {
	dir string
	// env is what its programs need in their environment.
	env []string
	// version is the full text, "18.4"; major its first number.
	version string
	major   int
}

func (i *install) bin(name string) string { return filepath.Join(i.dir, "bin", name) }

const installHint = "install the packages again (npm ci), or name a PostgreSQL of your own with --database-url"

func brokenInstall(dir string, cause error, format string, args ...any) *fault.Error {
	return fault.New(fault.Environment, "postgres_install", "the PostgreSQL programs in %s cannot be used: %s", dir, fmt.Sprintf(format, args...)).
		WithHint(installHint).WithCause(cause)
}

// prepareInstall makes the build in dir usable for the account. The npm package comes without the links between its
// shared libraries where install scripts are off; they are then made in the run folder, and the package stays as it is.
// A build below a folder that the account may not enter is copied, once per content, to a place that it may.
func (c *Cluster) prepareInstall(ctx context.Context) (*install, error) {
	dir, err := realPath(c.options.Install)
	if err != nil {
		return nil, brokenInstall(c.options.Install, err, "%v", err)
	}
	for _, name := range []string{initProgram, serverProgram} {
		if _, err := os.Stat(filepath.Join(dir, "bin", name)); err != nil {
			return nil, brokenInstall(dir, err, "bin/%s is missing", name)
		}
	}
	missing, err := missingLinks(dir)
	if err != nil {
		return nil, err
	}
	inst := &install{dir: dir}
	if !c.account.reaches(filepath.Join(dir, "bin")) || (len(missing) > 0 && runtime.GOOS != "linux") {
		if inst.dir, err = c.copyInstall(dir); err != nil {
			return nil, err
		}
	} else if len(missing) > 0 {
		lib := filepath.Join(c.runDir, "lib")
		if err := c.makeLinks(lib, missing); err != nil {
			return nil, fmt.Errorf("library links in %s: %w", lib, err)
		}
		// The second folder is for what the linked libraries need themselves: their own search path starts at the link.
		inst.env = []string{"LD_LIBRARY_PATH=" + lib + ":" + filepath.Join(dir, "lib")}
	}
	return inst, c.readVersion(ctx, inst)
}

var versionPattern = regexp.MustCompile(`\(PostgreSQL\) ((\d+)\S*)`)

// readVersion runs the server's program as its user, which also shows that it starts at all.
func (c *Cluster) readVersion(ctx context.Context, inst *install) error {
	cmd := c.command(ctx, inst, serverProgram, "--version")
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
		return brokenInstall(inst.dir, err, "%s", reason)
	}
	match := versionPattern.FindStringSubmatch(stdout.String())
	if match == nil {
		return brokenInstall(inst.dir, nil, "unknown version %q", strings.TrimSpace(stdout.String()))
	}
	inst.version = match[1]
	inst.major, _ = strconv.Atoi(match[2])
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
		return nil, brokenInstall(dir, err, "its list of library links cannot be read")
	}
	var listed []struct{ Source, Target string }
	if err := json.Unmarshal(text, &listed); err != nil {
		return nil, brokenInstall(dir, err, "its list of library links (pg-symlinks.json) is damaged")
	}
	var missing []link
	for _, l := range listed {
		target, at := listedPath(dir, l.Source), listedPath(dir, l.Target)
		if _, err := os.Stat(at); err == nil {
			continue
		}
		if _, err := os.Stat(target); err != nil {
			return nil, brokenInstall(dir, err, "%s is missing", l.Source)
		}
		missing = append(missing, link{name: filepath.Base(at), target: target})
	}
	return missing, nil
}

// listedPath places a path of the list, which begins with the build's own folder, below dir, whatever that is called.
func listedPath(dir, listed string) string {
	return filepath.Join(dir, filepath.Clean("/"+strings.TrimPrefix(listed, "native/")))
}

func (c *Cluster) makeLinks(dir string, links []link) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	if err := c.account.give(dir); err != nil {
		return err
	}
	for _, l := range links {
		if err := os.Symlink(l.target, filepath.Join(dir, l.name)); err != nil {
			return err
		}
	}
	return nil
}

// copyInstall copies the build to the first place that the account reaches, complete with its links, and returns the
// copy. Copies are named by content, so that several clusters share one.
func (c *Cluster) copyInstall(dir string) (string, error) {
	hash := sha256.New()
	for _, name := range []string{"bin/postgres", "bin/initdb", "pg-symlinks.json"} {
		if err := hashFile(hash, filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", brokenInstall(dir, err, "%s cannot be read", name)
		}
	}
	name := "postgresql-" + hex.EncodeToString(hash.Sum(nil))[:16]
	var last error
	for _, base := range []string{c.dir, "/var/cache/runlot", filepath.Join(os.TempDir(), "runlot-"+strconv.Itoa(os.Geteuid()))} {
		if err := os.MkdirAll(base, 0o755); err != nil { //nolint:gosec // the server's user reads it
			last = err
			continue
		}
		if !ownedBy(base, os.Geteuid()) {
			continue
		}
		if base != c.dir {
			// A strict umask must not close a folder that holds programs alone.
			last = os.Chmod(base, 0o755) //nolint:gosec // the server's user reads it
		}
		if !c.account.reaches(base) {
			continue
		}
		target := filepath.Join(base, name)
		if ownedBy(target, os.Geteuid()) {
			return filepath.Join(target, "native"), nil
		}
		c.progress("Copying the PostgreSQL programs to " + base + " (once)")
		if last = copyOnce(dir, target); last == nil {
			return filepath.Join(target, "native"), nil
		}
	}
	return "", fault.New(fault.Environment, "postgres_install", "the user %s cannot reach the PostgreSQL programs in %s, and they could not be copied to a place that it can", c.account.name, dir).
		WithHint("install the packages outside of private folders such as /root").WithCause(last)
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
