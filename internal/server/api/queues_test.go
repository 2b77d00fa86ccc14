package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/adapter/postgres"
	"github.com/runlot/runlot/internal/adapter/postgres/cluster/clustertest"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/daemon/history"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/broker"
	"github.com/runlot/runlot/internal/engine/ledger"
	"github.com/runlot/runlot/internal/engine/series"
	"github.com/runlot/runlot/internal/server/api/reach"
)

// queues are brokers over real databases, and what apps declare about them.
type queues struct {
	names     []string
	databases map[string]reach.Database
	manifests []*app.Manifest
	recorders map[string]*series.Recorder
	url       string // of the database that serve opens
}

func (q *queues) Databases() []string        { return q.names }
func (q *queues) Manifests() []*app.Manifest { return q.manifests }

func (q *queues) Known(string) bool { return true }

func (q *queues) Open(context.Context, string) error { return nil }

func (q *queues) DatabaseURL(context.Context, string) (string, error) { return q.url, nil }

func (q *queues) Series(name string) *series.Recorder { return q.recorders[name] }

func (q *queues) Database(_ context.Context, name string) (reach.Database, error) {
	if db, ok := q.databases[name]; ok {
		return db, nil
	}
	return reach.Database{}, fault.New(fault.Unavailable, queue.CodeOverloaded, "the database %s does not answer", name)
}

// manifest consumes consumed, with dead letters in its own queue "-dead", and sends to produced.
func manifest(name, consumed, produced string) *app.Manifest {
	return &app.Manifest{
		Name: name, Database: "db", Producers: []app.Producer{{Binding: "OUT", Queue: produced}},
		Consumers: []queue.Consumer{{Queue: consumed, BatchSize: 10, BatchTimeout: time.Second, MaxRetries: 3, DeadLetterQueue: consumed + "-dead"}},
	}
}

// serve opens the database "db" with the queues of two apps.
func (w *world) serve() (*broker.Broker, *ledger.Ledger) {
	w.t.Helper()
	log := slog.New(slog.DiscardHandler)
	w.queues.url = clustertest.NewDatabase(w.t).OwnerURL()
	store, err := history.Open(w.t.Context(), postgres.Options{URL: w.queues.url, Node: "test", Log: log})
	if err != nil {
		w.t.Fatal(fault.Detail(err))
	}
	b, records := broker.New(broker.Options{Store: store, Log: log}), ledger.New(log)
	records.Start()
	records.Attach(store.Records())
	if err := b.Start(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		ctx := context.Background()
		_ = b.Stop(ctx)
		records.Stop(ctx)
		records.Detach()
		_ = store.Close(ctx)
	})
	shop, mail := manifest("shop", "jobs", "mails"), manifest("mail", "mails", "mails")
	if err := b.Declare(w.t.Context(), append(shop.Queues(), mail.Queues()...)); err != nil {
		w.t.Fatal(err)
	}
	<-b.Counted()
	w.queues.names, w.queues.databases = []string{"db"}, map[string]reach.Database{"db": {Broker: b, Records: records}}
	w.queues.manifests = []*app.Manifest{mail, shop}
	return b, records
}

// kill moves n messages of the queue jobs to its dead-letter queue.
func kill(t *testing.T, b *broker.Broker, n int) {
	t.Helper()
	const name = "jobs"
	lane, err := b.Lane(name)
	if err != nil {
		t.Fatal(err)
	}
	defer lane.Close()
	for n > 0 {
		batch, err := lane.Next(t.Context(), 100, 0)
		if err != nil {
			t.Fatal(err)
		}
		decisions := make([]queue.Decision, len(batch.Messages))
		for i := range decisions {
			decisions[i] = queue.Decision{Seq: batch.Messages[i].Seq, Verdict: queue.DeadLetter, Reason: "Error: no"}
		}
		done := make(chan error, 1)
		lane.Settle(batch, decisions, name+"-dead", func(err error) { done <- err })
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		n -= len(decisions)
	}
}

func drafts(texts ...string) []client.Draft {
	list := make([]client.Draft, len(texts))
	for i := range texts {
		list[i].Body = json.RawMessage(texts[i])
	}
	return list
}

