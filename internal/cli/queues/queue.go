package queues

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/cli/command"
	"github.com/runlot/runlot/internal/cli/queues/bulk"
	"github.com/runlot/runlot/internal/cli/queues/sparkline"
	"github.com/runlot/runlot/internal/cli/remote"
	"github.com/runlot/runlot/internal/cli/terminal"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/core/span"
)

// Queue lists the queues and gathers the commands about one of them.
func Queue() *cobra.Command {
	var f choice
	var asJSON, watch bool
	c := &cobra.Command{
		Use:   "queue",
		Short: "Show the queues, and what is done with one",
		Long: `queue shows the queues of this folder's project, or of all apps elsewhere: the
messages that are visible, delayed and in flight (FLYING), those in the
dead-letter queue (DEAD), since when the oldest waits, and how the last batch
ended. In the folder of a project that runlot dev runs, it is that one's queues;
else those of the celld of the last login.`,
		Example: "  runlot queue\n  runlot queue --database shop --watch\n  runlot queue --json | jq '.[].visible'",
		Args:    cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, given []string) error {
			if len(given) > 0 {
				return command.HelpOrUnknown(c, given)
			}
			api, err := remote.Connect(c.Context(), f.server)
			if err != nil {
				return err
			}
			for first := true; ; first = false {
				list, err := f.list(c.Context(), api)
				switch {
				case watch && c.Context().Err() != nil:
					return nil //nolint:nilerr // Ctrl-C is how a watch ends
				case err != nil:
					return err
				case asJSON && watch:
					err = command.JSONLine(c, list)
				case asJSON:
					err = command.JSON(c, list)
				default:
					showQueues(c, list, watch, first)
				}
				if err != nil || !watch || !wait(c.Context(), queue.FollowEvery) {
					return err
				}
			}
		},
	}
	f.flags(c)
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	c.Flags().BoolVarP(&watch, "watch", "w", false, "show it again every second, until Ctrl-C")
	c.AddCommand(info(), peek(), send(), pause(), resume(), redrive(), purge(), remove(), retention(), usage(), batches(), batch(),
		bulk.Message(&choice{}), bulk.Delete(&choice{}), bulk.Retry(&choice{}), bulk.Undo(&choice{}), bulk.Operations(&choice{}))
	return c
}

func showQueues(c *cobra.Command, list []client.Queue, watch, first bool) {
	out := terminal.New(command.Stdout(c))
	switch {
	case watch && out.Interactive:
		out.Printf("\x1b[H\x1b[2J")
	case watch && !first:
		out.Printf("\n")
	}
	if len(list) == 0 {
		terminal.New(command.Stderr(c)).Printf("There are no queues; an app that is deployed brings its own.\n")
		return
	}
	several := false
	for i := range list {
		several = several || list[i].Database != list[0].Database
	}
	rows := make([][]terminal.Cell, 0, len(list))
	const longest = 16
	for i := range list {
		q := &list[i]
		name := q.Name
		if several {
			name = q.Database + "/" + name
		}
		if out.Interactive {
			name = terminal.CutName(name, longest)
		}
		rows = append(rows, queueRow(q, name))
	}
	out.Table([]string{"QUEUE", "VISIBLE", "DELAYED", "FLYING", "DEAD", "OLDEST", "LAST BATCH"}, rows)
}

func queueRow(q *client.Queue, name string) []terminal.Cell {
	oldest, last := "-", "-"
	if q.Oldest != nil {
		oldest = age(*q.Oldest)
	}
	dead := "-"
	if q.Consumer != nil && q.Consumer.DeadLetterQueue != "" {
		dead = number(q.DeadLetters)
	}
	style := terminal.Normal
	if b := q.LastBatch; b != nil {
		last, style = b.Outcome+" "+age(b.Start), outcomeStyle(b.Outcome)
	}
	if q.PausedSince != nil {
		last, style = "paused "+age(*q.PausedSince), terminal.Yellow
	}
	row := remote.Cells(name, number(q.Visible), number(q.Delayed), number(q.InFlight), dead, oldest, last)
	row[len(row)-1].Style = style
	return row
}

// age is how long ago a time was, in its largest unit.
func age(at time.Time) string { return strings.TrimSuffix(remote.Ago(at), " ago") }

// number shows a number that may not be known.
func number(n int64) string {
	if n < 0 {
		return "?"
	}
	return terminal.Count(n)
}

func outcomeStyle(outcome string) terminal.Style {
	switch queue.Outcome(outcome) {
	case queue.OK:
		return terminal.Green
	case queue.Failed, queue.TimedOut:
		return terminal.Red
	case queue.Lost, queue.Errored:
	}
	return terminal.Yellow
}

