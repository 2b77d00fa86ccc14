// Package console shows a running daemon to a person at a terminal: what is up and where, then a line for each batch
// and for everything a Worker logs.
package console

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/runlot/runlot/internal/cli/terminal"
	"github.com/runlot/runlot/internal/config/source"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/core/span"
	"github.com/runlot/runlot/internal/daemon"
)

// indent is the width of the time column and its gap: what belongs to the line above starts there.
const indent = 9

// Console writes what it is told as lines. It implements daemon.Observer and is safe for use by several goroutines.
type Console struct {
	mu   sync.Mutex // guards everything below and keeps lines whole
	out  *terminal.Output
	now  func() time.Time
	apps int
	// started says that the first screen is written; early is what came before it and waits, so that it stands below.
	started bool
	early   []func()
	// queueWidth aligns the batch lines.
	queueWidth int
}

// mostEarly bounds what waits for the first screen; more is written at once.
const mostEarly = 1000

// mostLabel bounds the column that says where a line comes from; a longer name is cut in its middle.
const mostLabel = 24

// mostErrorLines bounds how much of an error stands under its batch.
const mostErrorLines = 6

// New returns a console on out. now is the clock of its time column.
func New(out *terminal.Output, now func() time.Time) *Console {
	return &Console{out: out, now: now, queueWidth: 8}
}

// Progress implements daemon.Observer.
func (c *Console) Progress(step string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var at string
	if c.started {
		at = c.time()
	}
	c.out.Printf("%s%s\n", at, c.out.Paint(terminal.Dim, step+" …"))
}

// Started implements daemon.Observer.
func (c *Console) Started(s *daemon.Summary) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.apps, c.started = len(s.Apps), true
	c.out.Printf("\n")
	for i := range s.Apps {
		a := &s.Apps[i]
		c.out.Printf("  %s  %s\n", c.out.Paint(terminal.Bold, a.Name), c.out.Paint(terminal.Cyan, a.URL))
		for _, store := range a.Stores {
			c.out.Printf("    %s\n", store)
		}
	}
	if len(s.Queues) > 0 {
		c.out.Printf("\n")
		c.queues(s)
	}
	c.crons(s)
	ready := "ready in " + span.Text(s.Took)
	if s.Postgres != "" {
		ready += " · PostgreSQL " + s.Postgres
	}
	if s.Workerd != "" {
		ready += " · workerd " + s.Workerd
	}
	c.out.Printf("\n  %s\n\n", c.out.Paint(terminal.Dim, ready+" · Ctrl-C stops"))
	c.flush()
}

// Flush writes what waits for a first screen that does not come, because the start failed.
func (c *Console) Flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flush()
}

func (c *Console) flush() {
	for _, write := range c.early {
		write()
	}
	c.early = nil
}

// then writes below the first screen: write is called now, or when that screen is written. It is given the time of now.
func (c *Console) then(write func(at string)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.time()
	if c.started {
		write(at)
		return
	}
	c.early = append(c.early, func() { write(at) })
	if len(c.early) >= mostEarly {
		c.flush()
	}
}

func (c *Console) queues(s *daemon.Summary) {
	databases := map[string]bool{}
	for i := range s.Queues {
		databases[s.Queues[i].Database] = true
	}
	header := []string{"Queue", "Waiting", "Producers", "Consumer"}
	rows := make([][]terminal.Cell, 0, len(s.Queues))
	for i := range s.Queues {
		q := &s.Queues[i]
		name := q.Name
		if len(databases) > 1 {
			name = q.Database + "/" + q.Name
		}
		if q.Consumer != nil {
			c.label(q.App, q.Name)
		}
		rows = append(rows, []terminal.Cell{
			{Text: name, Style: terminal.Bold},
			{Text: waiting(q.Waiting)},
			{Text: producers(q, len(s.Apps) > 1)},
			consumer(q, len(s.Apps) > 1),
		})
	}
	c.out.Table(header, rows)
}

func waiting(n int64) string {
	if n < 0 {
		return "…"
	}
	return terminal.Count(n)
}

func producers(q *daemon.QueueSummary, several bool) string {
	names := make([]string, 0, len(q.Producers))
	for _, p := range q.Producers {
		if !several {
			_, p, _ = strings.Cut(p, ": ")
		}
		names = append(names, p)
	}
	if len(names) == 0 {
		return "—"
	}
	return strings.Join(names, ", ")
}

