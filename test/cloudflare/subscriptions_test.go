package cloudflare_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/client/subscriptions"
	"github.com/runlot/runlot/internal/server/cloudflare/queues"
)

// event is a message about an event, as far as the tests look at it.
type event struct {
	Type     string            `json:"type"`
	Source   map[string]string `json:"source"`
	Payload  map[string]any    `json:"payload"`
	Metadata struct {
		Account      string `json:"accountId"`
		Subscription string `json:"eventSubscriptionId"`
		Version      int    `json:"eventSchemaVersion"`
		Timestamp    string `json:"eventTimestamp"`
	} `json:"metadata"`
}

// events waits until a queue has this many messages, and returns them.
func (h *house) events(queueName string, n int) []event {
	h.t.Helper()
	var list []event
	h.wait("events in "+queueName, func() (string, bool) {
		page, err := h.Peek(h.t.Context(), "default", queueName, "", "", 100)
		if err != nil {
			h.t.Fatal(err)
		}
		list = make([]event, len(page.Items))
		for i := range page.Items {
			if err := json.Unmarshal(page.Items[i].Body, &list[i]); err != nil {
				h.t.Fatalf("%s: %v", page.Items[i].Body, err)
			}
		}
		return fmt.Sprint(list), len(list) >= n
	})
	return list
}

// post makes a call of Cloudflare's that has to work, and returns the answer.
func (h *house) post(path, body string) string {
	h.t.Helper()
	r, err := http.NewRequestWithContext(h.t.Context(), http.MethodPost, h.ready.Operator+"/client/v4/accounts/local"+path, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+h.token)
	c := &http.Client{Transport: &http.Transport{}, Timeout: waitTime}
	defer c.CloseIdleConnections()
	response, err := c.Do(r)
	if err != nil {
		h.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		h.t.Fatalf("POST %s: %s, %s, %v", path, response.Status, text, err)
	}
	return string(text)
}

// TestWranglerSubscriptions: every command of wrangler about event subscriptions, and the messages that come of them.
func TestWranglerSubscriptions(t *testing.T) {
	t.Parallel()
	h := open(t, "shop")
	for _, name := range []string{"told", "jobs", "dead"} {
		h.wrangler("queues create " + name)
	}
	h.wrangler("queues subscription list told", "No event subscriptions found")
	h.refused("queues subscription create told --source r2 --events bucket.created", `no event source "r2" here`, "workersBuilds.worker")
	h.refused("queues subscription create told --source workersBuilds.worker --worker-name shop --events build.succeeded", "Unrecognized event types: build.succeeded", "version.deployed")
	out := h.wrangler("queues subscription create told --source workersBuilds.worker --worker-name shop --events version.uploaded,version.deployed,script.deleted --name mine",
		"Successfully created event subscription 'mine'")
	id := regexp.MustCompile(`with id '([0-9a-f-]{36})'`).FindStringSubmatch(out)[1]
	h.wrangler("queues subscription list told", id, "mine", "workersBuilds.worker", "shop", "Yes")
	h.wrangler("queues subscription list jobs", "No event subscriptions found")
	h.wrangler("queues subscription get told --id "+id, "mine", "workersBuilds.worker", "script.deleted, version.deployed, version.uploaded")
	h.wrangler("queues subscription update told --id "+id+" --name ours --events version.deployed", "Successfully updated event subscription 'ours'")
	h.refused("queues subscription get jobs --id "+id, "does not belong to queue 'jobs'")

	u, err := h.Upload(t.Context(), &client.Upload{
		App: "shop", ConfigFile: "wrangler.json",
		Config: []byte(`{"name": "shop", "main": "a.js", "compatibility_date": "2026-04-01", "queues": {"consumers": [
			{"queue": "jobs", "max_batch_timeout": 0, "max_retries": 0, "dead_letter_queue": "dead"}]}}`),
		Modules: []client.Module{{Name: "main.mjs", Kind: "esModule", Body: []byte(`export default { queue() { throw new Error("no luck"); } }`)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Deploy(t.Context(), "shop", &client.Deploy{Version: u.Version.ID, Message: "first"}); err != nil {
		t.Fatal(err)
	}
	e := h.events("told", 1)[0]
	if e.Type != "cf.workersBuilds.worker.version.deployed" || e.Source["workerName"] != "shop" || e.Metadata.Account != "local" || e.Metadata.Subscription != id ||
		e.Metadata.Version != 1 || e.Metadata.Timestamp == "" || e.Payload["versionId"] != u.Version.ID || e.Payload["message"] != "first" {
		t.Errorf("%+v", e)
	}
	h.wrangler("queues subscription delete told --id "+id+" --force", "Successfully deleted event subscription 'ours'")
	h.wrangler("queues subscription list told", "No event subscriptions found")

	// What wrangler has no word for is asked for over HTTP, as its SDK does.
	made := h.post("/event_subscriptions/subscriptions", `{"source": {"type": "queues.queue", "queue_id": "`+queues.ID("default", "jobs")+`"},
		"destination": {"type": "queues.queue", "queue_id": "`+queues.ID("default", "told")+`"}, "events": ["message.dead_lettered"]}`)
	has(t, "the subscription", made, `"name":"told queues.queue"`)
	h.wrangler("queues subscription list told", "queues.queue", "message.dead_lettered")
	if _, err := h.Send(t.Context(), "default", "jobs", []client.Draft{{Body: []byte(`"bad"`)}}); err != nil {
		t.Fatal(err)
	}
	h.wrangler("queues create watched")
	h.post("/event_subscriptions/subscriptions", `{"source": {"type": "workers.script"}, "destination": {"type": "queues.queue", "queue_id": "`+queues.ID("default", "watched")+`"},
		"events": ["script.deleted"]}`)
	h.wrangler("queues delete watched")
	h.wait("the subscription goes with its queue", func() (string, bool) {
		list, err := subscriptions.List(t.Context(), h.Client, "", "")
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(list), len(list) == 1
	})
	e = h.events("told", 2)[1]
	letters, _ := e.Payload["messages"].([]any)
	if e.Type != "cf.queues.queue.message.dead_lettered" || e.Source["queueName"] != "jobs" || len(letters) != 1 || !strings.Contains(fmt.Sprint(letters), "no luck") {
		t.Errorf("%+v", e)
	}
}
