package cron_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/runlot/runlot/internal/core/cron"
	"github.com/runlot/runlot/internal/core/fault"
)

func parse(t *testing.T, text string) *cron.Schedule {
	t.Helper()
	s, err := cron.Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return s
}

func day(text string) time.Time {
	at, err := time.Parse("2006-01-02 15:04", text)
	if err != nil {
		panic(err)
	}
	return at
}

func TestNext(t *testing.T) {
	for _, c := range []struct{ expression, after, want string }{
		{"* * * * *", "2026-11-30 12:00", "2026-11-30 12:01"},
		{"*/5 * * * *", "2026-11-30 12:01", "2026-11-30 12:05"},
		{"*/5 * * * *", "2026-12-31 23:55", "2027-01-01 00:00"},
		{"7/20 * * * *", "2026-11-30 12:27", "2026-11-30 12:47"},
		{"0 22-2 * * *", "2026-11-30 02:00", "2026-11-30 22:00"},
		{"0 22-2/2 * * *", "2026-11-30 22:00", "2026-12-01 00:00"},
		{"0 22-2/2 * * *", "2026-11-30 02:00", "2026-11-30 22:00"},
		{"50-10/15 0 * * *", "2026-11-30 00:00", "2026-11-30 00:05"},
		{"0 9 * * MON-FRI", "2026-11-27 09:00", "2026-11-30 09:00"},
		{"0 9 * * 2-6", "2026-11-27 09:00", "2026-11-30 09:00"},
		{"0 9 * * 1", "2026-11-23 09:00", "2026-11-29 09:00"},
		{"0 9 * * fri-sun", "2026-11-29 09:00", "2026-12-04 09:00"},
		{"0 0 29 2 *", "2026-01-01 00:00", "2028-02-29 00:00"},
		{"0 0 29 2 *", "2096-02-29 00:00", "2104-02-29 00:00"},
		{"0 0 31 * *", "2026-10-31 00:00", "2026-12-31 00:00"},
		{"0 0 L * *", "2026-02-01 00:00", "2026-02-28 00:00"},
		{"0 0 L-1 2 *", "2028-02-01 00:00", "2028-02-28 00:00"},
		{"0 0 L-28 2 *", "2026-03-01 00:00", "2028-02-01 00:00"},
		// 31 January 2026 is a Saturday, 28 February too, 31 May a Sunday.
		{"0 0 LW * *", "2026-01-01 00:00", "2026-01-30 00:00"},
		{"0 0 LW 5 *", "2026-01-01 00:00", "2026-05-29 00:00"},
		{"0 0 L-30W 8 *", "2026-01-01 00:00", "2026-08-03 00:00"},
		// 1 August 2026 is a Saturday, 15 August too, 1 November a Sunday.
		{"0 0 1W 8 *", "2026-01-01 00:00", "2026-08-03 00:00"},
		{"0 0 15W 8 *", "2026-01-01 00:00", "2026-08-14 00:00"},
		{"0 0 1W 11 *", "2026-01-01 00:00", "2026-11-02 00:00"},
		{"0 0 31W 5 *", "2026-01-01 00:00", "2026-05-29 00:00"},
		{"0 0 * * L", "2026-11-30 00:00", "2026-12-05 00:00"},
		{"0 0 * * 6L", "2026-11-01 00:00", "2026-11-27 00:00"},
		{"0 0 * * FRI#1", "2026-11-07 00:00", "2026-12-04 00:00"},
		{"0 0 * 2 MON#5", "2026-01-01 00:00", "2044-02-29 00:00"},
		// Both days: either.
		{"0 0 13 * FRI", "2026-11-11 00:00", "2026-11-13 00:00"},
		{"0 0 13 * FRI", "2026-11-13 00:00", "2026-11-20 00:00"},
		{"0 0 13 * */2", "2026-11-30 00:00", "2026-12-01 00:00"},
		{"0 0 1 JAN,jul *", "2026-11-30 00:00", "2027-01-01 00:00"},
	} {
		after := day(c.after)
		got := parse(t, c.expression).Next(after)
		if want := day(c.want); !got.Equal(want) {
			t.Errorf("%s after %s: %s, want %s", c.expression, c.after, got, want)
		}
	}
	eastern := time.FixedZone("", -5*3600)
	if got := parse(t, "0 0 * * *").Next(time.Date(2026, 11, 30, 18, 59, 59, 999, eastern)); !got.Equal(day("2026-12-01 00:00")) {
		t.Errorf("a local time: %s", got)
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct{ expression, want, hint string }{
		{"", "is empty", "five fields"},
		{"* * * *", "4 fields", "five fields"},
		{"0 * * * * *", "six fields", "leave out the seconds"},
		{"@daily", `"@daily" is not known`, "write it out: 0 0 * * *"},
		{"@reboot", `"@reboot" is not known`, "five fields"},
		{"@every 5m", `"@every" is not known`, "five fields"},
		{"60 * * * *", `the minute field "60" has "60", which is not a number from 0 to 59`, "every minute"},
		{"* 24 * * *", `the hour field "24" has "24", which is not a number from 0 to 23`, "every hour"},
		{"* * 0 * *", `the day of the month field "0"`, "every day of the month"},
		{"* * 32 * *", "not a number from 1 to 31", "every day"},
		{"* * * 13 *", "not a number from 1 to 12 or JAN to DEC", "every month"},
		{"* * * JANUARY *", `"JANUARY"`, "every month"},
		{"* * * * 0", "not a number from 1 to 7 or SUN to SAT", "Sunday is 1"},
		{"* * * * 8", "not a number from 1 to 7", "every day of the week"},
		{"* * ? * *", `has "?"`, "write *"},
		{"*/0 * * * *", `a step of "0"`, "*/2"},
		{"*/60 * * * *", "not a number from 1 to 59", "*/2"},
		{"*/ * * * *", `a step of ""`, "*/2"},
		{"1/+5 * * * *", `a step of "+5"`, "*/2"},
		{"*/5/5 * * * *", `a step of "5/5"`, "*/2"},
		{"*,5 * * * *", "* in a list", "alone"},
		{"1, * * * *", "empty place", "comma"},
		{"1- * * * *", "range without an end", "a-b"},
		{"-5 * * * *", "range without an end", "a-b"},
		{"1-2-3 * * * *", `"2-3"`, "every minute"},
		{"*-5 * * * *", `"*"`, "every minute"},
		{"+5 * * * *", `"+5"`, "every minute"},
		{"005 * * * *", `"005"`, "every minute"},
		{"ü * * * *", `"ü"`, "every minute"},
		{"L * * * *", `the minute field "L"`, "every minute"},
		{"* * L,1 * *", "in a list", "two crons"},
		{"* * 15W,1 * *", "in a list", "two crons"},
		{"* * W * *", "range without an end", "a-b"},
		{"* * l * *", "small l", "write L"},
		{"* * 15w * *", "small l or w", "write 15W"},
		{"* * L-31 * *", "goes back by 31 days", "write L"},
		{"* * L-0 * *", "goes back by 0 days", "write L"},
		{"* * L3 * *", "not a form of L or W", "last day"},
		{"* * 1-5W * *", "not a form of L or W", "last day"},
		{"* * 3L * *", "not a form of L or W", "last day"},
		{"* * WED * *", "not a form of L or W", "last day"},
		{"* * LWW * *", "not a form of L or W", "last day"},
		{"* * * * 2l", "small l", "write 2L"},
		{"* * * * 1L,2L", "in a list", "two crons"},
		{"* * * * MON#1,FRI#1", "in a list", "two crons"},
		{"* * * * MON#6", `"6"`, "MON#1"},
		{"* * * * MON#0", `"0"`, "MON#1"},
		{"* * * * MON#", `""`, "MON#1"},
		{"* * * * 8#1", `"8"`, "every day of the week"},
		{"* * * * 1-5L", `"1-5"`, "every day of the week"},
		{"* * * * #1", "range without an end", "a-b"},
		{"0 0 31 2 *", "never comes", "L in the field"},
		{"0 0 30,31 FEB *", "never comes", "L in the field"},
		{"0 0 31W 4,6,9,11 *", "never comes", "L in the field"},
		{"0 0 L-30 4 *", "never comes", "L in the field"},
		{strings.Repeat("1,", 130) + "1 * * * *", "269 characters", "shorten"},
	} {
		s, err := cron.Parse(c.expression)
		f := fault.From(err)
		if err == nil || s != nil || f.Kind != fault.Invalid || f.Code != cron.CodeInvalid {
			t.Errorf("%s: %v, %v", c.expression, s, err)
			continue
		}
		if !strings.Contains(f.Message, c.want) || !strings.Contains(f.Hint, c.hint) {
			t.Errorf("%s: %q, hint %q; want %q and %q", c.expression, f.Message, f.Hint, c.want, c.hint)
		}
	}
}

func TestDescribe(t *testing.T) {
	got := map[string]string{}
	want := map[string]string{
		"* * * * *":             "every minute",
		"*/5 * * * *":           "every 5 minutes",
		"*/7 * * * *":           "at minutes every 7th of 0–59 of every hour",
		"0 * * * *":             "every hour",
		"30 * * * *":            "at minute 30 of every hour",
		"0 */6 * * *":           "at 00:00, 06:00, 12:00 and 18:00 UTC",
		"0 */2 * * *":           "every 2 hours",
		"0 */5 * * *":           "at minute 0 of every 5th hour",
		"0 9 * * *":             "at 09:00 UTC",
		"0 9 * * MON-FRI":       "at 09:00 UTC on weekdays",
		"0 9 * * 2-6":           "at 09:00 UTC on weekdays",
		"0 9,17 * * SUN":        "at 09:00 and 17:00 UTC on Sundays",
		"30 6 * * 7,1":          "at 06:30 UTC on Saturdays and Sundays",
		"0 0 * * MON,WED,FRI":   "at 00:00 UTC on Mondays, Wednesdays and Fridays",
		"*/15 9-17 * * MON-FRI": "every 15 minutes of the hours 9–17 UTC on weekdays",
		"* 4 * * *":             "every minute of the hour 4 UTC",
		"* */2 * * *":           "every minute of every 2nd hour",
		"0 0 1 * *":             "at 00:00 UTC on the 1st",
		"0 0 1,15 * *":          "at 00:00 UTC on the 1st and 15th",
		"0 0 */10 * *":          "at 00:00 UTC on every 10th day of the month from the 1st",
		"0 0 L * *":             "at 00:00 UTC on the last day of the month",
		"0 0 L-3 * *":           "at 00:00 UTC on the 3rd day before the month's last",
		"0 0 LW * *":            "at 00:00 UTC on the last weekday of the month",
		"0 0 L-1W * *":          "at 00:00 UTC on the weekday nearest to the 1st day before the month's last",
		"0 0 15W * *":           "at 00:00 UTC on the weekday nearest to the 15th",
		"0 0 * * L":             "at 00:00 UTC on Saturdays",
		"0 0 * * FRIL":          "at 00:00 UTC on the last Friday of the month",
		"0 0 * * 2#1":           "at 00:00 UTC on the 1st Monday of the month",
		"0 0 13 * FRI":          "at 00:00 UTC on the 13th and on Fridays",
		"0 0 1 1 *":             "at 00:00 UTC on the 1st in January",
		"0 0 1 JUN-AUG *":       "at 00:00 UTC on the 1st in June–August",
		"0 0 1 */3 *":           "at 00:00 UTC on the 1st in every 3rd month from January",
		"0 0 * * */1":           "at 00:00 UTC on every day",
		"1,2 * * * *":           "at minutes 1 and 2 of every hour",
		"10-30/5 * * * *":       "at minutes every 5th of 10–30 of every hour",
	}
	for expression := range want {
		got[expression] = parse(t, expression).Describe()
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCount(t *testing.T) {
	s := parse(t, "*/10 * * * *")
	from := day("2026-11-30 12:00")
	for _, c := range []struct {
		to         string
		most, want int
	}{{"2026-11-30 12:00", 9, 0}, {"2026-11-30 12:10", 9, 0}, {"2026-11-30 12:11", 9, 1}, {"2026-11-30 13:00", 9, 5}, {"2026-11-30 13:00", 3, 3}} {
		if got := s.Count(from, day(c.to), c.most); got != c.want {
			t.Errorf("up to %s, at most %d: %d, want %d", c.to, c.most, got, c.want)
		}
	}
}

// TestAgainstTheMinutes walks the calendar minute by minute, with a reading of the expression of its own.
func TestAgainstTheMinutes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawReference(t)
		s, err := cron.Parse(r.text)
		if err != nil {
			t.Skip("it never comes: ", err)
		}
		if s.String() != r.text {
			t.Fatalf("%q is %q", r.text, s)
		}
		start := time.Date(rapid.IntRange(1999, 2101).Draw(t, "year"), time.Month(rapid.IntRange(1, 12).Draw(t, "month")),
			rapid.IntRange(1, 31).Draw(t, "day"), rapid.IntRange(0, 23).Draw(t, "hour"), rapid.IntRange(0, 59).Draw(t, "minute"),
			rapid.IntRange(0, 59).Draw(t, "second"), 0, time.UTC)
		next, prev := s.Next(start), s.Prev(start)
		if !next.After(start) || prev.After(start) {
			t.Fatalf("%s: next of %s is %s, prev %s", r.text, start, next, prev)
		}
		const walk = 40 * 24 * 60 // minutes
		minute := start.Truncate(time.Minute)
		for i := 1; i <= walk; i++ {
			at := minute.Add(time.Duration(i) * time.Minute)
			if want := r.contains(at); want != s.Contains(at) {
				t.Fatalf("%s contains %s: %t", r.text, at, !want)
			} else if want {
				if !next.Equal(at) {
					t.Fatalf("%s: next of %s is %s, want %s", r.text, start, next, at)
				}
				break
			}
			if next.Equal(at) {
				t.Fatalf("%s: next of %s is %s, which is none", r.text, start, next)
			}
		}
		for i := range walk {
			at := minute.Add(-time.Duration(i) * time.Minute)
			if r.contains(at) {
				if !prev.Equal(at) {
					t.Fatalf("%s: prev of %s is %s, want %s", r.text, start, prev, at)
				}
				break
			}
			if prev.Equal(at) {
				t.Fatalf("%s: prev of %s is %s, which is none", r.text, start, prev)
			}
		}
		if back := s.Prev(next); !back.Equal(next) {
			t.Fatalf("%s: prev of its time %s is %s", r.text, next, back)
		}
		if again := s.Next(prev.Add(-time.Second)); !again.Equal(prev) {
			t.Fatalf("%s: next before its time %s is %s", r.text, prev, again)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"* * * * *", "*/5 0 L-3W JAN-MAR 2#1", "1,2-3/4 22-2 LW * FRIL", "@daily", "0 0 31 2 *", "0 0 29W 2 L"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := cron.Parse(text)
		if err != nil {
			e := fault.From(err)
			if e.Kind != fault.Invalid || e.Hint == "" {
				t.Fatalf("%q: %#v", text, e)
			}
			return
		}
		again, err := cron.Parse(s.String())
		if err != nil || again.String() != s.String() || again.Describe() != s.Describe() {
			t.Fatalf("%q is %q and then %v, %v", text, s, again, err)
		}
		at := s.Next(day("2026-11-30 12:00"))
		if !s.Contains(at) || !s.Prev(at).Equal(at) {
			t.Fatalf("%q: %s", text, at)
		}
		if strings.TrimSpace(s.Describe()) != s.Describe() {
			t.Fatalf("%q: %q", text, s.Describe())
		}
	})
}
