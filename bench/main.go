// Command bench measures Runlot next to its peers, in the same run, on the same machine and the same PostgreSQL. It is
// a program and not a test: it prints one line a figure and writes them as JSON. docs/BENCHMARKS.md says what each
// figure is.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/runlot/runlot/bench/measure"
	"github.com/runlot/runlot/bench/report"
	"github.com/runlot/runlot/internal/adapter/binaries"
)

// options are the command line.
type options struct {
	only    []string
	seconds float64
	rounds  int
	holdFor time.Duration
	profile string
	out     string
	dir     string
}

// bench is one run.
type bench struct {
	options
	paths  binaries.Paths
	tmp    string
	server *server
	report *report.Report
}

func main() {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case nodeCommand:
			exit(runNode(os.Args[2:]))
		case celldCommand:
			exit(runCelld(os.Args[2:]))
		case jetstreamCommand:
			exit(runJetStream(os.Args[2:]))
		}
	}
	o, err := parse(os.Args[1:])
	if err != nil {
		os.Exit(2)
	}
	exit(run(o))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func parse(args []string) (options, error) {
	var o options
	var only string
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.StringVar(&only, "only", "", "measure these figures only, a `list` of "+strings.Join(names(), ", "))
	f.Float64Var(&o.seconds, "seconds", 4, "length of the window of one round")
	f.IntVar(&o.rounds, "rounds", 3, "rounds of each figure; the median counts")
	f.DurationVar(&o.holdFor, "hold", time.Minute, "how long the other session of the figure held keeps its transaction open")
	f.StringVar(&o.profile, "profile", "", "write CPU profiles of our own processes into this `folder`")
	f.StringVar(&o.out, "out", "bench/results.json", "`file` for the results")
	f.StringVar(&o.dir, "dir", "bench", "`folder` of the benchmarks' sources, with the peers that run on Node")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if only != "" {
		o.only = strings.Split(only, ",")
	}
	for _, name := range o.only {
		if !slices.Contains(names(), name) {
			err := fmt.Errorf("there is no figure %q; there are %s", name, strings.Join(names(), ", "))
			fmt.Fprintln(os.Stderr, "bench:", err)
			return o, err
		}
	}
	if o.seconds <= 0 || o.rounds <= 0 || o.holdFor <= 0 {
		err := errors.New("-seconds, -rounds and -hold are above 0")
		fmt.Fprintln(os.Stderr, "bench:", err)
		return o, err
	}
	return o, nil
}

func run(o options) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A second interrupt ends the program at once.
	context.AfterFunc(ctx, stop)
	b := &bench{options: o}
	if b.paths, err = binaries.Find(b.dir); err != nil {
		return err
	}
	if b.profile != "" {
		if err := os.MkdirAll(b.profile, 0o755); err != nil {
			return err
		}
		if b.profile, err = filepath.Abs(b.profile); err != nil {
			return err
		}
	}
	if b.tmp, err = os.MkdirTemp("", "runlot-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.tmp)) }()
	// PostgreSQL's user has to get in when this runs as root.
	if err := os.Chmod(b.tmp, 0o711); err != nil {
		return err
	}
	machine, err := b.machine(ctx)
	if err != nil {
		return err
	}
	b.report = report.New(os.Stdout, "make bench ARGS='"+strings.Join(os.Args[1:], " ")+"'", machine)
	defer func() { err = errors.Join(err, b.server.stop()) }()
	begun := time.Now()
	for _, g := range groups {
		if err := g.run(b, ctx); err != nil {
			b.clear()
			return fmt.Errorf("%s: %w", g.names[0], err)
		}
	}
	b.clear()
	if err := b.report.Write(o.out); err != nil {
		return err
	}
	missed, targets := b.report.Missed()
	fmt.Printf("%d of %d targets met in %s; %s\n", targets-missed, targets, time.Since(begun).Round(time.Second), o.out)
	return nil
}

// group is figures that are measured together.
type group struct {
	names []string
	run   func(b *bench, ctx context.Context) error
}

var groups = []group{
	{[]string{"engine", "recorded", "watched", "paged", "bare", "river", "graphile"}, (*bench).engineRates},
	{[]string{"workers", "workers-one", "workers-memory", "workerd"}, (*bench).workerRates},
	{[]string{"celld", "celld-paged", "page"}, (*bench).deployed},
	{[]string{"pull", "jetstream", "jetstream-sync"}, (*bench).pullRates},
	{[]string{"single", "single-workerd", "disk"}, (*bench).singleRates},
	{[]string{"latency-engine", "latency-workers"}, (*bench).latencies},
	{[]string{"backlog"}, (*bench).backlogs},
	{[]string{"held"}, (*bench).held},
	{[]string{"start"}, (*bench).starts},
	{[]string{"memory"}, (*bench).memory},
}

func names() []string {
	var all []string
	for _, g := range groups {
		all = append(all, g.names...)
	}
	return all
}

func (b *bench) wants(name string) bool { return len(b.only) == 0 || slices.Contains(b.only, name) }

// window is that of one round.
func (b *bench) window() measure.Window {
	return measure.Window{Warm: time.Second, Long: time.Duration(b.seconds * float64(time.Second))}
}

// progressf shows on a terminal what goes on.
func (b *bench) progressf(format string, args ...any) {
	if term.IsTerminal(int(os.Stderr.Fd())) {
		fmt.Fprintf(os.Stderr, "\r\x1b[K"+format, args...)
	}
}

// clear takes the progress off the terminal.
func (b *bench) clear() { b.progressf("") }

// add reports a figure.
func (b *bench) add(f *report.Figure) {
	b.clear()
	b.report.Add(f)
}
