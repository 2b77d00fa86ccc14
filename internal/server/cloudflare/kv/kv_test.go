package kv_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/runlot/runlot/internal/core/app"
	core "github.com/runlot/runlot/internal/core/kv"
	daemon "github.com/runlot/runlot/internal/daemon/kv"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/server/cloudflare/kv"
	"github.com/runlot/runlot/internal/server/cloudflare/wiretest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const all = "/storage/kv/namespaces"

// open serves the calls over real namespaces, of which shop binds one.
func open(t *testing.T) (w *wiretest.World, files *daemon.Namespaces, token string) {
	t.Helper()
	w = wiretest.New(t)
	log := slog.New(slog.DiscardHandler)
	files = daemon.New(t.TempDir(), log)
	t.Cleanup(files.Close)
	running := []*app.Manifest{{Name: "shop", KVNamespaces: []app.KVNamespace{{Binding: "CACHE", Namespace: "cache"}}}}
	kv.Register(w.Router, kv.Options{Namespaces: files, Running: func() []*app.Manifest { return running }, Events: w, Log: log})
	return w, files, w.Token(access.Deploy, "")
}

func ok(t *testing.T, r wiretest.Reply) wiretest.Reply {
	t.Helper()
	if r.Status != http.StatusOK {
		t.Fatalf("%d %s", r.Status, r.Raw)
	}
	return r
}

func TestNamespaces(t *testing.T) {
	w, files, token := open(t)
	var made struct{ ID, Title string }
	if err := json.Unmarshal([]byte(ok(t, w.Call("POST", all, token, `{"title":"users"}`)).Result), &made); err != nil || len(made.ID) != 32 || made.Title != "users" {
		t.Fatalf("%+v %v", made, err)
	}
	one := all + "/" + made.ID
	list := func() string {
		t.Helper()
		var got []struct{ ID, Title string }
		if err := json.Unmarshal([]byte(ok(t, w.Call("GET", all+"?per_page=100&page=1&order=title&direction=asc", token, "")).Result), &got); err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(fmt.Sprint(got), made.ID, "ID")
	}
	if got := list(); got != "[{cache cache} {ID users}]" {
		t.Error(got)
	}
	for body, code := range map[string]int{`{"title":"users"}`: 10014, `{"title":"cache"}`: 10014, `{"title":""}`: 10001, `{}`: 10001, `{"title":"` + strings.Repeat("x", 513) + `"}`: 10001} {
		if r := w.Call("POST", all, token, body); r.Status != http.StatusBadRequest || r.Code != code {
			t.Errorf("%.40s: %d %s", body, r.Status, r.Raw)
		}
	}
	ok(t, w.Call("PUT", one, token, `{"title":"people"}`))
	ok(t, w.Call("PUT", all+"/cache", token, `{"title":"the cache"}`))
	if got := list(); got != "[{ID people} {cache the cache}]" {
		t.Error(got)
	}
	if r := w.Call("DELETE", all+"/cache", token, ""); r.Status != http.StatusBadRequest || !strings.Contains(r.Message, "shop.CACHE") {
		t.Errorf("a bound one is deleted: %d %s", r.Status, r.Raw)
	}
	ok(t, w.Call("PUT", one+"/values/a", token, "1"))
	ok(t, w.Call("DELETE", one, token, ""))
	if files.Exists(made.ID) {
		t.Error("its file is there")
	}
	if r := w.Call("GET", one, token, ""); r.Status != http.StatusNotFound || r.Code != 10013 {
		t.Errorf("%d %s", r.Status, r.Raw)
	}
	if diff := cmp.Diff([]string{"kv.created users", "kv.renamed people", "kv.renamed the cache", "kv.deleted people"}, w.Events()); diff != "" {
		t.Error(diff)
	}
}

