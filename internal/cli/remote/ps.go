package remote

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
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
	return asks(&cobra.Command{
		Use:     "ps",
		Short:   "Show the apps and how they are doing",
		Example: "  runlot ps\n  runlot ps --json | jq '.[].state'",
		Args:    command.Args(0, 0, ""),
	}, ofInstance, func(c *call) ([]client.App, error) {
		return c.api.Apps(c.Context())
	}, func(c *call, apps []client.App) error {
		rows := make([][]terminal.Cell, 0, len(apps))
		for i := range apps {
			rows = append(rows, psRow(&apps[i]))
		}
		err := c.table([]string{"APP", "STATE", "VERSION", "SINCE", "MEMORY", "REQUESTS", "MESSAGES"}, rows,
			"There are no apps yet; `runlot deploy` makes one.")
		for i := range apps {
			if a := &apps[i]; err == nil && a.Reason != "" {
				err = c.say("%s is %s: %s", a.Name, a.State, a.Reason)
			}
		}
		return err
	})
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
	var appName string
	var limit int
	c := &cobra.Command{
		Use:     "events",
		Short:   "Show what was done, by whom",
		Example: "  runlot events --app my-app",
		Args:    command.Args(0, 0, ""),
	}
	c.Flags().StringVar(&appName, "app", "", "only of this `APP`")
	c.Flags().IntVar(&limit, "limit", 30, "at most `N`, the newest")
	return asks(c, ofInstance, func(c *call) ([]client.Event, error) {
		if limit < 1 {
			return nil, command.Usage("--limit takes a number of 1 or more, not %d", limit)
		}
		return c.api.Events(c.Context(), appName, 0, limit)
	}, func(c *call, events []client.Event) error {
		rows := make([][]terminal.Cell, 0, len(events))
		today, _, _ := strings.Cut(clock(time.Now()), " ")
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
			at := clock(e.At)
			if day, hour, ok := strings.Cut(at, " "); ok && c.narrow() {
				if at = day; day == today {
					at = hour
				}
			}
			rows = append(rows, cells(at, e.App, e.Kind, e.Author, about))
		}
		return c.table([]string{"TIME", "APP", "WHAT", "BY", "ABOUT"}, rows, "Nothing was done yet.")
	})
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
	return talks(&cobra.Command{
		Use:   "put NAME",
		Short: "Set a secret",
		Long: `put reads the value from standard input and sets env.NAME. The live version is
started again with it, new before old. The value is encrypted where it is kept.`,
		Example: `  runlot secret put API_KEY < key.txt
  printf %s "$KEY" | runlot secret put API_KEY --app my-app`,
		Args: command.Args(1, 1, "name of a secret"),
	}, ofApp, func(c *call) error {
		value, err := readSecret(c.Command)
		if err != nil {
			return err
		}
		if err := c.api.PutSecret(c.Context(), c.app, c.given[0], value); err != nil {
			return err
		}
		if one, err := c.api.App(c.Context(), c.app); err == nil && one.Live == nil {
			terminal.New(command.Stderr(c.Command)).Printf("Nothing of %s is deployed yet: its first version will have the secret.\n", c.app)
		}
		return c.say("Set %s of %s", c.given[0], c.app)
	})
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
	return asks(&cobra.Command{
		Use:     "list",
		Short:   "List the names of an app's secrets",
		Example: "  runlot secret list",
		Args:    command.Args(0, 0, ""),
	}, ofApp, func(c *call) ([]client.Secret, error) {
		return c.api.Secrets(c.Context(), c.app)
	}, func(c *call, secrets []client.Secret) error {
		rows := make([][]terminal.Cell, 0, len(secrets))
		for i := range secrets {
			rows = append(rows, cells(secrets[i].Name, ago(secrets[i].Updated)))
		}
		return c.table([]string{"SECRET", "SET"}, rows, c.app+" has no secrets.")
	})
}

func secretDelete() *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use:     "delete NAME",
		Short:   "Delete a secret",
		Example: "  runlot secret delete API_KEY",
		Args:    command.Args(1, 1, "name of a secret"),
	}
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return talks(c, ofApp, func(c *call) error {
		if err := command.Confirm(c.Command, yes, fmt.Sprintf("Delete the secret %s of %s?", c.given[0], c.app)); err != nil {
			return err
		}
		if err := c.api.DeleteSecret(c.Context(), c.app, c.given[0]); err != nil {
			return err
		}
		return c.say("Deleted %s of %s", c.given[0], c.app)
	})
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
