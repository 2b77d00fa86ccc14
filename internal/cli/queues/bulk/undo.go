package bulk

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/client/undo"
	"github.com/runlot/runlot/internal/cli/command"
	"github.com/runlot/runlot/internal/cli/remote"
	"github.com/runlot/runlot/internal/cli/terminal"
)

// CanUndo says how what was done to messages of a queue can be undone; nothing for "".
func CanUndo(c *cobra.Command, queueName, id string) {
	if id != "" {
		terminal.New(command.Stderr(c)).Printf("For an hour, `runlot queue undo %s %s` takes it back\n", queueName, id)
	}
}

// Undo takes back what was done to messages, or shows what can be.
func Undo(f Chooser) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "undo NAME [ID]",
		Short: "Undo what was done to messages, or show what can be undone",
		Long: `undo takes back what delete, retry or redrive did, within an hour: deleted
messages come back as they were, those made visible wait again, and those that
were redriven return. A message to which something happened since is left as it
is: delivered, in flight, or tried. Of one queue, the last 1,000 deleted
messages are kept for it, up to 64 MiB, and notes of the last 10,000 others.
Without ID it shows what can be undone. A purge cannot be.`,
		Example: "  runlot queue undo jobs\n  runlot queue undo jobs 9f86d081884c7d65",
		Args:    command.Args(1, 2, "name of a queue, and the id of what is undone"),
		RunE: func(c *cobra.Command, given []string) error {
			api, q, err := f.Open(c.Context(), given[0])
			if err != nil {
				return err
			}
			if len(given) == 1 {
				return undoable(c, api, q, asJSON)
			}
			return takeBack(c.Context(), c, api, q, given[1], asJSON)
		},
	}
	f.Flags(c)
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return c
}

func undoable(c *cobra.Command, api *client.Client, q *client.Queue, asJSON bool) error {
	list, err := undo.Actions(c.Context(), api, q.Database, q.Name)
	switch {
	case err != nil:
		return err
	case asJSON:
		return command.JSON(c, list)
	case len(list) == 0:
		terminal.New(command.Stderr(c)).Printf("Nothing was done to messages of %s in the last hour that can be undone.\n", q.Name)
		return nil
	}
	rows := make([][]terminal.Cell, len(list))
	for i := range list {
		a := &list[i]
		rows[i] = remote.Cells(a.ID, a.Kind, terminal.Count(a.Messages), remote.Ago(a.At), a.Until.UTC().Format(time.TimeOnly))
	}
	terminal.New(command.Stdout(c)).Table([]string{"ID", "WHAT", "MESSAGES", "DONE", "UNTIL (UTC)"}, rows)
	return nil
}

// undone says what became of messages, by what had been done to them.
var undone = map[string]string{
	deletion: "%s of %s came back\n", hurry: "%s of %s wait as long as before\n", moving: "%s came back to %s\n",
}

func takeBack(ctx context.Context, c *cobra.Command, api *client.Client, q *client.Queue, id string, asJSON bool) error {
	done, err := undo.Do(ctx, api, q.Database, q.Name, id)
	switch {
	case err != nil:
		return err
	case asJSON:
		return command.JSON(c, done)
	}
	var b strings.Builder
	fmt.Fprintf(&b, undone[done.Kind], terminal.Plural(int(done.Done), "message"), q.Name)
	for _, left := range []struct {
		ids []string
		why string
	}{
		{done.InFlight, "being delivered"}, {done.Changed, "tried since"}, {done.Missing, "gone"}, {done.Forbidden, "in a queue that is not yours to change"},
	} {
		if len(left.ids) > 0 {
			fmt.Fprintf(&b, "Too late, %s: %s\n", left.why, strings.Join(left.ids, ", "))
		}
	}
	_, err = fmt.Fprint(command.Stdout(c), b.String())
	return err
}
