package browser

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/ledger"
	"github.com/runlot/runlot/internal/server/api/apps"
)

// furnish fills a world with what an instance that is in use has.
func furnish(w *world) (opened string) {
	w.deploy("crawler", "first", [2]string{"jobs", "jobs-dead"}, [2]string{"thumbnails", ""})
	w.deploy("crawler", "follow redirects", [2]string{"jobs", "jobs-dead"}, [2]string{"thumbnails", ""})
	w.deploy("crawler", "retry on 429", [2]string{"jobs", "jobs-dead"}, [2]string{"thumbnails", "thumbnails-dead"})
	w.deploy("shop", "orders and mail", [2]string{"orders", "orders-dead"}, [2]string{"mail", "mail-dead"})
	w.deploy("digest", "weekly digest", [2]string{"digests", "digests-dead"})
	set := func(name, state string, memory, requests, messages int64) {
		r := w.fleet.states[name]
		r.State, r.MemoryBytes, r.Requests, r.Messages, r.Since = state, memory, requests, messages, time.Now().Add(-3*time.Hour)
		w.fleet.states[name] = r
	}
	set("crawler", "live", 61<<20, 18_204, 1_283)
	set("shop", "live", 88<<20, 402_113, 12)
	set("digest", "parked", 0, 12, 0)
	w.fleet.states["old"] = apps.Running{}
	w.write("jobs", `{"id":12345678901234567890,"url":"https://example.com/page/100","depth":2,"headers":{"accept":["text/html","application/xhtml+xml"],"user-agent":"crawler/1.4"},"seen":false}`)
	for i, page := range []string{"about", "blog/2026/queues", "blog/2026/retries", "docs/deploy", "docs/limits", "feed", "imprint", "jobs", "legal/terms", "news?page=2", "press", "pricing", "shop/cart", "team"} {
		w.write("jobs", fmt.Sprintf(`{"url":"https://example.com/%s","depth":%d,"priority":%q}`, page, 1+i%3, []string{"low", "normal", "high"}[i%3]))
	}
	w.send("jobs", 1225, 0)
	w.send("jobs", 43, 600)
	w.send("orders", 12, 0)
	w.send("jobs-dead", 7, 0)
	w.send("mail-dead", 2, 0)
	if err := w.admin.Pause(w.t.Context(), "main", "mail"); err != nil {
		w.t.Fatal(err)
	}
	w.send("mail", 318, 0)
	line := func(level, text string) ledger.Line { return ledger.Line{Time: time.Now(), Level: level, Text: text} }
	for i := range 6 {
		w.tell(of("shop", fine("orders", 4+i)), line("log", fmt.Sprintf("order %d: paid, mail queued", 52_000+i)))
	}
	lost := fine("thumbnails", 10)
	lost.Outcome, lost.Acked, lost.Redelivered, lost.Reason = queue.Lost, 0, 10, "the worker process ended: killed by signal 9"
	w.tell(lost)
	late := fine("jobs", 10)
	late.Outcome, late.Acked, late.Retried, late.Duration, late.Reason = queue.TimedOut, 3, 7, 40*time.Second, "the handler did not return within 40 s"
	w.tell(late)
	for i := range 8 {
		b := fine("jobs", 10-i%3)
		b.Duration = time.Duration(31+17*i) * time.Millisecond
		w.tell(b, line("log", fmt.Sprintf("crawled https://example.com/page/%d: %d new links", 100+i, 3*i%7)), line("log", "stored 2 pages"))
	}
	w.mux.HandleFunc("GET /v1/series", rates)
	w.mux.HandleFunc("GET /v1/databases/main/queues/jobs/series", curves)
	opened = w.batch(failed("jobs"), line("log", "crawling https://example.com/about"), line("warn", "https://example.com/feed answers 429, again in 2 s"),
		line("error", "no url in {\"depth\": 3}"))
	for range 2 {
		w.tell(of("shop", fine("orders", 3)), line("log", "order 52100: paid, mail queued"))
	}
	if _, err := w.admin.RunCron(w.t.Context(), "crawler", &client.RunCron{}); err != nil {
		w.t.Fatal(err)
	}
	return opened
}

