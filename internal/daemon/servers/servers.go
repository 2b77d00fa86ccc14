// Package servers knows the PostgreSQL servers that an instance's databases are on: the user's own by URL, and the
// embedded one, which it starts when it is first needed and again when it dies.
package servers

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/runlot/runlot/internal/adapter/postgres/cluster"
	"github.com/runlot/runlot/internal/adapter/postgres/preflight"
	"github.com/runlot/runlot/internal/adapter/postgres/session"
	"github.com/runlot/runlot/internal/adapter/workerd"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

// Access is how one database is reached: by the product, through URL, and by the app.
type Access struct {
	URL string
	// AppRole may call what the product offers in SQL, and nothing else of it; "" when the app comes as the user of URL.
	AppRole string
	App     workerd.Database
}

// Options are what Servers needs; all fields are required.
type Options struct {
	// Install finds the PostgreSQL build of the embedded server; it is asked when that is needed, so that who brings a server
	// of their own needs no build. Dir is the state folder that holds the embedded server's files.
	Install func() (string, error)
	Dir     string
	// URLs are the databases of the user's own by name; the name "" stands for any one database.
	URLs map[string]string
	Log  *slog.Logger
	// Progress is told what takes time, Notice what a person should know.
	Progress func(text string)
	Notice   func(text string)
}

// Servers are the PostgreSQL servers of one instance.
type Servers struct {
	o Options

	mu       sync.Mutex
	embedded *cluster.Cluster // nil before it is first needed and while it is down; guarded by mu
	claimed  string           // the database on the URL for any one, "" before one was opened; guarded by mu
	warned   map[string]bool  // warnings that were given about the user's servers; guarded by mu
	versions []string         // of the servers in use, each once; guarded by mu

	stop context.CancelFunc
	done chan struct{} // closed when keep has returned; nil when nothing is embedded
}

// New returns servers of which none is running yet.
func New(o Options) *Servers {
	return &Servers{o: o, warned: map[string]bool{}}
}

// Open returns how to reach a database: one of the user's after it was judged fit, an embedded one made if it is new.
func (s *Servers) Open(ctx context.Context, name string) (Access, error) {
	if url, ok := s.o.URLs[name]; ok {
		return s.own(ctx, name, url)
	}
	if url, ok := s.o.URLs[""]; ok {
		if err := s.claim(name, false); err != nil {
			return Access{}, err
		}
		a, err := s.own(ctx, name, url)
		if err == nil {
			err = s.claim(name, true)
		}
		return a, err
	}
	c, err := s.cluster(ctx)
	if err != nil {
		return Access{}, err
	}
	a, err := c.EnsureDatabase(ctx, name)
	if err != nil {
		return Access{}, err
	}
	return Access{
		URL: a.OwnerURL(), AppRole: a.App.User,
		App: workerd.Database{Network: "unix", Address: c.SocketPath(), Name: a.Database, User: a.App.User, Password: a.App.Password},
	}, nil
}

