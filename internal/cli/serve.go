package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/runlot/runlot/internal/cli/console"
	"github.com/runlot/runlot/internal/cli/terminal"
	"github.com/runlot/runlot/internal/daemon"
)

// serveCommand runs projects for good.
func serveCommand() *cobra.Command {
	var o daemon.Options
	var urls []string
	c := &cobra.Command{
		Use:   "serve DIR...",
		Short: "Run projects until told to stop",
		Long: `serve runs the project in each DIR: its fetch handler on a port, its queues from PostgreSQL. Workers may
reach public addresses only. SIGTERM stops it cleanly: batches in flight finish within 30 seconds,
whatever is not settled by then is delivered again by the next start.`,
		Example: `  celld serve --data /var/lib/celld /srv/my-app
  celld serve --data /var/lib/celld --database-url postgres://queues@db/queues /srv/api /srv/jobs`,
		Args: args(cobra.MinimumNArgs(1)),
		RunE: func(c *cobra.Command, dirs []string) error {
			o.Dirs = dirs
			if err := readURLs(&o, urls); err != nil {
				return err
			}
			o.Log = newLog(stderrOf(c), true)
			out := terminal.New(stdoutOf(c))
			o.Colour = out.Colour
			o.Observer = console.New(out, time.Now)
			return daemon.Run(c.Context(), o)
		},
	}
	f := c.Flags()
	f.StringVar(&o.State, "data", "", "`FOLDER` that holds the queues (required)")
	f.StringVar(&o.Host, "host", "127.0.0.1", "`ADDRESS` to listen on")
	f.IntVarP(&o.Port, "port", "p", defaultPort, "port of the first project; each further one takes the next")
	f.StringArrayVar(&urls, "database-url", nil, "`URL` of a PostgreSQL of your own; NAME=URL for one database of several")
	f.StringVarP(&o.Config, "config", "c", "", "configuration `FILE`, where a folder has more than one")
	f.StringVarP(&o.Env, "env", "e", "", "`NAME` of an environment of a wrangler configuration")
	f.BoolVar(&o.AllowPrivate, "allow-private", false, "let Workers reach private addresses too")
	if err := c.MarkFlagRequired("data"); err != nil {
		panic("cli: the flag was defined above: " + err.Error())
	}
	return c
}
