package remote

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/cli/command"
	"github.com/runlot/runlot/internal/cli/terminal"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

// PS shows how the apps are doing.
func PS() *cobra.Command {
	var server string
	var asJSON bool
	c := &cobra.Command{
		Use:     "ps",
		Short:   "Show the apps and how they are doing",
		Example: "  runlot ps\n  runlot ps --json | jq '.[].state'",
		Args:    command.Args(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			api, err := connect(server)
			if err != nil {
				return err
			}
			apps, err := api.Apps(c.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return command.JSON(c, apps)
			}
			if len(apps) == 0 {
				terminal.New(command.Stderr(c)).Printf("There are no apps yet; `runlot deploy` makes one.\n")
				return nil
			}
			rows := make([][]terminal.Cell, 0, len(apps))
			for i := range apps {
				rows = append(rows, psRow(&apps[i]))
			}
			terminal.New(command.Stdout(c)).Table([]string{"APP", "STATE", "VERSION", "SINCE", "MEMORY", "REQUESTS", "MESSAGES"}, rows)
			return nil
		},
	}
	serverFlag(c, &server)
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return c
}

var stateStyles = map[string]terminal.Style{"live": terminal.Green, "parked": terminal.Dim, "starting": terminal.Yellow, "restarting": terminal.Red, "stopped": terminal.Dim}

func psRow(a *client.App) []terminal.Cell {
	version, memory, messages := "-", "-", "-"
	if a.Live != nil {
		version = strconv.Itoa(a.Live.Number)
	}
	if a.MemoryBytes > 0 {
		memory = size(a.MemoryBytes)
	}
	if a.Messages >= 0 && len(a.Consumers) > 0 {
		messages = terminal.Count(a.Messages)
	}
	row := cells(a.Name, a.State, version, ago(a.Since), memory, terminal.Count(a.Requests), messages)
	row[1].Style = stateStyles[a.State]
	return row
}

// Events shows what was done.
func Events() *cobra.Command {
	var server, appName string
	var limit int
	var asJSON bool
	c := &cobra.Command{
		Use:     "events",
		Short:   "Show what was done, by whom",
		Example: "  runlot events --app my-app",
		Args:    command.Args(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			api, err := connect(server)
			if err != nil {
				return err
			}
			events, err := api.Events(c.Context(), appName, 0, limit)
			if err != nil {
				return err
			}
			if asJSON {
				return command.JSON(c, events)
			}
			rows := make([][]terminal.Cell, 0, len(events))
			for i := range events {
				e := &events[i]
				about := cmp.Or(e.Detail["name"], e.Detail["queue"])
				if n := e.Detail["number"]; n != "" {
					about = "version " + n
				}
				if n := e.Detail["messages"]; n != "" {
					about += ": " + n
				}
				if more := cmp.Or(e.Detail["message"], e.Detail["reason"]); more != "" {
					about += ": " + more
				}
				rows = append(rows, cells(clock(e.At), e.App, e.Kind, e.Author, about))
			}
			terminal.New(command.Stdout(c)).Table([]string{"TIME", "APP", "WHAT", "BY", "ABOUT"}, rows)
			return nil
		},
	}
	serverFlag(c, &server)
	c.Flags().StringVar(&appName, "app", "", "only of this `APP`")
	c.Flags().IntVar(&limit, "limit", 30, "at most `N`, the newest")
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return c
}

// Secret gathers the commands about secrets.
func Secret() *cobra.Command {
	c := &cobra.Command{
		Use:     "secret",
		Short:   "Set, list and delete the secrets of an app",
		Example: "  runlot secret put API_KEY",
		Args:    cobra.ArbitraryArgs, RunE: command.HelpOrUnknown,
	}
	c.AddCommand(secretPut(), secretList(), secretDelete())
	return c
}

