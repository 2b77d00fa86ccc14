// Package seriestest is the contract of series.Store as tests: every store passes it, the one over PostgreSQL and the one
// in memory.
package seriestest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/series"
)

// Subject is an empty store and what makes queues exist in it.
type Subject struct {
	Store   series.Store
	Declare func(t *testing.T, names ...string)
}

// Run runs the contract. Open is called once for each test.
func Run(t *testing.T, open func(t *testing.T) Subject) {
	t.Helper()
	for _, test := range []struct {
		name string
		run  func(t *testing.T, s series.Store)
	}{
		{"KeepsEveryField", testFields},
		{"WriteTwiceDoesNoHarm", testWriteTwice},
		{"WriteSkipsUnknownQueues", testUnknownQueue},
		{"WritersAddUp", testWriters},
		{"ReadsASpan", testSpan},
		{"EndedContext", testEndedContext},
		{"Prunes", testPrune},
		{"PruneLeavesTodayAlone", testPruneToday},
		{"PruneAfterALongTime", testPruneLongAgo},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := open(t)
			s.Declare(t, "jobs", "mail")
			test.run(t, s.Store)
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(fault.Detail(err))
	}
}

// noon is a minute in the middle of a day.
var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

// simple is a row in which n messages were sent.
func simple(queueName string, writer int64, at time.Time, n int64) series.Row {
	return series.Row{Queue: queueName, Writer: writer, Point: series.Point{Start: at, Counts: series.Counts{Sent: n}}}
}

func read(t *testing.T, s series.Store, queueName string, from, to time.Time) []series.Row {
	t.Helper()
	rows, err := s.Read(t.Context(), queueName, from, to)
	must(t, err)
	return rows
}

func expect(t *testing.T, got, want []series.Row) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" && len(want)+len(got) > 0 {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

func testFields(t *testing.T, s series.Store) {
	t.Helper()
	row := series.Row{Queue: "jobs", Writer: -7, Point: series.Point{
		Start: noon,
		Counts: series.Counts{
			Sent: 1, SentBytes: 1 << 40, Arrived: 3, Left: 4, Delivered: 5, Acked: 6, Retried: 7, Redelivered: 8, Dead: 9, Dropped: 10,
			Expired: 11, Batches: [...]int64{12, 13, 14, 15, 16}, HandlerTime: 17 * time.Microsecond,
		},
		Gauges: series.Gauges{
			Visible: 18, Delayed: 19, InFlight: 20, Oldest: 21 * time.Millisecond, Running: 22, Allowed: 23, LaneBytes: 24,
		},
	}}
	for i := range row.Handler {
		row.Handler[i] = int64(100 + i)
	}
	sparse := simple("jobs", 1, noon.Add(time.Minute), 1)
	sparse.Handler[3] = 1
	must(t, s.Write(t.Context(), []series.Row{row, sparse}))
	expect(t, read(t, s, "jobs", noon, noon.Add(time.Hour)), []series.Row{row, sparse})
}

func testWriteTwice(t *testing.T, s series.Store) {
	t.Helper()
	first := simple("jobs", 1, noon, 5)
	must(t, s.Write(t.Context(), []series.Row{first}))
	second := simple("jobs", 1, noon.Add(time.Minute), 6)
	must(t, s.Write(t.Context(), []series.Row{first, second}))
	expect(t, read(t, s, "jobs", noon, noon.Add(time.Hour)), []series.Row{first, second})
}

func testUnknownQueue(t *testing.T, s series.Store) {
	t.Helper()
	known := simple("jobs", 1, noon, 5)
	must(t, s.Write(t.Context(), []series.Row{simple("nobody", 1, noon, 5), known}))
	expect(t, read(t, s, "jobs", noon, noon.Add(time.Hour)), []series.Row{known})
	expect(t, read(t, s, "nobody", noon, noon.Add(time.Hour)), []series.Row{})
}

