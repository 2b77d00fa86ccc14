package cli

import (
	"math"
	"time"

	"github.com/runlot/runlot/internal/cli/command"

	"github.com/spf13/cobra"

	"github.com/runlot/runlot/internal/cli/console"
	"github.com/runlot/runlot/internal/cli/terminal"
	"github.com/runlot/runlot/internal/daemon"
)

// serveCommand runs projects for good.
func serveCommand() *cobra.Command {
	var o daemon.Options
	var urls []string
	var bounds bounds
	c := &cobra.Command{
		Use:   "serve DIR...",
		Short: "Run projects until told to stop",
		Long: `serve runs the project in each DIR: its fetch handler on a port, its queues
from PostgreSQL. Workers may reach public addresses only. SIGTERM stops it
cleanly: batches in flight finish within 30 seconds, whatever is not settled by
then is delivered again by the next start.`,
		Example: `  celld serve --data /var/lib/celld /srv/my-app
  celld serve --data /var/lib/celld --port 8080 /srv/api /srv/jobs

  # a PostgreSQL of your own, 15 or newer
  celld serve --data /var/lib/celld --database-url postgres://me@db/mine /srv/a`,
		Args: command.Args(1, math.MaxInt, "the folder of a project"),
		RunE: func(c *cobra.Command, dirs []string) error {
			if o.State == "" {
				return command.Usage("%s needs --data, the folder that holds the queues", c.CommandPath())
			}
			o.Dirs = dirs
			if err := readURLs(&o, urls); err != nil {
				return err
			}
			if err := bounds.read(&o); err != nil {
				return err
			}
			o.Log = newLog(command.Stderr(c), true)
			out := terminal.New(command.Stdout(c))
			o.Colour = out.Colour
			screen := console.New(out, time.Now)
			defer screen.Flush()
			o.Observer = screen
			return daemon.Run(c.Context(), o)
		},
	}
	f := c.Flags()
	f.StringVar(&o.State, "data", "", "`FOLDER` that holds the queues (required)")
	f.StringVar(&o.Host, "host", "127.0.0.1", "`ADDRESS` to listen on")
	f.IntVarP(&o.Port, "port", "p", defaultPort, "port `N` of the first project, N+1 of the next;\n0 picks free ones")
	f.StringArrayVar(&urls, "database-url", nil, "`URL` of a PostgreSQL of your own; NAME=URL for one\ndatabase of several")
	bounds.define(f)
	f.StringVarP(&o.Config, "config", "c", "", "configuration `FILE`, where there are several")
	f.StringVarP(&o.Env, "env", "e", "", "`NAME` of a wrangler environment")
	f.BoolVar(&o.AllowPrivate, "allow-private", false, "let Workers reach private addresses too")
	command.CompleteFolders(c, "data")
	return c
}
