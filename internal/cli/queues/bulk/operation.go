// Package bulk is the commands about what is done to many messages, and the one that shows a message whole.
package bulk

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/cli/command"
	"github.com/runlot/runlot/internal/cli/terminal"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

// Chooser finds the queue that a command is about.
type Chooser interface {
	// Flags adds the flags that choose a database.
	Flags(c *cobra.Command)
	// Open connects and finds a queue.
	Open(ctx context.Context, name string) (*client.Client, *client.Queue, error)
	// Connect connects, for all queues that the flags choose: database is "" for all.
	Connect(ctx context.Context) (api *client.Client, database string, err error)
}

// Options are what the commands that start an operation share.
type Options struct {
	Filter                  string
	Rate                    int
	Background, JSON, Agree bool
}

// Flags adds the flags.
func (o *Options) Flags(c *cobra.Command) {
	c.Flags().StringVar(&o.Filter, "filter", "", "all that match a `FILTER`, like 'age>1h body.user:42'")
	c.Flags().IntVar(&o.Rate, "rate", 0, "at most `N` messages a second (default: as many as go)")
	c.Flags().BoolVar(&o.Background, "background", false, "with --filter: do not wait for the end")
	c.Flags().BoolVar(&o.JSON, "json", false, "with --filter: write the operation as JSON")
	c.Flags().BoolVarP(&o.Agree, "yes", "y", false, "do not ask")
}

// Check refuses flags that make no sense.
func (o *Options) Check(ids []string) error {
	switch {
	case o.Rate < 0:
		return command.Usage("--rate takes a number of 0 or more, not %d", o.Rate)
	case o.Filter != "" && len(ids) > 0:
		return command.Usage("--filter chooses messages, and so do ids: give one of them")
	case len(ids) > queue.OperateIDs:
		return command.Usage("at most %s messages are named at once; --filter chooses more", terminal.Count(queue.OperateIDs))
	case o.Filter == "" && o.Background, o.Filter == "" && o.JSON:
		return command.Usage("--background and --json go with --filter")
	}
	return nil
}

// Run asks, starts an operation on all that match the filter, and follows it to its end. The question has what is asked
// about for its %s. Ctrl-C cancels the operation.
func (o *Options) Run(c *cobra.Command, api *client.Client, start *client.StartOperation, question string) error {
	start.Filter, start.Rate = o.Filter, o.Rate
	n, err := api.CountMessages(c.Context(), start.Database, start.Queue, o.Filter)
	if err != nil {
		return err
	}
	if n.Matched == 0 && n.Complete {
		terminal.New(command.Stderr(c)).Printf("No message of %s matches.\n", start.Queue)
		return nil
	}
	what := fmt.Sprintf("all %s of %s that match %s", terminal.Plural(n.Matched, "message"), start.Queue, o.Filter)
	if !n.Complete {
		what = fmt.Sprintf("all messages of %s that match %s: %s among the first %s, and all behind them",
			start.Queue, o.Filter, terminal.Count(int64(n.Matched)), terminal.Count(int64(n.Looked)))
	}
	if err := command.Confirm(c, o.Agree, fmt.Sprintf(question, what)); err != nil {
		return err
	}
	op, err := api.StartOperation(c.Context(), start)
	if err != nil {
		return err
	}
	if o.Background {
		if o.JSON {
			return command.JSON(c, op)
		}
		_, err := fmt.Fprintf(command.Stdout(c), "Operation %d goes on in the background; `runlot queue operations` shows how far it is\n", op.ID)
		return err
	}
	if op, err = follow(c, api, op); err != nil {
		return err
	}
	return o.ended(c, op)
}

// follow shows the progress until the end. When the command is interrupted it cancels the operation.
func follow(c *cobra.Command, api *client.Client, op *client.Operation) (*client.Operation, error) {
	line := terminal.NewProgress(terminal.New(command.Stderr(c)))
	defer line.End()
	for !op.Over() {
		line.Show(progress(op))
		timer := time.NewTimer(queue.FollowEvery / 2)
		select {
		case <-timer.C:
		case <-c.Context().Done():
			timer.Stop()
			ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Context()), queue.SendTimeout)
			defer cancel()
			return api.CancelOperation(ctx, op.ID)
		}
		next, err := api.Operation(c.Context(), op.ID)
		switch {
		case err == nil:
			op = next
		case c.Context().Err() == nil:
			return nil, err
		}
	}
	return op, nil
}

// progress is how far an operation is, in words.
func progress(op *client.Operation) string {
	if op.State == "waiting" {
		return "Waits for another operation of " + op.Queue
	}
	return fmt.Sprintf("%s %s, looked at %s", verbs[op.Kind], terminal.Plural(int(op.Done), "message"), terminal.Count(op.Looked))
}

// The kinds of operation; the first two are verbs of the command too.
const (
	deletion = "delete"
	moving   = "redrive"
	hurry    = "retry_now"
)

// verbs say what was done.
var verbs = map[string]string{moving: "Moved", deletion: "Deleted", hurry: "Hurried"}

