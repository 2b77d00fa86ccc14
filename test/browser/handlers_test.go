package browser

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/access"
)

// visitor is a browser without scripts.
type visitor struct {
	w *world
	c *http.Client
}

func (w *world) visitor() *visitor {
	w.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		w.t.Fatal(err)
	}
	c := &http.Client{Jar: jar, Transport: &http.Transport{}}
	w.t.Cleanup(c.CloseIdleConnections)
	return &visitor{w, c}
}

// ask makes a request, and returns the answer after redirections, with its text.
func (v *visitor) ask(method, path string, form url.Values, headers ...string) (*http.Response, string) {
	v.w.t.Helper()
	r, err := http.NewRequestWithContext(v.w.t.Context(), method, v.w.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		v.w.t.Fatal(err)
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := v.c.Do(r)
	if err != nil {
		v.w.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		v.w.t.Fatal(err)
	}
	return response, string(text)
}

func (v *visitor) signIn(token, next string) (*http.Response, string) {
	v.w.t.Helper()
	return v.ask(http.MethodPost, "/login", url.Values{"token": {token}, "next": {next}})
}

func TestThePageWorksWithoutScripts(t *testing.T) {
	w := newWorld(t)
	w.deploy("crawler", "first", [2]string{"jobs", ""})
	v := w.visitor()
	response, text := v.ask(http.MethodGet, "/apps/crawler/queues?sort=-visible", nil)
	if response.Request.URL.Path != "/login" || !strings.Contains(text, `value="/apps/crawler/queues?sort=-visible"`) {
		t.Errorf("without a session: %s %q", response.Request.URL, text)
	}
	response, _ = v.signIn(w.token("ada", "", access.Admin), "/apps/crawler/queues?sort=-visible")
	if response.Request.URL.RequestURI() != "/apps/crawler/queues?sort=-visible" {
		t.Errorf("the sign-in leads to %s", response.Request.URL)
	}
	response, text = v.ask(http.MethodPost, "/databases/main/queues/jobs/pause", url.Values{"next": {"/queues?sort=name"}})
	if response.Request.URL.RequestURI() != "/queues?sort=name" || !strings.Contains(text, "Paused jobs.") {
		t.Errorf("the pause leads to %s: %q", response.Request.URL, text)
	}
	if _, text = v.ask(http.MethodGet, "/queues", nil); strings.Contains(text, "Paused jobs.") {
		t.Error("it is said twice")
	}
	// An action that the engine refuses leads back, and says why.
	if _, text = v.ask(http.MethodPost, "/apps/crawler/rollback", url.Values{"version": {"nonsense"}, "next": {"//evil.example"}}); !strings.Contains(text, `class="notice bad"`) {
		t.Errorf("a rollback to nothing: %q", text)
	}
	h := response.Header
	for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin", "Cache-Control": "no-store"} {
		if h.Get(name) != want {
			t.Errorf("%s is %q", name, h.Get(name))
		}
	}
	if policy := h.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'; script-src 'self'; style-src 'self';") || strings.Contains(policy, "unsafe") {
		t.Errorf("the policy is %q", policy)
	}
	for _, path := range []string{"/nothing", "/apps/none", "/apps/none/versions", "/databases/main/queues/none", "/apps/a%2Fb", "/apps/%2e%2e", "/databases/main/queues/a%2Fpause"} {
		if response, text = v.ask(http.MethodGet, path, nil); response.StatusCode != http.StatusNotFound || !strings.Contains(text, "All apps") {
			t.Errorf("%s: %s", path, response.Status)
		}
	}
	if response, _ = v.ask(http.MethodPost, "/logout", url.Values{}); response.Request.URL.Path != "/login" {
		t.Errorf("the sign-out leads to %s", response.Request.URL)
	}
	if response, _ = v.ask(http.MethodGet, "/", nil); response.Request.URL.Path != "/login" {
		t.Errorf("signed out, / is %s", response.Request.URL)
	}
}

