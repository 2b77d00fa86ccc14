package queues

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/cli/command"
	"github.com/runlot/runlot/internal/cli/queues/bulk"
	"github.com/runlot/runlot/internal/cli/terminal"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

func pause() *cobra.Command {
	return setting("pause", "Stop the delivery of a queue",
		"pause stops the delivery of a queue until resume, also over restarts. What is in\nflight finishes, and sends are accepted.",
		"Paused %s: messages wait until `runlot queue resume %[1]s`\n",
		func(ctx context.Context, api *client.Client, q *client.Queue) error {
			return api.Pause(ctx, q.Database, q.Name)
		})
}

func resume() *cobra.Command {
	return setting("resume", "Go on with the delivery of a queue", "resume takes a pause back.", "Resumed %s\n",
		func(ctx context.Context, api *client.Client, q *client.Queue) error {
			return api.Resume(ctx, q.Database, q.Name)
		})
}

func setting(verb, short, long, said string, change func(ctx context.Context, api *client.Client, q *client.Queue) error) *cobra.Command {
	var f choice
	c := &cobra.Command{
		Use: verb + " NAME", Short: short, Long: long, Example: "  runlot queue " + verb + " jobs", Args: command.Args(1, 1, "name of a queue"),
		RunE: func(c *cobra.Command, given []string) error {
			api, q, err := f.open(c.Context(), given[0])
			if err != nil {
				return err
			}
			if err := change(c.Context(), api, q); err != nil {
				return err
			}
			_, err = fmt.Fprintf(command.Stdout(c), said, q.Name)
			return err
		},
	}
	f.flags(c)
	return c
}

// of is a number of messages out of those that there were at first, where that is known.
func of(n, total int64) string {
	if total > 0 && n <= total {
		return terminal.Count(n) + " of " + plural(total)
	}
	return plural(n)
}

func purge() *cobra.Command {
	var f choice
	var yes bool
	c := &cobra.Command{
		Use:   "purge NAME",
		Short: "Delete all messages of a queue",
		Long: `purge deletes all that a queue holds when it begins, delayed messages too. What
is in flight finishes and is not delivered again. It asks first, and cannot be
undone. Once begun it goes to its end, also when the command is interrupted.`,
		Example: "  runlot queue purge jobs-dead\n  runlot queue purge jobs-dead --yes",
		Args:    command.Args(1, 1, "name of a queue"),
		RunE: func(c *cobra.Command, given []string) error {
			api, q, err := f.open(c.Context(), given[0])
			if err != nil {
				return err
			}
			what := "all messages"
			if q.Unsettled >= 0 {
				what = plural(q.Unsettled)
			}
			if err := command.Confirm(c, yes, fmt.Sprintf("Delete %s of %s in database %s?", what, q.Name, q.Database)); err != nil {
				return err
			}
			line, begun := terminal.NewProgress(terminal.New(command.Stderr(c))), false
			done, err := api.Purge(c.Context(), q.Database, q.Name, func(p client.Progress) {
				begun = true
				line.Show("Deleted " + of(p.Messages, q.Unsettled))
			})
			line.End()
			switch {
			case err != nil && begun && c.Context().Err() != nil:
				terminal.New(command.Stderr(c)).Printf("The purge of %s is made and goes on without this command.\n", q.Name)
				return nil //nolint:nilerr // what was asked for is done
			case err != nil:
				return err
			}
			_, err = fmt.Fprintf(command.Stdout(c), "Deleted %s of %s\n", plural(done.Messages), q.Name)
			return err
		},
	}
	f.flags(c)
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return c
}

