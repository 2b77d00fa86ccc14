package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/adapter/postgres/cluster/clustertest"
	"github.com/runlot/runlot/internal/adapter/postgres/control"
	"github.com/runlot/runlot/internal/adapter/sealer"
	"github.com/runlot/runlot/internal/config/runlotjson"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/daemon/bulk"
	"github.com/runlot/runlot/internal/daemon/numbers"
	"github.com/runlot/runlot/internal/daemon/subscriptions"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/deploy"
	"github.com/runlot/runlot/internal/engine/subscribe"
	"github.com/runlot/runlot/internal/server/api"
	"github.com/runlot/runlot/internal/server/api/apps"
	"github.com/runlot/runlot/internal/server/api/replay"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(clustertest.Main(m)) }

// instance runs nothing and says so.
type instance struct{ started int }

func (*instance) Check(context.Context, *deploy.Version) ([]string, error) {
	return []string{"mind the step"}, nil
}

func (i *instance) Switch(ctx context.Context, v *deploy.Runnable, commit func(context.Context) error) error {
	if strings.Contains(v.Message, "broken") {
		return fault.New(fault.Invalid, "start_failed", "it throws")
	}
	i.started++
	return commit(ctx)
}

func (*instance) Resume(context.Context, *deploy.Runnable) error { return nil }
func (*instance) Remove(context.Context, string) error           { return nil }
func (*instance) Running() []*app.Manifest                       { return nil }
func (*instance) Waiting(context.Context, string, string) int64  { return 3 }
func (*instance) URLs(name string) []string                      { return []string{"http://" + name + ".localhost"} }

func (*instance) Apps(context.Context) (map[string]apps.Running, error) {
	return map[string]apps.Running{"shop": {State: "live", Requests: 5, Messages: 2}}, nil
}

type world struct {
	t        *testing.T
	events   *subscribe.Engine
	server   *httptest.Server
	url      string // of the database
	access   *access.Keeper
	instance *instance
	queues   *queues
	crons    *scheduled
	admin    *client.Client
	outbox   control.Outbox
	calls    numbers.APICalls
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
	w := &world{t: t, outbox: store.Outbox(), url: a.OwnerURL(), access: access.New(store), instance: &instance{}, queues: &queues{}, crons: &scheduled{}}
	log := slog.New(slog.DiscardHandler)
	background, err := bulk.Start(t.Context(), store, w.queues, store, log)
	if err != nil {
		t.Fatal(fault.Detail(err))
	}
	t.Cleanup(background.Stop)
	events, closeEvents := subscriptions.New(store, w.queues, "local", log)
	t.Cleanup(closeEvents)
	w.events = events
	w.server = httptest.NewServer(api.New(api.Options{
		Subscriptions: events,
		Deploy:        deploy.New(deploy.Options{Store: store, Runner: w.instance, Sealer: seal, Log: log}), Versions: store, Access: w.access,
		Instance: w.instance, Queues: w.queues, Crons: w.crons, Operations: background, Outbox: store.Outbox(), Replays: replay.Options{Store: store.Replies(), Sealer: seal, Node: "one"},
		Version: "1.2.3", Account: "local", Log: log, Observe: w.calls.Observe,
		Metrics: http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(out, "numbers") }),
		Compile: func(file string, text []byte, _ string) (*app.Manifest, []string, error) {
			m, problems, err := runlotjson.Compile(file, text)
			if err != nil || len(problems) > 0 {
				return nil, nil, fault.New(fault.Invalid, "config_invalid", "no configuration").WithCause(err)
			}
			return m, nil, nil
		},
	}))
	t.Cleanup(w.server.Close)
	w.admin = w.client("", access.Admin)
	return w
}

