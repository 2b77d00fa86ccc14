// Package cli is the command line: one file for each command of runlot and of celld. Data goes to standard output and
// talk to standard error.
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/runlot/runlot/internal/cli/console"
	"github.com/runlot/runlot/internal/cli/terminal"
	"github.com/runlot/runlot/internal/core/fault"
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

// usageError is a command line that makes no sense.
type usageError struct{ error }

// Runlot runs the runlot command and returns its exit code.
func Runlot(version string, given []string, stdin, stdout, stderr *os.File) int {
	root := &cobra.Command{
		Use:   "runlot",
		Short: "Durable queues for Workers apps that you run yourself",
		Long: `runlot runs a Workers project with its queues on this machine: the JavaScript on workerd, the
messages in PostgreSQL. A message is delivered at least once, whatever is killed in between.`,
		Example: `  runlot dev                      # run the project in this folder
  runlot dev ./api ./jobs         # two projects that share their queues
  runlot check                    # is this project fit to run?`,
	}
	root.AddCommand(devCommand(), checkCommand(), versionCommand())
	root.Version = version
	return run(root, given, stdin, stdout, stderr)
}

// Celld runs the celld command and returns its exit code.
func Celld(version string, given []string, stdin, stdout, stderr *os.File) int {
	root := &cobra.Command{
		Use:   "celld",
		Short: "Run Workers apps with their queues for good",
		Long:  `celld runs Workers projects from their folders, without watching them for changes.`,
		Example: `  celld serve --data /var/lib/celld /srv/my-app
  celld serve --database-url postgres://queues@db/queues ./api ./jobs`,
	}
	root.AddCommand(serveCommand(), versionCommand())
	root.Version = version
	return run(root, given, stdin, stdout, stderr)
}

func run(root *cobra.Command, given []string, stdin, stdout, stderr *os.File) int {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.Args, root.RunE = cobra.ArbitraryArgs, helpOrUnknown
	root.SuggestionsMinimumDistance = 2
	root.SetArgs(given)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	// A first signal begins a clean stop; a second one ends the program at once. Children die with it.
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	go func() {
		<-signals
		cancel()
		<-signals
		os.Exit(ExitInterrupted)
	}()

	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return ExitOK
	}
	out := terminal.New(stderr)
	if _, ok := errors.AsType[usageError](err); ok {
		out.Printf("%s %s\n%s %s --help\n", out.Paint(terminal.Red, "error:"), err, out.Paint(terminal.Cyan, "hint: "), command.CommandPath())
		return ExitUsage
	}
	console.Fault(out, err)
	if fault.KindOf(err) == fault.Internal {
		out.Printf("%s\n", out.Paint(terminal.Dim, fault.Detail(err)))
	}
	return ExitFailed
}

// args wraps cobra's check of positional arguments, so that its errors count as usage.
func args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, given []string) error {
		if err := check(c, given); err != nil {
			return usageError{err}
		}
		return nil
	}
}

// helpOrUnknown is what a program does when it is given no command that it knows.
func helpOrUnknown(c *cobra.Command, given []string) error {
	if len(given) == 0 {
		return c.Help()
	}
	text := fmt.Sprintf("unknown command %q for %q", given[0], c.CommandPath())
	if near := c.SuggestionsFor(given[0]); len(near) > 0 {
		text += fmt.Sprintf("; did you mean %q?", near[0])
	}
	return usageError{errors.New(text)}
}
