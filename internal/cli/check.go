package cli

import (
	"fmt"
	"time"

	"github.com/runlot/runlot/internal/cli/command"

	"github.com/spf13/cobra"

	"github.com/runlot/runlot/internal/cli/console"
	"github.com/runlot/runlot/internal/cli/terminal"
	"github.com/runlot/runlot/internal/daemon"
	"github.com/runlot/runlot/internal/daemon/crons"
)

// checkCommand validates, builds and probes a project without running it.
func checkCommand() *cobra.Command {
	var o daemon.Options
	c := &cobra.Command{
		Use:   "check [DIR]",
		Short: "Validate, build and inspect a project without running it",
		Long: `check reads the configuration, builds the code and looks at the handlers that it
exports. Every problem of the configuration is reported in one run, with its
place and the way out. Exit code 1 means that the project would not run.`,
		Example: "  runlot check ./my-app",
		Args:    command.Args(0, 1, "folder"),
		RunE: func(c *cobra.Command, dirs []string) error {
			o.Dirs = append(dirs, ".")[:1]
			o.Log = newLog(command.Stderr(c), false)
			talk := terminal.New(command.Stderr(c))
			o.Colour = talk.Colour
			o.Observer = console.New(talk, time.Now)
			checked, err := daemon.Check(c.Context(), o)
			if err != nil {
				return err
			}
			m := checked.Manifest
			out := c.OutOrStdout()
			fmt.Fprintf(out, "%s is fit to run (%s, version %s)\n", m.Name, checked.File, checked.Version)
			consumed, sent := map[string]bool{}, map[string]bool{}
			for i := range m.Consumers {
				consumed[m.Consumers[i].Queue] = true
				sent[m.Consumers[i].DeadLetterQueue] = true
			}
			for i := range m.Producers {
				p := &m.Producers[i]
				sent[p.Queue] = true
				fmt.Fprintf(out, "Queue producer: env.%s → %s%s\n", p.Binding, p.Queue, unless(consumed[p.Queue], "nothing here consumes it"))
			}
			for i := range m.Consumers {
				k := &m.Consumers[i]
				fmt.Fprintf(out, "Queue consumer: %s%s\n", k.Queue, unless(sent[k.Queue], "nothing here sends to it"))
			}
			for _, s := range m.Stores() {
				fmt.Fprintf(out, "%s: env.%s → %s\n", s.Kind, s.Binding, s.Name)
			}
			for _, next := range crons.Upcoming(m, time.Now()) {
				fmt.Fprintf(out, "Cron: %s (%s)\n", next.Cron, next.Words)
			}
			return nil
		},
	}
	c.Flags().StringVarP(&o.Config, "config", "c", "", "configuration `FILE`, where the folder has more than one")
	c.Flags().StringVarP(&o.Env, "env", "e", "", "`NAME` of an environment of a wrangler configuration")
	command.CompleteFolders(c)
	return c
}

// unless is a remark for when a condition does not hold: fine where another app or SQL does its part, and a misspelt name
// where none does.
func unless(holds bool, remark string) string {
	if holds {
		return ""
	}
	return " (" + remark + ")"
}