// skips say why messages were left alone.
var skips = map[string]string{
	"in_flight": "that were being delivered", "changed": "that did not match any more", "missing": "that were gone", "unchanged": "that were visible already",
	"no_source": "of which it is not known where they came from (--to names a queue)", "forbidden": "that came from a queue that is not yours to change",
}

// ended says how an operation ended. One that failed or was cancelled is an error.
func (o *Options) ended(c *cobra.Command, op *client.Operation) error {
	if o.JSON {
		if err := command.JSON(c, op); err != nil {
			return err
		}
	} else if _, err := fmt.Fprint(command.Stdout(c), result(op)); err != nil {
		return err
	}
	CanUndo(c, op.Queue, op.Undo)
	switch op.State {
	case "failed":
		return fault.New(fault.Conflict, "operation_failed", "operation %d failed: %s", op.ID, op.Error)
	case "cancelled":
		return fault.New(fault.Conflict, "operation_cancelled", "operation %d was cancelled: what was done stays done, the rest is as it was", op.ID)
	}
	return nil
}

// result is what an operation has done, a line for each thing.
func result(op *client.Operation) string {
	var b strings.Builder
	text := fmt.Sprintf("%s %s of %s\n", verbs[op.Kind], terminal.Plural(int(op.Done), "message"), op.Queue)
	if op.Kind == moving {
		to := op.To
		if to == "" {
			to = "the queues that they came from"
		}
		text = fmt.Sprintf("Moved %s from %s to %s\n", terminal.Plural(int(op.Done), "message"), op.Queue, to)
	}
	b.WriteString(text)
	for _, reason := range slices.Sorted(maps.Keys(op.Skipped)) {
		if n := op.Skipped[reason]; n > 0 {
			fmt.Fprintf(&b, "Left %s alone %s\n", terminal.Plural(int(n), "message"), skips[reason])
		}
	}
	return b.String()
}

// Delete deletes messages by id, or all that match.
func Delete(f Chooser) *cobra.Command {
	return choosing(f, deletion, "Delete messages by id, or all that match a filter",
		`delete deletes messages, and leaves those alone that are being delivered. It
asks first, and undo takes it back for an hour. With --filter it goes on in the
background of the server: Ctrl-C cancels it, and what was deleted stays deleted.
purge deletes all that a queue holds, for good, and remove the queue itself.`,
		"Delete %s?", (*client.Client).DeleteMessages)
}

// Retry makes delayed messages visible, by id or all that match.
func Retry(f Chooser) *cobra.Command {
	return choosing(f, "retry", "Make delayed messages visible now, by id or all that match",
		`retry ends the delay of messages: they are delivered as soon as there is room.
Their attempts stay, and undo takes it back for an hour. With --filter it asks
first, and goes on in the background of the server: Ctrl-C cancels it.`,
		"Make %s visible now?", (*client.Client).RetryMessages)
}

func choosing(f Chooser, verb, short, long, question string,
	named func(api *client.Client, ctx context.Context, database, queue string, ids []string) (*client.Chosen, error),
) *cobra.Command {
	var o Options
	c := &cobra.Command{
		Use: verb + " NAME [ID...]", Short: short, Long: long,
		Example: fmt.Sprintf("  runlot queue %s jobs 5f0c6b…\n  runlot queue %[1]s jobs --filter 'state:delayed attempts>=2'", verb),
		Args:    cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, given []string) error {
			if len(given) == 0 {
				return command.Usage("%s needs the name of a queue", c.CommandPath())
			}
			ids := given[1:]
			if err := o.Check(ids); err != nil {
				return err
			}
			if o.Filter == "" && len(ids) == 0 {
				return command.Usage("name messages by their ids, or choose them with --filter")
			}
			api, q, err := f.Open(c.Context(), given[0])
			if err != nil {
				return err
			}
			if o.Filter != "" {
				kind := map[string]string{deletion: deletion, "retry": hurry}[verb]
				return o.Run(c, api, &client.StartOperation{Kind: kind, Database: q.Database, Queue: q.Name}, question)
			}
			if verb == deletion {
				asked := fmt.Sprintf(question, terminal.Plural(len(ids), "message")+" of "+q.Name)
				if err := command.Confirm(c, o.Agree, asked); err != nil {
					return err
				}
			}
			done, err := named(api, c.Context(), q.Database, q.Name, ids)
			if err != nil {
				return err
			}
			return chosen(c, verb, q.Name, done)
		},
	}
	f.Flags(c)
	o.Flags(c)
	return c
}

// chosen says what became of messages that were named.
func chosen(c *cobra.Command, verb, queueName string, done *client.Chosen) error {
	said := map[string]string{deletion: "Deleted", "retry": "Hurried"}[verb]
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s of %s\n", said, terminal.Plural(done.Done, "message"), queueName)
	for _, left := range []struct {
		ids []string
		why string
	}{{done.InFlight, "being delivered"}, {done.Unchanged, "visible already"}, {done.Missing, "not in " + queueName}} {
		if len(left.ids) > 0 {
			fmt.Fprintf(&b, "Left alone, %s: %s\n", left.why, strings.Join(left.ids, ", "))
		}
	}
	_, err := fmt.Fprint(command.Stdout(c), b.String())
	CanUndo(c, queueName, done.Undo)
	return err
}
