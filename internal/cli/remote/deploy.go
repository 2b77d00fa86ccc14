package remote

import (
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/cli/command"
	"github.com/runlot/runlot/internal/cli/terminal"
	"github.com/runlot/runlot/internal/core/span"
	"github.com/runlot/runlot/internal/daemon"
	"github.com/runlot/runlot/internal/daemon/crons"
)

// deployed is what deploy writes for a program.
type deployed struct {
	*client.Uploaded

	// Pending are the migrations that D1 databases lack, or lacked before --migrate.
	Pending    []pending          `json:"pending"`
	Deployment *client.Deployment `json:"deployment,omitempty"`
}

// Deploy uploads a project and makes it live.
func Deploy() *cobra.Command {
	var o daemon.Options
	var p project
	var message string
	var dryRun, migrate, asJSON bool
	c := &cobra.Command{
		Use:   "deploy [DIR]",
		Short: "Upload a project and make it live",
		Long: `deploy checks the configuration of the project in DIR (this folder by default),
builds its code, uploads both as a new version, and makes that version live: it
starts beside the one before, takes over, and the one before finishes what it
has in flight. No request fails meanwhile. When a step fails, the version before
goes on, and the error says which step it was.

Migrations of D1 databases that are not applied are named; with --migrate they
are applied before the switch, and one that fails ends the deployment.

Values in .dev.vars and .env are not uploaded: runlot secret put sets secrets.`,
		Example: `  runlot deploy
  runlot deploy ./my-app --message "faster crawl"
  runlot deploy --migrate
  runlot deploy --dry-run`,
		Args: command.Args(0, 1, "folder"),
		RunE: func(c *cobra.Command, dirs []string) error {
			dir := append(dirs, ".")[0]
			talk, out := terminal.New(command.Stderr(c)), command.Stdout(c)
			o.Dirs, o.Config, o.Env, o.Colour = []string{dir}, p.config, p.env, talk.Colour
			built, err := daemon.Build(c.Context(), o)
			if err != nil {
				return err
			}
			for _, warning := range built.Warnings {
				talk.Printf("%s %s\n", talk.Paint(terminal.Yellow, "warning:"), warning)
			}
			api, err := connect(p.server)
			if err != nil {
				return err
			}
			m := built.Manifest
			if !asJSON {
				announce(out, built)
			}
			u := &client.Upload{
				App: m.Name, ConfigFile: filepath.Base(built.File), Config: built.Config, Env: p.env, Message: message,
				SourceMap: built.Bundle.SourceMap, ServiceWorker: built.Bundle.ServiceWorker, CheckOnly: dryRun,
			}
			for i := range built.Bundle.Modules {
				module := &built.Bundle.Modules[i]
				u.Modules = append(u.Modules, client.Module{Name: module.Name, Kind: string(module.Kind), Body: module.Body})
			}
			uploaded, err := api.Upload(c.Context(), u)
			if err != nil {
				return err
			}
			// What the configuration says was said above.
			for _, r := range uploaded.Removed {
				talk.Printf("%s %s\n", talk.Paint(terminal.Yellow, "note:"), orphaned(r))
			}
			lacks, err := lacking(c.Context(), api, m, uploaded.Version.ID, filepath.Dir(built.File))
			if err != nil {
				return err
			}
			if !migrate || dryRun {
				for i := range lacks {
					lacks[i].note(talk)
				}
			} else if err := applyAll(c.Context(), lacks, func(database, name string) {
				if !asJSON {
					fmt.Fprintf(out, "Applied %s to %s\n", name, database)
				}
			}); err != nil {
				return err
			}
			if dryRun {
				if asJSON {
					return command.JSON(c, deployed{Uploaded: uploaded, Pending: lacks})
				}
				_, err := fmt.Fprintln(out, "It is fit to be deployed. Nothing was changed.")
				return err
			}
			began := time.Now()
			d, err := api.Deploy(c.Context(), m.Name, &client.Deploy{Version: uploaded.Version.ID, Message: message})
			if err != nil {
				return err
			}
			if asJSON {
				return command.JSON(c, deployed{uploaded, lacks, d})
			}
			fmt.Fprintf(out, "Deployed version %d in %s\n", d.Version.Number, span.Text(time.Since(began)))
			for _, url := range d.URLs {
				fmt.Fprintf(out, "  %s\n", url)
			}
			return nil
		},
	}
	c.Flags().StringVarP(&message, "message", "m", "", "`TEXT` that says what is new")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "check everything, on the server too, and change nothing")
	c.Flags().BoolVar(&migrate, "migrate", false, "apply the pending migrations of D1 databases first")
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	c.Flags().StringVarP(&p.config, "config", "c", "", "configuration `FILE`, where the folder has more than one")
	c.Flags().StringVarP(&p.env, "env", "e", "", "`NAME` of an environment of a wrangler configuration")
	serverFlag(c, &p.server)
	command.CompleteFolders(c)
	return c
}

// announce says what is about to be registered.
func announce(out io.Writer, built *daemon.Built) {
	m := built.Manifest
	fmt.Fprintf(out, "%s (%s): %s in %s\n", m.Name, filepath.Base(built.File), size(built.Size()), terminal.Plural(len(built.Bundle.Modules), "module"))
	for i := range m.Producers {
		fmt.Fprintf(out, "Queue producers: env.%s → %s\n", m.Producers[i].Binding, m.Producers[i].Queue)
	}
	for i := range m.Consumers {
		fmt.Fprintf(out, "Queue consumers: %s\n", m.Consumers[i].Queue)
	}
	for _, s := range m.Stores() {
		fmt.Fprintf(out, "%s: env.%s → %s\n", s.Kind, s.Binding, s.Name)
	}
	for _, next := range crons.Upcoming(m, time.Now()) {
		fmt.Fprintf(out, "Crons: %s (%s)\n", next.Cron, next.Words)
	}
}

// noteOrphans says which messages nobody consumes now.
func noteOrphans(c *cobra.Command, left []client.Orphans) {
	talk := terminal.New(command.Stderr(c))
	for _, r := range left {
		if r.Messages != 0 {
			talk.Printf("%s %s\n", talk.Paint(terminal.Yellow, "note:"), orphaned(r))
		}
	}
}

// orphaned says what becomes of a queue without a consumer.
func orphaned(r client.Orphans) string {
	switch {
	case r.Undeclared && r.Messages < 0:
		return fmt.Sprintf("no app names the queue %s any more; its messages stay", r.Queue)
	case r.Undeclared:
		return fmt.Sprintf("no app names the queue %s any more; %s there until one does", r.Queue, waitPlural(r.Messages))
	case r.Messages < 0:
		return fmt.Sprintf("the queue %s has no consumer any more; its messages stay", r.Queue)
	case r.Messages == 0:
		return fmt.Sprintf("the queue %s has no consumer any more; it is empty", r.Queue)
	default:
		return fmt.Sprintf("the queue %s has no consumer any more; %s there until one comes", r.Queue, waitPlural(r.Messages))
	}
}

func waitPlural(n int64) string {
	if n == 1 {
		return "1 message waits"
	}
	return terminal.Count(n) + " messages wait"
}
