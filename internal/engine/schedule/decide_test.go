package schedule

import (
	"testing"
	"time"

	"github.com/runlot/runlot/internal/core/cron"
	"github.com/runlot/runlot/internal/core/queue"
)

func clock(text string) time.Time {
	t, err := time.Parse("15:04:05", text)
	if err != nil {
		panic(err)
	}
	return t.AddDate(2026, 10, 29)
}

func schedules(t *testing.T, texts ...string) []*cron.Schedule {
	t.Helper()
	list := make([]*cron.Schedule, len(texts))
	for i, text := range texts {
		var err error
		if list[i], err = cron.Parse(text); err != nil {
			t.Fatal(err)
		}
	}
	return list
}

func TestDecide(t *testing.T) {
	const hourly, quarter = "0 * * * *", "*/15 * * * *"
	crons := schedules(t, hourly, quarter)
	done := func(text, at string) State { return State{Cron: text, At: clock(at), Attempt: 1, Phase: Done} }
	waiting := func(text, at, try string) State {
		return State{Cron: text, At: clock(at), Attempt: 2, Phase: Waiting, Try: clock(try)}
	}
	running := func(text, at string) State {
		return State{Cron: text, At: clock(at), Attempt: 2, Missed: 5, Phase: Running}
	}
	type want struct {
		run, at         string
		attempt, missed int
		lost            bool
	}
	for name, c := range map[string]struct {
		now    string
		states [2]State
		want   want
		wake   string
	}{
		"nothing is due":               {"12:05:00", [2]State{done(hourly, "12:00:00"), done(quarter, "12:00:00")}, want{}, "12:15:00"},
		"one is due":                   {"12:15:00", [2]State{done(hourly, "12:00:00"), done(quarter, "12:00:00")}, want{quarter, "12:15:00", 1, 0, false}, "12:30:00"},
		"the longest due first":        {"13:20:00", [2]State{done(hourly, "12:00:00"), done(quarter, "12:00:00")}, want{hourly, "13:00:00", 1, 0, false}, "13:30:00"},
		"the latest of several":        {"12:50:00", [2]State{done(hourly, "12:00:00"), done(quarter, "12:00:00")}, want{quarter, "12:45:00", 1, 2, false}, "13:00:00"},
		"a wait that is not over":      {"12:05:00", [2]State{waiting(hourly, "12:00:00", "12:06:00"), done(quarter, "12:00:00")}, want{}, "12:06:00"},
		"a wait that is over":          {"12:06:00", [2]State{waiting(hourly, "12:00:00", "12:06:00"), done(quarter, "12:00:00")}, want{hourly, "12:00:00", 3, 0, false}, "12:15:00"},
		"a wait of a clock put back":   {"12:06:00", [2]State{waiting(hourly, "12:00:00", "13:30:00"), done(quarter, "12:00:00")}, want{hourly, "12:00:00", 3, 0, false}, "12:15:00"},
		"a wait ends with the next":    {"13:00:00", [2]State{waiting(hourly, "12:00:00", "13:00:10"), done(quarter, "13:00:00")}, want{hourly, "13:00:00", 1, 0, false}, "13:15:00"},
		"a lost run comes again":       {"12:05:00", [2]State{running(hourly, "12:00:00"), done(quarter, "12:00:00")}, want{hourly, "12:00:00", 3, 5, true}, "12:15:00"},
		"a lost run comes first":       {"12:50:00", [2]State{done(hourly, "11:00:00"), running(quarter, "12:45:00")}, want{quarter, "12:45:00", 3, 5, true}, "13:00:00"},
		"a lost run before the next":   {"13:00:00", [2]State{running(hourly, "12:00:00"), done(quarter, "13:00:00")}, want{hourly, "13:00:00", 1, 0, true}, "13:15:00"},
		"a clock put back by a little": {"11:05:00", [2]State{done(hourly, "12:00:00"), done(quarter, "12:30:00")}, want{}, "12:45:00"},
	} {
		t.Run(name, func(t *testing.T) {
			d := decide(&View{Now: clock(c.now), Crons: c.states[:]}, crons)
			var got want
			if o := d.run; o != nil {
				got = want{o.cron.String(), o.at.Format("15:04:05"), o.attempt, o.missed, o.lost != nil}
			}
			if got != c.want || d.anew != nil || !d.wake.Equal(clock(c.wake)) {
				t.Errorf("%+v at %s, anew %v; want %+v at %s", got, d.wake, d.anew, c.want, c.wake)
			}
		})
	}
	d := decide(&View{Now: clock("12:05:00"), Crons: []State{{Cron: hourly, At: clock("12:00:00").Add(10 * time.Hour), Phase: Done}}}, crons)
	if len(d.anew) != 2 || d.run != nil {
		t.Errorf("one from the future and one that is not known: %+v", d)
	}
	if d := decide(&View{Now: clock("12:05:00")}, nil); d.run != nil || d.anew != nil || !d.wake.IsZero() {
		t.Errorf("no crons: %+v", d)
	}
}

func TestRetryAt(t *testing.T) {
	hourly, yearly := schedules(t, "0 * * * *")[0], schedules(t, "0 0 1 1 *")[0]
	noon := clock("12:00:00")
	newYear := yearly.Next(noon)
	for _, c := range []struct {
		cron    *cron.Schedule
		at      time.Time
		attempt int
		now     time.Duration
		want    time.Duration
	}{
		{hourly, noon, 1, time.Second, queue.CronRetryFirst + time.Second},
		{hourly, noon, 3, time.Minute, 4*queue.CronRetryFirst + time.Minute},
		{hourly, noon, 1, 59*time.Minute + 49*time.Second, 59*time.Minute + 59*time.Second},
		{hourly, noon, 1, 59*time.Minute + 50*time.Second, 0},
		{yearly, newYear, 100, time.Hour, queue.CronRetryMax + time.Hour},
		{yearly, newYear, 100, queue.CronLate - queue.CronRetryMax, queue.CronLate},
		{yearly, newYear, 100, queue.CronLate - queue.CronRetryMax + time.Second, 0},
	} {
		got := retryAt(c.cron, c.at, c.attempt, c.at.Add(c.now))
		if want := c.at.Add(c.want); c.want == 0 && !got.IsZero() || c.want != 0 && !got.Equal(want) {
			t.Errorf("%s attempt %d after %s: %s", c.cron, c.attempt, c.now, got)
		}
	}
}
