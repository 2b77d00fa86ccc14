package cloudflare_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/access"
)

// pulled is the answer to a pull.
type pulled struct {
	Backlog  int `json:"message_backlog_count"`
	Messages []struct {
		Body      string
		LeaseID   string `json:"lease_id"`
		Attempts  int
		Timestamp int64 `json:"timestamp_ms"`
		Metadata  map[string]string
	}
	Metadata struct {
		Metrics struct {
			Count int `json:"backlog_count"`
		}
	}
}

func (w *world) pull(path, token, body string) (p pulled) {
	w.t.Helper()
	text := w.result("POST", path+"/messages/pull", token, body)
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		w.t.Fatal(text)
	}
	return p
}

func TestPullConsumer(t *testing.T) {
	w := newWorld(t)
	w.serve(shop())
	token := w.token(access.Deploy, "")
	_, ids := w.names(token, "")
	path := "/" + ids["orders-dlq"]
	wantText(t, "no consumer", w.result("POST", path+"/messages/pull", token, ``),
		"400 10001 the queue orders-dlq has no consumer over HTTP — give it one with `wrangler queues consumer http add orders-dlq`")
	for body, want := range map[string]string{
		`{"type":"http_pull","settings":{"batch_size":101}}`:                 "400 100127 batch_size of 101 is outside 1 to 100",
		`{"type":"http_pull","settings":{"max_retries":101}}`:                "400 100127 max_retries of 101 is outside 0 to 100",
		`{"type":"http_pull","settings":{"visibility_timeout_ms":43200001}}`: "400 100127 visibility_timeout_ms of 43200001 is outside 1 to 43200000 ms",
		`{"type":"http_pull","settings":{"retry_delay":86401}}`:              "400 100127 retry_delay of 86401 is outside 0 to 86400 seconds",
		`{"type":"http_pull","dead_letter_queue":"orders-dlq"}`:              "400 100127 the dead-letter queue of orders-dlq cannot be itself",
		`{"type":"http_pull","dead_letter_queue":"No"}`:                      `400 100127 "No" is no queue of the database default — ` + queue.NameRule,
		`{"type":"tail"}`: `400 10026 there is no type of consumer "tail" — use worker or http_pull`,
		`{}`:              `400 10026 there is no type of consumer "" — use worker or http_pull`,
	} {
		wantText(t, body, w.result("POST", path+"/consumers", token, body), want)
	}
	made := w.result("POST", path+"/consumers", token,
		`{"type":"http_pull","settings":{"batch_size":7,"max_retries":1,"visibility_timeout_ms":60000,"retry_delay":12},"dead_letter_queue":"default/dead"}`)
	var consumer struct {
		ID string `json:"consumer_id"`
	}
	if err := json.Unmarshal([]byte(made), &consumer); err != nil {
		t.Fatal(made)
	}
	wantText(t, "made", made, `{"consumer_id":"`+consumer.ID+`","created_on":"time","dead_letter_queue":"dead","queue_name":"orders-dlq",`+
		`"settings":{"batch_size":7,"max_retries":1,"retry_delay":12,"visibility_timeout_ms":60000},"type":"http_pull"}`)
	wantText(t, "another", w.result("POST", path+"/consumers", token, `{"type":"http_pull"}`),
		"400 11004 the queue orders-dlq has a consumer over HTTP already — a queue has one consumer; remove that one first")
	wantText(t, "of a script's queue", w.result("POST", "/"+ids["orders"]+"/consumers", token, `{"type":"http_pull"}`),
		"400 11004 the queue orders has a consumer already: the script shop — a queue has one consumer; remove that one first")
	wantText(t, "pull of a script's queue", w.result("POST", "/"+ids["orders"]+"/messages/pull", token, ``),
		"400 11004 the queue orders has a consumer already: the script shop — a queue has one consumer; remove that one first")

	w.result("POST", path+"/messages/batch", token, `{"messages":[{"body":{"a":1}},{"body":"two","content_type":"text"},{"body":3},{"body":4}]}`)
	first := w.pull(path, token, `{"batch_size":2,"visibility_timeout":30000}`)
	if len(first.Messages) != 2 || first.Backlog != 4 || first.Metadata.Metrics.Count != 4 || first.Messages[0].Timestamp == 0 || first.Messages[0].Attempts != 1 ||
		first.Messages[0].Body != "eyJhIjoxfQ==" || first.Messages[1].Body != "two" || first.Messages[1].Metadata["CF-Content-Type"] != "text" {
		t.Errorf("%+v", first)
	}
	rest := w.pull(path, token, ``)
	if len(rest.Messages) != 2 || len(w.pull(path, token, `{}`).Messages) != 0 {
		t.Errorf("%+v", rest)
	}
	body := fmt.Sprintf(`{"acks":[{"lease_id":%q},{"lease_id":"x"}],"retries":[{"lease_id":%q,"delay_seconds":0}]}`, first.Messages[0].LeaseID, rest.Messages[0].LeaseID)
	wantText(t, "acks", w.result("POST", path+"/messages/ack", token, body),
		`{"ackCount":1,"retryCount":1,"warnings":{"x":"this is no lease of a message of this queue"}}`)
	again := w.pull(path, token, `{"batch_size":100,"wait_ms":30000}`)
	if len(again.Messages) != 1 || again.Messages[0].Attempts != 2 || again.Backlog != 3 {
		t.Errorf("%+v", again)
	}
	// Out of retries.
	w.result("POST", path+"/messages/ack", token, fmt.Sprintf(`{"retries":[{"lease_id":%q}]}`, again.Messages[0].LeaseID))
	_, now := w.names(token, "")
	if text := w.result("GET", "/"+now["dead"]+"/metrics", token, ""); !strings.Contains(text, `"backlog_count":1`) {
		t.Error(text)
	}
	for call, want := range map[string]string{
		`{"batch_size":0}`:            "400 10207 batch_size of 0 is outside 1 to 100",
		`{"visibility_timeout_ms":0}`: "400 10207 visibility_timeout_ms of 0 is outside 1 to 43200000 ms",
		`{"wait_ms":30001}`:           "400 10207 wait_ms of 30001 is outside 0 to 30000 ms",
	} {
		wantText(t, call, w.result("POST", path+"/messages/pull", token, call), want)
	}
	wantText(t, "a retry too late", w.result("POST", path+"/messages/ack", token, `{"retries":[{"lease_id":"x","delay_seconds":86401}]}`),
		"400 10203 delay_seconds of 86401 is outside 0 to 86400 seconds")
	w.result("PATCH", path, token, `{"settings":{"delivery_paused":true}}`)
	if text := w.result("POST", path+"/messages/pull", token, ``); !strings.HasPrefix(text, "409 10252 queue_delivery_paused: ") {
		t.Error(text)
	}
	w.result("PATCH", path, token, `{"settings":{"delivery_paused":false}}`)
	// PUT sets what is left out back.
	one := path + "/consumers/" + consumer.ID
	if text := w.result("PUT", one, token, `{"type":"http_pull"}`); !strings.Contains(text, `"dead_letter_queue":"",`) ||
		!strings.Contains(text, `{"batch_size":5,"max_retries":3,"retry_delay":0,"visibility_timeout_ms":30000}`) || !strings.Contains(text, consumer.ID) {
		t.Error(text)
	}
	wantText(t, "removed", w.result("DELETE", one, token, ""), "null")
	if text := w.result("DELETE", one, token, ""); !strings.HasPrefix(text, "404 ") {
		t.Error(text)
	}
	// Its leases are over, and an ack of one counts all the same.
	wantText(t, "late", w.result("POST", path+"/messages/ack", token, fmt.Sprintf(`{"acks":[{"lease_id":%q}]}`, rest.Messages[1].LeaseID)),
		fmt.Sprintf(`{"ackCount":1,"retryCount":0,"warnings":{%q:"the lease was over; the message is deleted"}}`, rest.Messages[1].LeaseID))
	if text := w.result("PUT", one, token, `{"type":"http_pull"}`); !strings.Contains(text, consumer.ID) {
		t.Errorf("PUT makes what is not there: %s", text)
	}
	if got := w.pull(path, token, `{"batch_size":100}`); len(got.Messages) != 1 || got.Messages[0].Attempts != 1 || got.Messages[0].Body != "two" {
		t.Errorf("%+v", got)
	}
	if text := w.result("POST", path+"/messages/pull", w.token(access.Read, ""), ``); !strings.HasPrefix(text, "403 10000 ") {
		t.Error(text)
	}
}

