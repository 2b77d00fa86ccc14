package r2_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	daemon "github.com/runlot/runlot/internal/daemon/r2"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/server/cloudflare/r2"
	"github.com/runlot/runlot/internal/server/cloudflare/wire"
	"github.com/runlot/runlot/internal/server/cloudflare/wiretest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	all     = "/r2/buckets"
	one     = all + "/files"
	config  = "/event_notifications/r2/files/configuration"
	objects = one + "/objects"
)

// known are the queues: one, by its name.
type known struct{}

func (known) Find(_ *wire.Call, id string) (database, name string, err error) {
	if id != "id-changes" {
		return "", "", fault.New(fault.NotFound, queue.CodeQueueNotFound, "there is no queue with the id %s", id)
	}
	return "default", "changes", nil
}

func (known) ID(_, name string) string                           { return "id-" + name }
func (known) Shown(_ *wire.Call, _, name string) (string, error) { return name, nil }

// open serves the calls over real buckets, of which shop binds one. What queues are told arrives in the channel.
func open(t *testing.T) (w *wiretest.World, token string, told <-chan string) {
	t.Helper()
	w = wiretest.New(t)
	log := slog.New(slog.DiscardHandler)
	messages := make(chan string, 10)
	buckets := daemon.New(t.TempDir(), nil, func(_ context.Context, _, name string, drafts []queue.Draft) error {
		for i := range drafts {
			messages <- name + " " + string(drafts[i].Body)
		}
		return nil
	}, log)
	t.Cleanup(buckets.Close)
	running := []*app.Manifest{{Name: "shop", R2Buckets: []app.R2Bucket{{Binding: "FILES", Bucket: "files"}}}}
	r2.Register(w.Router, r2.Options{Buckets: buckets, Queues: known{}, Running: func() []*app.Manifest { return running }, Events: w, Log: log})
	return w, w.Token(access.Deploy, ""), messages
}

func ok(t *testing.T, r wiretest.Reply) wiretest.Reply {
	t.Helper()
	if r.Status >= http.StatusBadRequest {
		t.Fatalf("%d %s", r.Status, r.Raw)
	}
	return r
}

// refused holds an answer to a status and a code.
func refused(t *testing.T, what string, r wiretest.Reply, status, code int) {
	t.Helper()
	if r.Status != status || r.Code != code || r.Message == "" {
		t.Errorf("%s: %d %s", what, r.Status, r.Raw)
	}
}

func TestBuckets(t *testing.T) {
	w, token, _ := open(t)
	ok(t, w.Call("POST", all, token, `{"name":"images"}`))
	names := func(query string) string {
		t.Helper()
		var got struct {
			Buckets []struct {
				Name    string
				Created string `json:"creation_date"`
			}
		}
		if err := json.Unmarshal([]byte(ok(t, w.Call("GET", all+query, token, "")).Result), &got); err != nil {
			t.Fatal(err)
		}
		list := make([]string, len(got.Buckets))
		for i, b := range got.Buckets {
			list[i] = b.Name
			if b.Name == "images" && b.Created == "" {
				t.Error("it is not known when images was made")
			}
		}
		return strings.Join(list, " ")
	}
	for query, want := range map[string]string{
		"": "files images", "?name_contains=mag": "images", "?direction=desc": "images files", "?per_page=1": "files", "?per_page=1&cursor=files": "images",
		"?start_after=images": "", "?direction=desc&cursor=images": "files",
	} {
		if got := names(query); got != want {
			t.Errorf("%s: %s", query, got)
		}
	}
	refused(t, "again", w.Call("POST", all, token, `{"name":"images"}`), 400, 10004)
	refused(t, "one that is bound", w.Call("POST", all, token, `{"name":"files"}`), 400, 10004)
	refused(t, "a name", w.Call("POST", all, token, `{"name":"A"}`), 400, 10005)
	refused(t, "a class", w.Call("POST", all, token, `{"name":"abc","storageClass":"InfrequentAccess"}`), 400, 10001)
	refused(t, "a jurisdiction", w.Call("POST", all, token, `{"name":"abc"}`, "cf-r2-jurisdiction", "eu"), 400, 10001)
	refused(t, "what is not there", w.Call("GET", all+"/none", token, ""), 404, 10006)
	ok(t, w.Call("GET", one, token, ""))

	ok(t, w.Call("PUT", all+"/images/objects/a", token, "x"))
	refused(t, "a full one", w.Call("DELETE", all+"/images", token, ""), 400, 10008)
	ok(t, w.Call("DELETE", all+"/images/objects/a", token, ""))
	ok(t, w.Call("DELETE", all+"/images", token, ""))
	refused(t, "what is deleted", w.Call("GET", all+"/images", token, ""), 404, 10006)
	refused(t, "one that is bound", w.Call("DELETE", one, token, ""), 400, 10001)
	if diff := cmp.Diff([]string{"r2.created images", "r2.deleted images"}, w.Events()); diff != "" {
		t.Error(diff)
	}
}

