package cloudflare_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/internal/adapter/memory"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/daemon/claims"
	"github.com/runlot/runlot/internal/daemon/pulls"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/broker"
	"github.com/runlot/runlot/internal/engine/broker/store"
	"github.com/runlot/runlot/internal/server/cloudflare/queues"
)

// brokers are those of databases in memory, and what apps declare about their queues.
type brokers struct {
	names     []string
	byName    map[string]*broker.Broker
	manifests []*app.Manifest
	pulls     *pulls.Keeper
	live      func() []*app.Manifest // in place of manifests, when it is set
}

func (b *brokers) Databases() []string { return b.names }

func (b *brokers) Manifests() []*app.Manifest {
	if b.live != nil {
		return b.live()
	}
	return b.manifests
}

func (b *brokers) Database(ctx context.Context, name string) (queues.Database, error) {
	if one := b.byName[name]; one != nil {
		return queues.Database{Broker: one, Puller: b.pulls.Engine(ctx, one)}, nil
	}
	return queues.Database{}, fault.New(fault.Unavailable, queue.CodeOverloaded, "the database %s does not answer", name)
}

func (b *brokers) RemoveQueue(ctx context.Context, database, queueName string) (store.Count, error) {
	done, err := claims.New[named]().Remove(database, queueName, b.Manifests)
	if err != nil {
		return store.Count{}, err
	}
	defer done()
	return b.byName[database].RemoveQueue(ctx, queueName, nil)
}

// named is an app that claims.
type named string

func (n named) Name() string { return string(n) }

// serve runs a broker for each database that the manifests name.
func (w *world) serve(manifests ...*app.Manifest) {
	w.t.Helper()
	w.queues.manifests, w.queues.byName, w.queues.pulls = manifests, map[string]*broker.Broker{}, pulls.New([]byte("key"))
	w.t.Cleanup(w.queues.pulls.Wait)
	for _, m := range manifests {
		b := w.queues.byName[m.Database]
		if b == nil {
			b = broker.New(broker.Options{Store: memory.NewDatabase().Open()})
			if err := b.Start(w.t.Context()); err != nil {
				w.t.Fatal(err)
			}
			w.t.Cleanup(func() { _ = b.Stop(context.Background()) })
			<-b.Counted()
			w.queues.names = append(w.queues.names, m.Database)
			w.queues.byName[m.Database] = b
		}
		if err := b.Declare(w.t.Context(), m.Queues()); err != nil {
			w.t.Fatal(err)
		}
	}
	slices.Sort(w.queues.names)
}

func shop() *app.Manifest {
	return &app.Manifest{
		Name: "shop", Dialect: queue.Wrangler, Database: "default", Producers: []app.Producer{{Binding: "A", Queue: "orders"}, {Binding: "B", Queue: "orders"}},
		Consumers: []queue.Consumer{{
			Queue: "orders", BatchSize: 7, BatchTimeout: 4 * time.Second, MaxRetries: 9, DeadLetterQueue: "orders-dlq", MaxConcurrency: 3,
			Backoff: queue.Backoff{First: 12 * time.Second, Max: 12 * time.Second},
		}},
	}
}

// crawl is an app of a database of its own, which has a queue of the same name as shop's.
func crawl(database string) *app.Manifest {
	return &app.Manifest{
		Name: "crawl-" + database, Dialect: queue.Runlot, Database: database, Producers: []app.Producer{{Binding: "A", Queue: "orders"}, {Binding: "B", Queue: "pages"}},
		Consumers: []queue.Consumer{{Queue: "pages", BatchSize: 10, BatchTimeout: 5 * time.Second, MaxRetries: 3}},
	}
}

const queuesPath = "/accounts/local/queues"

