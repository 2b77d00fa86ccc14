// Package checkup looks at the machine that a celld is to run on, and says what to mend.
package checkup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/runlot/runlot/internal/adapter/binaries"
	"github.com/runlot/runlot/internal/adapter/postgres/cluster"
	"github.com/runlot/runlot/internal/adapter/postgres/cluster/install"
	"github.com/runlot/runlot/internal/adapter/postgres/preflight"
	"github.com/runlot/runlot/internal/adapter/postgres/session"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/daemon/celld"
	"github.com/runlot/runlot/internal/daemon/servers"
	"github.com/runlot/runlot/internal/daemon/state"
)

// State is how something is.
type State string

// The states: fit, fit but worth a look, and in the way of a start.
const (
	OK   State = "ok"
	Warn State = "warn"
	Fail State = "fail"
)

// Finding is what one check found.
type Finding struct {
	// Check is what was looked at, in one or two words.
	Check string `json:"check"`
	State State  `json:"state"`
	// Text is what was found, and Hint what mends it; "" when nothing has to be.
	Text string `json:"text"`
	Hint string `json:"hint,omitempty"`
}

// checkup gathers findings.
type checkup struct {
	settings *celld.Settings
	data     string
	// running says that a celld runs on the data folder.
	running bool
	list    []Finding
}

// Run makes all checks. It changes nothing but for files of its own, which it removes.
func Run(ctx context.Context, s *celld.Settings) ([]Finding, error) {
	data, err := filepath.Abs(s.Data)
	if err != nil {
		return nil, err
	}
	c := &checkup{settings: s, data: data}
	c.folder()
	c.disk()
	c.workerd(ctx)
	c.embedded(ctx)
	for _, name := range slices.Sorted(maps.Keys(s.DatabaseURLs)) {
		c.own(ctx, name, s.DatabaseURLs[name])
	}
	c.port(ctx, "public port", "listen", s.Listen)
	c.port(ctx, "operator port", "operator", s.Operator)
	c.files()
	c.notices(ctx)
	return c.list, ctx.Err()
}

func (c *checkup) addf(check string, state State, hint, format string, args ...any) {
	c.list = append(c.list, Finding{Check: check, State: state, Text: fmt.Sprintf(format, args...), Hint: hint})
}

// fault adds an error as what is in the way.
func (c *checkup) fault(check string, err error) {
	f := fault.From(err)
	text := f.Message
	if f.Kind == fault.Internal {
		text = fault.Detail(err)
	}
	c.addf(check, Fail, f.Hint, "%s", text)
}

