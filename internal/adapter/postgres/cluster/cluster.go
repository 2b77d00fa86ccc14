package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/runlot/runlot/internal/adapter/postgres/cluster/install"
	"github.com/runlot/runlot/internal/core/fault"
)

const (
	// port is part of the socket's name; nothing listens on a network.
	port = 5432
	// maxSocketPath is the longest path of a unix socket on Linux, in bytes; macOS has three less.
	maxSocketPath = 103
	// stopImmediate is how long an immediate shutdown may take before the server is killed. PostgreSQL itself kills
	// children that do not obey after five seconds.
	stopImmediate = 10 * time.Second
	// adminUser is the superuser of the cluster, adminDatabase where it works.
	adminUser     = "runlot"
	adminDatabase = "postgres"
)

// Options say what to run and where.
type Options struct {
	// Install is the folder of a PostgreSQL build, with bin, lib and share in it.
	Install string
	// Dir is the state folder; it is made when it is missing.
	Dir string
	// Log takes the server's own log. Nil discards it.
	Log *slog.Logger
	// Progress, when set, is told in a few words what is going on while a start takes its time.
	Progress func(text string)
}

// Cluster is a running server. It has to be stopped.
type Cluster struct {
	options Options
	log     *slog.Logger
	// dir is the state folder; dataDir, runDir and the rest are in it, see the package doc.
	dir, dataDir, runDir string
	account              install.Account
	build                *install.Build
	server               *process

	lock, serverLock *os.File

	// mu guards credentials and makes one EnsureDatabase run at a time.
	mu          sync.Mutex
	credentials *credentials

	stopping chan struct{}
	stopOnce sync.Once
	done     chan struct{}
	err      error
}

// Start starts the cluster in options.Dir, made on first use, and returns when it takes connections. While it recovers
// from a crash that can take minutes: only ctx bounds it. It fails with a fault of kind Conflict when another process
// runs the cluster, and of kind Environment when an operator has to mend something; nothing is left running then.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	c := &Cluster{
		options: options, log: options.Log,
		stopping: make(chan struct{}), done: make(chan struct{}),
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if err := c.start(ctx); err != nil {
		c.release()
		if ended := ctx.Err(); ended != nil && errors.Is(err, ended) && fault.KindOf(err) != fault.Timeout {
			return nil, fault.New(fault.Timeout, "postgres_start", "PostgreSQL was not started in time").WithCause(err)
		}
		return nil, err
	}
	go c.watch()
	return c, nil
}

func (c *Cluster) progress(text string) {
	if c.options.Progress != nil {
		c.options.Progress(text)
	}
}

func (c *Cluster) start(ctx context.Context) error {
	var err error
	if c.dir, err = makeStateFolder(c.options.Dir); err != nil {
		return err
	}
	c.dataDir = filepath.Join(c.dir, "data")
	if c.lock, err = LockFolder(c.dir); err != nil {
		return err
	}
	if c.account, err = install.FindAccount(c.dataDir); err != nil {
		return err
	}
	if err := c.prepareRunDir(); err != nil {
		return err
	}
	c.build, err = install.Prepare(ctx, install.Options{Dir: c.options.Install, Account: c.account, State: c.dir, Run: c.runDir, Progress: c.options.Progress})
	if err != nil {
		return err
	}
	exists, err := c.inspectData()
	if err != nil {
		return err
	}
	if c.credentials, err = loadCredentials(c.dir, exists); err != nil {
		return err
	}
	if err := c.lockServer(ctx); err != nil {
		return err
	}
	if !exists {
		if err := c.initialize(ctx); err != nil {
			return err
		}
	}
	if err := c.account.GiveTree(c.dataDir); err != nil {
		return unusable(c.dataDir, err)
	}
	if err := c.writeConf(c.dataDir); err != nil {
		return unusable(c.dataDir, err)
	}
	c.progress("Starting PostgreSQL " + c.build.Version)
	return c.startServer(ctx)
}

// makeStateFolder returns the folder's path without symbolic links: the server's user may not be able to follow them.
func makeStateFolder(dir string) (string, error) {
	mode := fs.FileMode(0o700)
	if os.Geteuid() == 0 {
		mode = 0o711 // the server's user goes through it to its data
	}
	if err := os.MkdirAll(dir, mode); err != nil {
		return "", unusable(dir, err)
	}
	path, err := install.RealPath(dir)
	if err != nil {
		return "", unusable(dir, err)
	}
	return path, nil
}

// prepareRunDir makes the folder of the socket: in the state folder, unless the socket's path would be too long there
// or holds a comma, which separates folders for the server and its clients, or the server's user cannot get there; then in
// a temporary folder whose name follows from the state folder's.
func (c *Cluster) prepareRunDir() error {
	fallback := "runlot-" + shortHash(c.dir)
	candidates := []string{filepath.Join(c.dir, "run"), filepath.Join(os.TempDir(), fallback), filepath.Join("/tmp", fallback)}
	var last error
	for _, dir := range candidates {
		if len(dir)+len("/"+socketName) > maxSocketPath || strings.Contains(dir, ",") || !c.account.Reaches(filepath.Dir(dir)) {
			continue
		}
		if last = c.makeRunDir(dir); last == nil {
			c.runDir = dir
			return nil
		}
	}
	return fault.New(fault.Environment, "socket_folder", "there is no usable place for the socket of PostgreSQL: neither %s nor the temporary folder", candidates[0]).
		WithHint("choose a state folder with a shorter path (--state), or set TMPDIR").WithCause(last)
}

var socketName = ".s.PGSQL." + strconv.Itoa(port)