// names lists the queues by name, with the id of each.
func (w *world) names(token, query string) (list []string, ids map[string]string) {
	w.t.Helper()
	status, e := w.call("GET", queuesPath+query, token, "")
	if status != http.StatusOK {
		w.t.Fatalf("%d %+v", status, e.Errors)
	}
	var queues []struct {
		ID   string `json:"queue_id"`
		Name string `json:"queue_name"`
	}
	if err := json.Unmarshal(e.Result, &queues); err != nil {
		w.t.Fatal(err)
	}
	ids = map[string]string{}
	for _, q := range queues {
		list = append(list, q.Name)
		ids[q.Name] = q.ID
	}
	return list, ids
}

var times = regexp.MustCompile(`"20\d\d-[^"]+Z"`)

// result is what a call answers, without its times.
func (w *world) result(method, path, token, body string) string {
	w.t.Helper()
	status, e := w.call(method, queuesPath+path, token, body)
	if status != http.StatusOK {
		return fmt.Sprintf("%d %d %s", status, e.Errors[0].Code, e.Errors[0].Message)
	}
	return times.ReplaceAllString(string(e.Result), `"time"`)
}

func wantText(t *testing.T, what, got, want string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func pretty(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(text), "", "  "); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return b.String()
}

func TestQueuesAreListed(t *testing.T) {
	w := newWorld(t)
	w.serve(shop(), crawl("spider"), crawl("ant"))
	token := w.token(access.Read, "")
	all, ids := w.names(token, "")
	wantText(t, "all", strings.Join(all, " "), "orders orders-dlq ant/orders ant/pages spider/orders spider/pages")
	for query, want := range map[string]string{
		"?name=orders":                              "orders",
		"?page=1&name=orders-dlq&name=orders":       "orders-dlq orders",
		"?name=orders&name=orders&name=none":        "orders",
		"?name=none":                                "",
		"?name=spider%2Forders&name=default/orders": "spider/orders orders",
		"?page=2&per_page=4":                        "spider/orders spider/pages",
		"?page=9":                                   "",
	} {
		got, _ := w.names(token, query)
		wantText(t, query, strings.Join(got, " "), want)
	}
	wantText(t, "two meanings", w.result("GET", "?name=pages", token, ""), "400 11003 2 databases have a queue pages — call it ant/pages or spider/pages")
	scoped := w.token(access.Read, "crawl-ant")
	got, _ := w.names(scoped, "")
	wantText(t, "those of a token", strings.Join(got, " "), "ant/orders ant/pages")
	if text := w.result("GET", "/"+ids["orders"], scoped, ""); !strings.HasPrefix(text, "403 10000 ") || !strings.Contains(text, "default/orders") {
		t.Error(text)
	}
	// The same ids after a restart, from another instance of the API.
	if _, again := newWorldLike(t, w).names(token, ""); !cmp.Equal(ids, again) {
		t.Errorf("ids %v, then %v", ids, again)
	}
	w.queues.names = append(w.queues.names, "away")
	if text := w.result("GET", "", token, ""); !strings.HasPrefix(text, "429 10250 ") {
		t.Errorf("a database that does not answer: %s", text)
	}
}

// newWorldLike is an API over the same stores.
func newWorldLike(t *testing.T, w *world) *world {
	t.Helper()
	again := newWorld(t)
	again.queues.names, again.queues.byName, again.queues.manifests = w.queues.names, w.queues.byName, w.queues.manifests
	again.queues.pulls = w.queues.pulls
	again.api = again.over(w.access)
	return again
}