func TestOtherSitesChangeNothing(t *testing.T) {
	w := newWorld(t)
	w.deploy("crawler", "first", [2]string{"jobs", ""})
	v := w.visitor()
	v.signIn(w.token("ada", "", access.Admin), "/")
	for name, headers := range map[string][]string{
		"another site": {"Sec-Fetch-Site", "cross-site"}, "a sibling": {"Sec-Fetch-Site", "same-site"}, "an old browser": {"Origin", "https://evil.example"},
	} {
		for _, path := range []string{"/databases/main/queues/jobs/pause", "/login", "/logout"} {
			if response, _ := v.ask(http.MethodPost, path, url.Values{}, headers...); response.StatusCode != http.StatusForbidden {
				t.Errorf("%s, %s: %s", name, path, response.Status)
			}
		}
	}
	if q, err := w.admin.Queue(t.Context(), "main", "jobs"); err != nil || q.PausedSince != nil {
		t.Errorf("%+v, %v", q, err)
	}
}

func TestRolesAreTheServers(t *testing.T) {
	w := newWorld(t)
	w.deploy("crawler", "first", [2]string{"jobs", ""})
	w.deploy("shop", "first", [2]string{"orders", ""})
	reader, one := w.visitor(), w.visitor()
	reader.signIn(w.token("wall", "", access.Read), "/")
	one.signIn(w.token("crawler's", "crawler", access.Deploy), "/")
	for path, who := range map[string]*visitor{
		"/databases/main/queues/jobs/pause": reader, "/apps/crawler/rollback": reader, "/apps/crawler/run": reader,
		"/databases/main/queues/orders/pause": one, "/apps/shop/rollback": one, "/apps/shop/run": one,
	} {
		if response, text := who.ask(http.MethodPost, path, url.Values{"version": {"1"}}); response.StatusCode != http.StatusForbidden || !strings.Contains(text, "Not allowed") {
			t.Errorf("%s: %s", path, response.Status)
		}
	}
	_, apps := one.ask(http.MethodGet, "/", nil)
	_, queues := one.ask(http.MethodGet, "/queues", nil)
	if strings.Contains(apps+queues, "shop") || strings.Contains(queues, "orders") || !strings.Contains(queues, "jobs") {
		t.Error("a token for one app sees another")
	}
	for _, path := range []string{"/apps/shop", "/apps/shop/logs", "/databases/main/queues/orders"} {
		if response, _ := one.ask(http.MethodGet, path, nil); response.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %s", path, response.Status)
		}
	}
}

func TestSignInsThatAreRefusedAreBounded(t *testing.T) {
	v := newWorld(t).visitor()
	for range queue.SignInTries {
		if response, text := v.signIn("runlot_wrong", "/"); response.StatusCode != http.StatusUnauthorized || strings.Contains(text, "runlot_wrong") {
			t.Fatalf("%s %q", response.Status, text)
		}
	}
	if response, _ := v.signIn(v.w.token("ada", "", access.Admin), "/"); response.StatusCode != http.StatusTooManyRequests || response.Header.Get("Retry-After") == "" {
		t.Errorf("one more: %s", response.Status)
	}
}

func TestAStreamIsForWhoIsSignedIn(t *testing.T) {
	w := newWorld(t)
	w.deploy("crawler", "first", [2]string{"jobs", ""})
	first := func(v *visitor) string {
		ctx, cancel := context.WithTimeout(t.Context(), waitTime)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+"/live/queues", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := v.c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		line, _ := bufio.NewReader(response.Body).ReadString('\n')
		return response.Header.Get("Content-Type") + " " + strings.TrimSpace(line)
	}
	v := w.visitor()
	if got := first(v); got != "text/event-stream event: ended" {
		t.Errorf("nobody gets %q", got)
	}
	v.signIn(w.token("ada", "", access.Read), "/")
	if got := first(v); got != "text/event-stream event: update" {
		t.Errorf("a reader gets %q", got)
	}
}
