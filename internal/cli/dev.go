package cli

import (
	"path/filepath"
	"time"

	"github.com/runlot/runlot/internal/cli/command"

	"github.com/spf13/cobra"

	"github.com/runlot/runlot/internal/cli/console"
	"github.com/runlot/runlot/internal/cli/terminal"
	"github.com/runlot/runlot/internal/daemon"
)

// defaultPort is where runlot dev listens; the one that wrangler dev uses, so that habits and scripts carry over.
const defaultPort = 8787

// devCommand runs projects for the person who writes them.
func devCommand() *cobra.Command {
	o := daemon.Options{Watch: true, AllowPrivate: true, Host: "127.0.0.1"}
	var urls []string
	var bounds bounds
	var verbose bool
	c := &cobra.Command{
		Use:   "dev [DIR]...",
		Short: "Run a project on this machine and reload it when its files change",
		Long: `dev runs the project in DIR (this folder by default): its fetch handler on a
local port, its queues from a PostgreSQL that runlot keeps in the state folder.
Each batch is shown as it ends, with what the Worker logged. A changed file
reloads the project; a project that does not build leaves the version before
running. What was queued is still there after the next start.

Workers may reach private addresses here; celld lets them reach public ones
only.`,
		Example: `  runlot dev
  runlot dev ./my-app --port 3000
  runlot dev --clean              # begin with empty queues

  # two projects on ports 8787 and 8788 that name the same database
  runlot dev ./api ./jobs

  # a PostgreSQL of your own, 15 or newer
  runlot dev --database-url postgres://me@localhost/mine`,
		RunE: func(c *cobra.Command, dirs []string) error {
			out := terminal.New(command.Stdout(c))
			if len(dirs) == 0 {
				dirs = []string{"."}
			}
			o.Dirs = dirs
			if o.State == "" {
				o.State = filepath.Join(dirs[0], ".runlot")
			}
			if err := readURLs(&o, urls); err != nil {
				return err
			}
			if err := bounds.read(&o); err != nil {
				return err
			}
			o.Log = newLog(command.Stderr(c), verbose)
			o.Colour = out.Colour
			screen := console.New(out, time.Now)
			defer screen.Flush()
			o.Observer = screen
			return daemon.Run(c.Context(), o)
		},
	}
	f := c.Flags()
	f.IntVarP(&o.Port, "port", "p", defaultPort, "port `N` of the first project, N+1 of the next;\n0 picks free ones")
	f.StringVar(&o.Host, "host", o.Host, "`ADDRESS` to listen on")
	f.StringVar(&o.State, "state", "", "`FOLDER` of the queues (default DIR/.runlot)")
	f.StringArrayVar(&urls, "database-url", nil, "`URL` of a PostgreSQL of your own; NAME=URL for one\ndatabase of several")
	f.BoolVar(&o.Clean, "clean", false, "empty the state folder first, messages included")
	bounds.define(f)
	f.StringVarP(&o.Config, "config", "c", "", "configuration `FILE`, where there are several")
	f.StringVarP(&o.Env, "env", "e", "", "`NAME` of a wrangler environment")
	f.StringArrayVar(&o.Requests, "request", nil, "`PATH` to request once the first project is live")
	f.BoolVarP(&verbose, "verbose", "v", false, "show what the parts report about themselves")
	command.CompleteFolders(c, "state")
	return c
}
