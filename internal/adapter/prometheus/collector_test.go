package prometheus_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/runlot/runlot/internal/adapter/prometheus"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/series"
)

// facts have something of everything.
func facts() *prometheus.Facts {
	var tally series.Tally
	tally.Sent(5, 500)
	tally.Batch(&series.Batch{Outcome: queue.Failed, Duration: 30 * time.Millisecond, Delivered: 3, Acked: 1, Retried: 1, Dead: 1})
	tally.Batch(&series.Batch{Outcome: queue.OK, Duration: 4 * time.Second, Delivered: 2, Acked: 2})
	var commits series.Commits
	commits.Commit(5, 3*time.Millisecond)
	commits.Commit(20_000, time.Second)
	return &prometheus.Facts{
		Version: "1.2.3",
		Databases: []prometheus.Database{{
			Name: "shop", Up: true, Operations: 10, Limit: 1000, Sends: commits.Read(), Settles: commits.Read(),
			Queues: []series.Watched{
				{Counts: tally.Counts()},
				{Queue: "dead", Gauges: series.Gauges{Visible: 7}},
				{Queue: "jobs", Counts: tally.Counts(), Gauges: series.Gauges{Visible: 4, Delayed: 2, InFlight: 1, Oldest: 90 * time.Second, Running: 3, Allowed: 5, LaneBytes: 99}},
			},
			DeadLetterQueues: map[string]string{"jobs": "dead", "mail": "elsewhere"},
		}},
		Apps:  []prometheus.App{{Name: "shop", Phase: "live", Starts: 3, Crashes: 1, MemoryBytes: 1 << 20, Requests: [6]int64{0, 0, 10, 1, 2, 3}, Active: 2}},
		Runs:  []prometheus.Runs{{App: "shop", Outcome: "ok", Count: 8}},
		Calls: []prometheus.Calls{{Operation: "list-queues", Class: 2, Count: 9}},
		Pools: []prometheus.Pool{{Database: "shop", Use: "records", Busy: 1, Idle: 1, Limit: 2, Waits: 4, Waited: 1500 * time.Millisecond}},
	}
}

// scrape is what Prometheus gets.
func scrape(t *testing.T, f *prometheus.Facts) string {
	t.Helper()
	answer := httptest.NewRecorder()
	handler := prometheus.Handler(func() *prometheus.Facts { return f }, slog.New(slog.DiscardHandler))
	handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	if answer.Code != http.StatusOK {
		t.Fatalf("status %d: %s", answer.Code, answer.Body)
	}
	return answer.Body.String()
}

func TestWhatPrometheusGets(t *testing.T) {
	text := scrape(t, facts())
	for _, line := range []string{
		`runlot_queue_messages{database="shop",queue="jobs",state="visible"} 4`,
		`runlot_queue_messages{database="shop",queue="jobs",state="delayed"} 2`,
		`runlot_queue_messages{database="shop",queue="jobs",state="in_flight"} 1`,
		`runlot_queue_oldest_message_age_seconds{database="shop",queue="jobs"} 90`,
		`runlot_queue_dead_letters{database="shop",queue="jobs"} 7`,
		`runlot_queue_sent_bytes_total{database="shop",queue="jobs"} 500`,
		`runlot_queue_sent_messages_total{database="shop",queue="other"} 5`,
		`runlot_queue_settled_messages_total{database="shop",queue="jobs",result="acked"} 3`,
		`runlot_queue_settled_messages_total{database="shop",queue="jobs",result="dead"} 1`,
		`runlot_queue_batches_total{database="shop",outcome="failed",queue="jobs"} 1`,
		`runlot_queue_handler_duration_seconds_bucket{database="shop",queue="jobs",le="0.02"} 0`,
		`runlot_queue_handler_duration_seconds_bucket{database="shop",queue="jobs",le="0.05"} 1`,
		`runlot_queue_handler_duration_seconds_bucket{database="shop",queue="jobs",le="5"} 2`,
		`runlot_queue_handler_duration_seconds_sum{database="shop",queue="jobs"} 4.03`,
		`runlot_queue_handler_duration_seconds_count{database="shop",queue="jobs"} 2`,
		`runlot_queue_handler_calls_limit{database="shop",queue="jobs"} 5`,
		`runlot_group_commit_messages_bucket{database="shop",kind="send",le="5"} 1`,
		`runlot_group_commit_messages_bucket{database="shop",kind="send",le="10000"} 1`,
		`runlot_group_commit_messages_bucket{database="shop",kind="settle",le="+Inf"} 2`,
		`runlot_group_commit_duration_seconds_sum{database="shop",kind="settle"} 1.003`,
		`runlot_postgres_connection_wait_seconds_total{database="shop",use="records"} 1.5`,
		`runlot_app_state{app="shop",state="live"} 1`,
		`runlot_app_state{app="shop",state="parked"} 0`,
		`runlot_app_requests_total{app="shop",code="5xx"} 3`,
		`runlot_cron_runs_total{app="shop",outcome="ok"} 8`,
		`runlot_api_calls_total{code="2xx",operation="list-queues"} 9`,
		`runlot_build_info{version="1.2.3"} 1`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("missing: %s", line)
		}
	}
	for _, wrong := range []string{`queue="mail"`, `state="visible",queue="other"`, `queue=""`} {
		if strings.Contains(text, wrong) {
			t.Errorf("found %s", wrong)
		}
	}
}