// existing is the folder, or the nearest one above it that exists.
func existing(dir string) string {
	for {
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

func (c *checkup) folder() {
	const check = "data folder"
	there := existing(c.data)
	probe, err := os.CreateTemp(there, ".check-*")
	if err != nil {
		c.addf(check, Fail, "give it to the user that celld runs as, or name another folder with --data", "%s cannot be written to: %s", there, reason(err))
		return
	}
	_ = probe.Close()
	_ = os.Remove(probe.Name())
	if there != c.data {
		c.addf(check, OK, "", "%s is made at the first start", c.data)
		return
	}
	info, err := os.Stat(c.data)
	if err != nil {
		c.fault(check, err)
		return
	}
	if !info.IsDir() {
		c.addf(check, Fail, "name a folder with --data", "%s is not a folder", c.data)
		return
	}
	if _, err := os.Lstat(filepath.Join(c.data, state.Restoring)); err == nil {
		c.addf(check, Fail, "restore the backup again: celld restore FILE --force --data "+c.data, "a restore into %s was cut off before its end", c.data)
		return
	}
	if _, err := os.Lstat(filepath.Join(c.data, "lock")); err == nil { // without it nothing runs here
		lock, err := cluster.LockFolder(c.data)
		if fault.KindOf(err) == fault.Conflict {
			c.running = true
			c.addf(check, OK, "", "%s; celld runs on it", c.data)
			return
		}
		if err != nil {
			c.fault(check, err)
			return
		}
		_ = lock.Close()
	}
	if info.Mode().Perm()&0o022 != 0 {
		c.addf(check, Warn, "chmod go-w "+c.data, "%s can be written to by other users", c.data)
		return
	}
	c.addf(check, OK, "", "%s", c.data)
}

func (c *checkup) disk() {
	const check, hint = "disk", "free space, or name a folder on another disk with --data"
	there := existing(c.data)
	free, err := servers.FreeSpace(there)
	switch {
	case err != nil:
		c.addf(check, Warn, "", "the free space of %s is not known: %s", there, reason(err))
	case free < queue.DiskReserve:
		c.addf(check, Fail, hint, "%d MiB free; with less than %d MiB sends are refused", free>>20, queue.DiskReserve>>20)
	case free < queue.DiskWarn:
		c.addf(check, Warn, hint, "%d MiB free", free>>20)
	default:
		c.addf(check, OK, "", "%d GiB free", free>>30)
	}
}

func (c *checkup) workerd(ctx context.Context) {
	const check = "workerd"
	ctx, cancel := context.WithTimeout(ctx, queue.CheckTime)
	defer cancel()
	program, err := binaries.Workerd(".")
	if err != nil {
		c.fault(check, err)
		return
	}
	version, err := binaries.WorkerdVersion(ctx, program)
	if err != nil {
		c.fault(check, err)
		return
	}
	c.addf(check, OK, "", "%s runs", version)
}

// embedded looks whether the PostgreSQL that comes along would run, where it is needed.
func (c *checkup) embedded(ctx context.Context) {
	const check = "PostgreSQL"
	if _, all := c.settings.DatabaseURLs[""]; all {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, queue.CheckTime)
	defer cancel()
	dir, err := binaries.Postgres(".")
	if err != nil {
		c.fault(check, err)
		return
	}
	version, err := runs(ctx, dir, filepath.Join(c.data, "postgres"))
	if err != nil {
		c.fault(check, err)
		return
	}
	c.addf(check, OK, "", "%s comes along and runs; its clock is this machine's", version)
}

// runs tries the server's program as the user that it would run as, with what is written of it in a temporary folder.
func runs(ctx context.Context, dir, data string) (version string, err error) {
	account, err := install.FindAccount(filepath.Join(data, "data"))
	if err != nil {
		return "", err
	}
	base := os.TempDir()
	if !account.Reaches(base) {
		base = "/tmp" // where everybody gets
	}
	temp, err := os.MkdirTemp(base, "runlot-check-*")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(temp)
	if err := os.Chmod(temp, 0o711); err != nil { //nolint:gosec // the server's user goes through it
		return "", err
	}
	build, err := install.Prepare(ctx, install.Options{Dir: dir, Account: account, State: temp, Run: temp})
	if err != nil {
		return "", err
	}
	return build.Version, nil
}

// own judges a database on a server of the operator's own as a start does, and compares its clock with this machine's.
func (c *checkup) own(ctx context.Context, name, url string) {
	check := "database " + name
	if name == "" {
		check = "database"
	}
	ctx, cancel := context.WithTimeout(ctx, queue.CheckTime)
	defer cancel()
	report, err := preflight.Check(ctx, url)
	if err != nil {
		c.fault(check, err)
		return
	}
	for _, warning := range report.Warnings {
		c.addf(check, Warn, "", "%s", warning)
	}
	apart, err := clock(ctx, url)
	if err != nil {
		c.fault(check, err)
		return
	}
	c.clocks(check, report.Version, apart)
}

// clocks judges a clock that is apart from this machine's.
func (c *checkup) clocks(check, version string, apart time.Duration) {
	const hint = "run a time service (chrony, systemd-timesyncd) on both machines"
	switch away := apart.Abs(); {
	case away > queue.ClockFail:
		c.addf(check, Fail, hint, "PostgreSQL %s; its clock is %s from this machine's", version, away.Round(time.Second))
	case away > queue.ClockWarn:
		c.addf(check, Warn, hint, "PostgreSQL %s; its clock is %s from this machine's", version, away.Round(time.Second/10))
	default:
		c.addf(check, OK, "", "PostgreSQL %s; its clock agrees with this machine's", version)
	}
}

// clock returns how far the clock of a database is ahead of this machine's, which is asked in the middle of the way.
func clock(ctx context.Context, url string) (time.Duration, error) {
	config, err := session.Parse(url)
	if err != nil {
		return 0, err
	}
	conn, err := session.Open(ctx, config, session.IdleName)
	if err != nil {
		return 0, err
	}
	defer session.Close(ctx, conn)
	var theirs time.Time
	began := time.Now()
	if err := conn.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&theirs); err != nil {
		return 0, session.Classify(err)
	}
	return theirs.Sub(began.Add(time.Since(began) / 2)), nil
}

func (c *checkup) port(ctx context.Context, check, setting, address string) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	switch {
	case err == nil:
		_ = l.Close()
		c.addf(check, OK, "", "%s is free", address)
	case errors.Is(err, syscall.EADDRINUSE) && c.running:
		c.addf(check, OK, "", "%s is in use, as by the celld that runs", address)
	case errors.Is(err, syscall.EADDRINUSE):
		c.addf(check, Fail, "stop what listens there, or choose another address with --"+setting, "%s is in use", address)
	case errors.Is(err, syscall.EACCES):
		c.addf(check, Fail, "have systemd hand the socket over, or give the program the right: setcap cap_net_bind_service=+ep", "this user may not listen on %s", address)
	default:
		c.addf(check, Fail, "give --"+setting+" an address of this machine, like 127.0.0.1:8787 or :8787", "cannot listen on %s: %s", address, reason(err))
	}
}

func (c *checkup) files() {
	const check, hint = "open files", "raise it: LimitNOFILE= in the systemd unit, or ulimit -n"
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		c.addf(check, Warn, "", "the limit is not known: %s", reason(err))
		return
	}
	// A Go program raises its own limit to the most that it may have.
	switch most := limit.Max; {
	case most < queue.FilesFail:
		c.addf(check, Fail, hint, "at most %d", most)
	case most < queue.FilesWarn:
		c.addf(check, Warn, hint, "at most %d; each connection takes one", most)
	default:
		c.addf(check, OK, "", "at most %d", most)
	}
}

// reason is what the system says, without the path.
func reason(err error) string {
	if e, ok := errors.AsType[*os.PathError](err); ok {
		return e.Err.Error()
	}
	if e, ok := errors.AsType[*net.OpError](err); ok {
		return e.Err.Error()
	}
	return err.Error()
}
