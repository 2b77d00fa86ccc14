package console_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/internal/cli/console"
	"github.com/runlot/runlot/internal/cli/terminal"
	"github.com/runlot/runlot/internal/config/source"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/daemon"
	"github.com/runlot/runlot/internal/engine/dispatch"
)

// screen returns a console of some columns whose clock stands still, and what it writes.
func screen(columns int) (*console.Console, *strings.Builder) {
	var b strings.Builder
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	return console.New(terminal.Plain(&b, columns), func() time.Time { return noon }), &b
}

func expect(t *testing.T, got *strings.Builder, want string) {
	t.Helper()
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), got.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func summary(queues ...daemon.QueueSummary) *daemon.Summary {
	return &daemon.Summary{
		Apps: []daemon.AppSummary{{Name: "shop", URL: "http://127.0.0.1:8787"}}, Queues: queues,
		Workerd: "2026-11-17", Postgres: "18.4", Took: 902 * time.Millisecond,
	}
}

func TestFirstScreenInAnOrdinaryTerminal(t *testing.T) {
	c, got := screen(80)
	c.Progress("Starting PostgreSQL 18.4")
	c.Batch(&daemon.Record{App: "shop", Queue: "invoices", Outcome: queue.OK, Delivered: 3, Acked: 3, Duration: 2 * time.Millisecond})
	c.Started(summary(
		daemon.QueueSummary{
			Name: "invoices", Producers: []string{"shop: env.INVOICES"}, App: "shop", Waiting: 12345,
			Consumer: &queue.Consumer{Queue: "invoices", BatchSize: 10, BatchTimeout: time.Second, MaxRetries: 2, DeadLetterQueue: "invoices-lost"},
		},
		daemon.QueueSummary{Name: "mail-failures", DeadLettersOf: []string{"mails"}, Waiting: -1},
	))
	expect(t, got, `
Starting PostgreSQL 18.4 …

  shop  http://127.0.0.1:8787

  Queue          Waiting  Producers     Consumer
  invoices       12`+"\u202f"+`345   env.INVOICES  batches of 10 or 1 s, 2 retries →
                                        invoices-lost
  mail-failures  …        —             none: keeps the dead letters of mails

  ready in 902 ms · PostgreSQL 18.4 · workerd 2026-11-17 · Ctrl-C stops

12:00:00 invoices  ok       3 delivered · 3 acked                           2 ms
`)
}

func TestWhatComesBeforeAFailedStartIsWritten(t *testing.T) {
	c, got := screen(80)
	c.Line("shop", &daemon.Line{Text: "about to fail", Event: "start"})
	expect(t, got, "")
	c.Flush()
	expect(t, got, "12:00:00 start     about to fail\n")
}

func TestErrorsOfBatches(t *testing.T) {
	c, got := screen(60)
	c.Started(summary())
	got.Reset()
	failed := func(message, location string) {
		c.Batch(&daemon.Record{
			App: "shop", Queue: "mails-of-customers-high-priority", Outcome: queue.Failed, Delivered: 1, Retried: 1,
			Duration: time.Second, Error: &dispatch.Exception{Name: "Error", Message: message, Location: location},
		})
	}
	failed("no", "src/index.ts:4:43")
	failed("the payment provider answered 503 and asks for patience", "src/index.ts:14:29")
	failed("first\nsecond\x1b[2J", "")
	failed("1\n2\n3\n4\n5\n6\n7\n8\n", "src/index.ts:4:43")
	expect(t, got, `
12:00:00 mails-of-cus…gh-priority  failed   1 delivered · 1 retried 1 s
         Error: no  at src/index.ts:4:43
12:00:00 mails-of-cus…gh-priority  failed   1 delivered · 1 retried 1 s
         Error: the payment provider answered 503 and asks
         for patience  at src/index.ts:14:29
12:00:00 mails-of-cus…gh-priority  failed   1 delivered · 1 retried 1 s
         Error: first
         second�[2J
12:00:00 mails-of-cus…gh-priority  failed   1 delivered · 1 retried 1 s
         Error: 1
         2
         3
         4
         5
         …  at src/index.ts:4:43
`)
}

func TestALossIsNoRetry(t *testing.T) {
	c, got := screen(80)
	c.Started(summary())
	got.Reset()
	c.Batch(&daemon.Record{
		App: "shop", Queue: "mails", Outcome: queue.Lost, Delivered: 10, Redelivered: 10, Duration: time.Second,
		Reason: "the worker process ended during the delivery: signal: killed",
	})
	expect(t, got, `
12:00:00 mails     lost     10 delivered · 10 redelivered                    1 s
         the worker process ended during the delivery: signal: killed
`)
}

func TestFaults(t *testing.T) {
	problem := source.Problems{
		{File: "runlot.json", Line: 3, Column: 5, Severity: source.Error, Message: "unknown key `mian`; did you mean `main`?"},
		{File: "runlot.json", Line: 4, Column: 5, Severity: source.Error, Message: "no", Hint: "the keys here are name, main, database, queues, vars"},
	}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"a sentence": {
			fault.New(fault.Conflict, "port_in_use", "port 8787 is in use").WithHint("stop what listens there, or choose another with --port N"),
			`
error: port 8787 is in use
hint:  stop what listens there, or choose another
       with --port N
`,
		},
		"code below a sentence": {
			fault.New(fault.Invalid, "build", "the build failed\n\na.ts:1:2: error: a line of code is never folded, so that the mark below points to it\n   ^"),
			`
error: the build failed

a.ts:1:2: error: a line of code is never folded, so that the mark below points to it
   ^
`,
		},
		"places in files": {
			fault.New(fault.Invalid, "config", "%s", problem.Error()).WithCause(problem),
			`
runlot.json:3:5: error: unknown key ` + "`mian`" + `;
    did you mean ` + "`main`" + `?
runlot.json:4:5: error: no
    hint: the keys here are name, main,
        database, queues, vars
`,
		},
		"a defect": {errors.New("secret"), `
error: internal error
hint:  the log has the details
`},
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			console.Fault(terminal.Plain(&b, 50), c.err)
			expect(t, &b, c.want)
		})
	}
}