func (c *Cluster) makeRunDir(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	// In the temporary folder somebody else may have made it first.
	if !c.account.Trusts(dir) {
		return fmt.Errorf("%s belongs to somebody else", dir)
	}
	if err := c.account.Give(dir); err != nil {
		return err
	}
	return os.Chmod(dir, 0o700) //nolint:gosec // a folder needs its x
}

// inspectData reports whether there is a data folder, and refuses one that this build cannot or must not run. It
// changes nothing.
func (c *Cluster) inspectData() (bool, error) {
	entries, err := os.ReadDir(c.dataDir)
	if errors.Is(err, fs.ErrNotExist) || (err == nil && len(entries) == 0) {
		return false, nil
	}
	if err != nil {
		return false, unusable(c.dataDir, err)
	}
	version, err := os.ReadFile(filepath.Join(c.dataDir, "PG_VERSION"))
	if err != nil || !included(c.dataDir) {
		return false, fault.New(fault.Environment, "postgres_data", "the folder %s is not a data folder of this program", c.dataDir).
			WithHint("move it away, or choose another state folder with --state (celld: --data); nothing was changed")
	}
	found := strings.TrimSpace(string(version))
	if _, err := strconv.Atoi(found); err != nil {
		return false, fault.New(fault.Environment, "postgres_data", "the data folder %s is damaged: its PG_VERSION holds %q", c.dataDir, found).
			WithHint("restore a backup; nothing was changed")
	}
	if found != strconv.Itoa(c.build.Major) {
		return false, fault.New(fault.Environment, "postgres_version", "the data in %s was made by PostgreSQL %s, and the installed programs are PostgreSQL %s", c.dataDir, found, c.build.Version).
			WithHint("go back to the release with PostgreSQL %s and dump the databases with pg_dump, or run pg_upgrade; nothing was changed", found)
	}
	return true, nil
}

// Socket returns the folder of the unix socket and the port in its name: DIR/.s.PGSQL.PORT.
func (c *Cluster) Socket() (dir string, portNumber int) { return c.runDir, port }

// SocketPath returns the path of the unix socket itself.
func (c *Cluster) SocketPath() string { return filepath.Join(c.runDir, socketName) }

// Version returns the server's version, as "18.4".
func (c *Cluster) Version() string { return c.build.Version }

// PID returns the process id of the server.
func (c *Cluster) PID() int { return c.server.cmd.Process.Pid }

// Done is closed when the server has ended, for whatever reason.
func (c *Cluster) Done() <-chan struct{} { return c.done }

// Err returns nil while the server runs and after Stop, and a fault of kind Unavailable with the server's last words
// after it ended by itself. The state folder is free then: Start may be called again.
func (c *Cluster) Err() error {
	select {
	case <-c.done:
		return c.err
	default:
		return nil
	}
}

// watch waits for the server's end.
func (c *Cluster) watch() {
	<-c.server.Done()
	select {
	case <-c.stopping:
	default:
		c.err = fault.New(fault.Unavailable, "postgres_ended", "PostgreSQL ended unexpectedly (%s); %s", c.server.exit(), c.server.log.Tail()).WithCause(c.server.Err())
	}
	c.release()
	close(c.done)
}

// Stop ends the server and waits until it is gone: with a fast shutdown, which rolls open transactions back and writes
// a checkpoint, and when ctx ends first with an immediate one, after which the next start has to recover. Calling it
// twice is fine.
func (c *Cluster) Stop(ctx context.Context) error {
	c.stopOnce.Do(func() { close(c.stopping) })
	if end(ctx, c.server) {
		<-c.done
		return nil
	}
	<-c.done
	return fault.New(fault.Timeout, "postgres_stop", "PostgreSQL did not stop in time and was ended at once; it recovers at its next start").WithCause(ctx.Err())
}

// end ends the server and reports whether it ended in the time of ctx.
func end(ctx context.Context, p *process) bool {
	p.signal(syscall.SIGINT)
	select {
	case <-p.Done():
		return true
	case <-ctx.Done():
	}
	p.signal(syscall.SIGQUIT)
	patience := time.NewTimer(stopImmediate)
	defer patience.Stop()
	select {
	case <-p.Done():
	case <-patience.C:
		p.signal(syscall.SIGKILL)
		<-p.Done()
	}
	return false
}

// release gives the folder back.
func (c *Cluster) release() {
	if c.runDir != "" && filepath.Dir(c.runDir) != c.dir {
		_ = os.RemoveAll(c.runDir)
	}
	for _, file := range []*os.File{c.serverLock, c.lock} {
		if file != nil {
			_ = file.Close()
		}
	}
}

// Admin opens a session of the superuser, who may do everything in every database. The caller closes it.
func (c *Cluster) Admin(ctx context.Context) (*pgx.Conn, error) {
	return c.connect(ctx, adminDatabase)
}

func (c *Cluster) connect(ctx context.Context, database string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(c.url(database, Role{User: adminUser, Password: c.credentials.Admin}))
	if err != nil {
		return nil, errors.New("the administrator's address cannot be read") // the parser's words may show the password
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if refused(err) {
		return nil, fault.New(fault.Environment, "credentials", "the PostgreSQL in %s refuses the administrator's password in %s", c.dir, c.credentials.path).
			WithHint("restore that file from a backup; it belongs to the data folder beside it").WithCause(err)
	}
	if err != nil {
		return nil, fault.New(fault.Unavailable, "postgres_connect", "PostgreSQL does not let the administrator in: %v", err).WithCause(err)
	}
	return conn, nil
}
