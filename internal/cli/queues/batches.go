package queues

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/cli/command"
	"github.com/runlot/runlot/internal/cli/remote"
	"github.com/runlot/runlot/internal/cli/terminal"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/core/span"
)

// outcomes are what batches can be chosen by.
var outcomes = []string{
	string(queue.OK), string(queue.Failed), string(queue.TimedOut), string(queue.Lost), string(queue.Errored), "expired", "gap",
}

func batches() *cobra.Command {
	var f choice
	var outcome string
	var limit int
	var asJSON bool
	c := &cobra.Command{
		Use:     "batches [NAME]",
		Short:   "Show how the last batches ended",
		Example: "  runlot queue batches\n  runlot queue batches jobs --outcome failed --limit 50",
		Args:    command.Args(0, 1, "name of a queue"),
		RunE: func(c *cobra.Command, given []string) error {
			if limit < 1 {
				return command.Usage("--limit takes a number of 1 or more, not %d", limit)
			}
			if outcome != "" && !slices.Contains(outcomes, outcome) {
				return command.Usage("--outcome takes %s, not %s", strings.Join(outcomes, ", "), command.Quoted(outcome))
			}
			api, filter, err := f.filter(c.Context(), given)
			if err != nil {
				return err
			}
			filter.Outcome = outcome
			list, err := read(c, api, filter, limit, map[string]bool{})
			if err != nil {
				return err
			}
			if asJSON {
				return command.JSON(c, list)
			}
			if len(list) == 0 {
				terminal.New(command.Stderr(c)).Printf("There are no such batches; they are kept for 7 days.\n")
				return nil
			}
			rows := make([][]terminal.Cell, 0, len(list))
			for i := range list {
				rows = append(rows, batchRow(&list[i]))
			}
			terminal.New(command.Stdout(c)).Table([]string{"ID", "ENDED", "OUTCOME", "TOOK", "MESSAGES"}, rows)
			return nil
		},
	}
	f.flags(c)
	c.Flags().StringVar(&outcome, "outcome", "", "only with this `OUTCOME`: ok, failed, timeout, lost,\nerror, expired or gap")
	c.Flags().IntVar(&limit, "limit", 20, "at most `N`, the newest")
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return c
}

// filter connects and chooses batches: of one queue, or as the flags say.
func (f *choice) filter(ctx context.Context, name []string) (*client.Client, *client.BatchFilter, error) {
	if len(name) > 0 {
		api, q, err := f.open(ctx, name[0])
		if err != nil {
			return nil, nil, err
		}
		return api, &client.BatchFilter{Database: q.Database, Queue: q.Name}, nil
	}
	api, err := remote.Connect(ctx, f.server)
	filter := &client.BatchFilter{Database: f.database, App: f.app}
	if err != nil || f.database != "" || f.app != "" {
		return api, filter, err
	}
	all, err := api.Queues(ctx, "")
	filter.Database = folderDatabase(all)
	return api, filter, err
}

// read reads up to limit batches, newest first. It says which databases are away, but for those that it told before.
func read(c *cobra.Command, api *client.Client, filter *client.BatchFilter, limit int, told map[string]bool) ([]client.Batch, error) {
	list := []client.Batch{}
	for len(list) < limit {
		filter.Limit = min(limit-len(list), queue.MaxPage)
		page, err := api.Batches(c.Context(), filter)
		if err != nil {
			return nil, err
		}
		list = append(list, page.Items...)
		for _, name := range page.Away {
			if !told[name] {
				told[name] = true
				terminal.New(command.Stderr(c)).Printf("The database %s does not answer now; its batches are missing here.\n", name)
			}
		}
		if filter.Cursor = page.Next; filter.Cursor == "" {
			break
		}
	}
	return list, nil
}

func batchRow(b *client.Batch) []terminal.Cell {
	took := time.Duration(b.Milliseconds * float64(time.Millisecond))
	text := counts(b)
	if why := cause(b); why != "" {
		text += "\n" + why
	}
	row := remote.Cells(b.ID, age(b.Start.Add(took)), b.Outcome, span.Text(took), text)
	row[2].Style = outcomeStyle(b.Outcome)
	return row
}