func TestObjects(t *testing.T) {
	w, token, _ := open(t)
	for _, key := range []string{"a", "a/b//c", "./x/../y", "é", "percent%2Fpercent", "q?#"} {
		for _, escape := range []func(string) string{url.PathEscape, func(s string) string { return (&url.URL{Path: s}).EscapedPath() }} {
			path := objects + "/" + escape(key)
			ok(t, w.Call("PUT", path, token, "body of "+key, "Content-Type", "text/x", "Cache-Control", "no-cache", "Expires", "Tue, 01 Dec 2026 03:00:00 GMT"))
			r := ok(t, w.Call("GET", path, token, ""))
			if r.Raw != "body of "+key || r.Header.Get("Content-Type") != "text/x" || r.Header.Get("Cache-Control") != "no-cache" || r.Header.Get("Expires") != "Tue, 01 Dec 2026 03:00:00 GMT" {
				t.Errorf("%q: %s %v", key, r.Raw, r.Header)
			}
			var list []struct{ Key string }
			if err := json.Unmarshal([]byte(ok(t, w.Call("GET", objects, token, "")).Result), &list); err != nil || len(list) != 1 || list[0].Key != key {
				t.Errorf("%q is listed as %v, %v", key, list, err)
			}
			ok(t, w.Call("DELETE", path, token, ""))
			refused(t, key, w.Call("GET", path, token, ""), 404, 10007)
		}
	}
	refused(t, "a bucket", w.Call("PUT", all+"/none/objects/a", token, "x"), 404, 10006)
	refused(t, "a long key", w.Call("PUT", objects+"/"+strings.Repeat("k", 1025), token, "x"), 400, 10020)
	refused(t, "a time", w.Call("PUT", objects+"/a", token, "x", "Expires", "soon"), 400, 10001)
	refused(t, "a reader", w.Call("PUT", objects+"/a", w.Token(access.Read, ""), "x"), 403, 10000)
	refused(t, "another app", w.Call("GET", objects+"/a", w.Token(access.Deploy, "blog"), ""), 404, 10006)
	ok(t, w.Call("PUT", objects+"/r", w.Token(access.Deploy, "shop"), "0123456789"))
	if r := ok(t, w.Call("GET", objects+"/r", token, "", "Range", "bytes=2-4")); r.Raw != "234" || r.Status != http.StatusPartialContent || r.Header.Get("Content-Range") != "bytes 2-4/10" {
		t.Errorf("%d %s %v", r.Status, r.Raw, r.Header)
	}
	for _, key := range []string{"p/a", "p/b", "p/c/d"} {
		ok(t, w.Call("PUT", objects+"/"+key, token, "x"))
	}
	r := ok(t, w.Call("GET", objects+"?prefix=p/&delimiter=/&per_page=2", token, ""))
	var at struct {
		Cursor    string
		Cut       bool `json:"is_truncated"`
		Delimited []string
	}
	if err := json.Unmarshal([]byte(r.Info), &at); err != nil || !at.Cut || at.Cursor == "" || strings.Count(r.Result, `"key"`) != 2 {
		t.Fatalf("%s %s %v", r.Result, r.Info, err)
	}
	r = ok(t, w.Call("GET", objects+"?prefix=p/&delimiter=/&per_page=2&cursor="+at.Cursor, token, ""))
	if r.Result != "[]" || r.Info != `{"count":0,"cursor":"","per_page":2,"is_truncated":false,"delimited":["p/c/"]}` {
		t.Errorf("%s %s", r.Result, r.Info)
	}
}

