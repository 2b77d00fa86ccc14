package crons_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/runlot/runlot/internal/adapter/postgres/cluster"
	"github.com/runlot/runlot/internal/adapter/postgres/cluster/clustertest"
	"github.com/runlot/runlot/internal/adapter/postgres/crons"
	"github.com/runlot/runlot/internal/adapter/postgres/schema"
	"github.com/runlot/runlot/internal/adapter/postgres/session"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/schedule"
	"github.com/runlot/runlot/internal/engine/schedule/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(clustertest.Main(m)) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(fault.Detail(err))
	}
}

// prepared makes a database with the schema.
func prepared(t *testing.T) cluster.Access {
	t.Helper()
	access := clustertest.NewDatabase(t)
	config, err := session.Parse(access.OwnerURL())
	must(t, err)
	must(t, schema.Prepare(t.Context(), config, access.App.User))
	return access
}

func open(t *testing.T, access cluster.Access) *crons.Store {
	t.Helper()
	s, err := crons.New(t.Context(), crons.Options{
		URL: func(context.Context) (string, error) { return access.OwnerURL(), nil }, Log: slog.New(slog.DiscardHandler),
	})
	must(t, err)
	t.Cleanup(s.Close)
	return s
}

func connect(t *testing.T, access cluster.Access) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), access.OwnerURL())
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func TestContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Open {
		t.Helper()
		access := prepared(t)
		conn := connect(t, access)
		return func(t *testing.T) (schedule.Store, func(app, cron string) []schedule.Record) {
			t.Helper()
			return open(t, access), func(app, cron string) []schedule.Record { return runs(t, conn, app, cron) }
		}
	})
}

// runs reads what is kept, as anybody would with SQL.
func runs(t *testing.T, conn *pgx.Conn, app, cron string) []schedule.Record {
	t.Helper()
	rows, err := conn.Query(t.Context(), `SELECT app, cron, occurrence, attempt, version, node, started_at, duration_us, outcome, missed, reason, retry_at, manual,
		error_name, error_message, error_location, error_stack FROM runlot_queue.run WHERE app = $1 AND cron = $2 ORDER BY id`, app, cron)
	must(t, err)
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (schedule.Record, error) {
		var r schedule.Record
		var micros int64
		var retry *time.Time
		var name, message, location, stack *string
		err := row.Scan(&r.App, &r.Cron, &r.At, &r.Attempt, &r.Version, &r.Node, &r.Start, &micros, &r.Outcome, &r.Missed, &r.Reason, &retry, &r.Manual,
			&name, &message, &location, &stack)
		r.Duration = time.Duration(micros) * time.Microsecond
		if retry != nil {
			r.Retry = *retry
		}
		if name != nil {
			r.Error = &schedule.Exception{Name: *name, Message: *message, Location: *location, Stack: *stack}
		}
		return r, err
	})
	must(t, err)
	return list
}

func TestRecordsAreBounded(t *testing.T) {
	access := prepared(t)
	s, conn := open(t, access), connect(t, access)
	const cron = "* * * * *"
	insert := func(cronText, age string, n int) {
		t.Helper()
		_, err := conn.Exec(t.Context(), `INSERT INTO runlot_queue.run (occurrence, started_at, kept_at, duration_us, attempt, missed, manual, outcome, app, cron,
			version, node, reason) SELECT now(), clock_timestamp(), now() - $1::interval, 0, 1, 0, false, 'ok', 'app', $2, '', '', n::text FROM generate_series(1, $3::int) n`,
			age, cronText, n)
		must(t, err)
	}
	insert("5 5 * * *", "8 days", 3)
	insert("5 5 * * *", "6 days", 2)
	insert(cron, "1 hour", queue.RunsKept+5)
	long := strings.Repeat("ü", queue.RunTextBytes)
	must(t, s.Keep(t.Context(), &schedule.Record{App: "app", Cron: cron, At: time.Now(), Start: time.Now(), Outcome: queue.Lost, Reason: "\xff" + long}))
	list := runs(t, conn, "app", cron)
	if len(list) != queue.RunsKept || list[0].Reason != "7" {
		t.Errorf("%d runs kept, from number %s", len(list), list[0].Reason)
	}
	if last := list[len(list)-1].Reason; len(last) > queue.RunTextBytes+3 || !strings.HasPrefix(last, "�ü") || !strings.HasSuffix(last, "ü") {
		t.Errorf("a text of %d bytes is kept of one of %d", len(last), len(long))
	}
	if old := runs(t, conn, "app", "5 5 * * *"); len(old) != 2 {
		t.Errorf("%d old runs kept; want the 2 that are younger than a week", len(old))
	}
}