// TestScreens takes pictures of every page, into the folder that RUNLOT_SCREENSHOTS names.
func TestScreens(t *testing.T) {
	folder := os.Getenv("RUNLOT_SCREENSHOTS")
	if folder == "" {
		t.Skip("RUNLOT_SCREENSHOTS names no folder for the pictures")
	}
	w := newWorld(t)
	b := w.open()
	b.visit("/login")
	shoot := func(name string, width int64, theme string) {
		b.do(chromedp.EmulateViewport(width, 900))
		eval[bool](b, `(document.documentElement.dataset.theme = `+quoted(theme)+`, true)`)
		b.until(`document.querySelector("#live") === null || document.querySelector("#live").hidden || document.querySelector("#live").dataset.state === "live"`)
		ctx, cancel := b.bounded()
		defer cancel()
		picture, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, fmt.Sprintf("%s-%d-%s.png", name, width, theme)), picture, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	shoot("login", 900, "light")
	b.signIn(w.token("ada", "", access.Admin), "/")
	shoot("empty", 900, "light")
	opened := furnish(w)
	pages := map[string]string{
		"apps": "/", "overview": "/apps/crawler", "queues": "/apps/crawler/queues", "versions": "/apps/crawler/versions", "logs": "/apps/crawler/logs", "scheduled": "/apps/crawler/scheduled", "all": "/queues",
		"batch": "/apps/crawler/queues?batch=main/" + opened, "queue": "/databases/main/queues/jobs", "messages": "/databases/main/queues/jobs/messages", "send": "/databases/main/queues/jobs/messages?ask=send", "ask": "/queues?ask=pause&on=main/jobs",
		"rollback": "/apps/crawler/versions?ask=rollback&version=2", "nothing": "/apps/crawler/queues?find=zzz&outcome=expired",
	}
	waits, err := w.admin.Peek(t.Context(), "main", "jobs", "delayed", "", 3)
	if err != nil || len(waits.Items) != 3 {
		t.Fatalf("%+v, %v", waits, err)
	}
	if _, err := w.admin.DeleteMessages(t.Context(), "main", "jobs", []string{waits.Items[0].ID, waits.Items[1].ID, waits.Items[2].ID}); err != nil {
		t.Fatal(err)
	}
	some, err := w.admin.Peek(t.Context(), "main", "jobs", "", "", 1)
	if err != nil {
		t.Fatal(err)
	}
	pages["message"] = "/databases/main/queues/jobs/messages/" + some.Items[0].ID
	only := os.Getenv("RUNLOT_SCREENS")
	for name, path := range pages {
		if only != "" && !strings.Contains(","+only+",", ","+name+",") {
			continue
		}
		b.visit(path)
		for _, width := range []int64{375, 900, 1440} {
			for _, theme := range []string{"light", "dark"} {
				shoot(name, width, theme)
			}
		}
	}
}

// rates answers the call about rates with curves, where a recorder would have nothing to tell of an instance this young.
func rates(w http.ResponseWriter, _ *http.Request) {
	names := []string{"jobs", "orders", "mail", "thumbnails", "digests"}
	list := make([]client.QueueRates, 0, len(names))
	for i, name := range names {
		r := client.QueueRates{Database: "main", Queue: name, From: time.Now().Add(-15 * time.Minute), StepSeconds: 20}
		for x := range 45 {
			in := max(0, 6+5*math.Sin(float64(x+9*i)/6)+2*math.Sin(float64(x*(i+2))/2)) * float64(8-3*min(i, 2))
			out := in * 0.9
			switch name {
			case "mail":
				out = 0
			case "digests":
				in, out = 0, 0
			}
			r.In, r.Out = append(r.In, in), append(r.Out, out)
		}
		list = append(list, r)
	}
	w.Header().Set("Content-Type", "application/json")
	text, err := json.Marshal(list)
	if err != nil {
		panic(err)
	}
	_, _ = fmt.Fprintf(w, `{"items": %s}`, text)
}

// curves answers the call about the series of a queue, for the same reason.
func curves(w http.ResponseWriter, _ *http.Request) {
	const points, step = 90, 10
	s := client.Series{Database: "main", Queue: "jobs", StepSeconds: step}
	from := time.Now().UTC().Truncate(step * time.Second).Add(-points * step * time.Second)
	for i := range points {
		wave := math.Sin(float64(i)/9) + math.Sin(float64(i)/23)/2
		burst := 0.0
		if i > 50 && i < 62 {
			burst = math.Sin(float64(i-50) / 12 * math.Pi)
		}
		in := int64(step * (70 + 18*wave + 160*burst))
		p := client.SeriesPoint{
			Time: from.Add(time.Duration(i) * step * time.Second), Sent: in, Left: int64(step * (72 + 15*wave + 60*burst)), Retried: int64(step * (4 + 2*wave + 9*burst)),
			Visible: 300 + int64(80*wave+2600*burst), Delayed: 43 + int64(10*wave), InFlight: 60 + int64(18*wave+90*burst), OldestSeconds: 2 + wave + 31*burst,
			Running: 6 + int(2*wave+9*burst), Allowed: 16,
		}
		if i > 3 {
			p.Handler = &client.HandlerTimes{P50Milliseconds: 38 + 6*wave, P95Milliseconds: 120 + 20*wave + 130*burst, P99Milliseconds: 240 + 40*wave + 400*burst}
		}
		s.Points = append(s.Points, p)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(&s) //nolint:errchkjson // its times are valid
}