// counts says what became of the messages of a batch.
func counts(b *client.Batch) string {
	if b.Missed > 0 {
		return terminal.Count(int64(b.Missed)) + " batches were not kept"
	}
	var parts []string
	for _, part := range []struct {
		n    int
		what string
	}{
		{b.Delivered, "delivered"},
		{b.Acked, "acked"},
		{b.Retried, "retried"},
		{b.Redelivered, "delivered again"},
		{b.Dead, "dead"},
		{b.Dropped, "dropped"},
		{b.Expired, "expired"},
	} {
		if part.n > 0 {
			parts = append(parts, terminal.Count(int64(part.n))+" "+part.what)
		}
	}
	return strings.Join(parts, " · ")
}

// cause is why a batch did not end well, on one line.
func cause(b *client.Batch) string {
	if b.Error == nil {
		return terminal.Clean(b.Reason)
	}
	text := b.Error.Name + ": " + b.Error.Message
	if b.Error.Location != "" {
		text += "  at " + b.Error.Location
	}
	return terminal.Clean(text)
}

func batch() *cobra.Command {
	var f choice
	var asJSON bool
	c := &cobra.Command{
		Use:   "batch ID",
		Short: "Show how one batch ended",
		Long: `batch shows what became of each message of a batch that was not simply acked,
the error with its place in the source, and what the handler logged.`,
		Example: "  runlot queue batch jobs.00068c3f1a2b3c4d",
		Args:    command.Args(1, 1, "id of a batch"),
		RunE: func(c *cobra.Command, given []string) error {
			name, _, ok := strings.Cut(given[0], ".")
			if !ok {
				return command.Usage("%s takes an id of runlot queue batches, not %s", c.CommandPath(), command.Quoted(given[0]))
			}
			api, q, err := f.open(c.Context(), name)
			if err != nil {
				return err
			}
			b, err := api.Batch(c.Context(), q.Database, given[0])
			if err != nil {
				return err
			}
			if asJSON {
				return command.JSON(c, b)
			}
			showBatch(terminal.New(command.Stdout(c)), b, true)
			return nil
		},
	}
	f.flags(c)
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return c
}

// levelError is that of console.error.
const levelError = "error"

// showBatch writes a batch: one line of what became of it, then why, its fates if they are asked for, and what was logged.
func showBatch(out *terminal.Output, b *client.Batch, fates bool) {
	took := time.Duration(b.Milliseconds * float64(time.Millisecond))
	out.Printf("%s %s %s  %s  %s\n", remote.Clock(b.Start), b.Queue, out.Paint(outcomeStyle(b.Outcome), b.Outcome), counts(b), span.Text(took))
	if why := cause(b); why != "" {
		out.Printf("  %s\n", out.Paint(terminal.Red, why))
	}
	if fates {
		if b.Error != nil {
			for line := range strings.SplitSeq(strings.TrimSpace(b.Error.Stack), "\n") {
				if line != "" {
					out.Printf("    %s\n", out.Paint(terminal.Dim, strings.TrimSpace(terminal.Clean(line))))
				}
			}
		}
		for _, w := range b.Warnings {
			out.Printf("  warning: %s\n", terminal.Clean(w))
		}
		for _, fate := range b.Fates {
			text := fmt.Sprintf("%s %s, attempt %d", fate.ID, fate.Kind, fate.Attempt)
			if fate.DelaySeconds > 0 {
				text += ", again after " + span.Text(time.Duration(fate.DelaySeconds*float64(time.Second)))
			}
			out.Printf("  %s\n", text)
		}
	}
	for _, line := range b.Lines {
		for text := range strings.SplitSeq(strings.TrimRight(line.Text, "\n"), "\n") {
			text = terminal.Clean(text)
			if line.Level == levelError || line.Level == "warn" {
				text = out.Paint(terminal.Yellow, text)
			}
			out.Printf("  %s\n", text)
		}
	}
}