func TestAQueueIsDescribed(t *testing.T) {
	w := newWorld(t)
	w.serve(shop(), crawl("default"))
	token := w.token(access.Deploy, "")
	_, ids := w.names(token, "")
	want := `{
  "consumers": [
    {
      "consumer_id": "CONSUMER",
      "created_on": "time",
      "dead_letter_queue": "orders-dlq",
      "queue_name": "orders",
      "script": "shop",
      "script_name": "shop",
      "settings": {
        "batch_size": 7,
        "max_concurrency": 3,
        "max_retries": 9,
        "max_wait_time_ms": 4000,
        "retry_delay": 12
      },
      "type": "worker"
    }
  ],
  "consumers_total_count": 1,
  "created_on": "time",
  "modified_on": "time",
  "producers": [
    {
      "script": "shop",
      "type": "worker"
    },
    {
      "script": "crawl-default",
      "type": "worker"
    }
  ],
  "producers_total_count": 2,
  "queue_id": "` + ids["orders"] + `",
  "queue_name": "orders",
  "settings": {
    "delivery_delay": 0,
    "delivery_paused": false,
    "message_retention_period": 345600
  }
}`
	var consumers []struct {
		ID string `json:"consumer_id"`
	}
	path := "/" + ids["orders"] + "/consumers"
	if err := json.Unmarshal([]byte(w.result("GET", path, token, "")), &consumers); err != nil || len(consumers) != 1 {
		t.Fatal(err, consumers)
	}
	want = strings.Replace(want, "CONSUMER", consumers[0].ID, 1)
	wantText(t, "queue", pretty(t, w.result("GET", "/"+ids["orders"], token, "")), want)
	if text := w.result("GET", path+"/"+consumers[0].ID, token, ""); !strings.Contains(text, `"script":"shop"`) {
		t.Error(text)
	}
	wantText(t, "no such consumer", w.result("GET", path+"/00", token, ""), "404 10001 the queue has no consumer with the id 00 — list the consumers for their ids")
	wantText(t, "without a consumer", w.result("GET", "/"+ids["orders-dlq"]+"/consumers", token, ""), "[]")
	wantText(t, "no such queue", w.result("GET", "/0123", token, ""), "404 10104 there is no queue with the id 0123 — list the queues for their ids")
	// A consumer whose concurrency is automatic has none.
	if text := w.result("GET", "/"+ids["pages"], token, ""); !strings.Contains(text, `"max_concurrency":null`) || !strings.Contains(text, `"dead_letter_queue":""`) {
		t.Error(text)
	}
}