// testWriters has two nodes write at once about the minute in which a queue went from one to the other.
func testWriters(t *testing.T, s series.Store) {
	t.Helper()
	var writing sync.WaitGroup
	for _, writer := range []int64{2, 1} {
		writing.Go(func() {
			for i := range 10 {
				if err := s.Write(context.WithoutCancel(t.Context()), []series.Row{simple("jobs", writer, noon.Add(time.Duration(i)*time.Minute), writer)}); err != nil {
					t.Error(fault.Detail(err))
				}
			}
		})
	}
	writing.Wait()
	want := make([]series.Row, 0, 20)
	for i := range 10 {
		at := noon.Add(time.Duration(i) * time.Minute)
		want = append(want, simple("jobs", 1, at, 1), simple("jobs", 2, at, 2))
	}
	expect(t, read(t, s, "jobs", noon, noon.Add(time.Hour)), want)
}

func testSpan(t *testing.T, s series.Store) {
	t.Helper()
	var rows []series.Row
	for at := noon.Add(-queue.SeriesAge); at.Before(noon); at = at.Add(7*time.Hour + 13*time.Minute) {
		rows = append(rows, simple("jobs", 1, at, at.Unix()))
	}
	must(t, s.Write(t.Context(), append(rows, simple("mail", 1, noon.Add(-time.Hour), 1))))
	expect(t, read(t, s, "jobs", noon.Add(-queue.SeriesAge), noon), rows)
	expect(t, read(t, s, "jobs", rows[3].Start, rows[9].Start), rows[3:9])
	expect(t, read(t, s, "jobs", rows[3].Start.Add(time.Microsecond), rows[3].Start.Add(time.Hour)), []series.Row{})
}

func testEndedContext(t *testing.T, s series.Store) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, readErr := s.Read(ctx, "jobs", noon, noon.Add(1))
	_, pruneErr := s.Prune(ctx, noon)
	for _, err := range []error{s.Write(ctx, []series.Row{simple("jobs", 1, noon, 1)}), readErr, pruneErr} {
		if fault.KindOf(err) != fault.Unavailable {
			t.Errorf("%v, want a fault of kind Unavailable", err)
		}
	}
}

// prune reports how many days went, and what is left.
func prune(t *testing.T, s series.Store, now time.Time) (int, []series.Row) {
	t.Helper()
	days, err := s.Prune(t.Context(), now)
	must(t, err)
	var left []series.Row
	for back := 40; back >= 0; back-- {
		at := now.Truncate(day).Add(-time.Duration(back) * day)
		left = append(left, read(t, s, "jobs", at, at.Add(day))...)
	}
	return days, left
}

// testPrune lives through three weeks.
func testPrune(t *testing.T, s series.Store) {
	t.Helper()
	rows := make([]series.Row, 0, 21)
	for i := range 21 {
		now := noon.Add(time.Duration(i) * day)
		row := simple("jobs", 1, now, int64(i+1))
		rows = append(rows, row)
		must(t, s.Write(t.Context(), []series.Row{row}))
		days, left := prune(t, s, now)
		kept := rows[max(0, len(rows)-8):]
		if want := min(1, max(0, i-7)); days != want {
			t.Errorf("day %d: %d days are gone, want %d", i, days, want)
		}
		expect(t, left, kept)
	}
}

func testPruneToday(t *testing.T, s series.Store) {
	t.Helper()
	row := simple("jobs", 1, noon.Truncate(day), 1)
	must(t, s.Write(t.Context(), []series.Row{row}))
	if days, left := prune(t, s, noon); days != 0 || len(left) != 1 {
		t.Errorf("%d days are gone, %d rows are left", days, len(left))
	}
}

// testPruneLongAgo begins with what a node left that was away for weeks.
func testPruneLongAgo(t *testing.T, s series.Store) {
	t.Helper()
	for i := range 8 {
		must(t, s.Write(t.Context(), []series.Row{simple("jobs", 1, noon.Add(time.Duration(i)*day), 1)}))
	}
	if days, left := prune(t, s, noon.Add(30*day)); days != 8 || len(left) != 0 {
		t.Errorf("%d days are gone, %d rows are left", days, len(left))
	}
}