// TestWorkerConsumers: what the API sets of a script's consumers is a version of the script.
func TestWorkerConsumers(t *testing.T) {
	w := newWorld(t)
	w.serve(shop())
	token := w.token(access.Deploy, "")
	_, ids := w.names(token, "")
	path := "/" + ids["orders-dlq"]
	add := func(body string) string { return w.result("POST", path+"/consumers", token, body) }
	wantText(t, "no script", add(`{"type":"worker"}`), "400 10026 a consumer of the type worker names its script — send script_name")
	wantText(t, "not deployed", add(`{"type":"worker","script_name":"shop"}`), "404 10007 there is no script shop that is deployed — deploy it first")
	id := w.add("one")
	if _, e := w.call("POST", scripts+"/shop/deployments", token, `{"versions":[{"version_id":"`+id+`","percentage":100}]}`); !e.Success {
		t.Fatal(e.Errors)
	}
	// live is what the API is told that runs: what the engine deployed.
	live := func() *app.Manifest {
		t.Helper()
		one, err := w.store.App(t.Context(), "shop")
		if err != nil {
			t.Fatal(err)
		}
		v, err := w.store.Version(t.Context(), "shop", one.Live)
		if err != nil {
			t.Fatal(err)
		}
		return v.Manifest
	}
	w.queues.live = func() []*app.Manifest { return []*app.Manifest{live()} }
	made := add(`{"type":"worker","script_name":"shop","environment_name":"","settings":{"batch_size":3,"max_concurrency":2},"dead_letter_queue":"dead"}`)
	if !strings.Contains(made, `"script":"shop"`) || !strings.Contains(made, `"batch_size":3,"max_concurrency":2,"max_retries":3,"max_wait_time_ms":5000,"retry_delay":0`) {
		t.Fatal(made)
	}
	want := queue.Consumer{
		Queue: "orders-dlq", BatchSize: 3, BatchTimeout: 5 * time.Second, MaxRetries: 3, MaxConcurrency: 2, DeadLetterQueue: "dead",
		HandlerTime: 15 * time.Minute, Retention: queue.DefaultRetention,
	}
	if diff := cmp.Diff([]queue.Consumer{want}, live().Consumers); diff != "" {
		t.Error(diff)
	}
	versions, err := w.store.Versions(t.Context(), "shop", 0, 10)
	if err != nil || len(versions) != 2 || versions[0].Message != "consumer of orders-dlq set through the API" || !versions[0].Live {
		t.Errorf("%+v %v", versions, err)
	}
	var consumer struct {
		ID string `json:"consumer_id"`
	}
	if err := json.Unmarshal([]byte(made), &consumer); err != nil {
		t.Fatal(err)
	}
	one := path + "/consumers/" + consumer.ID
	same := `{"type":"worker","script_name":"shop","settings":{"batch_size":3,"max_concurrency":2},"dead_letter_queue":"dead"}`
	if text := w.result("PUT", one, token, same); !strings.Contains(text, consumer.ID) {
		t.Error(text)
	}
	if versions, _ := w.store.Versions(t.Context(), "shop", 0, 10); len(versions) != 2 {
		t.Errorf("a change that is none made a version: %d", len(versions))
	}
	wantText(t, "of another script", w.result("PUT", one, token, `{"type":"worker","script_name":"other"}`),
		"400 11004 the queue orders-dlq has a consumer already: the script shop, and other cannot consume it too — a queue has one consumer; remove that one first")
	if text := w.result("PUT", one, token, `{"type":"worker","script_name":"shop"}`); !strings.Contains(text, `"batch_size":10,"max_concurrency":null`) {
		t.Error(text)
	}
	if text := w.result("DELETE", one, w.token(access.Deploy, "other"), ""); !strings.HasPrefix(text, "403 10000 ") {
		t.Error(text)
	}
	wantText(t, "removed", w.result("DELETE", one, token, ""), "null")
	if got := live(); len(got.Consumers) != 0 || len(got.Producers) != 1 {
		t.Errorf("%+v", got)
	}
}