func info() *cobra.Command {
	var f choice
	var asJSON bool
	c := &cobra.Command{
		Use:   "info NAME",
		Short: "Show all about a queue",
		Long: `info shows the messages of a queue, who sends and who consumes, how the last
batch ended, and how many messages a second came and went in the last 15
minutes: as numbers, and on a terminal that shows them as bars too.`,
		Example: "  runlot queue info jobs",
		Args:    command.Args(1, 1, "name of a queue"),
		RunE: func(c *cobra.Command, given []string) error {
			api, q, err := f.open(c.Context(), given[0])
			if err != nil {
				return err
			}
			rates := lately(c.Context(), api, q)
			if asJSON {
				return command.JSON(c, queueInfo{q, rates})
			}
			out := terminal.New(command.Stdout(c))
			lines := describe(q)
			if rates != nil {
				lines = append(lines, sparkline.Lines(rates, out.Interactive && sparkline.UTF8(os.Getenv))...)
			}
			for _, line := range lines {
				for n, part := range out.Fold(line[1], labelWidth) {
					label := line[0]
					if n > 0 {
						label = ""
					}
					out.Printf("%s%s\n", out.Paint(terminal.Dim, fmt.Sprintf("%-*s", labelWidth, label)), part)
				}
			}
			return nil
		},
	}
	f.flags(c)
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return c
}

// queueInfo is a queue and how fast messages came and went of late, where that is known.
type queueInfo struct {
	*client.Queue

	Rates *client.QueueRates `json:"rates,omitempty"`
}

// lately is how fast messages of a queue came and went; nil when that is not known.
func lately(ctx context.Context, api *client.Client, q *client.Queue) *client.QueueRates {
	all, err := api.Rates(ctx, "", q.Database, sparkline.Points)
	if err != nil {
		return nil // what is asked for is the queue; this is beside it
	}
	for i := range all {
		if all[i].Queue == q.Name {
			return &all[i]
		}
	}
	return nil
}

// labelWidth is the room for the names of lines, in columns.
const labelWidth = 15

// describe is what there is to say of a queue, by name.
func describe(q *client.Queue) [][2]string {
	lines := [][2]string{
		{"Queue", q.Name},
		{"Database", q.Database},
		{"Messages", fmt.Sprintf("%s visible, %s delayed, %s in flight", number(q.Visible), number(q.Delayed), number(q.InFlight))},
	}
	if q.Bytes >= 0 {
		lines = append(lines, [2]string{"Size", remote.Size(q.Bytes)})
	}
	if q.Oldest != nil {
		lines = append(lines, [2]string{"Oldest", "sent " + remote.Ago(*q.Oldest)})
	}
	kept := span.Text(time.Duration(q.RetentionSeconds) * time.Second)
	if q.RetentionSet {
		kept += ", as an operator set it"
	}
	lines = append(lines, [2]string{"Kept for", kept})
	state := "delivered"
	switch {
	case q.PausedSince != nil:
		state = "paused since " + remote.Clock(*q.PausedSince) + "; `runlot queue resume " + q.Name + "` goes on"
	case q.Consumer == nil:
		state = "no app consumes it: messages wait"
	case q.Consumer.Pull:
		state = "waits to be pulled"
	}
	lines = append(lines, [2]string{"State", state})
	for _, p := range q.Producers {
		lines = append(lines, [2]string{"Producer", p.App + ": env." + p.Binding})
	}
	if c := q.Consumer; c != nil {
		text := fmt.Sprintf("%s: batches of %d or %s, %d retries", c.App, c.BatchSize,
			span.Text(time.Duration(c.BatchTimeoutSeconds*float64(time.Second))), c.MaxRetries)
		if c.Pull {
			text = fmt.Sprintf("pulled over HTTP, %d retries", c.MaxRetries)
		}
		lines = append(lines, [2]string{"Consumer", text})
		if c.DeadLetterQueue != "" {
			lines = append(lines, [2]string{"Dead letters", number(q.DeadLetters) + " in " + c.DeadLetterQueue})
		}
	}
	if len(q.DeadLettersOf) > 0 {
		lines = append(lines, [2]string{"Holds", "the dead letters of " + strings.Join(q.DeadLettersOf, ", ")})
	}
	if b := q.LastBatch; b != nil {
		lines = append(lines, [2]string{"Last batch", b.Outcome + " " + remote.Ago(b.Start) + ": " + counts(b)})
	}
	return lines
}