// Everything of the table is shown, with its type and help, and nothing else of ours.
func TestTheTableIsWhatIsShown(t *testing.T) {
	text := scrape(t, facts())
	var shown []string
	for line := range strings.Lines(text) {
		if name, ok := strings.CutPrefix(line, "# TYPE runlot_"); ok {
			shown = append(shown, "runlot_"+strings.TrimSpace(name))
		}
	}
	table := make([]string, 0, len(prometheus.Table))
	for _, m := range prometheus.Table {
		table = append(table, m.Name+" "+m.Type)
		if !strings.Contains(text, "# HELP "+m.Name+" "+m.Help+"\n") {
			t.Errorf("%s is not explained", m.Name)
		}
	}
	slices.Sort(table)
	slices.Sort(shown)
	if !slices.Equal(table, shown) {
		t.Errorf("table %v\nshown %v", table, shown)
	}
}

func TestNamesAreThoseOfPrometheus(t *testing.T) {
	problems, err := testutil.GatherAndLint(prometheus.Registry(facts))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	// The text that goes over the wire, as promtool checks it.
	problems, err = promlint.New(strings.NewReader(scrape(t, facts()))).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

// A node that does not serve a database counts what it did there, and does not say how its queues are.
func TestADatabaseThatIsAway(t *testing.T) {
	f := facts()
	f.Databases[0].Up = false
	text := scrape(t, f)
	for _, line := range []string{`runlot_database_up{database="shop"} 0`, `runlot_queue_sent_messages_total{database="shop",queue="jobs"} 5`} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("missing: %s", line)
		}
	}
	for _, wrong := range []string{"runlot_queue_messages{", "runlot_queue_dead_letters{", "runlot_database_operations{"} {
		if strings.Contains(text, wrong) {
			t.Errorf("found %s", wrong)
		}
	}
}

func TestAppsPastTheBoundAreOne(t *testing.T) {
	f := &prometheus.Facts{}
	for i := range queue.MetricsApps + 3 {
		f.Apps = append(f.Apps, prometheus.App{Name: fmt.Sprintf("app-%04d", i), Phase: "live", Requests: [6]int64{2: 5}})
	}
	text := scrape(t, f)
	if n := strings.Count(text, "runlot_app_requests_total{app=\"app-"); n != 5*queue.MetricsApps {
		t.Errorf("%d lines of apps", n)
	}
	if !strings.Contains(text, `runlot_app_requests_total{app="other",code="2xx"} 15`+"\n") || strings.Contains(text, `runlot_app_state{app="other"`) {
		t.Error("the rest is not together")
	}
}
