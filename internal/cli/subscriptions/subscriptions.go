// Package subscriptions is the commands about event subscriptions.
package subscriptions

import (
	"cmp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/client/subscriptions"
	"github.com/runlot/runlot/internal/cli/command"
	"github.com/runlot/runlot/internal/cli/remote"
	"github.com/runlot/runlot/internal/cli/terminal"
	"github.com/runlot/runlot/internal/core/app"
)

// Subscription gathers the commands.
func Subscription() *cobra.Command {
	c := &cobra.Command{
		Use: "subscription", Short: "Tell queues of deployments and of dead letters",
		Long: `An event subscription tells a queue of what is done to scripts, or of messages
that become dead letters. Each event is a message in the form of Cloudflare's
event subscriptions, sent at least once. It is for the celld of the last login,
and goes with the app that its queue belongs to.`,
		Example: "  runlot subscription create deployments --script shop\n  runlot subscription create deaths --dead-letters jobs\n  runlot subscription list",
		RunE:    command.HelpOrUnknown, Args: cobra.ArbitraryArgs,
	}
	c.AddCommand(create(), list(), show(), update(), remove())
	return c
}

// reach is how a command finds its celld, and shows what it found.
type reach struct {
	server string
	asJSON bool
}

func (r *reach) flags(c *cobra.Command) {
	remote.ServerFlag(c, &r.server)
	c.Flags().BoolVar(&r.asJSON, "json", false, "write JSON")
}

func databaseFlag(c *cobra.Command, database *string) {
	c.Flags().StringVar(database, "database", "", "`DATABASE` of the queue (default: that of this\nfolder's project, or "+app.DefaultDatabase+")")
}

// databaseOf is what a flag says of a database, or else the one of this folder's project, or the one that apps share.
func databaseOf(given string) string {
	return cmp.Or(given, remote.FolderDatabase(), app.DefaultDatabase)
}

// ask makes a call, and shows the subscription that it brings: in a line or, where it is to be looked at, in full.
func (r *reach) ask(c *cobra.Command, did string, call func(*client.Client) (*subscriptions.Subscription, error)) error {
	api, err := remote.ConnectCelld(r.server)
	if err != nil {
		return err
	}
	one, err := call(api)
	switch {
	case err != nil:
		return err
	case r.asJSON:
		return command.JSON(c, one)
	case did != "":
		terminal.New(command.Stdout(c)).Printf("%s %s: %s of %s → queue %s\n", did, one.ID, strings.Join(one.Events, ", "), of(one), one.Queue)
		return nil
	}
	out := terminal.New(command.Stdout(c))
	for _, line := range [][2]string{
		{"id", one.ID},
		{"name", one.Name},
		{"source", one.Source.Type},
		{"of", of(one)},
		{"events", strings.Join(one.Events, ", ")},
		{"queue", one.Database + "/" + one.Queue},
		{"enabled", yes(one.Enabled)},
		{"created", remote.Clock(one.Created)},
		{"modified", remote.Clock(one.Modified)},
	} {
		out.Printf("%-9s %s\n", line[0], line[1])
	}
	return nil
}

