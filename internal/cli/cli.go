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
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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

// sameInterrupt is how long after a first signal another one counts as the same: a terminal signals a whole group, and
// npm, timeout and others then pass theirs on.
const sameInterrupt = 300 * time.Millisecond

// usageError is a command line that makes no sense.
type usageError struct{ error }

// Runlot runs the runlot command and returns its exit code.
func Runlot(version string, given []string, stdin, stdout, stderr *os.File) int {
	root := &cobra.Command{
		Use:   "runlot",
		Short: "Durable queues for Workers apps that you run yourself",
		Long: `runlot runs a Workers project with its queues on this machine: the JavaScript on
workerd, the messages in PostgreSQL. A message is delivered at least once,
whatever is killed in between.`,
		Example: `  runlot dev                      # run the project in this folder
  runlot dev ./api ./jobs         # two projects that share their queues
  runlot check                    # is this project fit to run?`,
	}
	root.AddCommand(devCommand(), checkCommand(), cronCommand(), pgCommand(), schemaCommand(), versionCommand())
	root.Version = version
	return run(root, given, stdin, stdout, stderr)
}

// Celld runs the celld command and returns its exit code.
func Celld(version string, given []string, stdin, stdout, stderr *os.File) int {
	root := &cobra.Command{
		Use:   "celld",
		Short: "Run Workers apps with their queues for good",
		Long:  `celld runs Workers projects from their folders, without watching their files.`,
		Example: `  celld serve --data /var/lib/celld /srv/my-app
  celld serve --data /var/lib/celld --port 8080 /srv/api /srv/jobs`,
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
	root.SetFlagErrorFunc(flagError)

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

// usage is a usageError with a text of its own.
func usage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// args checks the number of positional arguments. what names one of them, for a person.
func args(least, most int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, given []string) error {
		switch {
		case len(given) < least:
			return usage("%s needs %s", c.CommandPath(), what)
		case len(given) > most && most == 0:
			return usage("%s takes no argument, not %q", c.CommandPath(), given[0])
		case len(given) > most:
			return usage("%s takes one %s, not %d", c.CommandPath(), what, len(given))
		}
		return nil
	}
}

// completeFolders has a shell complete the command's arguments, and the named flags, with folders, and --config with
// configuration files.
func completeFolders(c *cobra.Command, flags ...string) {
	c.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	for _, name := range flags {
		mustBeDefined(c.MarkFlagDirname(name))
	}
	mustBeDefined(c.MarkFlagFilename("config", "json", "jsonc", "toml"))
}

func mustBeDefined(err error) {
	if err != nil {
		panic("cli: a flag is marked that its command does not define: " + err.Error())
	}
}

// flagError says what is wrong with a flag in words for a person, and which flag was meant.
func flagError(c *cobra.Command, err error) error {
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		name, kind := invalid.GetFlag().Name, "value"
		if invalid.GetFlag().Value.Type() == "int" {
			kind = "number"
		}
		return usage("--%s takes a %s, not %q", name, kind, invalid.GetValue())
	}
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return usageError{err}
	}
	// Flags and commands are measured alike: each flag stands in for a command of its name.
	names := &cobra.Command{SuggestionsMinimumDistance: 2}
	c.Flags().VisitAll(func(f *pflag.Flag) {
		names.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
	})
	if near := names.SuggestionsFor(unknown.GetSpecifiedName()); len(near) > 0 && len(unknown.GetSpecifiedName()) > 1 {
		return usage("%w; did you mean --%s?", err, near[0])
	}
	return usageError{err}
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
	return usage("%s", text)
}
