package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/runlot/runlot/internal/adapter/postgres/cluster"
	"github.com/runlot/runlot/internal/adapter/workerd"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

// access is how one database is reached: by the product, and by the app.
type access struct {
	url     string
	appRole string
	app     workerd.Database
}

// servers are the PostgreSQL servers that the databases are on: the user's own by URL, and the embedded one for the
// rest, which is started when it is first needed and started again when it dies.
type servers struct {
	install  string
	dir      string
	urls     map[string]string
	log      *slog.Logger
	progress func(string)
	notice   func(string)

	mu       sync.Mutex
	embedded *cluster.Cluster // nil before it is first needed and while it is down; guarded by mu
	used     map[string]bool  // databases on the URL for any database; guarded by mu

	stop context.CancelFunc
	done chan struct{} // closed when keep has returned; nil when nothing is embedded
}

// open returns how to reach a database, making it if it is embedded and new.
func (s *servers) open(ctx context.Context, name string) (access, error) {
	if url, ok := s.urls[name]; ok {
		return own(url)
	}
	if url, ok := s.urls[""]; ok {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.used[name] = true
		if len(s.used) > 1 {
			return access{}, fault.New(fault.Invalid, "database_url_ambiguous", "one --database-url cannot hold the databases of several names; %q is the second", name).
				WithHint("give each its own: --database-url %s=postgres://…", name)
		}
		return own(url)
	}
	c, err := s.cluster(ctx)
	if err != nil {
		return access{}, err
	}
	a, err := c.EnsureDatabase(ctx, name)
	if err != nil {
		return access{}, err
	}
	return access{
		url: a.OwnerURL(), appRole: a.App.User,
		app: workerd.Database{Network: "unix", Address: c.SocketPath(), Name: a.Database, User: a.App.User, Password: a.App.Password},
	}, nil
}

// own is a database of the user's: the app reaches it as the user who was named in the URL.
func own(url string) (access, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return access{}, fault.New(fault.Invalid, "database_url_invalid", "--database-url is not a PostgreSQL URL").
			WithHint("for example postgres://user:password@localhost:5432/mine").WithCause(err)
	}
	port := strconv.Itoa(int(config.Port))
	app := workerd.Database{Network: "tcp", Address: net.JoinHostPort(config.Host, port), Name: config.Database, User: config.User, Password: config.Password}
	if filepath.IsAbs(config.Host) {
		app.Network, app.Address = "unix", filepath.Join(config.Host, ".s.PGSQL."+port)
	}
	return access{url: url, app: app}, nil
}

// cluster returns the embedded server, started if it has to be.
func (s *servers) cluster(ctx context.Context) (*cluster.Cluster, error) {
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
	keepCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop, s.done = stop, make(chan struct{})
	go s.keep(keepCtx, c) //nolint:gosec // G118: the server outlives the call that needs it first; Stop ends it
	return c, nil
}

func (s *servers) start(ctx context.Context) (*cluster.Cluster, error) {
	return cluster.Start(ctx, cluster.Options{Install: s.install, Dir: filepath.Join(s.dir, "postgres"), Log: s.log, Progress: s.progress})
}

// keep owns the embedded server: it starts it again when it has died, and stops it at the end.
func (s *servers) keep(ctx context.Context, c *cluster.Cluster) {
	defer close(s.done)
	for {
		select {
		case <-ctx.Done():
			stopCtx, cancel := context.WithTimeout(context.Background(), queue.DrainTime)
			defer cancel()
			if err := c.Stop(stopCtx); err != nil {
				s.log.Warn("PostgreSQL did not stop cleanly", "error", fault.Detail(err))
			}
			return
		case <-c.Done():
		}
		s.set(nil)
		s.log.Warn("PostgreSQL ended by itself", "error", fault.Detail(c.Err()))
		s.notice("PostgreSQL ended by itself; it is started again")
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
			s.notice(fmt.Sprintf("PostgreSQL does not start: %s", fault.From(err)))
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait.Delay(try)):
			}
		}
	}
}

func (s *servers) set(c *cluster.Cluster) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.embedded = c
}

// Stop stops the embedded server, when there is one, and waits. Twice is fine.
func (s *servers) Stop() {
	if s.done == nil {
		return
	}
	s.stop()
	<-s.done
}
