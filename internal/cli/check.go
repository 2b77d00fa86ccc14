package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/runlot/runlot/internal/cli/console"
	"github.com/runlot/runlot/internal/cli/terminal"
	"github.com/runlot/runlot/internal/daemon"
)

// checkCommand validates, builds and probes a project without running it.
func checkCommand() *cobra.Command {
	var o daemon.Options
	c := &cobra.Command{
		Use:   "check [DIR]",
		Short: "Validate, build and inspect a project without running it",
		Long: `check reads the configuration, builds the code and looks at the handlers that it exports. Every problem
of the configuration is reported in one run, with its place and the way out. Exit code 1 means that the
project would not run.`,
		Example: "  runlot check ./my-app",
		Args:    args(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, dirs []string) error {
			o.Dirs = append(dirs, ".")[:1]
			o.Log = newLog(stderrOf(c), false)
			talk := terminal.New(stderrOf(c))
			o.Colour = talk.Colour
			o.Observer = console.New(talk, time.Now)
			checked, err := daemon.Check(c.Context(), o)
			if err != nil {
				return err
			}
			m := checked.Manifest
			out := c.OutOrStdout()
			fmt.Fprintf(out, "%s is fit to run (%s, version %s)\n", m.Name, checked.File, checked.Version)
			for i := range m.Producers {
				fmt.Fprintf(out, "Queue producer: env.%s → %s\n", m.Producers[i].Binding, m.Producers[i].Queue)
			}
			for i := range m.Consumers {
				fmt.Fprintf(out, "Queue consumer: %s\n", m.Consumers[i].Queue)
			}
			return nil
		},
	}
	c.Flags().StringVarP(&o.Config, "config", "c", "", "configuration `FILE`, where the folder has more than one")
	c.Flags().StringVarP(&o.Env, "env", "e", "", "`NAME` of an environment of a wrangler configuration")
	return c
}