func secretPut() *cobra.Command {
	var p project
	c := &cobra.Command{
		Use:   "put NAME",
		Short: "Set a secret",
		Long: `put reads the value from standard input and sets env.NAME. The live version is
started again with it, new before old. The value is encrypted where it is kept.`,
		Example: `  runlot secret put API_KEY < key.txt
  printf %s "$KEY" | runlot secret put API_KEY --app my-app`,
		Args: command.Args(1, 1, "name of a secret"),
		RunE: func(c *cobra.Command, given []string) error {
			api, err := connect(p.server)
			if err != nil {
				return err
			}
			name, err := p.name()
			if err != nil {
				return err
			}
			value, err := readSecret(c)
			if err != nil {
				return err
			}
			if err := api.PutSecret(c.Context(), name, given[0], value); err != nil {
				return err
			}
			_, err = fmt.Fprintf(command.Stdout(c), "Set %s of %s\n", given[0], name)
			return err
		},
	}
	p.flags(c)
	return c
}

// readSecret reads a value: without showing it at a terminal, else all of standard input but a last line feed.
func readSecret(c *cobra.Command) (string, error) {
	in := command.Stdin(c)
	if command.IsTerminal(in) {
		return command.ReadHidden(c, "Value: ")
	}
	text, err := io.ReadAll(io.LimitReader(in, queue.MaxSecret+2))
	if err != nil {
		return "", fault.New(fault.Environment, "secret_read", "the value cannot be read from standard input").WithCause(err)
	}
	value := string(text)
	if n := len(value); n > 0 && value[n-1] == '\n' {
		value = value[:n-1]
	}
	return value, nil
}

func secretList() *cobra.Command {
	var p project
	var asJSON bool
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the names of an app's secrets",
		Example: "  runlot secret list",
		Args:    command.Args(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			api, err := connect(p.server)
			if err != nil {
				return err
			}
			name, err := p.name()
			if err != nil {
				return err
			}
			secrets, err := api.Secrets(c.Context(), name)
			if err != nil {
				return err
			}
			if asJSON {
				return command.JSON(c, secrets)
			}
			rows := make([][]terminal.Cell, 0, len(secrets))
			for i := range secrets {
				rows = append(rows, cells(secrets[i].Name, ago(secrets[i].Updated)))
			}
			terminal.New(command.Stdout(c)).Table([]string{"SECRET", "SET"}, rows)
			return nil
		},
	}
	p.flags(c)
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return c
}

func secretDelete() *cobra.Command {
	var p project
	var yes bool
	c := &cobra.Command{
		Use:     "delete NAME",
		Short:   "Delete a secret",
		Example: "  runlot secret delete API_KEY",
		Args:    command.Args(1, 1, "name of a secret"),
		RunE: func(c *cobra.Command, given []string) error {
			api, err := connect(p.server)
			if err != nil {
				return err
			}
			name, err := p.name()
			if err != nil {
				return err
			}
			if err := command.Confirm(c, yes, fmt.Sprintf("Delete the secret %s of %s?", given[0], name)); err != nil {
				return err
			}
			if err := api.DeleteSecret(c.Context(), name, given[0]); err != nil {
				return err
			}
			_, err = fmt.Fprintf(command.Stdout(c), "Deleted %s of %s\n", given[0], name)
			return err
		},
	}
	p.flags(c)
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return c
}

// cells are plain cells.
func cells(texts ...string) []terminal.Cell {
	row := make([]terminal.Cell, len(texts))
	for i := range texts {
		row[i] = terminal.Cell{Text: texts[i]}
	}
	return row
}

// clock is a time as a person's clock shows it.
func clock(at time.Time) string {
	return at.Local().Format(time.DateTime) //nolint:gosmopolitan // it is read by a person where they are
}

// ago is how long ago a time was.
func ago(at time.Time) string {
	d := time.Since(at)
	const hours = 24 * time.Hour
	switch {
	case d < time.Second:
		return "now"
	case d < time.Minute:
		return fmt.Sprintf("%d s ago", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", d/time.Minute)
	case d < 2*hours:
		return fmt.Sprintf("%d h ago", d/time.Hour)
	default:
		return fmt.Sprintf("%d days ago", d/hours)
	}
}

// size is a number of bytes in the unit that reads best.
func size(n int64) string {
	const step = 1024
	value, unit := float64(n), 0
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	for value >= step && unit < len(units)-1 {
		value /= step
		unit++
	}
	if unit == 0 || value >= 100 {
		return fmt.Sprintf("%.0f %s", value, units[unit])
	}
	return fmt.Sprintf("%.1f %s", value, units[unit])
}