// Logs shows what the handlers logged, batch by batch.
func Logs() *cobra.Command {
	var f choice
	var queueName string
	var limit int
	var follow, failed, asJSON bool
	c := &cobra.Command{
		Use:   "logs",
		Short: "Show what queue handlers logged, batch by batch",
		Long: `logs shows the last batches with what their handlers logged and why they failed,
the oldest first. With -f it goes on with each that ends, until Ctrl-C; a batch
comes about a second after its end.`,
		Example: "  runlot logs --queue jobs\n  runlot logs -f --failed\n  runlot logs --app my-app --json",
		Args:    command.Args(0, 0, ""),
		RunE: func(c *cobra.Command, _ []string) error {
			if limit < 1 || limit > queue.BatchPage {
				return command.Usage("--limit takes a number of 1 to %d, not %d", queue.BatchPage, limit)
			}
			var name []string
			if queueName != "" {
				name = []string{queueName}
			}
			api, filter, err := f.filter(c.Context(), name)
			if err != nil {
				return err
			}
			filter.Detail = true
			t := tail{c: c, api: api, filter: filter, failed: failed, asJSON: asJSON, seen: map[string]time.Time{}, told: map[string]bool{}}
			if err := t.show(limit); err != nil || !follow {
				return err
			}
			for wait(c.Context(), queue.FollowEvery) {
				filter.Since = time.Now().Add(-tailOverlap)
				if err := t.show(queue.MaxPage); err != nil && c.Context().Err() == nil {
					return err
				}
			}
			return nil
		},
	}
	f.flags(c)
	c.Flags().StringVar(&queueName, "queue", "", "only of this `QUEUE`")
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on with each batch that ends")
	c.Flags().BoolVar(&failed, "failed", false, "only those that did not end well")
	c.Flags().IntVar(&limit, "limit", 20, "begin with at most `N`, the newest")
	c.Flags().BoolVar(&asJSON, "json", false, "write one line of JSON for each batch")
	return c
}

// tailOverlap is how far back each look of a tail goes: a record is written a little after its batch's end.
const tailOverlap = 30 * time.Second

// tail shows batches once each, in the order in which they ended.
type tail struct {
	c      *cobra.Command
	api    *client.Client
	filter *client.BatchFilter
	failed bool
	asJSON bool
	// seen are the batches that were shown, with their time.
	seen map[string]time.Time
	// told are the databases that were said to be away.
	told map[string]bool
}

// bad are the outcomes of batches that did not end well.
var bad = []string{string(queue.Failed), string(queue.TimedOut), string(queue.Lost), string(queue.Errored)}

// show shows up to limit batches that were not shown before.
func (t *tail) show(limit int) error {
	wanted := []string{""}
	if t.failed {
		wanted = bad
	}
	var list []client.Batch
	for _, outcome := range wanted {
		t.filter.Outcome, t.filter.Cursor = outcome, ""
		found, err := read(t.c, t.api, t.filter, limit, t.told)
		if err != nil {
			return err
		}
		list = append(list, found...)
	}
	slices.SortStableFunc(list, func(x, y client.Batch) int { return x.Start.Compare(y.Start) })
	list = list[max(len(list)-limit, 0):]
	for i := range list {
		b := &list[i]
		key := b.Database + "/" + b.ID
		if _, ok := t.seen[key]; ok {
			continue
		}
		t.seen[key] = time.Now()
		if err := t.write(b); err != nil {
			return err
		}
	}
	for key, at := range t.seen {
		if time.Since(at) > 2*tailOverlap {
			delete(t.seen, key)
		}
	}
	return nil
}

func (t *tail) write(b *client.Batch) error {
	if t.asJSON {
		return command.JSONLine(t.c, b)
	}
	showBatch(terminal.New(command.Stdout(t.c)), b, false)
	return nil
}