// Known reports whether a database was opened before, on the server that runs, or is named by a URL: one that Open would not make.
func (s *Servers) Known(name string) bool {
	if _, ok := s.o.URLs[name]; ok || name == "" {
		return name != ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, one := s.o.URLs[""]; one {
		return s.claimed == name
	}
	return s.embedded != nil && s.embedded.Knows(name)
}

// ControlDatabase is the name of the database of what celld knows of its apps. No app may have it.
const ControlDatabase = "celld"

// Control returns how to reach the database of what celld knows of its apps: one of its own, or, where the user has one
// server with one database, that.
func (s *Servers) Control(ctx context.Context) (url string, err error) {
	if url, ok := s.o.URLs[ControlDatabase]; ok {
		return url, nil
	}
	if url, ok := s.o.URLs[""]; ok {
		return url, nil
	}
	c, err := s.cluster(ctx)
	if err != nil {
		return "", err
	}
	a, err := c.EnsureDatabase(ctx, ControlDatabase)
	if err != nil {
		return "", err
	}
	return a.OwnerURL(), nil
}

// claim refuses the URL for any database to every name but the first that was opened, which an opened one becomes.
func (s *Servers) claim(name string, opened bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.claimed == "" && opened {
		s.claimed = name
	}
	if s.claimed != "" && s.claimed != name {
		return fault.New(fault.Invalid, "database_url_ambiguous", "one --database-url cannot hold the databases of several names; %q is the second", name).
			WithHint("give each its own: --database-url %s=postgres://…", name)
	}
	return nil
}

// own is a database of the user's: the app reaches it as the user who was named in the URL. It is judged each time, since
// a server can be changed while it is away; what it is warned of is said once.
func (s *Servers) own(ctx context.Context, name, url string) (Access, error) {
	report, err := preflight.Check(ctx, url)
	if err != nil {
		return Access{}, err
	}
	number, _, _ := strings.Cut(report.Version, " ")
	s.mu.Lock()
	s.use(number)
	s.mu.Unlock()
	for _, warning := range report.Warnings {
		s.warn("database " + name + ": " + warning)
	}
	config, err := session.Parse(url)
	if err != nil {
		return Access{}, err
	}
	port := strconv.Itoa(int(config.Port))
	app := workerd.Database{Network: "tcp", Address: net.JoinHostPort(config.Host, port), Name: config.Database, User: config.User, Password: config.Password}
	if filepath.IsAbs(config.Host) {
		app.Network, app.Address = "unix", filepath.Join(config.Host, ".s.PGSQL."+port)
	}
	return Access{URL: url, App: app}, nil
}

// use notes the version of a server that is in use. The caller holds mu.
func (s *Servers) use(version string) {
	if !slices.Contains(s.versions, version) {
		s.versions = append(s.versions, version)
	}
}

// InUse returns the versions of the servers in use, for a person; "" when no app has a database.
func (s *Servers) InUse() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.versions, " and ")
}

// warn gives a notice that was not given before.
func (s *Servers) warn(text string) {
	s.mu.Lock()
	given := s.warned[text]
	s.warned[text] = true
	s.mu.Unlock()
	if !given {
		s.o.Notice(text)
	}
}

// cluster returns the embedded server, started if it has to be.
func (s *Servers) cluster(ctx context.Context) (*cluster.Cluster, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.embedded != nil {
		return s.embedded, nil
	}
	if s.done != nil {
		return nil, fault.New(fault.Unavailable, queue.CodeOverloaded, "PostgreSQL is down and is being started again")
	}
	c, err := s.start(ctx)
	if err != nil {
		return nil, err
	}
	s.embedded = c
	s.use(c.Version())
	keepCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop, s.done = stop, make(chan struct{})
	go s.keep(keepCtx, c) //nolint:gosec // G118: the server outlives the call that needs it first; Stop ends it
	return c, nil
}

func (s *Servers) start(ctx context.Context) (*cluster.Cluster, error) {
	install, err := s.o.Install()
	if err != nil {
		return nil, err
	}
	return cluster.Start(ctx, cluster.Options{Install: install, Dir: filepath.Join(s.o.Dir, "postgres"), Log: s.o.Log, Progress: s.o.Progress})
}

// keep owns the embedded server: it starts it again when it has died, and stops it at the end.
func (s *Servers) keep(ctx context.Context, c *cluster.Cluster) {
	defer close(s.done)
	for {
		select {
		case <-ctx.Done():
			stopCtx, cancel := context.WithTimeout(context.Background(), queue.DrainTime)
			defer cancel()
			if err := c.Stop(stopCtx); err != nil {
				s.o.Log.Warn("PostgreSQL did not stop cleanly", "error", fault.Detail(err))
			}
			return
		case <-c.Done():
		}
		s.set(nil)
		s.o.Log.Warn("PostgreSQL ended by itself", "error", fault.Detail(c.Err()))
		s.o.Notice("PostgreSQL ended by itself; it is started again")
		wait := queue.Backoff{First: queue.RestartFirst, Max: queue.RestartMax}
		for try := 1; ; try++ {
			var err error
			if c, err = s.start(ctx); err == nil {
				s.set(c)
				break
			}
			if ctx.Err() != nil {
				return
			}
			s.o.Notice(fmt.Sprintf("PostgreSQL does not start: %s", fault.From(err)))
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait.Delay(try)):
			}
		}
	}
}

func (s *Servers) set(c *cluster.Cluster) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.embedded = c
}

// Stop stops the embedded server, when there is one, and waits. Twice is fine.
func (s *Servers) Stop() {
	if s.done == nil {
		return
	}
	s.stop()
	<-s.done
}
