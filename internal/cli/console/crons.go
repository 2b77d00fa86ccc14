package console

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/runlot/runlot/internal/cli/terminal"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/core/span"
	"github.com/runlot/runlot/internal/daemon"
)

// missed is the outcome of an occurrence that was not run.
const missed queue.Outcome = "missed"

// Run implements daemon.Observer: one line for a scheduled run, and one below it for why it did not go well.
func (c *Console) Run(r *daemon.CronRun) {
	record := *r
	c.then(func(at string) { c.run(at, &record) })
}

func (c *Console) run(at string, r *daemon.CronRun) {
	style := terminal.Red
	switch r.Outcome {
	case queue.OK:
		style = terminal.Green
	case queue.Lost, missed:
		style = terminal.Yellow
	case queue.Failed, queue.TimedOut, queue.Errored:
	}
	name := r.Cron
	if name == "" {
		name = "scheduled"
	}
	took := span.Text(r.Duration)
	if r.Outcome == missed {
		took = ""
	}
	c.outcome(at, c.label(r.App, terminal.Clean(name)), style, string(r.Outcome), runFacts(r), took)
	switch {
	case r.Error != nil:
		text := r.Error.Name
		if r.Error.Message != "" {
			text += ": " + r.Error.Message
		}
		c.below(terminal.Red, text, r.Error.Location)
	case r.Reason != "":
		c.below(style, firstLine(r.Reason), "")
	}
}

// outcome writes a line: time, label, outcome padded to the longest ("timeout"), facts, and the duration at a fixed column.
func (c *Console) outcome(at, label string, style terminal.Style, outcome, facts, took string) {
	left := label + "  "
	pad := max(1, min(c.out.Width(), 100)-indent-utf8.RuneCountInString(left)-9-utf8.RuneCountInString(facts)-utf8.RuneCountInString(took))
	if took != "" {
		facts += strings.Repeat(" ", pad) + c.out.Paint(terminal.Dim, took)
	}
	c.out.Printf("%s%s%s%s\n", at, c.out.Paint(terminal.Bold, left), c.out.Paint(style, fmt.Sprintf("%-9s", outcome)), facts)
}

// runFacts says which run it was, and what follows.
func runFacts(r *daemon.CronRun) string {
	clock := "15:04"
	if r.Start.Sub(r.At).Abs() > 12*time.Hour {
		clock = "2006-01-02 15:04"
	}
	parts := []string{r.At.UTC().Format(clock) + " UTC"}
	switch {
	case r.Manual:
		parts = append(parts, "by hand")
	case r.Attempt > 1:
		parts = append(parts, fmt.Sprintf("attempt %d", r.Attempt))
	}
	if r.Missed > 0 {
		parts = append(parts, fmt.Sprintf("%d missed", r.Missed))
	}
	switch wait := r.Retry.Sub(r.Start.Add(r.Duration)).Round(time.Second); {
	case r.Retry.IsZero():
	case wait <= 0:
		parts = append(parts, "again")
	default:
		parts = append(parts, "again in "+span.Text(wait))
	}
	return strings.Join(parts, " · ")
}

// Upcoming says when something comes, for a person: "12:05 UTC, in 3 min".
func Upcoming(at, now time.Time) string {
	at = at.UTC()
	wait := at.Sub(now)
	switch {
	case wait < time.Minute:
		return at.Format("15:04") + " UTC, in " + span.Text(max(0, wait.Round(time.Second)))
	case wait < 24*time.Hour:
		return at.Format("15:04") + " UTC, in " + span.Text(wait.Round(time.Minute))
	default:
		return at.Format("2006-01-02 15:04") + " UTC, in " + terminal.Plural(int(wait.Round(24*time.Hour)/(24*time.Hour)), "day")
	}
}

// crons writes when scheduled handlers run.
func (c *Console) crons(s *daemon.Summary) {
	header := []string{"Cron", "Next", "When"}
	var rows [][]terminal.Cell
	for i := range s.Apps {
		for _, next := range s.Apps[i].Crons {
			words := next.Words
			if len(s.Apps) > 1 {
				words = s.Apps[i].Name + ": " + words
			}
			c.label(s.Apps[i].Name, next.Cron)
			rows = append(rows, []terminal.Cell{{Text: next.Cron, Style: terminal.Bold}, {Text: Upcoming(next.At, c.now())}, {Text: words}})
		}
	}
	if len(rows) > 0 {
		c.out.Printf("\n")
		c.out.Table(header, rows)
	}
}