func TestMessagesThroughTheAPI(t *testing.T) {
	w := newWorld(t)
	b, _ := w.serve()
	ctx, c := t.Context(), w.client("", access.Deploy)
	sent, err := c.Send(ctx, "db", "jobs", []client.Draft{
		{Body: json.RawMessage(`{"a": [1, "<b>"]}`)},
		{Body: json.RawMessage(`"good morning"`), ContentType: "text"},
		{Body: json.RawMessage(`"AP8="`), ContentType: "bytes"},
		{Body: json.RawMessage(`1`), DelaySeconds: 3600},
	})
	if err != nil || sent.Messages != 4 || sent.Unsettled != 4 {
		t.Fatalf("%+v, %v", sent, err)
	}
	page, err := c.Peek(ctx, "db", "jobs", "", "", 3)
	if err != nil || len(page.Items) != 3 || page.Next == "" {
		t.Fatalf("%+v, %v", page, err)
	}
	type seen struct{ State, Format, Encoding, Body string }
	got := make([]seen, 0, len(page.Items))
	for _, m := range page.Items {
		got = append(got, seen{m.State, m.Format, m.Encoding, string(m.Body)})
	}
	want := []seen{
		{"visible", "json", "json", `{"a":[1,"<b>"]}`}, {"visible", "text", "text", `"good morning"`}, {"visible", "bytes", "base64", `"AP8="`},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	rest, err := c.Peek(ctx, "db", "jobs", "", page.Next, 3)
	if err != nil || len(rest.Items) != 1 || rest.Items[0].State != "delayed" || rest.Next != "" {
		t.Fatalf("%+v, %v", rest, err)
	}
	delayed := rest.Items[0].ID
	q, err := c.Queue(ctx, "db", "jobs")
	if err != nil || q.Visible != 3 || q.Delayed != 1 || q.InFlight != 0 || q.Consumer.App != "shop" || q.Consumer.DeadLetterQueue != "jobs-dead" || q.Oldest == nil {
		t.Errorf("%+v, %v", q, err)
	}
	if done, err := c.RetryMessages(ctx, "db", "jobs", []string{delayed, page.Items[0].ID}); err != nil || done.Done != 1 || len(done.Unchanged) != 1 {
		t.Errorf("%+v, %v", done, err)
	}
	if m, err := c.Message(ctx, "db", "jobs", delayed); err != nil || m.State != "visible" || string(m.Body) != "1" {
		t.Errorf("%+v, %v", m, err)
	}
	gone := strings.Repeat("0", 32)
	if done, err := c.DeleteMessages(ctx, "db", "jobs", []string{delayed, gone}); err != nil || done.Done != 1 || len(done.Missing) != 1 {
		t.Errorf("%+v, %v", done, err)
	}

	kill(t, b, 3)
	list, err := c.Queues(ctx, "")
	if err != nil || len(list) != 4 || list[0].Name != "jobs" || list[0].DeadLetters != 3 || list[1].Name != "jobs-dead" ||
		list[1].DeadLettersOf[0] != "jobs" || list[2].Producers[0].App != "mail" {
		t.Errorf("%+v, %v", list, err)
	}
	dead, err := c.Peek(ctx, "db", "jobs-dead", "visible", "", 0)
	if err != nil || len(dead.Items) != 3 || dead.Items[0].Source != "jobs" || dead.Items[0].Reason != "Error: no" {
		t.Errorf("%+v, %v", dead, err)
	}
	var steps []client.Progress
	done, err := c.Redrive(ctx, "db", "jobs-dead", &client.Redrive{IDs: []string{dead.Items[0].ID, gone}}, func(p client.Progress) { steps = append(steps, p) })
	if err != nil || done.Messages != 1 || len(done.Missing) != 1 {
		t.Errorf("%+v, %v", done, err)
	}
	if done, err = c.Redrive(ctx, "db", "jobs-dead", &client.Redrive{}, nil); err != nil || done.Messages != 2 {
		t.Errorf("%+v, %v", done, err)
	}
	_, err = c.Redrive(ctx, "db", "jobs", &client.Redrive{}, nil)
	w.code(err, "redrive_no_source")
	if done, err = c.Purge(ctx, "db", "jobs", nil); err != nil || done.Messages != 3 {
		t.Errorf("%+v, %v", done, err)
	}
	if err := errors.Join(c.Pause(ctx, "db", "jobs"), c.SetRetention(ctx, "db", "jobs", time.Hour)); err != nil {
		t.Error(err)
	}
	if q, err = c.Queue(ctx, "db", "jobs"); err != nil || q.PausedSince == nil || q.RetentionSeconds != 3600 || !q.RetentionSet || q.Unsettled != 0 {
		t.Errorf("%+v, %v", q, err)
	}
	if err := errors.Join(c.Resume(ctx, "db", "jobs"), c.SetRetention(ctx, "db", "jobs", 0)); err != nil {
		t.Error(err)
	}
	if usage, err := c.Usage(ctx, "db"); err != nil || len(usage.Days) != 1 || usage.Days[0].Written < 4 || usage.Days[0].Total < 8 {
		t.Errorf("%+v, %v", usage, err)
	}

	events, err := c.Events(ctx, "shop", 0, 100)
	kinds := make([]string, 0, len(events))
	for i := range events {
		kinds = append(kinds, events[i].Kind)
		if e := &events[i]; e.Author != "the deploy" || !strings.HasPrefix(e.Detail["queue"], "jobs") || e.Detail["database"] != "db" {
			t.Errorf("event %+v", e)
		}
	}
	if diff := cmp.Diff([]string{
		"queue.retention_set", "queue.resumed", "queue.retention_set", "queue.paused", "queue.purged", "queue.redriven", "queue.redriven", "messages.deleted", "messages.retried",
	}, kinds); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

// TestARedriveStopsWithItsCaller: what was moved stays moved, the rest stays, and the event says both.
func TestARedriveStopsWithItsCaller(t *testing.T) {
	w := newWorld(t)
	b, _ := w.serve()
	const n = 50
	list := make([]queue.Draft, n)
	for i := range list {
		list[i] = queue.Draft{Format: queue.JSON, Body: []byte("1")}
	}
	if _, err := b.Send(t.Context(), "jobs", list); err != nil {
		t.Fatal(err)
	}
	kill(t, b, n)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	// One message a step, and a second between two.
	_, err := w.admin.Redrive(ctx, "db", "jobs-dead", &client.Redrive{Rate: 1}, func(client.Progress) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	for deadline := time.After(time.Minute); ; {
		events, err := w.admin.Events(t.Context(), "", 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(events) == 1 && events[0].Kind == "queue.redriven" {
			if events[0].Detail["reason"] != "stopped by the caller" || events[0].Detail["messages"] == "50" {
				t.Errorf("event %+v", events[0])
			}
			break
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-deadline:
			t.Fatal("no event tells of the redrive")
		}
	}
	jobs, err := w.admin.Queue(t.Context(), "db", "jobs")
	if err != nil {
		t.Fatal(err)
	}
	dead, err := w.admin.Queue(t.Context(), "db", "jobs-dead")
	if err != nil || jobs.Unsettled == 0 || dead.Unsettled == 0 || jobs.Unsettled+dead.Unsettled != n {
		t.Errorf("%d moved and %d stayed, %v", jobs.Unsettled, dead.Unsettled, err)
	}
}

func TestProgressIsLinesOfJSON(t *testing.T) {
	w := newWorld(t)
	w.serve()
	text, _, err := w.access.Create(t.Context(), "x", access.Deploy, "", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	post := func(path, body string) (int, string, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.server.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+text)
		r.Header.Set("Content-Type", "application/json")
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		answer, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, response.Header.Get("Content-Type"), string(answer)
	}
	const at = "/v1/databases/db/queues/"
	status, kind, answer := post(at+"jobs/purge", "")
	lines := strings.Split(strings.TrimSpace(answer), "\n")
	if status != http.StatusOK || kind != "application/x-ndjson" || lines[len(lines)-1] != `{"done":{"messages":0,"in_flight":0}}` {
		t.Errorf("%d %s %s", status, kind, answer)
	}
	if _, _, answer := post(at+"jobs/redrive", `{"to":"jobs"}`); !strings.HasPrefix(answer, `{"error":{"code":"redrive_onto_itself"`) {
		t.Errorf("answer %s", answer)
	}
	if status, _, answer := post(at+"none/purge", ""); status != http.StatusNotFound || !strings.Contains(answer, `"10104"`) {
		t.Errorf("%d %s", status, answer)
	}
}

func TestRefusalsAboutMessages(t *testing.T) {
	w := newWorld(t)
	w.serve()
	ctx, c := t.Context(), w.admin
	send := func(d ...client.Draft) error {
		_, err := c.Send(ctx, "db", "jobs", d)
		return err
	}
	long := func(n int) client.Draft {
		return client.Draft{Body: json.RawMessage(`"` + strings.Repeat("x", n) + `"`), ContentType: "text"}
	}
	w.code(send(), "10206")
	w.code(send(make([]client.Draft, 101)...), "10206")
	w.code(send(long(128<<10+1)), "10204")
	w.code(send(long(100_000), long(100_000), long(100_000)), "10205")
	w.code(send(client.Draft{Body: json.RawMessage("1"), DelaySeconds: 86_401}), "10203")
	w.code(send(client.Draft{Body: json.RawMessage("1"), ContentType: "text"}), "10208")
	w.code(send(client.Draft{Body: json.RawMessage(`"?"`), ContentType: "bytes"}), "10208")
	if err := send(long(128_001)); err != nil {
		t.Error(err)
	}
	w.queues.manifests[0].Dialect = queue.Wrangler
	w.code(send(long(128_001)), "10204")
	_, err := c.Peek(ctx, "db", "jobs", "", "?", 0)
	w.code(err, "cursor_invalid")
	_, err = c.Message(ctx, "db", "jobs", "7")
	w.code(err, "message_id")
	_, err = c.Message(ctx, "db", "jobs", strings.Repeat("0", 32))
	w.code(err, "message_not_found")
	_, err = c.Queue(ctx, "db", "none")
	w.code(err, "10104")
	w.code(c.SetRetention(ctx, "db", "jobs", time.Second), "10203")
	_, err = c.Batch(ctx, "db", "jobs")
	w.code(err, "record_id")
	w.queues.names = append(w.queues.names, "away")
	w.queues.manifests = append(w.queues.manifests, &app.Manifest{Name: "far", Database: "away", Producers: []app.Producer{{Queue: "q"}}})
	list, err := c.Queues(ctx, "far")
	if err != nil || len(list) != 1 || list[0].Name != "q" || list[0].Unsettled != -1 {
		t.Errorf("while its database is away: %+v, %v", list, err)
	}
}

// TestATokenForOneAppOpensItsQueues: those that its live version names, and no other.
func TestATokenForOneAppOpensItsQueues(t *testing.T) {
	w := newWorld(t)
	b, _ := w.serve()
	ctx, c := t.Context(), w.client("mail", access.Deploy)
	list, err := c.Queues(ctx, "")
	if err != nil || len(list) != 2 || list[0].Name != "mails" || list[1].Name != "mails-dead" {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := c.Send(ctx, "db", "mails", drafts("1")); err != nil {
		t.Error(err)
	}
	id := strings.Repeat("0", 32)
	for name, call := range map[string]func(client *client.Client, queue string) error{
		"get":  func(c *client.Client, q string) error { _, err := c.Queue(ctx, "db", q); return err },
		"peek": func(c *client.Client, q string) error { _, err := c.Peek(ctx, "db", q, "", "", 0); return err },
		"send": func(c *client.Client, q string) error { _, err := c.Send(ctx, "db", q, drafts("1")); return err },
		"delete": func(c *client.Client, q string) error {
			_, err := c.DeleteMessages(ctx, "db", q, []string{id})
			return err
		},
		"retry": func(c *client.Client, q string) error {
			_, err := c.RetryMessages(ctx, "db", q, []string{id})
			return err
		},
		"pause":     func(c *client.Client, q string) error { return c.Pause(ctx, "db", q) },
		"resume":    func(c *client.Client, q string) error { return c.Resume(ctx, "db", q) },
		"retention": func(c *client.Client, q string) error { return c.SetRetention(ctx, "db", q, time.Hour) },
		"redrive": func(c *client.Client, q string) error {
			_, err := c.Redrive(ctx, "db", q, &client.Redrive{To: "mails-dead"}, nil)
			return err
		},
		"purge": func(c *client.Client, q string) error { _, err := c.Purge(ctx, "db", q, nil); return err },
	} {
		w.code(call(c, "jobs"), "forbidden")
		if err := call(c, "mails"); err != nil {
			t.Errorf("%s of its own queue: %v", name, err)
		}
		if err := call(w.client("mail", access.Read), "mails"); (err == nil) != (name == "get" || name == "peek") {
			t.Errorf("%s with the role read: %v", name, err)
		}
	}
	_, err = c.Message(ctx, "db", "jobs", id)
	w.code(err, "forbidden")
	_, err = c.Batch(ctx, "db", "jobs.0000000000000001")
	w.code(err, "forbidden")
	_, err = c.Queues(ctx, "shop")
	w.code(err, "forbidden")
	if _, err := c.Usage(ctx, "db"); err != nil {
		t.Error(err)
	}
	_, err = c.Usage(ctx, "other")
	w.code(err, "forbidden")

	// Dead letters of another app's queue are not its to move there.
	w.queues.manifests[1].Consumers[0].DeadLetterQueue = "mails-dead"
	if _, err := b.Send(ctx, "jobs", []queue.Draft{{Format: queue.JSON, Body: []byte("1")}}); err != nil {
		t.Fatal(err)
	}
	lane, err := b.Lane("jobs")
	if err != nil {
		t.Fatal(err)
	}
	defer lane.Close()
	batch, err := lane.Next(ctx, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	lane.Settle(batch, []queue.Decision{{Seq: batch.Messages[0].Seq, Verdict: queue.DeadLetter}}, "mails-dead", func(err error) { done <- err })
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if _, err := c.Purge(ctx, "db", "mails", nil); err != nil {
		t.Error(err)
	}
	_, err = c.Redrive(ctx, "db", "mails-dead", &client.Redrive{IDs: []string{batch.Messages[0].ID.String()}}, nil)
	w.code(err, "redrive_target_forbidden")
	_, err = c.Redrive(ctx, "db", "mails-dead", &client.Redrive{To: "jobs"}, nil)
	w.code(err, "redrive_target_forbidden")
}
