// Package buckets is the commands about R2 buckets.
package buckets

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/runlot/runlot/internal/cli/command"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/daemon/r2"
)

// R2 gathers what has to do with R2 buckets.
func R2() *cobra.Command {
	c := &cobra.Command{
		Use: "r2", Short: "Tell queues of what happens in R2 buckets",
		Example: "  runlot r2 notification create images --queue resize \\\n    --event-type object-create",
		RunE:    command.HelpOrUnknown, Args: cobra.ArbitraryArgs,
	}
	n := &cobra.Command{
		Use: "notification", Short: "Create, list and delete rules for events",
		Long: `A rule says which changes of a bucket are told to a queue. Each is a message in
the form of Cloudflare's event notifications, sent at least once, after the
change is on the disk. A rule holds at once, also for a daemon that runs.`,
		Example: "  runlot r2 notification create images --queue resize \\\n    --event-type object-create --suffix .png\n  runlot r2 notification list images",
		RunE:    command.HelpOrUnknown, Args: cobra.ArbitraryArgs,
	}
	n.AddCommand(create(), list(), remove())
	c.AddCommand(n)
	return c
}

// where says which state folder is meant.
type where struct{ dir, state string }

func (w *where) flags(c *cobra.Command) {
	c.Flags().StringVar(&w.dir, "dir", ".", "`FOLDER` of the project")
	c.Flags().StringVar(&w.state, "state", "", "`FOLDER` of the buckets: the data folder of a\ncelld (default DIR/.runlot)")
	command.Must(c.MarkFlagDirname("dir"))
	command.Must(c.MarkFlagDirname("state"))
	c.ValidArgsFunction = cobra.NoFileCompletions
}

// use opens the rules for one use of them.
func (w *where) use(c *cobra.Command, do func(*r2.Rules) error) error {
	state := w.state
	if state == "" {
		state = filepath.Join(w.dir, ".runlot")
	}
	state, err := filepath.Abs(state)
	if err != nil {
		return err
	}
	rules := r2.OpenRules(state, slog.New(slog.NewTextHandler(c.ErrOrStderr(), nil)))
	defer rules.Close()
	return do(rules)
}

func create() *cobra.Command {
	var w where
	var rule r2.Rule
	var kinds []string
	c := &cobra.Command{
		Use: "create BUCKET", Short: "Tell a queue of events of a bucket",
		Example: "  runlot r2 notification create images --queue changes \\\n    --event-type object-create,object-delete --prefix in/",
		Args:    command.Args(1, 1, "bucket"),
		RunE: func(c *cobra.Command, given []string) error {
			return w.use(c, func(rules *r2.Rules) error {
				made, err := rules.Create(c.Context(), given[0], rule, kinds)
				if err != nil {
					return err
				}
				fmt.Fprintf(c.OutOrStdout(), "Rule %s: %s of %s → queue %s\n", made.ID, strings.Join(kinds, ", "), given[0], made.Queue)
				return nil
			})
		},
	}
	c.Flags().StringSliceVar(&kinds, "event-type", nil, "`EVENTS`: "+strings.Join(r2.EventTypes, ", "))
	c.Flags().StringVar(&rule.Queue, "queue", "", "`QUEUE` that is told")
	c.Flags().StringVar(&rule.Database, "database", app.DefaultDatabase, "`DATABASE` of the queue")
	c.Flags().StringVar(&rule.Prefix, "prefix", "", "only keys that begin with `TEXT`")
	c.Flags().StringVar(&rule.Suffix, "suffix", "", "only keys that end with `TEXT`")
	w.flags(c)
	return c
}

func list() *cobra.Command {
	var w where
	var asJSON bool
	c := &cobra.Command{
		Use: "list BUCKET", Short: "List the rules of a bucket", Example: "  runlot r2 notification list images",
		Args: command.Args(1, 1, "bucket"),
		RunE: func(c *cobra.Command, given []string) error {
			return w.use(c, func(rules *r2.Rules) error {
				all, err := rules.List(c.Context(), given[0])
				if err != nil {
					return err
				}
				if asJSON {
					return json.NewEncoder(c.OutOrStdout()).Encode(append([]r2.Rule{}, all...))
				}
				if len(all) == 0 {
					fmt.Fprintf(c.OutOrStdout(), "The bucket %s tells no queue.\n", given[0])
					return nil
				}
				table := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
				fmt.Fprintln(table, "RULE\tQUEUE\tDATABASE\tPREFIX\tSUFFIX\tACTIONS")
				for i := range all {
					r := &all[i]
					fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", r.ID, r.Queue, r.Database, r.Prefix, r.Suffix, strings.Join(r.Actions, ", "))
				}
				return table.Flush()
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the rules as JSON")
	w.flags(c)
	return c
}

func remove() *cobra.Command {
	var w where
	var queueName, id string
	c := &cobra.Command{
		Use: "delete BUCKET", Short: "Delete rules of a bucket", Example: "  runlot r2 notification delete images --queue resize",
		Args: command.Args(1, 1, "bucket"),
		RunE: func(c *cobra.Command, given []string) error {
			if (queueName == "") == (id == "") {
				return command.Usage("%s needs either --queue or --rule", c.CommandPath())
			}
			return w.use(c, func(rules *r2.Rules) error {
				n, err := rules.Delete(c.Context(), given[0], queueName, id)
				if err == nil {
					fmt.Fprintf(c.OutOrStdout(), "%d deleted\n", n)
				}
				return err
			})
		},
	}
	c.Flags().StringVar(&queueName, "queue", "", "all rules for this `QUEUE`")
	c.Flags().StringVar(&id, "rule", "", "the rule with this `ID`")
	w.flags(c)
	return c
}
