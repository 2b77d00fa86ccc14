package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/runlot/runlot/bench/report"
	"github.com/runlot/runlot/internal/adapter/postgres/cluster"
)

// server is the PostgreSQL that the engine and its peers share: the product's own embedded cluster, as the product sets
// it up, with fsync and synchronous_commit on.
type server struct {
	cluster *cluster.Cluster
	// databases are the URLs of those that were made.
	databases []string
}

// postgres returns the server, started when it is first needed.
func (b *bench) postgres(ctx context.Context) (*server, error) {
	if b.server != nil {
		return b.server, nil
	}
	b.progressf("starting PostgreSQL")
	c, err := cluster.Start(ctx, cluster.Options{Install: b.paths.Postgres, Dir: filepath.Join(b.tmp, "postgres")})
	if err != nil {
		return nil, err
	}
	b.server = &server{cluster: c}
	return b.server, nil
}

// database makes an empty database and returns its URL.
func (s *server) database(ctx context.Context) (string, error) {
	access, err := s.cluster.EnsureDatabase(ctx, "bench"+strconv.Itoa(len(s.databases)+1))
	if err != nil {
		return "", err
	}
	s.databases = append(s.databases, access.OwnerURL())
	return access.OwnerURL(), nil
}

// clean removes the dead rows that the last window left in any database. Autovacuum looks at one database at a time and
// comes many seconds later, so it would clean up after one subject in the window of another.
func (s *server) clean(ctx context.Context) error {
	if s == nil {
		return nil
	}
	for _, url := range s.databases {
		if err := vacuum(ctx, url); err != nil {
			return fmt.Errorf("clean up after a window: %w", err)
		}
	}
	return nil
}

func vacuum(ctx context.Context, url string) (err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	_, err = conn.Exec(ctx, `VACUUM`)
	return err
}

// pid is the server's first process.
func (s *server) pid() int { return s.cluster.PID() }

// stop ends the server; one that never started needs none.
func (s *server) stop() error {
	if s == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return s.cluster.Stop(ctx)
}

// machine describes where the figures are measured.
func (b *bench) machine(ctx context.Context) (report.Machine, error) {
	versions, err := b.paths.Version(ctx)
	if err != nil {
		return report.Machine{}, err
	}
	m := report.Machine{
		CPUs: runtime.NumCPU(), Model: field("/proc/cpuinfo", "model name"), Kernel: firstLine("/proc/sys/kernel/osrelease"),
		Go: runtime.Version(), Postgres: versions.Postgres, Workerd: versions.Workerd,
	}
	if kib, err := strconv.ParseInt(strings.TrimSuffix(field("/proc/meminfo", "MemTotal"), " kB"), 10, 64); err == nil {
		m.Memory = kib << 10
	}
	if first, _, ok := strings.Cut(firstLine("/proc/loadavg"), " "); ok {
		if load, err := strconv.ParseFloat(first, 64); err == nil {
			m.Load = load
		}
	}
	return m, nil
}

// field finds "name: value" in a file of /proc; "" where there is none.
func field(path, name string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func firstLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}