func consumer(q *daemon.QueueSummary, several bool) terminal.Cell {
	if q.Consumer == nil {
		text := "none: messages wait"
		if len(q.DeadLettersOf) > 0 {
			text = "none: keeps the dead letters of " + strings.Join(q.DeadLettersOf, ", ")
		}
		return terminal.Cell{Text: text, Style: terminal.Dim}
	}
	k := q.Consumer
	text := fmt.Sprintf("batches of %d or %s, ", k.BatchSize, span.Text(k.BatchTimeout))
	if k.BatchTimeout == 0 {
		text = fmt.Sprintf("batches of up to %d, ", k.BatchSize)
	}
	text += retries(k.MaxRetries)
	if k.DeadLetterQueue != "" {
		text += " → " + k.DeadLetterQueue
	}
	if several {
		text = q.App + ": " + text
	}
	return terminal.Cell{Text: text}
}

func retries(n int) string {
	switch n {
	case 0:
		return "no retries"
	case 1:
		return "1 retry"
	default:
		return fmt.Sprintf("%d retries", n)
	}
}

// Batch implements daemon.Observer: one line for a batch, and one below it for why it did not go well.
func (c *Console) Batch(r *daemon.Record) {
	record := *r
	c.then(func(at string) { c.batch(at, &record) })
}

func (c *Console) batch(at string, r *daemon.Record) {
	style := terminal.Green
	switch r.Outcome {
	case queue.OK:
		if r.Retried+r.Dead+r.Dropped > 0 {
			style = terminal.Yellow
		}
	case queue.Failed, queue.TimedOut, queue.Errored:
		style = terminal.Red
	case queue.Lost:
		style = terminal.Yellow
	}
	c.outcome(at, c.label(r.App, r.Queue), style, string(r.Outcome), batchCounts(r), span.Text(r.Duration))
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
	for _, w := range r.Warnings {
		c.below(terminal.Yellow, "warning: "+firstLine(w), "")
	}
}

// label is the column that says where a line comes from: the queue, behind its app where there are several. It is as wide
// as the widest one so far, up to mostLabel.
func (c *Console) label(app, name string) string {
	if c.apps > 1 {
		name = app + "/" + name
	}
	c.queueWidth = min(max(c.queueWidth, utf8.RuneCountInString(name)), mostLabel)
	return fmt.Sprintf("%-*s", c.queueWidth, terminal.CutName(name, c.queueWidth))
}

func batchCounts(r *daemon.Record) string {
	parts := []string{fmt.Sprintf("%d delivered", r.Delivered)}
	for _, p := range []struct {
		n    int
		word string
	}{{r.Acked, "acked"}, {r.Retried, "retried"}, {r.Redelivered, "redelivered"}, {r.Dead, "dead"}, {r.Dropped, "dropped"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.word))
		}
	}
	return strings.Join(parts, " · ")
}

// below writes text under the line above, and behind it where that happened.
func (c *Console) below(style terminal.Style, text, location string) {
	lines := c.out.Fold(strings.TrimSpace(text), indent)
	if len(lines) > mostErrorLines {
		lines = append(lines[:mostErrorLines-1], "…")
	}
	margin := strings.Repeat(" ", indent)
	for i, line := range lines {
		line = terminal.Clean(line)
		c.out.Printf("%s%s", margin, c.out.Paint(style, line))
		if i == len(lines)-1 && location != "" {
			at := "  at " + terminal.Clean(location)
			if len(c.out.Fold(line+at, indent)) > 1 {
				c.out.Printf("\n%s", margin[2:])
			}
			c.out.Printf("%s", c.out.Paint(terminal.Dim, at))
		}
		c.out.Printf("\n")
	}
}

// Line implements daemon.Observer: what a Worker logged, whole, with later lines of it indented under the first.
func (c *Console) Line(app string, line *daemon.Line) {
	if line.Uncaught && (line.Delivery != "" || line.Event == "scheduled") {
		return // the line of its batch or run says so
	}
	logged := *line
	c.then(func(at string) { c.line(at, app, &logged) })
}