// client makes a token and a client that carries it.
func (w *world) client(appName string, role access.Role) *client.Client {
	w.t.Helper()
	c, err := client.New(w.server.URL, w.text(appName, role))
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// text makes a token.
func (w *world) text(appName string, role access.Role) string {
	w.t.Helper()
	text, _, err := w.access.Create(w.t.Context(), "the "+string(role), role, appName, time.Time{})
	if err != nil {
		w.t.Fatal(err)
	}
	return text
}

func upload(name, message string) *client.Upload {
	return &client.Upload{
		App: name, ConfigFile: "runlot.json", Message: message,
		Config: []byte(`{"name": "` + name + `", "main": "a.js", "database": "db", "compatibilityDate": "2026-11-01", "queues": {
			"producers": [{"binding": "JOBS", "queue": "jobs"}], "consumers": [{"queue": "jobs", "deadLetterQueue": "dead"}]}}`),
		Modules:   []client.Module{{Name: "main.mjs", Kind: "esModule", Body: []byte("export default {}")}, {Name: "x.bin", Kind: "data", Body: []byte{0, 255}}},
		SourceMap: []byte(`{"version":3}`),
	}
}

func (w *world) code(err error, want string) {
	w.t.Helper()
	e, ok := errors.AsType[*client.Error](err)
	if !ok || e.Code != want {
		w.t.Errorf("error %#v, want the code %s", err, want)
	}
}

func TestAnAppFromUploadToDeletion(t *testing.T) {
	w := newWorld(t)
	ctx, c := t.Context(), w.client("", access.Deploy)
	checked, err := c.Upload(ctx, &client.Upload{
		App: "shop", ConfigFile: "runlot.json", Config: upload("shop", "").Config, Modules: upload("shop", "").Modules, CheckOnly: true,
	})
	if err != nil || checked.Version.ID != "" {
		t.Fatalf("%+v, %v", checked, err)
	}
	one, err := c.Upload(ctx, upload("shop", "one"))
	if err != nil {
		t.Fatal(err)
	}
	want := &client.Uploaded{
		Version: client.Version{
			Number: 1, App: "shop", Author: "the deploy", Message: "one", ConfigFile: "runlot.json", Database: "db",
			Producers: []client.Producer{{Binding: "JOBS", Queue: "jobs"}}, Consumers: []client.Consumer{{Queue: "jobs", DeadLetterQueue: "dead"}},
		},
		Warnings: []string{"mind the step"}, Removed: []client.Orphans{},
	}
	if diff := cmp.Diff(want, one, cmpopts.IgnoreFields(client.Version{}, "ID", "Created", "Digest")); diff != "" {
		t.Error(diff)
	}
	d, err := c.Deploy(ctx, "shop", &client.Deploy{Version: one.Version.ID, Message: "go"})
	if err != nil || d.Version.Number != 1 || d.Action != "deploy" || d.URLs[0] != "http://shop.localhost" {
		t.Errorf("%+v, %v", d, err)
	}
	broken, err := c.Upload(ctx, upload("shop", "broken"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Deploy(ctx, "shop", &client.Deploy{Version: broken.Version.ID})
	w.code(err, "start_failed")
	if !strings.Contains(err.Error(), "version 1 goes on") {
		t.Errorf("error %q", err)
	}
	_, err = c.Deploy(ctx, "shop", &client.Deploy{})
	w.code(err, "version_missing")
	_, err = c.Deploy(ctx, "shop", &client.Deploy{Rollback: true})
	w.code(err, "version_unknown")
	versions, err := c.Versions(ctx, "shop", 2, 10)
	if err != nil || len(versions) != 1 || !versions[0].Live {
		t.Errorf("%+v, %v", versions, err)
	}
	apps, err := c.Apps(ctx)
	if err != nil || len(apps) != 1 || apps[0].State != "live" || apps[0].Live.Number != 1 || apps[0].Requests != 5 {
		t.Errorf("%+v, %v", apps, err)
	}
	if err := c.PutSecret(ctx, "shop", "KEY", "hunter2"); err != nil {
		t.Error(err)
	}
	secrets, err := c.Secrets(ctx, "shop")
	if err != nil || len(secrets) != 1 || secrets[0].Name != "KEY" {
		t.Errorf("%+v, %v", secrets, err)
	}
	w.code(c.DeleteSecret(ctx, "shop", "NONE"), "secret_unknown")
	events, err := c.Events(ctx, "shop", 0, 2)
	if err != nil || len(events) != 2 || events[0].Kind != "secret.put" {
		t.Errorf("%+v, %v", events, err)
	}
	if err := c.DeleteApp(ctx, "shop"); err != nil {
		t.Error(err)
	}
	_, err = c.App(ctx, "shop")
	w.code(err, "app_unknown")
}

func TestWhoMayDoWhat(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	if _, err := w.admin.Upload(ctx, upload("shop", "")); err != nil {
		t.Fatal(err)
	}
	if _, err := w.admin.Upload(ctx, upload("other", "")); err != nil {
		t.Fatal(err)
	}
	reader, scoped := w.client("", access.Read), w.client("shop", access.Deploy)
	nobody, err := client.New(w.server.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	wrong, err := client.New(w.server.URL, "runlot_aaaaaaaa_bbbb")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		call func() error
		code string
	}{
		"no token":                 {func() error { _, err := nobody.Apps(ctx); return err }, access.CodeUnauthenticated},
		"a wrong token":            {func() error { _, err := wrong.Whoami(ctx); return err }, access.CodeUnauthenticated},
		"a reader deletes":         {func() error { return reader.DeleteApp(ctx, "shop") }, access.CodeForbidden},
		"a reader sets a secret":   {func() error { return reader.PutSecret(ctx, "shop", "A", "b") }, access.CodeForbidden},
		"a reader uploads":         {func() error { _, err := reader.Upload(ctx, upload("shop", "")); return err }, access.CodeForbidden},
		"a reader lists tokens":    {func() error { _, err := reader.Tokens(ctx); return err }, access.CodeForbidden},
		"scoped, another app":      {func() error { return scoped.DeleteApp(ctx, "other") }, access.CodeForbidden},
		"scoped, another's upload": {func() error { _, err := scoped.Upload(ctx, upload("other", "")); return err }, access.CodeForbidden},
		"scoped, tokens":           {func() error { _, err := scoped.Tokens(ctx); return err }, access.CodeForbidden},
	} {
		err := test.call()
		if e, ok := errors.AsType[*client.Error](err); !ok || e.Code != test.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	apps, err := scoped.Apps(ctx)
	if err != nil || len(apps) != 1 || apps[0].Name != "shop" {
		t.Errorf("a scoped token sees %+v, %v", apps, err)
	}
	events, err := scoped.Events(ctx, "other", 0, 0)
	if err != nil || len(events) != 1 || events[0].App != "shop" {
		t.Errorf("a scoped token sees %+v, %v", events, err)
	}
	who, err := scoped.Whoami(ctx)
	if err != nil || who.Token.App != "shop" || who.Version != "1.2.3" {
		t.Errorf("%+v, %v", who, err)
	}
	made, err := w.admin.CreateToken(ctx, &client.NewToken{Name: "ci", Role: "read"})
	if err != nil || !strings.HasPrefix(made.Text, "runlot_") {
		t.Fatalf("%+v, %v", made, err)
	}
	if err := w.admin.RevokeToken(ctx, made.ID); err != nil {
		t.Error(err)
	}
	w.code(w.admin.RevokeToken(ctx, made.ID), access.CodeTokenUnknown)
	// Who made and who revoked it is known, and nothing of its text.
	events, err = w.admin.Events(ctx, "", 0, 2)
	if err != nil || len(events) != 2 {
		t.Fatalf("%+v, %v", events, err)
	}
	for i, kind := range []string{deploy.EventTokenRevoked, deploy.EventTokenCreated} {
		want := map[string]string{"id": made.ID, "name": "ci", "role": "read"}
		if e := events[i]; e.Kind != kind || e.Author != "the admin" || !maps.Equal(e.Detail, want) {
			t.Errorf("event %d: %+v", i, e)
		}
	}
}

// raw makes a call as it is and returns the answer.
func (w *world) raw(method, path, token, key, body string) (status int, header http.Header, text string) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.server.URL+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer response.Body.Close()
	all, err := io.ReadAll(response.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return response.StatusCode, response.Header, string(all)
}

func TestACallWithAKeyHasItsEffectOnce(t *testing.T) {
	w := newWorld(t)
	text, _, err := w.access.Create(t.Context(), "x", access.Admin, "", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	const ask = `{"name":"ci","role":"read"}`
	status, _, first := w.raw("POST", "/v1/tokens", text, "k1", ask)
	if status != http.StatusCreated {
		t.Fatal(status, first)
	}
	status, header, again := w.raw("POST", "/v1/tokens", text, "k1", ask)
	if status != http.StatusCreated || again != first || header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("%d %s", status, again)
	}
	if status, _, other := w.raw("POST", "/v1/tokens", text, "k1", `{"name":"cd","role":"read"}`); status != http.StatusConflict {
		t.Errorf("the key for another call: %d %s", status, other)
	}
	if status, _, other := w.raw("POST", "/v1/tokens", text, "k2", ask); status != http.StatusCreated || other == first {
		t.Errorf("another key: %d %s", status, other)
	}
	tokens, err := w.access.List(t.Context())
	if err != nil || len(tokens) != 4 {
		t.Errorf("%d tokens, %v", len(tokens), err)
	}
}

func TestWhatIsNoCall(t *testing.T) {
	w := newWorld(t)
	text, _, err := w.access.Create(t.Context(), "x", access.Admin, "", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "/v1/nothing", "", 404, `"code":"path_unknown"`},
		{"POST", "/v1/tokens", `{"name":"x"}`, 422, "expected required property role"},
		{"POST", "/v1/tokens", `{"name":"x","role":"read","rule":"y"}`, 422, "unexpected property"},
		{"POST", "/v1/tokens", `{`, 400, `"code":"request_invalid"`},
		{"GET", "/v1/events?limit=0", "", 422, "limit"},
		{"GET", "/v1/events?limits=1", "", 422, "limits"},
		{"POST", "/v1/apps/shop/versions", `{}`, 422, "multipart"},
		{"DELETE", "/v1/apps/none", "", 404, `"hint":`},
	} {
		status, _, answer := w.raw(test.method, test.path, text, "", test.body)
		if status != test.status || !strings.Contains(answer, test.want) {
			t.Errorf("%s %s %s: %d %s", test.method, test.path, test.body, status, answer)
		}
	}
}

func TestAnUploadThatIsNone(t *testing.T) {
	w := newWorld(t)
	for name, test := range map[string]struct {
		change func(*client.Upload)
		code   string
	}{
		"another app's name":  {func(u *client.Upload) { u.App = "other" }, "app_name"},
		"a broken config":     {func(u *client.Upload) { u.Config = []byte("{") }, "config_invalid"},
		"no modules":          {func(u *client.Upload) { u.Modules = nil }, "upload_modules"},
		"a kind of its own":   {func(u *client.Upload) { u.Modules[0].Kind = "python" }, "upload_module_kind"},
		"a large config":      {func(u *client.Upload) { u.Config = bytes.Repeat([]byte(" "), 2<<20) }, "upload_size"},
		"a very long message": {func(u *client.Upload) { u.Message = strings.Repeat("x", 1001) }, "message_long"},
	} {
		u := upload("shop", "")
		test.change(u)
		_, err := w.admin.Upload(t.Context(), u)
		if e, ok := errors.AsType[*client.Error](err); !ok || e.Code != test.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	if apps, err := w.admin.Apps(t.Context()); err != nil || len(apps) != 0 {
		t.Errorf("%+v, %v", apps, err)
	}
}

func TestTheDocumentNamesEveryCall(t *testing.T) {
	w := newWorld(t)
	if status, _, _ := w.raw("GET", "/v1/openapi.json", "", "", ""); status != http.StatusUnauthorized {
		t.Errorf("the document without a token: %d", status)
	}
	token, _, err := w.access.Create(t.Context(), "x", access.Read, "", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	status, _, text := w.raw("GET", "/v1/openapi.json", token, "", "")
	var document struct {
		OpenAPI string
		Paths   map[string]map[string]struct{ OperationID, Summary string }
	}
	if err := json.Unmarshal([]byte(text), &document); err != nil || status != http.StatusOK {
		t.Fatal(status, err)
	}
	calls := 0
	for path, methods := range document.Paths {
		for method, op := range methods {
			calls++
			if op.OperationID == "" || op.Summary == "" {
				t.Errorf("%s %s has no name", method, path)
			}
		}
	}
	if !strings.HasPrefix(document.OpenAPI, "3.") || calls < 15 {
		t.Errorf("OpenAPI %s with %d calls", document.OpenAPI, calls)
	}
}

func TestAServerThatIsNotThere(t *testing.T) {
	c, err := client.New("http://127.0.0.1:1", "x")
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Apps(t.Context())
	if e, ok := errors.AsType[*client.Error](err); !ok || e.Code != "server_unreachable" || !strings.Contains(e.Message, "connection refused") {
		t.Errorf("error %v", err)
	}
	for _, address := range []string{"", "127.0.0.1:8788", "ftp://x", "http://", "http://u:p@x"} {
		if _, err := client.New(address, ""); err == nil {
			t.Errorf("the address %q is accepted", address)
		}
	}
}