func redrive() *cobra.Command {
	var f choice
	var r client.Redrive
	var ids []string
	var text string
	var o bulk.Options
	c := &cobra.Command{
		Use:   "redrive NAME",
		Short: "Move dead letters back to where they came from",
		Long: `redrive moves the messages of a dead-letter queue back to the queues that they
came from, or to another with --to. Their attempts start again; id, body and
send time stay. It asks first. Ctrl-C stops it: what was moved stays moved, the
rest stays where it is. undo takes back, for an hour, those that were not
delivered yet. With --body, one message comes back as a new one with
another body. With --filter it goes on in the background of the server.`,
		Example: `  runlot queue redrive jobs-dead
  runlot queue redrive jobs-dead --to jobs-slow --rate 100 --yes
  runlot queue redrive jobs-dead --filter 'reason:timeout age<1d'
  runlot queue redrive jobs-dead --ids 5f0c6b…,5f0c6c…
  runlot queue redrive jobs-dead --ids 5f0c6b… --body '{"url": "https://…"}'`,
		Args: command.Args(1, 1, "name of a queue"),
		RunE: func(c *cobra.Command, given []string) error {
			if err := o.Check(ids); err != nil {
				return err
			}
			r.IDs, r.Rate = ids, o.Rate
			if text != "" {
				if len(ids) != 1 || !json.Valid([]byte(text)) {
					return command.Usage("--body takes JSON, for the one message that --ids names")
				}
				r.IDs, r.Edit = nil, &client.Edit{ID: ids[0], Body: json.RawMessage(text)}
			}
			api, q, err := f.open(c.Context(), given[0])
			if err != nil {
				return err
			}
			total := q.Unsettled
			if len(ids) > 0 {
				total = int64(len(ids))
			}
			what, to := "all messages", "the queues that they came from"
			if total >= 0 {
				what = plural(total)
			}
			if r.To != "" {
				to = r.To
			}
			if o.Filter != "" {
				start := client.StartOperation{Kind: "redrive", Database: q.Database, Queue: q.Name, To: r.To}
				return o.Run(c, api, &start, "Move %s to "+to+"?")
			}
			if err := command.Confirm(c, o.Agree, fmt.Sprintf("Move %s of %s to %s?", what, q.Name, to)); err != nil {
				return err
			}
			line := terminal.NewProgress(terminal.New(command.Stderr(c)))
			var last client.Progress
			done, err := api.Redrive(c.Context(), q.Database, q.Name, &r, func(p client.Progress) {
				last = p
				line.Show("Moved " + of(p.Messages, total))
			})
			line.End()
			switch {
			case err != nil && c.Context().Err() != nil:
				return stopped(c, api, q, &last)
			case err != nil:
				return err
			}
			return moved(c, q, to, done)
		},
	}
	f.flags(c)
	c.Flags().StringVar(&r.To, "to", "", "`QUEUE` to move them to (default: where each came\nfrom)")
	c.Flags().StringSliceVar(&ids, "ids", nil, "only the messages with these `IDS`, with commas\nbetween")
	c.Flags().StringVar(&text, "body", "", "another `JSON` body for the one message of --ids")
	o.Flags(c)
	return c
}

// moved says what a redrive did.
func moved(c *cobra.Command, q *client.Queue, to string, done *client.Progress) error {
	text := fmt.Sprintf("Moved %s from %s to %s\n", plural(done.Messages), q.Name, to)
	if done.ID != "" {
		text += fmt.Sprintf("It is message %s now\n", done.ID)
	}
	if done.InFlight > 0 {
		text += fmt.Sprintf("Left %s alone that were being delivered\n", plural(done.InFlight))
	}
	if len(done.Missing) > 0 {
		text += fmt.Sprintf("Not in %s: %s\n", q.Name, strings.Join(done.Missing, ", "))
	}
	_, err := fmt.Fprint(command.Stdout(c), text)
	bulk.CanUndo(c, q.Name, done.Undo)
	return err
}

// stopped says what a redrive that was interrupted had moved. The server ends the step that it was at, so that the queue is
// asked what it still holds.
func stopped(c *cobra.Command, api *client.Client, q *client.Queue, last *client.Progress) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Context()), queue.SendTimeout)
	defer cancel()
	f := fault.New(fault.Conflict, "redrive_stopped", "stopped: at least %s of %s moved and stay so, the rest stays where it is", plural(last.Messages), q.Name)
	if now, err := api.Queue(ctx, q.Database, q.Name); err == nil && now.Unsettled >= 0 {
		f = f.WithHint("%s holds %s now; call it again to go on", q.Name, plural(now.Unsettled))
	}
	return f
}