func (c *Console) line(at, app string, line *daemon.Line) {
	var style terminal.Style
	switch line.Level {
	case "error":
		style = terminal.Red
	case "warn":
		style = terminal.Yellow
	case "debug":
		style = terminal.Dim
	}
	from := line.Queue
	if from == "" {
		from = line.Event
	}
	if from == "" {
		from = "worker"
	}
	text := strings.Split(strings.TrimRight(line.Text, "\n"), "\n")
	c.out.Printf("%s%s  %s\n", at, c.out.Paint(terminal.Dim, c.label(app, from)),
		c.out.Paint(style, terminal.Clean(text[0])))
	for _, rest := range text[1:] {
		c.out.Printf("%s%s\n", strings.Repeat(" ", indent+c.queueWidth+2), c.out.Paint(style, terminal.Clean(rest)))
	}
}

// Warnings implements daemon.Observer.
func (c *Console) Warnings(_ string, warnings []source.Diagnostic) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range warnings {
		for _, line := range c.out.Fold(relative(w.String()), 0) {
			c.out.Printf("%s\n", c.out.Paint(terminal.Yellow, line))
		}
	}
}

// Live implements daemon.Observer.
func (c *Console) Live(app, version string, took time.Duration, reload bool) {
	if !reload {
		return
	}
	c.event(terminal.Cyan, fmt.Sprintf("%s reloaded as version %s in %s", app, version, span.Text(took)))
}

// Failed implements daemon.Observer.
func (c *Console) Failed(app string, err error) {
	c.then(func(at string) {
		c.out.Printf("%s%s\n", at, c.out.Paint(terminal.Red, app+" was not reloaded; the version before goes on"))
		Fault(c.out, err)
	})
}

// Down implements daemon.Observer.
func (c *Console) Down(app, reason string) {
	c.event(terminal.Red, fmt.Sprintf("%s ended by itself: %s; it is started again", app, firstLine(reason)))
}

// Notice implements daemon.Observer.
func (c *Console) Notice(text string) { c.event(terminal.Yellow, text) }

// Stopping implements daemon.Observer.
func (c *Console) Stopping() {
	c.event(terminal.Dim, "stopping: batches in flight may finish (Ctrl-C again stops at once)")
}

func (c *Console) event(style terminal.Style, text string) {
	c.then(func(at string) {
		margin := ""
		for _, line := range c.out.Fold(text, indent) {
			c.out.Printf("%s%s%s\n", margin, at, c.out.Paint(style, terminal.Clean(line)))
			margin, at = strings.Repeat(" ", indent), ""
		}
	})
}

func (c *Console) time() string {
	return c.out.Paint(terminal.Dim, c.now().Format("15:04:05")) + " "
}

// Fault writes an error for a person: what is wrong, then the way out. Problems in files come as they are, each line
// beginning with its place: a compiler's form, which editors know.
func Fault(out *terminal.Output, err error) {
	f := fault.From(err)
	message := relative(f.Message)
	if _, ok := errors.AsType[source.Problems](err); ok {
		for line := range strings.SplitSeq(message, "\n") {
			margin := strings.Repeat(" ", 4)
			if strings.HasPrefix(line, margin) {
				margin += margin
			}
			for i, part := range out.Fold(line, len(margin)) {
				if i > 0 {
					part = margin + part
				}
				out.Printf("%s\n", mark(out, part))
			}
		}
	} else {
		out.Labelled(terminal.Red, "error: ", message)
	}
	if f.Hint != "" {
		out.Labelled(terminal.Cyan, "hint:  ", f.Hint)
	}
}

// mark colours the severity in a line of the form "file:line:column: severity: text", and a hint below it.
func mark(out *terminal.Output, line string) string {
	for _, m := range []struct {
		word  string
		style terminal.Style
	}{{": error: ", terminal.Red}, {": warning: ", terminal.Yellow}, {"    hint: ", terminal.Cyan}} {
		if before, after, ok := strings.Cut(line, m.word); ok {
			return before + out.Paint(m.style, strings.TrimSuffix(m.word, " ")) + " " + after
		}
	}
	return line
}

// relative shortens paths below the working folder.
func relative(text string) string {
	here, err := filepath.Abs(".")
	if err != nil || here == "/" {
		return text
	}
	return strings.ReplaceAll(text, here+string(filepath.Separator), "")
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
