package browser

import (
	"encoding/json"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/engine/access"
)

func TestChartsOfAQueue(t *testing.T) {
	w := newWorld(t)
	w.deploy("crawler", "first", [2]string{"jobs", "jobs-dead"})
	var visible, span atomic.Int64
	visible.Store(12)
	w.mux.HandleFunc("GET /v1/databases/main/queues/jobs/series", func(out http.ResponseWriter, r *http.Request) {
		from, err := time.Parse(time.RFC3339Nano, r.URL.Query().Get("from"))
		if err != nil {
			http.Error(out, err.Error(), http.StatusBadRequest)
			return
		}
		span.Store(int64(time.Since(from).Round(time.Minute)))
		s := client.Series{Database: "main", Queue: "jobs", StepSeconds: 10}
		for i := range 30 {
			s.Points = append(s.Points, client.SeriesPoint{Time: from.Truncate(10 * time.Second).Add(time.Duration(i) * 10 * time.Second), Sent: 700, Left: 50, Visible: visible.Load(), OldestSeconds: 90})
		}
		out.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(out).Encode(&s)
	})
	b := w.open()
	b.signIn(w.token("ada", "", access.Read), "/databases/main/queues/jobs")
	b.until(`document.querySelectorAll("figure.chart canvas").length === 5`)
	key := func(chart string) string {
		return `[...document.querySelectorAll("#chart-` + chart + ` .key")].map((k) => k.textContent.replace(/\s+/g, " ").trim()).join("; ")`
	}
	for chart, want := range map[string]string{
		"depth": "visible 12; delayed 0; in flight 0", "rates": "in 70; out 5; failed 0", "handler": "p50 –; p95 –; p99 –", "oldest": "oldest 1 min 30 s", "running": "running 0; allowed 0",
	} {
		if got := eval[string](b, key(chart)); got != want {
			t.Errorf("%s: %q, want %q", chart, got, want)
		}
	}
	if label := eval[string](b, `document.querySelector("#chart-depth .plot").getAttribute("aria-label")`); label != "Messages. visible: now 12, at most 12; delayed: now 0, at most 0; in flight: now 0, at most 0." {
		t.Errorf("who does not see it is told %q", label)
	}
	// A change comes by itself, into the drawing that is there.
	eval[bool](b, `(document.querySelector("#chart-depth canvas").dataset.same = "yes", true)`)
	visible.Store(4000)
	b.until(key("depth") + `.startsWith("visible 4")`)
	if eval[string](b, `document.querySelector("#chart-depth canvas").dataset.same ?? ""`) != "yes" {
		t.Error("a new number draws the chart from nothing")
	}
	// Other colours are another drawing; another time is another address.
	eval[bool](b, `(document.getElementById("theme").click(), true)`)
	b.until(`document.querySelector("#chart-depth canvas") !== null && document.querySelector("#chart-depth canvas").dataset.same === undefined`)
	eval[bool](b, `([...document.querySelectorAll(".spans a")].find((a) => a.textContent === "6 h").click(), true)`)
	b.until(`new URLSearchParams(location.search).get("time") === "6h" && document.querySelector('.spans a[aria-current]').textContent === "6 h"`)
	if got := time.Duration(span.Load()); got != 6*time.Hour {
		t.Errorf("the charts ask for %s", got)
	}
	b.until(`document.querySelectorAll("figure.chart canvas").length === 5`)
}