func TestSettings(t *testing.T) {
	w := newWorld(t)
	w.serve(shop())
	token := w.token(access.Deploy, "")
	_, ids := w.names(token, "")
	path := "/" + ids["orders"]
	settings := func() string {
		var q struct{ Settings json.RawMessage }
		if err := json.Unmarshal([]byte(w.result("GET", path, token, "")), &q); err != nil {
			t.Fatal(err)
		}
		return string(q.Settings)
	}
	for _, step := range []struct{ method, body, want string }{
		{"PATCH", `{"queue_name":"orders","settings":{"delivery_delay":5}}`, `{"delivery_delay":5,"delivery_paused":false,"message_retention_period":345600}`},
		{"PATCH", `{"settings":{"delivery_paused":true,"message_retention_period":86400}}`, `{"delivery_delay":5,"delivery_paused":true,"message_retention_period":86400}`},
		{"PATCH", `{"queue_name":"default/orders"}`, `{"delivery_delay":5,"delivery_paused":true,"message_retention_period":86400}`},
		{"PUT", `{"queue_name":"orders","settings":{"delivery_delay":7}}`, `{"delivery_delay":7,"delivery_paused":false,"message_retention_period":345600}`},
	} {
		if got := w.result(step.method, path, token, step.body); strings.HasPrefix(got, "4") {
			t.Error(got)
		}
		wantText(t, step.method+" "+step.body, settings(), step.want)
	}
	before := settings()
	for body, want := range map[string]string{
		`{"queue_name":"other"}`:                                "400 11003 a queue cannot be renamed here: orders stays orders — deploy with another queue, and move what waits with `runlot queue redrive orders --to other`",
		`{"settings":{"delivery_delay":86401}}`:                 "400 100128 delivery_delay of 86401 is outside 0 to 86400 seconds",
		`{"settings":{"delivery_delay":1.5}}`:                   "400 100128 delivery_delay of 1.5 is outside 0 to 86400 seconds",
		`{"settings":{"message_retention_period":59}}`:          "400 100128 message_retention_period of 59 is outside 60 to 1209600 seconds",
		`{"settings":{"delivery_delay":1,"delivery_paused":1}}`: "400 10207 the body is not the JSON that this call takes",
		`{`: "400 10208 the body is no JSON",
	} {
		wantText(t, body, w.result("PATCH", path, token, body), want)
	}
	wantText(t, "after refusals", settings(), before)
	if text := w.result("PATCH", path, w.token(access.Read, ""), `{}`); !strings.HasPrefix(text, "403 10000 ") {
		t.Error(text)
	}
	events, err := w.store.Events(t.Context(), "shop", 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	kinds := make([]string, len(events))
	for i := range events {
		kinds[len(events)-1-i] = events[i].Kind
	}
	wantText(t, "events", strings.Join(kinds, " "), "queue.delay_set queue.paused queue.retention_set queue.resumed queue.retention_set queue.delay_set")
	// The delay of the queue is that of a message which names none.
	w.result("POST", path+"/messages", token, `{"body":1}`)
	w.result("POST", path+"/messages", token, `{"body":2,"delay_seconds":0}`)
	o, err := w.queues.byName["default"].Overview(t.Context(), "orders")
	if err != nil || o.Delayed != 1 || o.Visible != 1 {
		t.Errorf("%+v %v", o, err)
	}
}

func TestMessages(t *testing.T) {
	w := newWorld(t)
	w.serve(shop())
	token := w.token(access.Deploy, "shop")
	_, ids := w.names(token, "")
	path := "/" + ids["orders"]
	large := strings.Repeat("x", 128_000)
	for _, step := range []struct{ call, body, want string }{
		{"", `{"body":{"a": 1}}`, ""},
		{"", `{"body":"good morning","content_type":"text","delay_seconds":0}`, ""},
		{"", `{"body":"` + large + `","content_type":"text"}`, ""},
		{"/batch", `{"messages":[{"body":null},{"body":"AP8=","content_type":"bytes"}],"delay_seconds":3600}`, ""},
		{"", `{"body":"` + large + `x","content_type":"text"}`, "400 10204 message 0: message length of 128001 bytes exceeds limit of 128000"},
		{"", `{}`, "400 10207 message 0: there is no body"},
		{"", `{"body":1,"content_type":"v8"}`, `400 10203 message 0: unknown content_type "v8" — use json, text or bytes`},
		{"", `{"body":1,"content_type":"text"}`, "400 10207 message 0: a body of the content_type text is a string"},
		{"", `{"body":"?","content_type":"bytes"}`, "400 10207 message 0: a body of the content_type bytes is in base64"},
		{"", `{"body":1,"delay_seconds":86401}`, "400 10203 message 0: delay_seconds of 86401 is outside 0 to 86400 seconds"},
		{"", `{"body":`, "400 10208 the body is no JSON"},
		{"/batch", `{"messages":[]}`, "400 10206 batch message count of 0 is below the minimum of 1"},
		{"/batch", `{"messages":[` + strings.Repeat(`{"body":1},`, 100) + `{"body":1}]}`, "400 10206 batch message count of 101 exceeds limit of 100"},
		{"/batch", `{"messages":[{"body":1},{"body":1,"delay_seconds":-1}]}`, "400 10203 message 1: delay_seconds of -1 is outside 0 to 86400 seconds"},
		{"/batch", `{"messages":[{"body":1}],"delay_seconds":-1}`, "400 10202 delay_seconds of -1 is outside 0 to 86400 seconds"},
	} {
		got := w.result("POST", path+"/messages"+step.call, token, step.body)
		if ok := strings.HasPrefix(got, `{"metadata":{"metrics":{"backlog_bytes":`); step.want == "" && !ok || step.want != "" && got != step.want {
			t.Errorf("%.80s: %s, want %s", step.body, got, step.want)
		}
	}
	var metrics struct {
		Count  int   `json:"backlog_count"`
		Bytes  int   `json:"backlog_bytes"`
		Oldest int64 `json:"oldest_message_timestamp_ms"`
	}
	if err := json.Unmarshal([]byte(w.result("GET", path+"/metrics", token, "")), &metrics); err != nil || metrics.Count != 5 || metrics.Bytes != 128_000+7+12+4+2 || metrics.Oldest == 0 {
		t.Errorf("%+v %v", metrics, err)
	}
	type message struct {
		Body, Ref string
		Attempts  int
		Metadata  map[string]string
	}
	peek := func(body string) (list []message) {
		t.Helper()
		var out struct{ Messages []message }
		if err := json.Unmarshal([]byte(w.result("POST", path+"/messages/peek", token, body)), &out); err != nil {
			t.Fatal(err)
		}
		return out.Messages
	}
	all := peek(`{"batch_size":100}`)
	got := make([]string, len(all))
	for i, m := range all {
		got[i] = fmt.Sprintf("%.12s %s %d", m.Body, m.Metadata["CF-Content-Type"], m.Attempts)
	}
	if diff := cmp.Diff([]string{"eyJhIjoxfQ== json 0", "good morning text 0", "xxxxxxxxxxxx text 0", "bnVsbA== json 0", "AP8= bytes 0"}, got); diff != "" {
		t.Error(diff)
	}
	if len(peek(``)) != 5 || len(peek(`{"batch_size":2}`)) != 2 {
		t.Error("the size of a peek does not count")
	}
	wantText(t, "too many", w.result("POST", path+"/messages/peek", token, `{"batch_size":101}`), "400 10207 batch_size of 101 is outside 1 to 100")
	refs := `{"refs":[{"ref":"` + all[0].Ref + `"},{"ref":"` + all[3].Ref + `"},{"ref":"00"}]}`
	wantText(t, "purge of refs", w.result("POST", path+"/messages/purge", token, refs), `{"errors":[{"message":"\"00\" is no ref of a peeked message"}],"warnings":{}}`)
	wantText(t, "again", w.result("POST", path+"/messages/purge", token, `{"refs":[{"ref":"`+all[0].Ref+`"}]}`),
		`{"errors":[],"warnings":{"`+all[0].Ref+`":"the queue no longer has the message"}}`)
	if left := peek(``); len(left) != 3 || left[0].Ref != all[1].Ref {
		t.Errorf("%+v", left)
	}
	reader := w.token(access.Read, "shop")
	if text := w.result("POST", path+"/messages", reader, `{"body":1}`); !strings.HasPrefix(text, "403 10000 ") {
		t.Error(text)
	}
	if text := w.result("POST", path+"/messages/peek", reader, `{}`); !strings.HasPrefix(text, `{"messages":[{`) {
		t.Error(text)
	}
}

func TestPurge(t *testing.T) {
	w := newWorld(t)
	w.serve(shop())
	token := w.token(access.Deploy, "")
	_, ids := w.names(token, "")
	path := "/" + ids["orders"]
	w.result("POST", path+"/messages/batch", token, `{"messages":[{"body":1},{"body":2,"delay_seconds":60}]}`)
	wantText(t, "status before", w.result("GET", path+"/purge", token, ""), `{"completed":"","started_at":""}`)
	if text := w.result("POST", path+"/purge", token, `{}`); !strings.HasPrefix(text, "400 10207 ") {
		t.Error(text)
	}
	if text := w.result("POST", path+"/purge", token, `{"delete_messages_permanently":true}`); !strings.Contains(text, `"queue_name":"orders"`) {
		t.Error(text)
	}
	// What is left to be deleted is the broker's, also when it is called again.
	if _, err := w.queues.byName["default"].Purge(t.Context(), "orders", nil); err != nil {
		t.Fatal(err)
	}
	wantText(t, "status after", w.result("GET", path+"/purge", token, ""), `{"completed":"true","started_at":"time"}`)
	wantText(t, "what is left", w.result("POST", path+"/messages/peek", token, ``), `{"messages":[]}`)
}
