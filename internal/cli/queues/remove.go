package queues

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/runlot/runlot/internal/cli/command"
)

func remove() *cobra.Command {
	var f choice
	var yes bool
	c := &cobra.Command{
		Use:   "remove NAME",
		Short: "Delete a queue, with all that it holds",
		Long: `remove deletes a queue: its messages, also those in flight, its settings and
its history. It asks first. One that a running app names is refused, as is one
that an R2 bucket or a subscription sends events to: deploy the app without it,
or delete the app. One that is made again under the name is another queue,
which sees nothing of the first.`,
		Example: "  runlot queue remove jobs-old\n  runlot queue remove jobs-old --yes",
		Args:    command.Args(1, 1, "name of a queue"),
		RunE: func(c *cobra.Command, given []string) error {
			api, q, err := f.open(c.Context(), given[0])
			if err != nil {
				return err
			}
			what := "all messages that it holds"
			if q.Unsettled >= 0 {
				what = plural(q.Unsettled)
			}
			if err := command.Confirm(c, yes, fmt.Sprintf("Delete the queue %s of database %s with %s?", q.Name, q.Database, what)); err != nil {
				return err
			}
			gone, err := api.DeleteQueue(c.Context(), q.Database, q.Name)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(command.Stdout(c), "Deleted the queue %s with %s\n", q.Name, plural(gone.Messages))
			return err
		},
	}
	f.flags(c)
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return c
}
