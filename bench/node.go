package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"runtime/pprof"
	"syscall"
	"time"

	"github.com/runlot/runlot/internal/adapter/memory"
	"github.com/runlot/runlot/internal/adapter/memory/record"
	"github.com/runlot/runlot/internal/config/source"
	"github.com/runlot/runlot/internal/daemon"
	"github.com/runlot/runlot/internal/engine/ledger"
	"github.com/runlot/runlot/internal/engine/series"
)

// nodeCommand is the first argument of a copy of this program that runs the product, wired as "runlot dev" wires it, in
// a process of its own: its processor time and memory are the product's.
const nodeCommand = "node"

// nodeOptions are what a node runs.
type nodeOptions struct {
	dirs  []string
	state string
	// inMemory keeps the queues in memory instead of PostgreSQL.
	inMemory bool
	// request is a path to ask the first app for when it is live; "" for none.
	request string
	// profile is a file for a CPU profile; "" for none.
	profile string
}

// runNode is the program behind nodeCommand. It prints the URLs of the apps as one line of JSON when they are live.
func runNode(args []string) (err error) {
	var o nodeOptions
	f := flag.NewFlagSet(nodeCommand, flag.ContinueOnError)
	f.StringVar(&o.state, "state", "", "state folder")
	f.BoolVar(&o.inMemory, "memory", false, "keep the queues in memory")
	f.StringVar(&o.request, "request", "", "path to request")
	f.StringVar(&o.profile, "profile", "", "file for a CPU profile")
	if err := f.Parse(args); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	d := daemon.Options{
		Dirs: f.Args(), State: o.state, Host: "127.0.0.1", AllowPrivate: true,
		Log:      slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Observer: &observer{},
	}
	if o.request != "" {
		d.Requests = []string{o.request}
	}
	if o.inMemory {
		d.Store = openMemory
	}
	if o.profile != "" {
		file, err := os.Create(o.profile)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		if err := pprof.StartCPUProfile(file); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	return daemon.Run(ctx, d)
}

// memoryStore is the in-memory store as the daemon wants it.
type memoryStore struct{ *memory.Store }

func openMemory(context.Context, string) (daemon.Store, error) {
	return memoryStore{memory.NewDatabase().Open()}, nil
}

// Records implements daemon.Store. No queue exists there, so that every record is thrown away.
func (memoryStore) Records() ledger.Store { return &record.Store{} }

// Series implements node.Store.
func (memoryStore) Series() series.Store { return nil }

// Close implements daemon.Store.
func (s memoryStore) Close(ctx context.Context) error { return s.Release(ctx) }

// observer prints the URLs and what goes wrong.
type observer struct{}

func (*observer) Batch(record *daemon.Record) {
	if record.Reason != "" || record.Error != nil {
		fmt.Fprintf(os.Stderr, "batch of %s: %s: %s %v\n", record.Queue, record.Outcome, record.Reason, record.Error)
	}
}

func (*observer) Started(s *daemon.Summary) {
	urls := make([]string, 0, len(s.Apps))
	for i := range s.Apps {
		urls = append(urls, s.Apps[i].URL)
	}
	if err := json.NewEncoder(os.Stdout).Encode(urls); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

func (*observer) Warnings(app string, warnings []source.Diagnostic) {
	for i := range warnings {
		fmt.Fprintf(os.Stderr, "%s: %s\n", app, warnings[i].Message)
	}
}

func (*observer) Failed(app string, err error)             { fmt.Fprintln(os.Stderr, app, err) }
func (*observer) Down(app, reason string)                  { fmt.Fprintln(os.Stderr, app, reason) }
func (*observer) Line(app string, line *daemon.Line)       { fmt.Fprintln(os.Stderr, app, line.Text) }
func (*observer) Notice(string)                            {}
func (*observer) Progress(string)                          {}
func (*observer) Stopping()                                {}
func (*observer) Run(*daemon.CronRun)                      {}
func (*observer) Live(string, string, time.Duration, bool) {}

// node is a running copy.
type node struct {
	cmd *exec.Cmd
	// urls are those of the apps, in the order of their folders.
	urls []string
}

// startNode starts a copy and returns when its apps are live.
func (b *bench) startNode(ctx context.Context, o nodeOptions) (*node, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := []string{nodeCommand, "-state", o.state, "-request", o.request, "-profile", o.profile}
	if o.inMemory {
		args = append(args, "-memory")
	}
	n := &node{cmd: exec.CommandContext(ctx, self, append(args, o.dirs...)...)}
	n.cmd.Cancel = func() error { return n.cmd.Process.Signal(syscall.SIGTERM) }
	n.cmd.WaitDelay = stopTime
	n.cmd.Env = append(os.Environ(), "RUNLOT_WORKERD="+b.paths.Workerd, "RUNLOT_POSTGRES="+b.paths.Postgres)
	n.cmd.Stderr = os.Stderr
	out, err := n.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := n.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &n.urls)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the product does not start: %w", err), n.stop())
	}
	return n, nil
}

func (n *node) pid() int { return n.cmd.Process.Pid }

// stop ends the product as Ctrl-C does and waits.
func (n *node) stop() error {
	_ = n.cmd.Process.Signal(syscall.SIGTERM)
	return n.cmd.Wait()
}
