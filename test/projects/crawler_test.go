//go:build linux

package projects_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// sitePages is how many pages of the site are as they should be.
const sitePages = 30

// site is a small site: each page leads to three others. It keeps what it was asked for.
type site struct {
	mu    sync.Mutex
	asked map[string][]time.Time // guarded by mu
	seen  chan struct{}          // gets a value for each request
}

// busyFor is what the page /busy asks for at first.
const busyFor = 2 * time.Second

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked[r.URL.Path] = append(s.asked[r.URL.Path], time.Now())
	times := len(s.asked[r.URL.Path])
	s.mu.Unlock()
	s.seen <- struct{}{}
	var page int
	_, err := fmt.Sscanf(r.URL.Path, "/page/%d", &page)
	switch {
	case r.URL.Path == "/moved":
		http.Redirect(w, r, "/page/1", http.StatusMovedPermanently)
	case r.URL.Path == "/busy" && times == 1:
		w.Header().Set("Retry-After", fmt.Sprint(busyFor.Seconds()))
		w.WriteHeader(http.StatusServiceUnavailable)
	case r.URL.Path == "/busy":
		fmt.Fprint(w, "<title>no longer busy</title>")
	case r.URL.Path == "/broken":
		w.WriteHeader(http.StatusInternalServerError)
	case err != nil || page >= sitePages:
		http.NotFound(w, r)
	default:
		fmt.Fprintf(w, "<!doctype html><title>page %d</title>", page)
		for _, next := range []int{2*page + 1, 2*page + 2, (page + 7) % sitePages} {
			if next < sitePages {
				fmt.Fprintf(w, `<a href="/page/%d#part">next</a>`, next)
			}
		}
		if page == 0 {
			fmt.Fprint(w, `<a href="/moved">moved</a> <a href="/busy">busy</a> <a href="/broken">broken</a> <a href="/missing">missing</a>`,
				`<a href="mailto:me@example.com">mail</a> <a href="http://elsewhere.example/">elsewhere</a>`)
		}
	}
}

// crawler: every page of a site is fetched and stored, though celld is killed in the middle; what fails is tried again, when
// the host asks for it.
func crawler(t *testing.T, n *node) {
	const app, turns = "web-crawler", 100 * time.Millisecond
	dir := n.project(app)
	edit(t, filepath.Join(dir, "wrangler.jsonc"), `"max_retries": 20`, `"max_retries": 3`)
	edit(t, filepath.Join(dir, "wrangler.jsonc"), `"CRAWL_DELAY_MS": "200"`, fmt.Sprintf(`"CRAWL_DELAY_MS": "%d"`, turns.Milliseconds()))
	n.wrangler(dir, "", "d1", "create", app)
	n.wrangler(dir, "", "d1", "migrations", "apply", app, "--remote")
	n.wrangler(dir, "", "queues", "create", "crawl")
	n.wrangler(dir, "", "deploy")

	s := &site{asked: map[string][]time.Time{}, seen: make(chan struct{}, 10_000)}
	server := httptest.NewServer(s)
	defer server.Close()
	began := time.Now()
	n.want(http.StatusAccepted, app, "POST", "/", []byte(`{"url": "`+server.URL+`/page/0"}`))
	n.want(http.StatusBadRequest, app, "POST", "/", []byte(`{"url": "file:///etc/passwd"}`))
	deadline := time.After(waitTime)
	for range 12 {
		select {
		case <-s.seen:
		case <-deadline:
			t.Fatal("the site is not crawled")
		}
	}
	n.kill()
	n.start()

	type page struct {
		URL    string
		Status int
		Title  string
		Links  int
	}
	// The pages, the one that moved, the one that was busy, and the one that is missing.
	const all = sitePages + 3
	var got []page
	n.await("all pages are stored", func() (string, bool) {
		_, text, err := n.ask(app, "GET", "/pages", nil)
		if err == nil {
			err = json.Unmarshal(text, &got)
		}
		return fmt.Sprintf("%d of %d, %v", len(got), all, err), err == nil && len(got) >= all
	})
	n.settled("crawl", "crawl-dead", "/broken")
	stored := map[string]page{}
	for _, p := range got {
		stored[strings.TrimPrefix(p.URL, server.URL)] = p
	}
	for i := range sitePages {
		path := fmt.Sprintf("/page/%d", i)
		if p := stored[path]; p.Status != http.StatusOK || p.Title != fmt.Sprintf("page %d", i) || p.Links == 0 {
			t.Errorf("%s: %+v", path, p)
		}
	}
	if stored["/moved"].Status != http.StatusMovedPermanently || stored["/missing"].Status != http.StatusNotFound || stored["/busy"].Title != "no longer busy" {
		t.Errorf("%+v, %+v, %+v", stored["/moved"], stored["/missing"], stored["/busy"])
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(stored) != all {
		t.Errorf("%d pages are stored: %+v", len(stored), stored)
	}
	if busy := s.asked["/busy"]; len(busy) < 2 || busy[1].Sub(busy[0]) < busyFor-100*time.Millisecond {
		t.Errorf("the busy page was asked for at %v", busy)
	}
	if tries := len(s.asked["/broken"]); tries < 2 { // waits for a turn are retries too
		t.Errorf("the broken page was asked for %d times", tries)
	}
	requests, last := 0, time.Time{}
	for _, times := range s.asked {
		requests += len(times)
		if at := times[len(times)-1]; at.After(last) {
			last = at
		}
	}
	if least := time.Duration(all-1) * turns; last.Sub(began) < least {
		t.Errorf("%d requests within %s, less than %s", requests, last.Sub(began), least)
	}
	t.Logf("%d requests for %d pages within %s", requests, all+1, last.Sub(began).Round(time.Millisecond))
}