// of is what a subscription is about.
func of(s *subscriptions.Subscription) string {
	switch {
	case s.Source.Queue != "":
		return "queue " + s.Source.Queue
	case s.Source.Script != "":
		return "script " + s.Source.Script
	}
	return "all scripts"
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

func create() *cobra.Command {
	var r reach
	n := subscriptions.New{}
	var all bool
	c := &cobra.Command{
		Use: "create QUEUE", Short: "Tell a queue of events",
		Long: `create tells QUEUE of what is done to a script, or to all, or of the messages
of a queue that become dead letters: of all such events, unless --events names
some. Of scripts there are version.uploaded, version.deployed,
version.rolled_back and script.deleted, and of queues message.dead_lettered.`,
		Example: "  runlot subscription create changes --script shop \\\n    --events version.deployed,version.rolled_back\n  runlot subscription create deaths --dead-letters jobs --json",
		Args:    command.Args(1, 1, "queue"),
		RunE: func(c *cobra.Command, given []string) error {
			chosen := 0
			for _, is := range []bool{all, n.Source.Script != "", n.Source.Queue != ""} {
				if is {
					chosen++
				}
			}
			if chosen != 1 {
				return command.Usage("%s needs one of --script, --all-scripts and --dead-letters", c.CommandPath())
			}
			n.Database, n.Queue, n.Source.Type = databaseOf(n.Database), given[0], "workers.script"
			if n.Source.Queue != "" {
				n.Source.Type, n.Source.Database = "queues.queue", n.Database
			}
			return r.ask(c, "Subscription", func(api *client.Client) (*subscriptions.Subscription, error) {
				return subscriptions.Create(c.Context(), api, &n)
			})
		},
	}
	f := c.Flags()
	f.StringVar(&n.Source.Script, "script", "", "of this `APP`")
	f.BoolVar(&all, "all-scripts", false, "of every app")
	f.StringVar(&n.Source.Queue, "dead-letters", "", "of dead letters that come from this `QUEUE`")
	f.StringSliceVar(&n.Events, "events", nil, "only these `EVENTS`")
	f.StringVar(&n.Name, "name", "", "`NAME` for a person (default: of queue and source)")
	databaseFlag(c, &n.Database)
	f.BoolVar(&n.Disabled, "disabled", false, "keep nothing for it until it is enabled")
	r.flags(c)
	return c
}

func list() *cobra.Command {
	var r reach
	var database string
	c := &cobra.Command{
		Use: "list [QUEUE]", Short: "List event subscriptions", Example: "  runlot subscription list\n  runlot subscription list deaths --json",
		Args: command.Args(0, 1, "queue"),
		RunE: func(c *cobra.Command, given []string) error {
			api, err := remote.ConnectCelld(r.server)
			if err != nil {
				return err
			}
			list, err := subscriptions.List(c.Context(), api, databaseOf(database), append(given, "")[0])
			if err != nil {
				return err
			}
			if r.asJSON {
				return command.JSON(c, append([]subscriptions.Subscription{}, list...))
			}
			if len(list) == 0 {
				terminal.New(command.Stderr(c)).Printf("There are no event subscriptions; `runlot subscription create` makes one.\n")
				return nil
			}
			rows := make([][]terminal.Cell, 0, len(list))
			for i := range list {
				s := &list[i]
				rows = append(rows, remote.Cells(s.ID, s.Name, s.Database+"/"+s.Queue, yes(s.Enabled), of(s), strings.Join(s.Events, ", ")))
			}
			terminal.New(command.Stdout(c)).Table([]string{"ID", "NAME", "QUEUE", "ENABLED", "OF", "EVENTS"}, rows)
			return nil
		},
	}
	databaseFlag(c, &database)
	r.flags(c)
	return c
}

func show() *cobra.Command {
	var r reach
	c := &cobra.Command{
		Use: "show ID", Short: "Show an event subscription", Example: "  runlot subscription show 01994d7e-8d51-7f44-9c55-b25f4e2f0a11",
		Args: command.Args(1, 1, "subscription"),
		RunE: func(c *cobra.Command, given []string) error {
			return r.ask(c, "", func(api *client.Client) (*subscriptions.Subscription, error) {
				return subscriptions.Get(c.Context(), api, given[0])
			})
		},
	}
	r.flags(c)
	return c
}

func update() *cobra.Command {
	var r reach
	var change subscriptions.Change
	var name string
	var enabled bool
	c := &cobra.Command{
		Use: "update ID", Short: "Change an event subscription",
		Long:    "update changes the name or the events of a subscription, or whether it is\nenabled. While it is not, nothing is kept for it.",
		Example: "  runlot subscription update 01994d7e-8d51-7f44-9c55-b25f4e2f0a11 \\\n    --enabled=false",
		Args:    command.Args(1, 1, "subscription"),
		RunE: func(c *cobra.Command, given []string) error {
			if c.Flags().Changed("name") {
				change.Name = &name
			}
			if c.Flags().Changed("enabled") {
				change.Enabled = &enabled
			}
			if change.Name == nil && change.Enabled == nil && len(change.Events) == 0 {
				return command.Usage("%s needs --name, --events or --enabled", c.CommandPath())
			}
			return r.ask(c, "Subscription", func(api *client.Client) (*subscriptions.Subscription, error) {
				return subscriptions.Update(c.Context(), api, given[0], &change)
			})
		},
	}
	c.Flags().StringVar(&name, "name", "", "`NAME` for a person")
	c.Flags().StringSliceVar(&change.Events, "events", nil, "only these `EVENTS`")
	c.Flags().BoolVar(&enabled, "enabled", true, "whether the queue is told")
	r.flags(c)
	return c
}

func remove() *cobra.Command {
	var r reach
	c := &cobra.Command{
		Use: "delete ID", Short: "Delete an event subscription", Long: "delete ends a subscription. What is still to be sent is not sent any more.",
		Example: "  runlot subscription delete 01994d7e-8d51-7f44-9c55-b25f4e2f0a11",
		Args:    command.Args(1, 1, "subscription"),
		RunE: func(c *cobra.Command, given []string) error {
			return r.ask(c, "Deleted", func(api *client.Client) (*subscriptions.Subscription, error) {
				return subscriptions.Delete(c.Context(), api, given[0])
			})
		},
	}
	r.flags(c)
	return c
}
