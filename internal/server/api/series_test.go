package api_test

import (
	"context"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/adapter/prometheus"

	memory "github.com/runlot/runlot/internal/adapter/memory/series"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/series"
)

// record has a recorder keep minutes of the queue jobs of the database "db": in each of the last n, i messages were sent.
func (w *world) record(n int) {
	w.t.Helper()
	store := &memory.Store{}
	store.Declare("jobs")
	var rows []series.Row
	for i := 1; i <= n; i++ {
		r := series.Row{Queue: "jobs", Writer: 1, Point: series.Point{Start: time.Now().Truncate(time.Minute).Add(-time.Duration(i) * time.Minute)}}
		r.Sent, r.Visible = int64(i), int64(i)
		r.Batches[0], r.Batches[1], r.HandlerTime = 3, 1, 4*time.Second
		r.Handler.Observe(time.Second)
		rows = append(rows, r)
	}
	if err := store.Write(w.t.Context(), rows); err != nil {
		w.t.Fatal(err)
	}
	recorder := series.New(slog.New(slog.DiscardHandler), func(context.Context) (map[string]series.Gauges, bool) { return nil, false })
	recorder.Start()
	recorder.Attach(store)
	for _, name := range []string{"jobs", "mails"} {
		recorder.Tally(name)
	}
	w.t.Cleanup(func() { recorder.Stop(context.Background()) })
	w.queues.recorders = map[string]*series.Recorder{"db": recorder}
}

func TestSeries(t *testing.T) {
	w := newWorld(t)
	w.serve()
	w.record(100)
	reader := w.client("", access.Read)
	s, err := reader.Series(t.Context(), "db", "jobs", client.SeriesRange{From: time.Now().Add(-50 * time.Minute), Step: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	last := s.Points[len(s.Points)-1]
	before := s.Points[len(s.Points)-2]
	if s.StepSeconds != 60 || len(s.Points) < 50 || len(s.Points) > 52 || last.Sent != 0 || last.Handler != nil || before.Sent != 1 || before.Visible != 1 {
		t.Errorf("a step of %d s, %d points, the last %+v, before it %+v", s.StepSeconds, len(s.Points), last, before)
	}
	if h := before.Handler; before.Batches != 4 || before.FailedBatches != 1 || h == nil || h.MeanMilliseconds != 1000 || h.P99Milliseconds < 700 || h.P99Milliseconds > 1000 {
		t.Errorf("batches: %+v, handler: %+v", before, h)
	}
	if s, err = reader.Series(t.Context(), "db", "jobs", client.SeriesRange{From: time.Now().Add(-3 * time.Hour), Step: time.Hour}); err != nil {
		t.Fatal(err)
	}
	var sent int64
	for _, p := range s.Points {
		sent += p.Sent
	}
	if s.StepSeconds != 3600 || len(s.Points) > 4 || sent != 100*101/2 {
		t.Errorf("a step of %d s, %d points, %d sent", s.StepSeconds, len(s.Points), sent)
	}
}

func TestSeriesThatAreNotThere(t *testing.T) {
	w := newWorld(t)
	w.serve()
	w.record(1)
	reader, shop := w.client("", access.Read), w.client("mail", access.Read)
	for _, c := range []struct {
		client          *client.Client
		database, queue string
		at              client.SeriesRange
		code            string
	}{
		{reader, "db", "nobody", client.SeriesRange{}, queue.CodeQueueNotFound},
		{reader, "nowhere", "jobs", client.SeriesRange{}, queue.CodeQueueNotFound},
		{reader, "db", "jobs", client.SeriesRange{From: time.Now(), To: time.Now().Add(-time.Hour)}, "series_range"},
		{reader, "db", "jobs", client.SeriesRange{Step: time.Second}, "request_invalid"},
		{shop, "db", "jobs", client.SeriesRange{}, access.CodeForbidden},
	} {
		_, err := c.client.Series(t.Context(), c.database, c.queue, c.at)
		w.code(err, c.code)
	}
}

func TestRates(t *testing.T) {
	w := newWorld(t)
	w.serve()
	w.record(1)
	for _, c := range []struct {
		only, app, database string
		want                []string
	}{
		{"", "", "", []string{"jobs", "mails"}},
		{"", "", "other", nil},
		{"", "mail", "db", []string{"mails"}},
		{"mail", "", "", []string{"mails"}},
	} {
		rates, err := w.client(c.only, access.Read).Rates(t.Context(), c.app, c.database, 10)
		if err != nil {
			t.Fatal(err)
		}
		names := make([]string, 0, len(rates))
		for _, r := range rates {
			names = append(names, r.Queue)
			if len(r.In) != 10 || len(r.Out) != 10 || r.StepSeconds != 90 || r.Database != "db" {
				t.Errorf("%+v", r)
			}
		}
		if len(names) != len(c.want) {
			t.Errorf("%+v: rates of %v", c, names)
		}
	}
}

func TestMetricsWantAToken(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		token  string
		status int
	}{
		{"", http.StatusUnauthorized},
		{"wrong", http.StatusUnauthorized},
		{w.text("shop", access.Deploy), http.StatusForbidden},
		{w.text("", access.Read), http.StatusOK},
	} {
		status, _, text := w.raw("GET", "/metrics", c.token, "", "")
		if status != c.status || (status == http.StatusOK) != (text == "numbers") {
			t.Errorf("status %d, want %d: %s", status, c.status, text)
		}
	}
	if status, _, _ := w.raw("POST", "/metrics", w.text("", access.Read), "", ""); status == http.StatusOK {
		t.Error("a POST is answered")
	}
}

func TestCallsAreObserved(t *testing.T) {
	w := newWorld(t)
	reader := w.client("", access.Read)
	_, _ = reader.Queues(t.Context(), "")
	_, _ = reader.Tokens(t.Context())
	w.raw("GET", "/v1/queues", "wrong", "", "")
	w.raw("GET", "/v1/queues?nonsense=1", w.text("", access.Read), "", "")
	w.raw("GET", "/v1/nowhere", w.text("", access.Read), "", "")
	want := []prometheus.Calls{
		{Operation: "list-queues", Class: 2, Count: 1}, {Operation: "list-queues", Class: 4, Count: 2}, {Operation: "list-tokens", Class: 4, Count: 1},
	}
	if diff := cmp.Diff(want, w.calls.Counts()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}
