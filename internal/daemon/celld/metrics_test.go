package celld_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/runlot/runlot/client"
)

// metrics is what Prometheus gets.
func (i *instance) metrics() string {
	i.t.Helper()
	token, err := os.ReadFile(filepath.Join(i.data, "admin-token"))
	if err != nil {
		i.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(i.t.Context(), http.MethodGet, i.ready.Operator+"/metrics", http.NoBody)
	if err != nil {
		i.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		i.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		i.t.Fatalf("status %d, %v: %s", response.StatusCode, err, text)
	}
	return string(text)
}

// TestWhatAnAppDoesIsInTheNumbers, from its request through its queue to its handler, and from there to the database.
func TestWhatAnAppDoesIsInTheNumbers(t *testing.T) {
	heard := make(chan struct{}, 1)
	ear := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { heard <- struct{}{} }))
	defer ear.Close()
	i := start(t, t.TempDir(), 0)
	i.deploy("shop", "one", ear.URL)
	if _, err := ask(http.DefaultClient, i.ready.Public, "shop", "/?delay=0", ""); err != nil {
		t.Fatal(err)
	}
	<-heard
	// The handler has answered when its batch is counted.
	want := `runlot_queue_batches_total{database="shop",outcome="ok",queue="jobs"} 1` + "\n"
	text := i.metrics()
	for !strings.Contains(text, want) {
		if t.Context().Err() != nil {
			t.Fatal(text)
		}
		text = i.metrics()
	}
	for _, line := range []string{
		`runlot_database_up{database="shop"} 1`,
		`runlot_queue_sent_messages_total{database="shop",queue="jobs"} 1`,
		`runlot_queue_sent_bytes_total{database="shop",queue="jobs"} 3`,
		`runlot_queue_left_messages_total{database="shop",queue="jobs"} 1`,
		`runlot_queue_settled_messages_total{database="shop",queue="jobs",result="acked"} 1`,
		`runlot_group_commit_messages_count{database="shop",kind="send"} 1`,
		`runlot_postgres_connections_limit{database="celld",use="control"} `,
		`runlot_postgres_connections_limit{database="shop",use="series"} 2`,
		`runlot_app_state{app="shop",state="live"} 1`,
		`runlot_app_process_starts_total{app="shop"} 1`,
		`runlot_app_process_crashes_total{app="shop"} 0`,
		`runlot_app_requests_total{app="shop",code="2xx"} 1`,
		`runlot_api_calls_total{code="2xx",operation="create-deployment"} 1`,
		`runlot_build_info{version="test"} 1`,
	} {
		if !strings.Contains(text, "\n"+line) {
			t.Errorf("missing: %s", line)
		}
	}
	// A stop writes what is in memory; the next process reads it.
	i.stop()
	i = start(t, i.data, 0)
	s, err := i.Series(t.Context(), "shop", "jobs", client.SeriesRange{})
	if err != nil {
		t.Fatal(err)
	}
	var sent, acked int64
	for _, p := range s.Points {
		sent, acked = sent+p.Sent, acked+p.Acked
	}
	if sent != 1 || acked != 1 || s.StepSeconds != 60 {
		t.Errorf("after a restart: %d sent, %d acked, by %d s", sent, acked, s.StepSeconds)
	}
}