func TestWhoMay(t *testing.T) {
	w, _, token := open(t)
	var made struct{ ID string }
	if err := json.Unmarshal([]byte(ok(t, w.Call("POST", all, token, `{"title":"users"}`)).Result), &made); err != nil {
		t.Fatal(err)
	}
	reader, scoped, other := w.Token(access.Read, ""), w.Token(access.Deploy, "shop"), w.Token(access.Deploy, "blog")
	for _, c := range []struct {
		method, path, token, body string
		status                    int
	}{
		{"GET", all + "/cache/values/a", reader, "", 404},
		{"PUT", all + "/cache/values/a", reader, "1", 403},
		{"DELETE", all + "/cache/values/a", reader, "", 403},
		{"POST", all + "/cache/bulk/delete", reader, `["a"]`, 403},
		{"POST", all + "/cache/bulk/get", reader, `{"keys":["a"]}`, 200},
		{"PUT", all + "/cache/values/a", scoped, "1", 200},
		{"PUT", all + "/" + made.ID + "/values/a", scoped, "1", 404},
		{"PUT", all + "/cache/values/a", other, "1", 404},
		{"POST", all, scoped, `{"title":"mine"}`, 403},
		{"PUT", all + "/cache", scoped, `{"title":"mine"}`, 403},
		{"DELETE", all + "/cache", scoped, "", 403},
	} {
		if r := w.Call(c.method, c.path, c.token, c.body); r.Status != c.status {
			t.Errorf("%s %s: %d %s", c.method, c.path, r.Status, r.Raw)
		}
	}
	if r := w.Call("GET", all, scoped, ""); strings.Contains(r.Result, "users") || !strings.Contains(r.Result, "cache") {
		t.Errorf("a token of shop sees %s", r.Result)
	}
}

func TestValues(t *testing.T) {
	w, files, token := open(t)
	one := all + "/cache"
	for _, key := range []string{"a", "a/b//c", "é ?#%", "..."} {
		path := one + "/values/" + url.PathEscape(key)
		ok(t, w.Call("PUT", path, token, "value of "+key, "Content-Type", "text/plain"))
		if e, _, err := files.Get(t.Context(), "cache", key, 100); err != nil || e == nil || string(e.Value) != "value of "+key {
			t.Errorf("%q: %v %v", key, e, err)
		}
		if r := ok(t, w.Call("GET", path, token, "")); r.Raw != "value of "+key {
			t.Errorf("%q: %s", key, r.Raw)
		}
		ok(t, w.Call("DELETE", path, token, ""))
		if r := w.Call("GET", path, token, ""); r.Status != http.StatusNotFound || r.Code != 10009 {
			t.Errorf("%q: %d %s", key, r.Status, r.Raw)
		}
	}
	form := func(parts ...string) string {
		return "--b\r\n" + strings.Join(parts, "\r\n--b\r\n") + "\r\n--b--\r\n"
	}
	part := func(name, value string) string {
		return `Content-Disposition: form-data; name="` + name + "\"\r\n\r\n" + value
	}
	const kind = "multipart/form-data; boundary=b"
	ok(t, w.Call("PUT", one+"/values/m?expiration_ttl=60&expiration=1", token, form(part("value", "v"), part("metadata", `{"n":1}`)), "Content-Type", kind))
	r := ok(t, w.Call("GET", one+"/values/m", token, ""))
	if r.Raw != "v" || r.Header.Get("Expiration") == "" {
		t.Errorf("%s %v", r.Raw, r.Header)
	}
	if r := ok(t, w.Call("GET", one+"/metadata/m", token, "")); r.Result != `{"n":1}` {
		t.Errorf("metadata %s", r.Result)
	}
	for name, call := range map[string][3]string{
		"an unknown part":    {"x", form(part("value", "v"), part("metadata[n]", "1")), kind},
		"no value":           {"x", form(part("metadata", "1")), kind},
		"metadata":           {"x", form(part("value", "v"), part("metadata", "{")), kind},
		"long metadata":      {"x", form(part("value", "v"), part("metadata", `"`+strings.Repeat("x", 1023)+`"`)), kind},
		"a long key":         {strings.Repeat("k", 513), "v", ""},
		"a short life":       {"x?expiration_ttl=59", "v", ""},
		"an expiration past": {"x?expiration=1", "v", ""},
		"a large value":      {"x", strings.Repeat("x", 25<<20+1), ""},
	} {
		if r := w.Call("PUT", one+"/values/"+call[0], token, call[1], "Content-Type", call[2]); r.Status != http.StatusBadRequest {
			t.Errorf("%s: %d %.200s", name, r.Status, r.Raw)
		}
	}
	if e, _, err := files.Get(t.Context(), "cache", "x", 100); e != nil || err != nil {
		t.Errorf("a refused value is there: %v %v", e, err)
	}
	large := strings.Repeat("y", 25<<20)
	ok(t, w.Call("PUT", one+"/values/large", token, large))
	if r := ok(t, w.Call("GET", one+"/values/large", token, "")); r.Raw != large {
		t.Errorf("%d bytes came back", len(r.Raw))
	}
}

