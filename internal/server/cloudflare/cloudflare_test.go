package cloudflare_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/runlot/runlot/internal/adapter/postgres/cluster/clustertest"
	"github.com/runlot/runlot/internal/adapter/postgres/control"
	"github.com/runlot/runlot/internal/adapter/sealer"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/deploy"
	"github.com/runlot/runlot/internal/engine/tail"
	"github.com/runlot/runlot/internal/server/cloudflare"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(clustertest.Main(m)) }

// runner commits and runs nothing.
type runner struct{}

func (runner) Check(context.Context, *deploy.Version) ([]string, error) { return nil, nil }
func (runner) Switch(ctx context.Context, _ *deploy.Runnable, commit func(context.Context) error) error {
	return commit(ctx)
}
func (runner) Resume(context.Context, *deploy.Runnable) error { return nil }
func (runner) Remove(context.Context, string) error           { return nil }
func (runner) Running() []*app.Manifest                       { return nil }
func (runner) Waiting(context.Context, string, string) int64  { return 0 }

type world struct {
	t      *testing.T
	api    *cloudflare.API
	access *access.Keeper
	engine *deploy.Engine
	store  deploy.Store
	queues *brokers
	tails  *tail.Hub
}

func newWorld(t *testing.T) *world {
	t.Helper()
	a := clustertest.NewDatabase(t)
	store, err := control.Open(t.Context(), func(context.Context) (string, error) { return a.OwnerURL(), nil })
	if err != nil {
		t.Fatal(fault.Detail(err))
	}
	t.Cleanup(store.Close)
	seal, err := sealer.Open(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	w := &world{
		t: t, access: access.New(store), engine: deploy.New(deploy.Options{Store: store, Runner: runner{}, Sealer: seal, Log: log}), store: store,
		queues: &brokers{}, tails: tail.New(log),
	}
	w.api = w.over(w.access)
	return w
}

// over is an API that knows the tokens of a keeper.
func (w *world) over(keeper *access.Keeper) *cloudflare.API {
	return cloudflare.New(cloudflare.Options{
		Deploy: w.engine, Versions: w.store, Access: keeper, Queues: w.queues, Account: "local", Tails: w.tails, Log: slog.New(slog.DiscardHandler),
	})
}

func (w *world) token(role access.Role, appName string) string {
	w.t.Helper()
	text, _, err := w.access.Create(w.t.Context(), "ann", role, appName, time.Time{})
	if err != nil {
		w.t.Fatal(err)
	}
	return text
}

// until waits for something.
func (w *world) until(is func() bool) {
	w.t.Helper()
	for deadline := time.After(patience); !is(); {
		select {
		case <-deadline:
			w.t.Fatal("it does not happen")
		case <-time.After(time.Millisecond):
		}
	}
}

// add uploads a version of shop and returns its id.
func (w *world) add(message string) string {
	w.t.Helper()
	u, err := w.engine.Add(w.t.Context(), &deploy.Upload{
		Manifest: &app.Manifest{
			Name: "shop", Dialect: queue.Wrangler, Database: "default", CompatibilityDate: "2026-11-01", Producers: []app.Producer{{Binding: "JOBS", Queue: "jobs"}},
		},
		Bundle:     &app.Bundle{Modules: []app.Module{{Name: "main.mjs", Kind: app.ESModule, Body: []byte(message)}}},
		ConfigFile: "wrangler.json", Author: "ann", Message: message,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return u.Version.ID
}

type reply struct {
	Success bool
	Errors  []struct {
		Code    int
		Message string
	}
	Result json.RawMessage
	Info   *struct {
		Count int
		Total int `json:"total_count"`
	} `json:"result_info"`
}

func (w *world) call(method, path, token, body string) (int, reply) {
	w.t.Helper()
	r := httptest.NewRequestWithContext(w.t.Context(), method, cloudflare.Prefix+path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "text/plain;charset=UTF-8")
	recorder := httptest.NewRecorder()
	w.api.ServeHTTP(recorder, r)
	var e reply
	if err := json.Unmarshal(recorder.Body.Bytes(), &e); err != nil {
		w.t.Fatalf("%s %s: %s", method, path, recorder.Body)
	}
	if e.Success != (recorder.Code < http.StatusBadRequest) || e.Success != (len(e.Errors) == 0) {
		w.t.Errorf("%s %s: %d %s", method, path, recorder.Code, recorder.Body)
	}
	return recorder.Code, e
}

const scripts = "/accounts/local/workers/scripts"

func TestVersionsAndDeployments(t *testing.T) {
	w := newWorld(t)
	token := w.token(access.Deploy, "")
	if status, e := w.call("GET", "/accounts/local/workers/services/shop", token, ""); status != http.StatusNotFound || e.Errors[0].Code != 10090 {
		t.Errorf("a script before its first deployment: %d %+v", status, e)
	}
	one, two := w.add("one"), w.add("two")
	for _, id := range []string{one, two, one} {
		body := `{"strategy":"percentage","versions":[{"version_id":"` + id + `","percentage":100}],"annotations":{"workers/message":"go"}}`
		if status, e := w.call("POST", scripts+"/shop/deployments?force=true", token, body); status != http.StatusOK {
			t.Fatalf("%d %+v", status, e)
		}
	}
	_, e := w.call("GET", scripts+"/shop/deployments", token, "")
	var deployments struct {
		Deployments []struct {
			Annotations map[string]string
			Versions    []struct {
				ID string `json:"version_id"`
			}
		}
	}
	if err := json.Unmarshal(e.Result, &deployments); err != nil {
		t.Fatal(err)
	}
	got := make([]string, 0, len(deployments.Deployments))
	for _, d := range deployments.Deployments {
		got = append(got, d.Versions[0].ID+d.Annotations["workers/triggered_by"])
	}
	if diff := cmp.Diff([]string{one + "rollback", two, one}, got); diff != "" {
		t.Error(diff)
	}
	_, e = w.call("GET", scripts+"/shop/versions?deployable=true", token, "")
	var versions struct {
		Items []struct {
			ID        string
			Number    int
			Metadata  map[string]string
			Resources struct{ Bindings []map[string]any }
		}
	}
	if err := json.Unmarshal(e.Result, &versions); err != nil {
		t.Fatal(err)
	}
	if len(versions.Items) != 2 || versions.Items[0].ID != two || versions.Items[0].Metadata["author_email"] != "ann" ||
		versions.Items[0].Resources.Bindings[0]["queue_name"] != "jobs" {
		t.Errorf("versions %s", e.Result)
	}
	if status, e := w.call("GET", scripts+"/shop/versions/"+two, token, ""); status != http.StatusOK || !strings.Contains(string(e.Result), two) {
		t.Errorf("%d %s", status, e.Result)
	}
	if status, e := w.call("GET", "/accounts/local/workers/services/shop", token, ""); status != http.StatusOK || !strings.Contains(string(e.Result), `"last_deployed_from":"wrangler"`) {
		t.Errorf("%d %s", status, e.Result)
	}
	for name, body := range map[string]string{
		"a split":    `{"versions":[{"version_id":"` + one + `","percentage":30},{"version_id":"` + two + `","percentage":70}]}`,
		"a part":     `{"versions":[{"version_id":"` + one + `","percentage":50}]}`,
		"no version": `{}`,
		"no JSON":    `{`,
	} {
		if status, _ := w.call("POST", scripts+"/shop/deployments", token, body); status != http.StatusBadRequest {
			t.Errorf("%s: %d", name, status)
		}
	}
	if status, _ := w.call("DELETE", "/accounts/local/workers/services/shop?force=false", token, ""); status != http.StatusOK {
		t.Errorf("delete: %d", status)
	}
	if status, e := w.call("GET", scripts+"/shop/deployments", token, ""); status != http.StatusNotFound || e.Errors[0].Code != 10007 {
		t.Errorf("a deleted script: %d %+v", status, e)
	}
}

func TestSecrets(t *testing.T) {
	w := newWorld(t)
	token := w.token(access.Deploy, "")
	w.add("one")
	for _, name := range []string{"B", "A"} {
		if status, e := w.call("PUT", scripts+"/shop/secrets", token, `{"name":"`+name+`","text":"hunter2","type":"secret_text"}`); status != http.StatusOK {
			t.Errorf("%d %+v", status, e)
		}
	}
	if _, e := w.call("GET", scripts+"/shop/secrets", token, ""); string(e.Result) != `[{"name":"A","type":"secret_text"},{"name":"B","type":"secret_text"}]` {
		t.Errorf("secrets %s", e.Result)
	}
	if status, _ := w.call("DELETE", scripts+"/shop/secrets/A?url_encoded=true", token, ""); status != http.StatusOK {
		t.Errorf("delete: %d", status)
	}
	if status, _ := w.call("DELETE", scripts+"/shop/secrets/A", token, ""); status != http.StatusNotFound {
		t.Errorf("delete again: %d", status)
	}
	if status, _ := w.call("PUT", scripts+"/shop/secrets", token, `{"name":"K","type":"secret_key"}`); status != http.StatusBadRequest {
		t.Errorf("a key: %d", status)
	}
}

func TestVersionsWithOtherSecrets(t *testing.T) {
	w := newWorld(t)
	token := w.token(access.Deploy, "")
	const latest = "/accounts/local/workers/workers/shop/versions/latest"
	if status, e := w.call("PATCH", latest, token, `{}`); status != http.StatusNotFound || e.Errors[0].Code != 10007 {
		t.Errorf("a script that is not there: %d %+v", status, e.Errors)
	}
	one := w.add("one")
	if status, e := w.call("PATCH", scripts+"/shop/secrets-bulk", token, `{"secrets":{"OLD":{"name":"OLD","text":"x","type":"secret_text"},"KEY":{"text":"x","type":"secret_text"}}}`); status != http.StatusOK {
		t.Fatalf("%d %+v", status, e.Errors)
	}
	for _, body := range []string{`{"env":{"A":{"type":"secret_key"}}}`, `{"env":{"A":{"type":"secret_text"}}}`, `{"env":[]}`} {
		if status, _ := w.call("PATCH", latest, token, body); status != http.StatusBadRequest {
			t.Errorf("%s: %d", body, status)
		}
	}
	w.patched(latest, token, `{"env":{"NEW":{"type":"secret_text","text":"v"}},"annotations":{"workers/message":"with NEW"}}`)
	w.patched(latest, token, `{"env":{"OLD":null}}`)
	_, e := w.call("GET", scripts+"/shop/versions", token, "")
	var versions struct {
		Items []struct {
			Resources struct{ Bindings []map[string]any }
		}
	}
	if err := json.Unmarshal(e.Result, &versions); err != nil {
		t.Fatal(err)
	}
	names := make([]any, 0, len(versions.Items[0].Resources.Bindings))
	for _, b := range versions.Items[0].Resources.Bindings {
		names = append(names, b["name"])
	}
	if diff := cmp.Diff([]any{"JOBS", "KEY", "NEW"}, names); diff != "" || len(versions.Items) != 3 {
		t.Errorf("%d versions: %s", len(versions.Items), diff)
	}
	if _, e := w.call("GET", scripts+"/shop/secrets", token, ""); string(e.Result) != `[{"name":"KEY","type":"secret_text"},{"name":"OLD","type":"secret_text"}]` {
		t.Errorf("secrets %s", e.Result)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, cloudflare.Prefix+scripts+"/shop/content/v2?version="+one, http.NoBody)
	r.Header.Set("Authorization", "Bearer "+token)
	recorder := httptest.NewRecorder()
	w.api.ServeHTTP(recorder, r)
	if got := recorder.Body.String(); recorder.Header().Get("Cf-Entrypoint") != "main.mjs" || !strings.Contains(got, "application/javascript+module\r\n\r\none\r\n") {
		t.Errorf("the code of a version: %v %s", recorder.Header(), got)
	}
	if status, _ := w.call("GET", scripts+"/shop/content/v2?version=none", token, ""); status != http.StatusNotFound {
		t.Errorf("the code of no version: %d", status)
	}
}

// patched makes a version of the newest one.
func (w *world) patched(path, token, body string) {
	w.t.Helper()
	if status, e := w.call("PATCH", path, token, body); status != http.StatusOK || !strings.Contains(string(e.Result), `"id":"`) {
		w.t.Errorf("%s: %d %+v", body, status, e.Errors)
	}
}

func TestWhoMayCallWhat(t *testing.T) {
	w := newWorld(t)
	w.add("one")
	reader, scoped, admin := w.token(access.Read, ""), w.token(access.Deploy, "shop"), w.token(access.Admin, "")
	for _, test := range []struct {
		method, path, token string
		status, code        int
	}{
		{"GET", "/user/tokens/verify", "", 401, 10000},
		{"GET", "/user/tokens/verify", "nonsense", 401, 10000},
		{"GET", "/user/tokens/verify", scoped, 200, 0},
		{"GET", "/user", reader, 200, 0},
		{"GET", "/memberships", reader, 200, 0},
		{"GET", "/accounts/local", reader, 200, 0},
		{"GET", "/accounts/other", reader, 404, 10001},
		{"GET", "/accounts/other/workers/scripts", admin, 404, 10001},
		{"DELETE", scripts + "/shop", reader, 403, 10000},
		{"PUT", scripts + "/shop/secrets", reader, 403, 10000},
		{"GET", scripts + "/other/versions", scoped, 403, 10000},
		{"GET", scripts + "/shop/versions", scoped, 200, 0},
		{"GET", scripts + "/none/versions", admin, 404, 10007},
		{"GET", "/accounts/local/workers/nothing", admin, 404, 7003},
		{"POST", "/zones", admin, 404, 7003},
		{"GET", "/zones?name=example.com", admin, 200, 0},
		{"PUT", scripts + "/shop/routes", admin, 200, 0},
		{"PUT", scripts + "/shop/domains/records", reader, 403, 10000},
		{"POST", scripts + "/none/domains/changeset", admin, 404, 10007},
		{"GET", "/accounts/local/workers/workers/shop", reader, 200, 0},
	} {
		status, e := w.call(test.method, test.path, test.token, "")
		if status != test.status || test.code != 0 && e.Errors[0].Code != test.code {
			t.Errorf("%s %s: %d %+v", test.method, test.path, status, e.Errors)
		}
	}
}

// TestRoutesLeadNowhere: a deployment that has some goes on, and an event says what became of them.
func TestRoutesLeadNowhere(t *testing.T) {
	w := newWorld(t)
	w.add("one")
	token := w.token(access.Deploy, "")
	for _, path := range []string{"/zones?name=example.com", "/zones/example.com/workers/routes"} {
		if status, e := w.call("GET", path, token, ""); status != http.StatusOK {
			t.Errorf("%s: %d %+v", path, status, e)
		}
	}
	if status, e := w.call("PUT", scripts+"/shop/routes", token, `[{"pattern":"example.com/*"}]`); status != http.StatusOK {
		t.Errorf("%d %+v", status, e)
	}
	if _, e := w.call("POST", scripts+"/shop/domains/changeset?replace_state=true", token, `[]`); string(e.Result) != `{"added":[],"conflicting":[],"removed":[],"updated":[]}` {
		t.Errorf("changeset %s", e.Result)
	}
	events, err := w.store.Events(t.Context(), "shop", 0, 2)
	if err != nil || events[1].Kind != "routes.ignored" || events[1].Detail["routes"] != "1" || !strings.Contains(events[1].Detail["message"], "lead nowhere") {
		t.Errorf("events %+v %v", events, err)
	}
}

// TestPagesEnd: some clients ask for the next page until one is empty.
func TestPagesEnd(t *testing.T) {
	w := newWorld(t)
	token := w.token(access.Read, "")
	if _, e := w.call("GET", "/accounts?page=1&per_page=20", token, ""); e.Info == nil || e.Info.Count != 1 || e.Info.Total != 1 {
		t.Errorf("%+v", e)
	}
	for _, page := range []string{"2", "900"} {
		if _, e := w.call("GET", "/accounts?per_page=20&page="+page, token, ""); string(e.Result) != "[]" {
			t.Errorf("page %s: %s", page, e.Result)
		}
	}
}
