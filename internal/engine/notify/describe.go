package notify

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/runlot/runlot/internal/core/span"
)

// Message is a notice in words. Everything in it is plain text, some of it from the user's code: whoever writes it into a form
// of text with a syntax escapes it.
type Message struct {
	// Title is the subject: "jobs: three batches failed in a row". It is one line.
	Title string
	// Lead is what happened, in a few sentences.
	Lead string
	// Rows are the particulars, in order.
	Rows []Row
	// Error is what the handler threw, or why it did not run, and Place the file:line:column of the user's code; "" when there
	// is none.
	Error, Place string
	// Commands show more, each to be typed as it is.
	Commands []string
	// Path is that of a page of the operators' address.
	Path string
	// Off says what switches such messages off.
	Off string
}

// Row is one particular.
type Row struct{ Name, Text string }

// Describe puts a notice into words.
func Describe(n *Notice) Message {
	m := Message{Path: "/", Off: fmt.Sprintf("Leave %s out of the setting notify to switch these messages off.", n.Rule)}
	if n.Queue != "" {
		m.Path = "/databases/" + url.PathEscape(n.Database) + "/queues/" + url.PathEscape(n.Queue)
	}
	switch n.Rule {
	case QueueFailed:
		m.queueFailed(n)
	case OperationsCap:
		m.operationsCap(n)
	case CronFailed:
		m.cronFailed(n)
	case DeadLetters:
		m.deadLetters(n)
	case QueueOld:
		m.queueOld(n)
	case Recovered:
		m.recovered(n)
	case Test:
		m.Title = "a test"
		m.Lead = "This is a test. When something goes wrong, a message like this says what happened, since when, and how to look closer."
		m.Off = "Nothing has happened: somebody ran `celld notify test`."
	}
	if n.Node != "" {
		m.row("Noticed", moment(n.At)+" on "+n.Node)
	} else {
		m.row("Noticed", moment(n.At))
	}
	m.Title, m.Lead, m.Place = line(m.Title), line(m.Lead), line(m.Place)
	lines := strings.Split(m.Error, "\n")
	for i := range lines {
		lines[i] = line(lines[i])
	}
	m.Error = strings.Join(lines, "\n")
	for i := range m.Rows {
		m.Rows[i].Text = line(m.Rows[i].Text)
	}
	return m
}

// Plain is a message as plain text.
func (m *Message) Plain(operator string) string {
	var b strings.Builder
	b.WriteString(m.Lead + "\n")
	if m.Error != "" {
		b.WriteString("\n    " + strings.ReplaceAll(m.Error, "\n", "\n    ") + "\n")
		if m.Place != "" {
			b.WriteString("    at " + m.Place + "\n")
		}
	}
	b.WriteString("\n")
	width := 0
	for _, r := range m.Rows {
		width = max(width, len(r.Name))
	}
	for _, r := range m.Rows {
		fmt.Fprintf(&b, "%-*s  %s\n", width, r.Name, r.Text)
	}
	if len(m.Commands) > 0 {
		b.WriteString("\nLook closer:\n")
		for _, c := range m.Commands {
			b.WriteString("    " + c + "\n")
		}
	}
	fmt.Fprintf(&b, "\n%s\n\n%s\n", operator+m.Path, m.Off)
	return b.String()
}

func (m *Message) row(name, text string) {
	if text != "" {
		m.Rows = append(m.Rows, Row{name, text})
	}
}

// about adds what a notice is about.
func (m *Message) about(n *Notice) {
	m.row("Queue", n.Queue)
	m.row("Cron", n.Cron)
	m.row("App", n.App)
	if n.VersionNumber > 0 {
		m.row("Version", strconv.Itoa(n.VersionNumber))
	} else {
		m.row("Version", n.Version)
	}
	m.row("Database", n.Database)
}

func (m *Message) cause(n *Notice) {
	m.Error = n.Reason
	if n.Error != nil {
		m.Error, m.Place = n.Error.Name+": "+n.Error.Message, n.Error.Location
	}
}

func (m *Message) queueFailed(n *Notice) {
	m.Title = n.Queue + ": " + words(n.Count, "batch", "batches") + " failed in a row"
	m.Lead = fmt.Sprintf("The last %s of the queue %s did not go well. Messages are tried again as their consumer says; those that are out of retries %s.",
		words(n.Count, "batch", "batches"), n.Queue, fate(n))
	m.cause(n)
	m.about(n)
	m.failing(n)
	m.Commands = []string{"runlot queue batches " + arg(n.Queue) + " --database " + arg(n.Database), "runlot logs --failed --queue " + arg(n.Queue) + " --database " + arg(n.Database)}
}

func (m *Message) failing(n *Notice) {
	m.row("Failing since", moment(n.Since)+" ("+span.Text(n.At.Sub(n.Since).Round(time.Second))+")")
	m.row("In a row", strconv.Itoa(n.Count))
	m.row("Last outcome", string(n.Outcome))
}

