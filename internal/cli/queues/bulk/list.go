package bulk

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/cli/command"
	"github.com/runlot/runlot/internal/cli/remote"
	"github.com/runlot/runlot/internal/cli/terminal"
	"github.com/runlot/runlot/internal/core/queue"
)

// Operations shows what is or was done in the background, and cancels it.
func Operations(f Chooser) *cobra.Command {
	var asJSON bool
	var limit int
	c := &cobra.Command{
		Use:   "operations [NAME]",
		Short: "Show what is or was done in the background to many messages",
		Long: `operations shows what redrive, delete and retry do with --filter, the newest
first: how many messages it was done to (DONE) of those that matched so far, and
how many were left alone. They go on when the server restarts.`,
		Example: "  runlot queue operations\n  runlot queue operations jobs-dead --json\n  runlot queue operations cancel 17",
		Args:    command.Args(0, 1, "name of a queue"),
		RunE: func(c *cobra.Command, given []string) error {
			if limit < 1 || limit > queue.MaxPage {
				return command.Usage("--limit takes a number of 1 to %d, not %d", queue.MaxPage, limit)
			}
			api, database, name, err := chosenQueue(c.Context(), f, given)
			if err != nil {
				return err
			}
			list, err := api.Operations(c.Context(), database, name, 0, limit)
			if err != nil {
				return err
			}
			if asJSON {
				return command.JSON(c, list)
			}
			if len(list) == 0 {
				terminal.New(command.Stderr(c)).Printf("Nothing was done in the background.\n")
				return nil
			}
			rows := make([][]terminal.Cell, 0, len(list))
			for i := range list {
				rows = append(rows, row(&list[i]))
			}
			terminal.New(command.Stdout(c)).Table([]string{"ID", "WHAT", "QUEUE", "STATE", "DONE", "LEFT", "BEGAN", "WHICH"}, rows)
			return nil
		},
	}
	f.Flags(c)
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	c.Flags().IntVar(&limit, "limit", 20, "at most `N`, the newest")
	c.AddCommand(cancel(f))
	return c
}

// chosenQueue connects, for the queue that is named or, without one, for those that the flags choose.
func chosenQueue(ctx context.Context, f Chooser, given []string) (api *client.Client, database, name string, err error) {
	if len(given) == 0 {
		api, database, err = f.Connect(ctx)
		return api, database, "", err
	}
	api, q, err := f.Open(ctx, given[0])
	if err != nil {
		return nil, "", "", err
	}
	return api, q.Database, q.Name, nil
}

func row(o *client.Operation) []terminal.Cell {
	left := int64(0)
	for _, n := range o.Skipped {
		left += n
	}
	which := o.Filter
	switch {
	case o.Named > 0:
		which = terminal.Plural(o.Named, "id")
	case which == "":
		which = "all"
	}
	if o.Error != "" {
		which += "\n" + o.Error
	}
	cells := remote.Cells(strconv.FormatInt(o.ID, 10), o.Kind, o.Queue, o.State, terminal.Count(o.Done)+" of "+terminal.Count(o.Matched),
		terminal.Count(left), remote.Ago(o.Created), which)
	cells[3].Style = map[string]terminal.Style{"done": terminal.Green, "failed": terminal.Red, "cancelled": terminal.Yellow}[o.State]
	return cells
}

func cancel(f Chooser) *cobra.Command {
	c := &cobra.Command{
		Use:     "cancel ID",
		Short:   "End an operation: what was done stays done",
		Example: "  runlot queue operations cancel 17",
		Args:    command.Args(1, 1, "id of an operation"),
		RunE: func(c *cobra.Command, given []string) error {
			id, err := strconv.ParseInt(given[0], 10, 64)
			if err != nil || id < 1 {
				return command.Usage("cancel takes a number of runlot queue operations, not %s", command.Quoted(given[0]))
			}
			api, _, err := f.Connect(c.Context())
			if err != nil {
				return err
			}
			o, err := api.CancelOperation(c.Context(), id)
			if err != nil {
				return err
			}
			terminal.New(command.Stdout(c)).Printf("Cancelled operation %d. %s", o.ID, result(o))
			return nil
		},
	}
	f.Flags(c)
	return c
}
