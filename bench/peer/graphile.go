package peer

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/runlot/runlot/bench/measure"
)

// Graphile works off no-op jobs in two Node processes, with the settings that its performance page calls fastest. As
// with River, the jobs are there before the clock starts.
type Graphile struct {
	conn   *pgx.Conn
	url    string
	script string
	pid    int
}

const (
	graphileProcesses = 2
	// graphileRate is more jobs a second than it works off, per core.
	graphileRate = 25_000
)

// NewGraphile makes its schema in an empty database. dir is the folder of the benchmarks, with their node_modules.
func NewGraphile(ctx context.Context, url, dir string, pid int) (*Graphile, error) {
	g := &Graphile{url: url, script: filepath.Join(dir, "peer", "graphile", "graphile.mjs"), pid: pid}
	if out, err := exec.CommandContext(ctx, "node", g.script, "migrate", url).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("graphile-worker cannot make its schema: %w: %s", err, bytes.TrimSpace(out))
	}
	var err error
	g.conn, err = pgx.Connect(ctx, url)
	return g, err
}

// Close ends the session.
func (g *Graphile) Close(ctx context.Context) error { return g.conn.Close(ctx) }

// Measure counts jobs whose task ran.
func (g *Graphile) Measure(ctx context.Context, w measure.Window) (sample measure.Sample, err error) {
	w.Most = int64((w.Warm + w.Long).Seconds() * graphileRate * float64(runtime.NumCPU()))
	for _, statement := range []string{
		`TRUNCATE graphile_worker._private_jobs`,
		`INSERT INTO graphile_worker._private_tasks (identifier) VALUES ('noop') ON CONFLICT DO NOTHING`,
		`INSERT INTO graphile_worker._private_jobs (task_id, payload)
			SELECT t.id, '` + string(Body) + `'::json FROM graphile_worker._private_tasks t, generate_series(1, ` + strconv.FormatInt(w.Most, 10) + `)
			WHERE t.identifier = 'noop'`,
		`ANALYZE graphile_worker._private_jobs`,
	} {
		if _, err := g.conn.Exec(ctx, statement); err != nil {
			return sample, err
		}
	}
	var processes []*nodeProcess
	defer func() {
		for _, p := range processes {
			err = errors.Join(err, p.stop())
		}
	}()
	roots := []int{g.pid}
	for range graphileProcesses {
		p, err := startNode(ctx, g.script, g.url)
		if err != nil {
			return sample, err
		}
		processes = append(processes, p)
		roots = append(roots, p.cmd.Process.Pid)
	}
	for _, p := range processes {
		if _, err := io.WriteString(p.in, "go\n"); err != nil {
			return sample, err
		}
	}
	return w.Count(ctx, func() int64 {
		done := int64(0)
		for _, p := range processes {
			done += p.done.Load()
		}
		return done
	}, roots...)
}

// nodeProcess is one process of graphile.mjs.
type nodeProcess struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	errors bytes.Buffer
	done   atomic.Int64
	read   sync.WaitGroup
}

// startNode returns when the process is ready to begin.
func startNode(ctx context.Context, script, url string) (*nodeProcess, error) {
	p := &nodeProcess{cmd: exec.CommandContext(ctx, "node", script, "work", url)}
	p.cmd.Stderr = &p.errors
	p.cmd.WaitDelay = time.Second
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		return nil, errors.Join(errors.New("graphile-worker does not start"), p.stop())
	}
	p.read.Go(func() {
		for lines.Scan() {
			if n, err := strconv.ParseInt(strings.TrimSpace(lines.Text()), 10, 64); err == nil {
				p.done.Store(n)
			}
		}
	})
	return p, nil
}

// stop lets the process return the jobs that it holds and end; one that does not is killed.
func (p *nodeProcess) stop() error {
	kill := time.AfterFunc(10*time.Second, func() { _ = p.cmd.Process.Kill() })
	defer kill.Stop()
	_ = p.in.Close()
	p.read.Wait()
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("graphile-worker: %w: %s", err, bytes.TrimSpace(p.errors.Bytes()))
	}
	return nil
}