func TestRules(t *testing.T) {
	w, token, told := open(t)
	const queuePath = config + "/queues/id-changes"
	if r := ok(t, w.Call("GET", config, token, "")); r.Result != `{"bucketName":"files","queues":[]}` {
		t.Error(r.Result)
	}
	ok(t, w.Call("PUT", queuePath, token, `{"rules":[{"prefix":"in/","actions":["PutObject","CopyObject"],"description":"new"},{"suffix":".txt","actions":["DeleteObject"]}]}`))
	refused(t, "an action", w.Call("PUT", queuePath, token, `{"rules":[{"actions":["GetObject"]}]}`), 400, 10001)
	refused(t, "no action", w.Call("PUT", queuePath, token, `{"rules":[{"actions":[]}]}`), 400, 10001)
	refused(t, "no rule", w.Call("PUT", queuePath, token, `{}`), 400, 10001)
	refused(t, "a queue", w.Call("PUT", config+"/queues/none", token, `{"rules":[{"actions":["PutObject"]}]}`), 404, 10104)
	var got struct {
		Queues []struct {
			ID    string `json:"queueId"`
			Name  string `json:"queueName"`
			Rules []struct {
				ID, Created, Prefix, Suffix, Description string
				RuleID                                   string `json:"ruleId"`
				Actions                                  []string
			}
		}
	}
	if err := json.Unmarshal([]byte(ok(t, w.Call("GET", config, token, "")).Result), &got); err != nil || len(got.Queues) != 1 || got.Queues[0].ID != "id-changes" || len(got.Queues[0].Rules) != 2 {
		t.Fatalf("%+v %v", got, err)
	}
	// An object that is put through the API is told like one of a binding.
	ok(t, w.Call("PUT", objects+"/in/a.txt", token, "x"))
	ok(t, w.Call("DELETE", objects+"/in/a.txt", token, ""))
	for _, want := range []string{`"action":"PutObject","bucket":"files","object":{"key":"in/a.txt","size":1`, `"action":"DeleteObject","bucket":"files","object":{"key":"in/a.txt"}`} {
		select {
		case message := <-told:
			if !strings.HasPrefix(message, "changes ") || !strings.Contains(message, want) {
				t.Errorf("told %s", message)
			}
		case <-time.After(time.Minute):
			t.Fatal("nothing is told")
		}
	}
	refused(t, "a rule", w.Call("DELETE", queuePath, token, `{"ruleIds":["none"]}`), 400, 10001)
	first := got.Queues[0].Rules[0]
	ok(t, w.Call("DELETE", queuePath, token, `{"ruleIds":["`+first.RuleID+`"]}`))
	if r := ok(t, w.Call("GET", queuePath, token, "")); strings.Contains(r.Result, first.RuleID) || strings.Count(r.Result, "ruleId") != 1 {
		t.Error(r.Result)
	}
	ok(t, w.Call("DELETE", queuePath, token, ""))
	if r := ok(t, w.Call("GET", config, token, "")); r.Result != `{"bucketName":"files","queues":[]}` {
		t.Error(r.Result)
	}
}
