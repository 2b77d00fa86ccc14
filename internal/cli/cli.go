// Package cli is the command line: one file for each command of runlot and of celld. Data goes to standard output and
// talk to standard error.
package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/cli/buckets"
	"github.com/runlot/runlot/internal/cli/command"
	"github.com/runlot/runlot/internal/cli/complete"
	"github.com/runlot/runlot/internal/cli/console"
	"github.com/runlot/runlot/internal/cli/crons"
	"github.com/runlot/runlot/internal/cli/instance"
	"github.com/runlot/runlot/internal/cli/notices"
	"github.com/runlot/runlot/internal/cli/queues"
	"github.com/runlot/runlot/internal/cli/remote"
	"github.com/runlot/runlot/internal/cli/scaffold"
	"github.com/runlot/runlot/internal/cli/subscriptions"
	"github.com/runlot/runlot/internal/cli/terminal"
	"github.com/runlot/runlot/internal/cli/wrangler"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/daemon/celld"
)

// Exit codes of both programs.
const (
	// ExitOK: what was asked for is done.
	ExitOK = 0
	// ExitFailed: it is not done; standard error says why.
	ExitFailed = 1
	// ExitUsage: the command line makes no sense; nothing was tried.
	ExitUsage = 2
	// ExitInterrupted: a second interrupt cut a clean stop short. Nothing stored is lost.
	ExitInterrupted = 130
)

// sameInterrupt is how long after a first signal another one counts as the same: a terminal signals a whole group, and
// npm, timeout and others then pass theirs on.
const sameInterrupt = 300 * time.Millisecond

// Runlot runs the runlot command and returns its exit code.
func Runlot(version string, given []string, stdin, stdout, stderr *os.File) int {
	return run(runlotCommand(version), given, stdin, stdout, stderr)
}

// runlotCommand is the command of who writes and deploys apps.
func runlotCommand(version string) *cobra.Command {
	root := &cobra.Command{
		Use:   "runlot",
		Short: "Durable queues for Workers apps that you run yourself",
		Long: `runlot runs a Workers project with its queues on this machine: the JavaScript on
workerd, the messages in PostgreSQL. A message is delivered at least once,
whatever is killed in between. "runlot deploy" gives a project to a celld, which
runs it for good, and most other commands are about what runs there.`,
		Example: `  runlot init my-app              # write a first project
  runlot dev                      # run the project in this folder
  runlot dev ./api ./jobs         # two projects that share their queues
  runlot check                    # is this project fit to run?`,
	}
	root.AddCommand(devCommand(), scaffold.Init(), scaffold.Types(), checkCommand(), crons.Cron(defaultPort), d1Command(), buckets.R2(), pgCommand(), schemaCommand(), versionCommand("runlot"),
		remote.Login(), remote.Logout(), remote.Whoami(), remote.Token(),
		remote.Deploy(), remote.Versions(), remote.Rollback(), remote.Delete(), remote.Secret(), remote.PS(), remote.Events(), notices.Notices(), subscriptions.Subscription(), wrangler.Env(),
		queues.Queue(), queues.Logs(), manCommand())
	return program(root, version)
}

// Celld runs the celld command and returns its exit code.
func Celld(version string, given []string, stdin, stdout, stderr *os.File) int {
	return run(celldProgram(version), given, stdin, stdout, stderr)
}

// celldProgram is the daemon with the commands about it.
func celldProgram(version string) *cobra.Command {
	root, _ := celldCommand(version)
	fresh := func() instance.Settings { return &settings{Settings: celld.Settings{Version: version}} }
	root.AddCommand(versionCommand("celld"), instance.Token(fresh), instance.Backup(fresh()), instance.Restore(fresh()), instance.Check(fresh()), instance.Notify(fresh()))
	return program(root, version)
}

// program adds what both programs have.
func program(root *cobra.Command, version string) *cobra.Command {
	root.Version = version
	root.AddCommand(completionCommand(root.Name()))
	// The last line of the help of a command deep below would be longer than a line of a terminal.
	root.SetUsageTemplate(strings.Replace(root.UsageTemplate(), "for more information about a command.", "says more.", 1))
	complete.Install(root)
	return root
}

func run(root *cobra.Command, given []string, stdin, stdout, stderr *os.File) int {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.Args = cobra.ArbitraryArgs
	if root.RunE == nil {
		root.RunE = command.HelpOrUnknown
	}
	root.SetArgs(given)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(command.FlagError)
	root.PersistentPreRunE = command.Misplaced

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	// A first signal begins a clean stop; a second one ends the program at once. Children die with it.
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as it is under nohup
		signal.Notify(signals, syscall.SIGHUP) // the terminal was closed
	}
	// A reader of the output that has gone away would end the program at once, in the middle of its batches.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	defer signal.Stop(signals)
	go func() {
		<-signals
		cancel()
		for began := time.Now(); ; {
			<-signals
			if time.Since(began) >= sameInterrupt {
				os.Exit(ExitInterrupted)
			}
		}
	}()

	ran, err := root.ExecuteContextC(ctx)
	if err == nil {
		return ExitOK
	}
	out := terminal.New(stderr)
	if _, ok := errors.AsType[command.UsageError](err); ok {
		out.Printf("%s %s\n%s %s --help\n", out.Paint(terminal.Red, "error:"), err, out.Paint(terminal.Cyan, "hint: "), ran.CommandPath())
		return ExitUsage
	}
	if e, ok := errors.AsType[*client.Error](err); ok {
		err = fault.New(fault.Conflict, e.Code, "%s", e.Message).WithHint("%s", e.Hint)
	}
	console.Fault(out, err)
	if fault.KindOf(err) == fault.Internal {
		out.Printf("%s\n", out.Paint(terminal.Dim, fault.Detail(err)))
	}
	return ExitFailed
}