func TestCreateQueue(t *testing.T) {
	w := newWorld(t)
	w.serve(shop(), crawl("spider"))
	token := w.token(access.Deploy, "")
	made := w.result("POST", "", token, `{"queue_name":"mails","settings":{"delivery_delay":5,"message_retention_period":86400}}`)
	if !strings.Contains(made, `"queue_name":"mails","settings":{"delivery_delay":5,"delivery_paused":false,"message_retention_period":86400}`) ||
		!strings.Contains(made, `"producers":[],"producers_total_count":0`) {
		t.Error(made)
	}
	if text := w.result("POST", "", token, `{"queue_name":"spider/mails"}`); !strings.Contains(text, `"queue_name":"spider/mails"`) {
		t.Error(text)
	}
	for body, want := range map[string]string{
		`{"queue_name":"mails"}`: "400 11009 there is a queue default/mails already — choose another name, or use that one",
		`{"queue_name":"No_"}`:   `400 11003 "No_" is no queue name — ` + queue.NameRule,
		`{}`:                     `400 11003 "" is no queue name — ` + queue.NameRule,
		`{"queue_name":"late","settings":{"delivery_delay":-1}}`: "400 100128 delivery_delay of -1 is outside 0 to 86400 seconds",
	} {
		wantText(t, body, w.result("POST", "", token, body), want)
	}
	all, ids := w.names(token, "?name=mails&name=late")
	wantText(t, "made", strings.Join(all, " "), "mails")
	if text := w.result("POST", "", w.token(access.Deploy, "shop"), `{"queue_name":"x"}`); !strings.HasPrefix(text, "403 10000 ") {
		t.Error(text)
	}
	if text := w.result("DELETE", "/"+ids["mails"], w.token(access.Deploy, "shop"), ""); !strings.HasPrefix(text, "403 10000 ") {
		t.Error(text)
	}
	wantText(t, "delete", w.result("DELETE", "/"+ids["mails"], token, ""), "null")
	wantText(t, "gone", w.result("GET", "/"+ids["mails"], token, ""), "404 10104 there is no queue with the id "+ids["mails"]+" — list the queues for their ids")
	if all, _ := w.names(token, "?name=default/mails"); len(all) != 0 {
		t.Errorf("there is still %v", all)
	}
	_, ids = w.names(token, "?name=orders&name=orders-dlq")
	wantText(t, "in use", w.result("DELETE", "/"+ids["orders"], token, ""),
		"400 10064 the queue orders cannot be deleted: shop sends to it as env.A; shop sends to it as env.B; shop consumes it — deploy those apps without it, or delete them; `runlot queue purge orders` empties it")
	wantText(t, "dead letters", w.result("DELETE", "/"+ids["orders-dlq"], token, ""),
		"400 10064 the queue orders-dlq cannot be deleted: shop leaves the dead letters of orders there — deploy those apps without it, or delete them; `runlot queue purge orders-dlq` empties it")
}
