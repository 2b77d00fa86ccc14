package cli

import (
	"fmt"
	"path/filepath"

	"github.com/runlot/runlot/internal/cli/command"

	"github.com/spf13/cobra"

	"github.com/runlot/runlot/internal/daemon"
)

// pgCommand gathers what has to do with a project's database.
func pgCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "pg",
		Short:   "Reach the database of a project",
		Example: `  psql "$(runlot pg url)"`,
		RunE:    command.HelpOrUnknown,
		Args:    cobra.ArbitraryArgs,
	}
	c.AddCommand(pgURLCommand())
	return c
}

// pgURLCommand prints the address of a project's database.
func pgURLCommand() *cobra.Command {
	var o daemon.Options
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
			o.Dirs = append(dirs, ".")[:1]
			if o.State == "" {
				o.State = filepath.Join(o.Dirs[0], ".runlot")
			}
			url, err := daemon.DatabaseURL(o)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), url)
			return err
		},
	}
	c.Flags().StringVar(&o.State, "state", "", "`FOLDER` that holds the queues (default DIR/.runlot)")
	c.Flags().StringVarP(&o.Config, "config", "c", "", "configuration `FILE`, where the folder has more than one")
	c.Flags().StringVarP(&o.Env, "env", "e", "", "`NAME` of an environment of a wrangler configuration")
	command.CompleteFolders(c)
	return c
}
