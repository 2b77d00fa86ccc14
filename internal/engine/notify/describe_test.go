package notify_test

import (
	"strings"
	"testing"
	"time"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/notify"
)

func TestAMessageSaysWhatToDo(t *testing.T) {
	n := &notify.Notice{
		Rule: notify.QueueFailed, At: noon, Node: "a1", Database: "shop", Queue: "jobs", DeadLetterQueue: "jobs-dead", App: "shop", Version: "id", VersionNumber: 7,
		Since: noon.Add(-90 * time.Second), Count: 12, Outcome: queue.Failed,
		Error: &notify.Exception{Name: "TypeError", Message: "x is not a function", Location: "src/a.ts:3:7"},
	}
	m := notify.Describe(n)
	got := m.Plain("http://127.0.0.1:8788")
	want := `The last 12 batches of the queue jobs did not go well. Messages are tried again as their consumer says; those that are out of retries go to jobs-dead.

    TypeError: x is not a function
    at src/a.ts:3:7

Queue          jobs
App            shop
Version        7
Database       shop
Failing since  2026-11-30 11:58:30 UTC (1 min 30 s)
In a row       12
Last outcome   failed
Noticed        2026-11-30 12:00:00 UTC on a1

Look closer:
    runlot queue batches jobs --database shop
    runlot logs --failed --queue jobs --database shop

http://127.0.0.1:8788/databases/shop/queues/jobs

Leave queue_failed out of the setting notify to switch these messages off.
`
	if got != want {
		t.Errorf("the text is\n%s", got)
	}
	if m.Title != "jobs: 12 batches failed in a row" {
		t.Errorf("title %q", m.Title)
	}
}

// TestNothingEscapesItsLine: names and errors come from users, and a message has a syntax of lines.
func TestNothingEscapesItsLine(t *testing.T) {
	const evil = "jobs\r\nBcc: x@example.com\u2028'; rm -rf /\x1b[31m"
	for _, rule := range append([]notify.Rule{notify.QueueOld, notify.Test}, notify.AllRules...) {
		for _, cron := range []string{"", evil} {
			m := notify.Describe(&notify.Notice{
				Rule: rule, At: noon, Node: evil, Database: evil, Queue: evil, DeadLetterQueue: evil, App: evil, Version: evil, Cron: cron,
				Error: &notify.Exception{Name: evil, Message: evil, Location: evil},
			})
			if strings.ContainsAny(m.Title, "\r\n\x1b\u2028") || m.Title == "" {
				t.Errorf("%s: title %q", rule, m.Title)
			}
			if strings.ContainsAny(m.Path, "\r\n ") || strings.Count(m.Path, "/") > 4 {
				t.Errorf("%s: path %q", rule, m.Path)
			}
			for l := range strings.Lines(m.Plain("http://x")) {
				if strings.HasPrefix(l, "Bcc") || strings.ContainsAny(l, "\r\x1b") {
					t.Errorf("%s: a line of its own: %q", rule, l)
				}
			}
			for _, c := range m.Commands {
				if !strings.Contains(c, `'\''; rm -rf /`) {
					t.Errorf("%s: command %q", rule, c)
				}
			}
		}
	}
}
