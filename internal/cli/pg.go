package cli

import (
	"fmt"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/runlot/runlot/internal/cli/command"
	"github.com/runlot/runlot/internal/cli/sqlshell"
	"github.com/runlot/runlot/internal/cli/terminal"
	"github.com/runlot/runlot/internal/daemon"
)

// pgCommand gathers what has to do with a project's database.
func pgCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "pg",
		Short: "Reach the database of a project",
		Example: `  runlot pg shell
  psql "$(runlot pg url)"`,
		RunE: command.HelpOrUnknown,
		Args: cobra.ArbitraryArgs,
	}
	c.AddCommand(pgURLCommand(), pgShellCommand())
	return c
}

// where says which project's database is meant.
type where struct{ daemon.Options }

func (w *where) flags(c *cobra.Command) {
	c.Flags().StringVar(&w.State, "state", "", "`FOLDER` that holds the queues (default DIR/.runlot)")
	c.Flags().StringVarP(&w.Config, "config", "c", "", "configuration `FILE`, where the folder has more than one")
	c.Flags().StringVarP(&w.Env, "env", "e", "", "`NAME` of an environment of a wrangler configuration")
	command.CompleteFolders(c, "state")
}

// url is the database's address, with its password.
func (w *where) url(dirs []string) (string, error) {
	w.Dirs = append(dirs, ".")[:1]
	if w.State == "" {
		w.State = filepath.Join(w.Dirs[0], ".runlot")
	}
	return daemon.DatabaseURL(w.Options)
}

// pgURLCommand prints the address of a project's database.
func pgURLCommand() *cobra.Command {
	var w where
	c := &cobra.Command{
		Use:   "url [DIR]",
		Short: "Print the address of a running project's database",
		Long: `url prints the address of the database of the project in DIR (this folder by
default), which runs under "runlot dev" at the same time. It is for psql and
every other PostgreSQL client on this machine, and has the rights of the app
itself: its own tables, the view runlot_queue.messages and the function
runlot_queue.send. It contains a password.`,
		Example: `  psql "$(runlot pg url)"
  psql "$(runlot pg url ./my-app)" -c 'select * from runlot_queue.messages'`,
		Args: command.Args(0, 1, "folder"),
		RunE: func(c *cobra.Command, dirs []string) error {
			url, err := w.url(dirs)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), url)
			return err
		},
	}
	w.flags(c)
	return c
}

// pgShellCommand opens a shell on a project's database.
func pgShellCommand() *cobra.Command {
	var w where
	var builtIn bool
	c := &cobra.Command{
		Use:   "shell [DIR]",
		Short: "Type SQL into a running project's database",
		Long: `shell opens psql on the database of the project in DIR (this folder by default),
which runs under "runlot dev" at the same time, with the rights of the app
itself. Where there is no psql it is a small shell of its own. SQL may also come
from a file or a pipe; then the first mistake ends it.`,
		Example: `  runlot pg shell
  echo 'select * from runlot_queue.messages;' | runlot pg shell ./my-app`,
		Args: command.Args(0, 1, "folder"),
		RunE: func(c *cobra.Command, dirs []string) error {
			url, err := w.url(dirs)
			if err != nil {
				return err
			}
			in := command.Stdin(c)
			interactive := command.IsTerminal(in)
			if program, err := exec.LookPath("psql"); err == nil && !builtIn {
				return sqlshell.Become(program, url, interactive)
			}
			shell := sqlshell.Shell{In: in, Out: command.Stdout(c), Talk: terminal.New(command.Stderr(c)), Interactive: interactive}
			return shell.Run(c.Context(), url)
		},
	}
	w.flags(c)
	c.Flags().BoolVar(&builtIn, "built-in", false, "the small shell, also where there is psql")
	return c
}
