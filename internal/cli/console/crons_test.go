package console_test

import (
	"testing"
	"time"

	"github.com/runlot/runlot/internal/cli/console"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/daemon"
	"github.com/runlot/runlot/internal/daemon/crons"
	"github.com/runlot/runlot/internal/engine/schedule"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func TestCronsOnTheFirstScreen(t *testing.T) {
	c, got := screen(80)
	s := summary()
	s.Apps[0].Crons = []crons.Next{
		{Cron: "*/5 * * * *", Words: "every 5 minutes", At: noon.Add(5 * time.Minute)},
		{Cron: "0 9 1 */3 *", Words: "at 09:00 UTC on the 1st in every 3rd month from January", At: noon.AddDate(0, 3, -1)},
	}
	c.Started(s)
	expect(t, got, `

  shop  http://127.0.0.1:8787

  Cron         Next                              When
  */5 * * * *  12:05 UTC, in 5 min               every 5 minutes
  0 9 1 */3 *  2026-04-01 12:00 UTC, in 89 days  at 09:00 UTC on the 1st in
                                                 every 3rd month from January

  ready in 902 ms · PostgreSQL 18.4 · workerd 2026-11-17 · Ctrl-C stops

`)
}

func TestRunsOfCrons(t *testing.T) {
	c, got := screen(80)
	c.Started(summary())
	got.Reset()
	run := func(r daemon.CronRun) {
		r.App, r.At, r.Start = "shop", noon, noon
		if r.Cron == "" {
			r.Cron = "*/5 * * * *"
		}
		c.Run(&r)
	}
	run(daemon.CronRun{Attempt: 1, Outcome: queue.OK, Duration: 12 * time.Millisecond})
	run(daemon.CronRun{
		Attempt: 2, Outcome: queue.Failed, Duration: time.Second, Retry: noon.Add(21 * time.Second),
		Error: &schedule.Exception{Name: "Error", Message: "no", Location: "src/index.ts:4:43"},
	})
	run(daemon.CronRun{Attempt: 1, Outcome: queue.Lost, Missed: 3, Duration: time.Second, Retry: noon, Reason: "the worker process ended during the run"})
	run(daemon.CronRun{Outcome: schedule.Missed, Missed: 4, Reason: "it was found more than 24 h after its time"})
	run(daemon.CronRun{Outcome: queue.OK, Attempt: 1, Manual: true})
	c.Run(&daemon.CronRun{App: "shop", Cron: "x", At: time.UnixMilli(5), Start: noon, Outcome: queue.OK, Manual: true})
	c.Line("shop", &daemon.Line{Text: "Error: no", Event: "scheduled", Uncaught: true})
	c.Line("shop", &daemon.Line{Text: "said", Event: "scheduled"})
	expect(t, got, `
12:00:00 */5 * * * *  ok       12:00 UTC                                   12 ms
12:00:00 */5 * * * *  failed   12:00 UTC · attempt 2 · again in 20 s         1 s
         Error: no  at src/index.ts:4:43
12:00:00 */5 * * * *  lost     12:00 UTC · 3 missed · again                  1 s
         the worker process ended during the run
12:00:00 */5 * * * *  missed   12:00 UTC · 4 missed
         it was found more than 24 h after its time
12:00:00 */5 * * * *  ok       12:00 UTC · by hand                           0 s
12:00:00 x            ok       1970-01-01 00:00 UTC · by hand                0 s
12:00:00 scheduled    said
`)
}

func TestUpcoming(t *testing.T) {
	for wait, want := range map[time.Duration]string{
		3 * time.Second: "12:00 UTC, in 3 s", 5 * time.Minute: "12:05 UTC, in 5 min", 90 * time.Minute: "13:30 UTC, in 1 h 30 min",
		36 * time.Hour: "2026-01-04 00:00 UTC, in 2 days", 24 * time.Hour: "2026-01-03 12:00 UTC, in 1 day", -time.Hour: "11:00 UTC, in 0 s",
	} {
		if got := console.Upcoming(noon.Add(wait), noon); got != want {
			t.Errorf("%s: %q, want %q", wait, got, want)
		}
	}
}