func TestKeysAndBulk(t *testing.T) {
	w, files, token := open(t)
	one := all + "/cache"
	r := ok(t, w.Call("PUT", one+"/bulk", token, `[{"key":"a1","value":"1","metadata":{"n": 1}},{"key":"a2","value":"AP8=","base64":true},{"key":"b","value":"{}","expiration_ttl":60}]`))
	if r.Result != `{"successful_key_count":3,"unsuccessful_keys":[]}` {
		t.Error(r.Result)
	}
	if e, _, err := files.Get(t.Context(), "cache", "a2", 100); err != nil || string(e.Value) != "\x00\xff" {
		t.Errorf("%v %v", e, err)
	}
	r = ok(t, w.Call("GET", one+"/keys?prefix=a&limit=1", token, ""))
	if r.Result != `[{"name":"a1","metadata":{"n":1}}]` {
		t.Error(r.Result)
	}
	var info struct{ Cursor string }
	if err := json.Unmarshal([]byte(r.Info), &info); err != nil || info.Cursor == "" {
		t.Fatalf("%s %v", r.Info, err)
	}
	r = ok(t, w.Call("GET", one+"/keys?prefix=a&limit=1&cursor="+info.Cursor, token, ""))
	if r.Result != `[{"name":"a2"}]` || r.Info != `{"count":1,"cursor":""}` {
		t.Error(r.Result, r.Info)
	}
	for _, asked := range [][2]string{
		{`{"keys":["a1","no"]}`, `{"values":{"a1":"1","no":null}}`},
		{`{"keys":["b","a1"],"type":"json","withMetadata":true}`, `{"values":{"a1":{"metadata":{"n":1},"value":1},"b":{"expiration":E,"metadata":null,"value":{}}}}`},
	} {
		body, want := asked[0], asked[1]
		got := ok(t, w.Call("POST", one+"/bulk/get", token, body)).Result
		if e, _, _ := files.Get(t.Context(), "cache", "b", 100); e != nil {
			got = strings.ReplaceAll(got, fmt.Sprint(e.Expiration), "E")
		}
		if got != want {
			t.Errorf("%s: %s", body, got)
		}
	}
	for _, body := range []string{
		`[{"key":"x","value":"1"},{"key":"","value":"1"}]`, `[{"key":"x","value":"1"},{"key":"y"}]`, `[{"key":"x","value":"1"},{"key":"y","value":"?","base64":true}]`,
		`[{"key":"x","value":"1"},{"key":"y","value":"1","expiration_ttl":1}]`, `[{"key":"x","value":"1"}`, `[{"key":"x","value":"1"},7]`, `{}`, ``,
	} {
		if r := w.Call("PUT", one+"/bulk", token, body); r.Status != http.StatusBadRequest || r.Message == "" {
			t.Errorf("%s: %d %s", body, r.Status, r.Raw)
		}
	}
	for _, body := range []string{`{"keys":[]}`, `{"keys":["a1"],"type":"x"}`, `{"keys":["a2"],"type":"json"}`, `{"keys":[` + strings.Repeat(`"a",`, 100) + `"a"]}`} {
		if r := w.Call("POST", one+"/bulk/get", token, body); r.Status != http.StatusBadRequest {
			t.Errorf("%.40s: %d %s", body, r.Status, r.Raw)
		}
	}
	if r := w.Call("PUT", one+"/bulk", token, "["+strings.Repeat(`{"key":"x","value":"1"},`, 10_000)+`{"key":"x","value":"1"}]`); r.Status != http.StatusBadRequest {
		t.Errorf("too many: %d %s", r.Status, r.Raw)
	}
	page, err := files.List(t.Context(), "cache", core.Query{Limit: 10})
	if err != nil || len(page.Keys) != 3 {
		t.Errorf("what was refused is there: %+v %v", page, err)
	}
	ok(t, w.Call("DELETE", one+"/bulk", token, `["a1",{"name":"b"}]`))
	ok(t, w.Call("POST", one+"/bulk/delete", token, `["none"]`))
	if r := ok(t, w.Call("GET", one+"/keys", token, "")); r.Result != `[{"name":"a2"}]` {
		t.Error(r.Result)
	}
}