func TestADatabaseThatIsAwayIsWorthAnotherTry(t *testing.T) {
	access := prepared(t)
	fails := true
	s, err := crons.New(t.Context(), crons.Options{
		URL: func(context.Context) (string, error) {
			if fails {
				return "", fault.New(fault.Unavailable, "x", "away")
			}
			return access.OwnerURL(), nil
		},
		Log: slog.New(slog.DiscardHandler),
	})
	must(t, err)
	t.Cleanup(s.Close)
	if _, err := s.Look(t.Context(), "app"); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("while it is away: %v", err)
	}
	fails = false
	must(t, s.Declare(t.Context(), "app", []string{"* * * * *"}))
	// Sessions that were ended are replaced.
	conn := connect(t, access)
	_, err = conn.Exec(t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
	must(t, err)
	if _, err := s.Look(t.Context(), "app"); err != nil && fault.KindOf(err) != fault.Unavailable {
		t.Errorf("after its sessions were ended: %v", err)
	}
	if _, err := s.Look(t.Context(), "app"); err != nil {
		t.Errorf("then: %s", fault.Detail(err))
	}
}

func TestHistory(t *testing.T) {
	s := open(t, prepared(t))
	const hourly, daily, fine = "0 * * * *", "0 0 * * *", "1 1 * * *"
	noon := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	keep := func(minute int, app, cron string, outcome queue.Outcome, manual bool) {
		t.Helper()
		at := noon.Add(time.Duration(minute) * time.Minute)
		r := &schedule.Record{App: app, Cron: cron, At: at, Start: at, Duration: time.Second, Attempt: 1, Outcome: outcome, Manual: manual, Node: "n", Version: "v"}
		if outcome == queue.Failed {
			r.Error, r.Retry = &schedule.Exception{Name: "Error", Message: "no", Location: "a.js:1:2", Stack: "s"}, at.Add(time.Hour)
		}
		must(t, s.Keep(t.Context(), r))
	}
	keep(1, "app", hourly, queue.Failed, false)
	keep(2, "app", hourly, queue.OK, false)
	keep(3, "app", hourly, schedule.Missed, false)
	keep(4, "app", hourly, queue.Failed, true)
	keep(5, "app", hourly, queue.Failed, false)
	keep(6, "app", hourly, queue.TimedOut, false)
	keep(7, "app", hourly, queue.OK, true)
	keep(8, "app", daily, queue.Lost, false)
	keep(9, "app", fine, queue.OK, false)
	keep(10, "other", fine, queue.Failed, false)
	minutes := func(list []schedule.Kept) []int {
		found := make([]int, len(list))
		for i := range list {
			found[i] = int(list[i].At.Sub(noon) / time.Minute)
		}
		return found
	}
	all, err := s.Runs(t.Context(), &schedule.Filter{App: "app"}, 100)
	must(t, err)
	if diff := cmp.Diff([]int{9, 8, 7, 6, 5, 4, 3, 2, 1}, minutes(all)); diff != "" {
		t.Error(diff)
	}
	want := schedule.Record{
		App: "app", Cron: hourly, At: noon.Add(5 * time.Minute), Start: noon.Add(5 * time.Minute), Duration: time.Second, Attempt: 1, Outcome: queue.Failed,
		Node: "n", Version: "v", Retry: noon.Add(65 * time.Minute), Error: &schedule.Exception{Name: "Error", Message: "no", Location: "a.js:1:2", Stack: "s"},
	}
	if diff := cmp.Diff(want, all[4].Record); diff != "" {
		t.Error(diff)
	}
	cron := hourly
	for _, step := range []struct {
		filter schedule.Filter
		limit  int
		want   []int
	}{
		{schedule.Filter{App: "app", Cron: &cron}, 3, []int{7, 6, 5}},
		{schedule.Filter{App: "app", Cron: &cron, Before: all[4].ID}, 2, []int{4, 3}},
		{schedule.Filter{App: "app", Outcomes: []queue.Outcome{queue.Lost, schedule.Missed}}, 9, []int{8, 3}},
		{schedule.Filter{App: "none"}, 9, []int{}},
	} {
		list, err := s.Runs(t.Context(), &step.filter, step.limit)
		must(t, err)
		if diff := cmp.Diff(step.want, minutes(list)); diff != "" {
			t.Errorf("%+v: %s", step.filter, diff)
		}
	}
	standings, err := s.Standings(t.Context(), "app", []string{hourly, daily, fine, "5 5 * * *"})
	must(t, err)
	since := map[string]int{}
	for text, standing := range standings {
		since[text] = -1
		if !standing.FailingSince.IsZero() {
			since[text] = int(standing.FailingSince.Sub(noon) / time.Minute)
		}
		if got := minutes([]schedule.Kept{*standing.Last}); got[0] != map[string]int{hourly: 7, daily: 8, fine: 9}[text] {
			t.Errorf("the last run of %s is %v", text, got)
		}
	}
	if diff := cmp.Diff(map[string]int{hourly: 5, daily: 8, fine: -1}, since); diff != "" {
		t.Error(diff)
	}
}