func fate(n *Notice) string {
	if n.DeadLetterQueue == "" {
		return "are deleted"
	}
	return "go to " + n.DeadLetterQueue
}

func (m *Message) cronFailed(n *Notice) {
	m.Title = fmt.Sprintf("%s: the cron %s failed", n.App, n.Cron)
	if n.Count > 1 {
		m.Title += " " + words(n.Count, "time", "times")
	}
	m.Lead = fmt.Sprintf("The cron %s of %s did not end well, in %s of its occurrence of %s. ", n.Cron, n.App, words(n.Count, "run", "runs"), moment(n.Occurrence))
	if n.Retry.IsZero() {
		m.Lead += "The occurrence is not tried again."
	} else {
		m.Lead += fmt.Sprintf("It is tried again at %s.", moment(n.Retry))
	}
	m.cause(n)
	m.about(n)
	m.row("Occurrence", moment(n.Occurrence))
	m.row("Runs", strconv.Itoa(n.Count))
	m.row("Last outcome", string(n.Outcome))
	m.Commands = []string{"runlot cron runs --app " + arg(n.App)}
}

func (m *Message) operationsCap(n *Notice) {
	if n.Percent < full {
		m.Title = fmt.Sprintf("%s: %d %% of the day's queue operations are used", n.Database, n.Percent)
		m.Lead = fmt.Sprintf("The queues of the database %s have used %d %% of their operations of the day. Beyond the cap, sends are refused until %s; deliveries go on.",
			n.Database, n.Percent, moment(n.Resets))
	} else {
		m.Title = n.Database + ": the day's queue operations are used up"
		m.Lead = fmt.Sprintf("The queues of the database %s have used up their operations of the day: sends are refused until %s. Deliveries go on. The setting queue-ops-cap raises the cap.",
			n.Database, moment(n.Resets))
	}
	m.row("Database", n.Database)
	m.row("Used", strconv.FormatInt(n.Used, 10))
	m.row("Cap", strconv.FormatInt(n.Cap, 10))
	m.Commands = []string{"runlot queue --database " + arg(n.Database)}
}

func (m *Message) deadLetters(n *Notice) {
	m.Title = n.Queue + ": " + words(n.Count, "message", "messages") + " became dead letters"
	m.Lead = fmt.Sprintf("%s of the queue %s failed too often and went to %s, where they stay until somebody moves or deletes them. More of today are not told of.",
		upper(words(n.Count, "message", "messages")), n.Queue, n.DeadLetterQueue)
	m.cause(n)
	m.about(n)
	m.row("Dead-letter queue", n.DeadLetterQueue)
	m.Commands = []string{
		"runlot queue peek " + arg(n.DeadLetterQueue) + " --database " + arg(n.Database),
		"runlot queue redrive " + arg(n.DeadLetterQueue) + " --database " + arg(n.Database),
	}
}

func (m *Message) queueOld(n *Notice) {
	age := span.Text(n.At.Sub(n.Oldest).Round(time.Second))
	m.Title = fmt.Sprintf("%s: the oldest message has waited %s", n.Queue, age)
	m.Lead = fmt.Sprintf("The oldest message of the queue %s was sent %s ago; the setting notify-old is %s.", n.Queue, age, span.Text(time.Duration(n.Threshold)*time.Second))
	if !n.PausedSince.IsZero() {
		m.Lead += " The queue is paused."
		m.row("Paused since", moment(n.PausedSince))
	}
	m.about(n)
	m.row("Oldest message", moment(n.Oldest))
	m.Commands = []string{"runlot queue info " + arg(n.Queue) + " --database " + arg(n.Database), "runlot queue batches " + arg(n.Queue) + " --database " + arg(n.Database)}
	m.Off = "Set notify-old to 0 to switch these messages off."
}

func (m *Message) recovered(n *Notice) {
	if n.Cron != "" {
		m.Title = fmt.Sprintf("%s: the cron %s is well again", n.App, n.Cron)
		m.Lead = fmt.Sprintf("Its occurrence of %s had failed; that of %s went well.", moment(n.Since), moment(n.Occurrence))
	} else {
		m.Title = n.Queue + " is well again"
		m.Lead = fmt.Sprintf("After %s that failed since %s, one went well.", words(n.Count, "batch", "batches"), moment(n.Since))
	}
	m.about(n)
}

// moment is a time for a reader anywhere.
func moment(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05 UTC") }

var small = []string{"no", "one", "two", "three"}

// words is a number with what is counted, small ones as words.
func words(n int, one, many string) string {
	switch {
	case n == 1:
		return "one " + one
	case n >= 0 && n < len(small):
		return small[n] + " " + many
	default:
		return strconv.Itoa(n) + " " + many
	}
}

func upper(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// line is a text on one line, without what steers a terminal.
func line(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, text)
}

// arg is a text as one argument of a shell.
func arg(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./", r)
	}
	if text != "" && strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(line(text), "'", `'\''`) + "'"
}
