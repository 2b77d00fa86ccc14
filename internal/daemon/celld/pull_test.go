package celld_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/runlot/runlot/client"
)

// cloudflare makes a call of Cloudflare's API and reads its result; it returns the message of an error.
func (i *instance) cloudflare(method, path, body string, result any) string {
	i.t.Helper()
	token, err := os.ReadFile(filepath.Join(i.data, "admin-token"))
	if err != nil {
		i.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(i.t.Context(), method, i.ready.Operator+"/client/v4/accounts/local/queues"+path, strings.NewReader(body))
	if err != nil {
		i.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+string(bytes.TrimSpace(token)))
	c := &http.Client{Transport: &http.Transport{}, Timeout: waitTime}
	defer c.CloseIdleConnections()
	response, err := c.Do(r)
	if err != nil {
		i.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		i.t.Fatal(err)
	}
	var e struct {
		Success bool
		Errors  []struct{ Message string }
		Result  json.RawMessage
	}
	if err := json.Unmarshal(text, &e); err != nil {
		i.t.Fatalf("%s %s: %s", method, path, text)
	}
	if !e.Success {
		return e.Errors[0].Message
	}
	if result != nil {
		if err := json.Unmarshal(e.Result, result); err != nil {
			i.t.Fatalf("%s %s: %s", method, path, e.Result)
		}
	}
	return ""
}

// queueID makes a queue with a consumer over HTTP, where no app names it, and returns its id.
func (i *instance) queueID(name string) string {
	i.t.Helper()
	var q struct {
		ID string `json:"queue_id"`
	}
	if text := i.cloudflare("POST", "", `{"queue_name":"`+name+`"}`, &q); text != "" {
		i.t.Fatal(text)
	}
	if text := i.cloudflare("POST", "/"+q.ID+"/consumers", `{"type":"http_pull"}`, nil); text != "" {
		i.t.Fatal(text)
	}
	return q.ID
}

type pulled struct {
	Messages []struct {
		ID       string
		Body     string
		Attempts int
		Lease    string `json:"lease_id"`
	}
}

// TestPullAcrossARestart: a queue of no app is filled and drained over HTTP, and what was pulled before a restart is acked
// after it.
func TestPullAcrossARestart(t *testing.T) {
	i := start(t, t.TempDir(), 0)
	path := "/" + i.queueID("outside")
	i.cloudflare("POST", path+"/messages/batch", `{"messages":[{"body":"a","content_type":"text"},{"body":"b","content_type":"text"}]}`, nil)
	var before pulled
	if text := i.cloudflare("POST", path+"/messages/pull", `{"batch_size":2,"visibility_timeout_ms":3600000}`, &before); text != "" || len(before.Messages) != 2 {
		t.Fatal(text, before)
	}
	i.stop()

	i = start(t, i.data, 0)
	var acked struct {
		Count    int `json:"ackCount"`
		Warnings map[string]string
	}
	text := i.cloudflare("POST", path+"/messages/ack", `{"acks":[{"lease_id":"`+before.Messages[0].Lease+`"}]}`, &acked)
	if text != "" || acked.Count != 1 || !strings.Contains(acked.Warnings[before.Messages[0].Lease], "deleted") {
		t.Errorf("%s %+v", text, acked)
	}
	var after pulled
	if text := i.cloudflare("POST", path+"/messages/pull", `{"batch_size":2}`, &after); text != "" || len(after.Messages) != 1 ||
		after.Messages[0].ID != before.Messages[1].ID || after.Messages[0].Attempts != 1 {
		t.Errorf("%s %+v", text, after)
	}
	// A version that would consume the queue is refused.
	app := upload("greeter", "hi", "http://127.0.0.1:1")
	app.Config = []byte(`{"name": "greeter", "main": "a.js", "database": "default", "compatibilityDate": "2026-11-01", "queues": {
		"producers": [{"binding": "JOBS", "queue": "outside"}], "consumers": [{"queue": "outside"}]}}`)
	if _, err := i.Upload(t.Context(), app); err == nil || !strings.Contains(err.Error(), "consumer over HTTP") {
		t.Errorf("a second consumer: %v", err)
	}
	// One that declares to be drained over HTTP is drained, and a script becomes a consumer by a version of it.
	app.Config = []byte(`{"name": "greeter", "main": "a.js", "database": "default", "compatibilityDate": "2026-11-01", "queues": {
		"producers": [{"binding": "JOBS", "queue": "jobs"}], "consumers": [{"queue": "jobs", "type": "http_pull"}]}}`)
	u, err := i.Upload(t.Context(), app)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := i.Deploy(t.Context(), "greeter", &client.Deploy{Version: u.Version.ID}); err != nil {
		t.Fatal(err)
	}
	i.until("greeter", "live")
	var found []struct {
		ID        string `json:"queue_id"`
		Consumers []struct {
			ID   string `json:"consumer_id"`
			Type string
		}
	}
	if text := i.cloudflare("GET", "?name=jobs", "", &found); text != "" || len(found) != 1 || len(found[0].Consumers) != 1 || found[0].Consumers[0].Type != "http_pull" {
		t.Fatalf("%s %+v", text, found)
	}
	jobs := "/" + found[0].ID
	i.cloudflare("POST", jobs+"/messages", `{"body":1}`, nil)
	if text := i.cloudflare("POST", jobs+"/messages/pull", `{"wait_ms":10000}`, &after); text != "" || len(after.Messages) != 1 || after.Messages[0].Body != "MQ==" {
		t.Errorf("%s %+v", text, after)
	}
	if text := i.cloudflare("DELETE", jobs+"/consumers/"+found[0].Consumers[0].ID, "", nil); text != "" {
		t.Fatal(text)
	}
	var made struct{ Script string }
	if text := i.cloudflare("POST", jobs+"/consumers", `{"type":"worker","script_name":"greeter"}`, &made); text != "" || made.Script != "greeter" {
		t.Errorf("%s %+v", text, made)
	}
	if text := i.cloudflare("POST", jobs+"/messages/pull", ``, nil); !strings.Contains(text, "the script greeter") {
		t.Error(text)
	}
}
