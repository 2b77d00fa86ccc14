package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/adapter/postgres"
	"github.com/runlot/runlot/internal/adapter/postgres/cluster/clustertest"
	"github.com/runlot/runlot/internal/adapter/postgres/control"
	"github.com/runlot/runlot/internal/adapter/sealer"
	"github.com/runlot/runlot/internal/config/runlotjson"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/daemon/bulk"
	"github.com/runlot/runlot/internal/daemon/history"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/broker"
	"github.com/runlot/runlot/internal/engine/deploy"
	"github.com/runlot/runlot/internal/engine/ledger"
	"github.com/runlot/runlot/internal/engine/schedule"
	"github.com/runlot/runlot/internal/engine/series"
	"github.com/runlot/runlot/internal/server/api"
	"github.com/runlot/runlot/internal/server/api/apps"
	"github.com/runlot/runlot/internal/server/api/crons"
	"github.com/runlot/runlot/internal/server/api/reach"
	"github.com/runlot/runlot/internal/server/dashboard"
	"github.com/runlot/runlot/internal/server/dashboard/assets"
)

// waitTime bounds each wait for something to happen.
const waitTime = 60 * time.Second

// suite ends the browser after the tests, and before the database.
type suite struct{ inner *clustertest.Suite }

func (s suite) Run() int {
	if assets.Embedded().Missing() {
		fmt.Fprintln(os.Stderr, "the files of the page are not built, and without them it is not what is tested: run `make assets` first")
		return 1
	}
	code := s.inner.Run()
	stopBrowser()
	return code
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(suite{clustertest.Main(m)}) }

// fleet runs nothing and says what it is told to.
type fleet struct{ states map[string]apps.Running }

func (*fleet) Check(context.Context, *deploy.Version) ([]string, error) { return nil, nil }

func (f *fleet) Switch(ctx context.Context, v *deploy.Runnable, commit func(context.Context) error) error {
	if strings.Contains(v.Message, "broken") {
		return fault.New(fault.Invalid, "start_failed", "it throws")
	}
	return commit(ctx)
}

func (*fleet) Resume(context.Context, *deploy.Runnable) error { return nil }
func (*fleet) Remove(context.Context, string) error           { return nil }
func (*fleet) Running() []*app.Manifest                       { return nil }
func (*fleet) Waiting(context.Context, string, string) int64  { return 0 }
func (*fleet) URLs(name string) []string                      { return []string{"https://" + name + ".example.com"} }

func (f *fleet) Apps(context.Context) (map[string]apps.Running, error) { return f.states, nil }

// queues are the queues of one database, and what apps declare about them.
type queues struct {
	db        reach.Database
	series    *series.Recorder
	manifests []*app.Manifest
}

func (*queues) Databases() []string          { return []string{"main"} }
func (q *queues) Manifests() []*app.Manifest { return q.manifests }

func (q *queues) Series(string) *series.Recorder { return q.series }

func (q *queues) Database(context.Context, string) (reach.Database, error) { return q.db, nil }

// world is an instance with its page.
type world struct {
	t         *testing.T
	url       string
	access    *access.Keeper
	fleet     *fleet
	queues    *queues
	clockwork *clockwork
	admin     *client.Client
	mux       *http.ServeMux
	server    *httptest.Server
}

func newWorld(t *testing.T) *world {
	t.Helper()
	ctx, log := t.Context(), slog.New(slog.DiscardHandler)
	controlURL := clustertest.NewDatabase(t).OwnerURL()
	store, err := control.Open(ctx, func(context.Context) (string, error) { return controlURL, nil })
	if err != nil {
		t.Fatal(fault.Detail(err))
	}
	t.Cleanup(store.Close)
	seal, err := sealer.Open(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	messages, err := history.Open(ctx, postgres.Options{URL: clustertest.NewDatabase(t).OwnerURL(), Node: "test", Log: log})
	if err != nil {
		t.Fatal(fault.Detail(err))
	}
	b, records := broker.New(broker.Options{Store: messages, Log: log, DailyOperations: 1_000_000}), ledger.New(log)
	records.Start()
	records.Attach(messages.Records())
	if err := b.Start(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.Background()
		_ = b.Stop(ctx)
		records.Stop(ctx)
		records.Detach()
		_ = messages.Close(ctx)
	})
	<-b.Counted()
	w := &world{
		t: t, access: access.New(store), fleet: &fleet{states: map[string]apps.Running{}}, clockwork: &clockwork{}, queues: &queues{
			db:     reach.Database{Broker: b, Records: records},
			series: series.New(log, func(context.Context) (map[string]series.Gauges, bool) { return nil, false }),
		},
	}
	background, err := bulk.Start(ctx, store, w.queues, store, log)
	if err != nil {
		t.Fatal(fault.Detail(err))
	}
	t.Cleanup(background.Stop)
	mux := http.NewServeMux()
	mux.Handle("/v1/", api.New(api.Options{
		Deploy: deploy.New(deploy.Options{Store: store, Runner: w.fleet, Sealer: seal, Log: log}), Versions: store, Access: w.access,
		Instance: w.fleet, Queues: w.queues, Crons: w.clockwork, Operations: background, Version: "1.2.3", Account: "local", Log: log, Compile: compile,
	}))
	page := dashboard.New(dashboard.Options{API: mux, Sealer: seal, Log: log})
	t.Cleanup(page.Stop)
	mux.Handle("/", page)
	w.server = httptest.NewServer(mux)
	t.Cleanup(w.server.Close)
	t.Cleanup(page.Stop)
	w.url, w.mux = w.server.URL, mux
	if w.admin, err = client.New(w.url, w.token("admin", "", access.Admin)); err != nil {
		t.Fatal(err)
	}
	return w
}

func compile(_ string, text []byte, _ string) (*app.Manifest, []string, error) {
	m, problems, err := runlotjson.Compile("runlot.json", text)
	if err != nil || len(problems) > 0 {
		return nil, nil, fault.New(fault.Invalid, "config_invalid", "no configuration").WithCause(err)
	}
	return m, nil, nil
}

func (w *world) token(name, appName string, role access.Role) string {
	w.t.Helper()
	text, _, err := w.access.Create(w.t.Context(), name, role, appName, time.Time{})
	if err != nil {
		w.t.Fatal(err)
	}
	return text
}

// deploy makes a version of an app live. Each pair of queues is one that it consumes, with its dead letters in the second.
func (w *world) deploy(name, message string, consumed ...[2]string) {
	w.t.Helper()
	type consumer struct {
		Queue           string `json:"queue"`
		DeadLetterQueue string `json:"deadLetterQueue,omitempty"`
	}
	type producer struct {
		Binding string `json:"binding"`
		Queue   string `json:"queue"`
	}
	consumers, producers := make([]consumer, 0, len(consumed)), make([]producer, 0, len(consumed))
	for _, c := range consumed {
		consumers = append(consumers, consumer{c[0], c[1]})
		producers = append(producers, producer{strings.ToUpper(strings.ReplaceAll(c[0], "-", "_")), c[0]})
	}
	config, err := json.Marshal(map[string]any{
		"name": name, "main": "a.js", "database": "main", "compatibilityDate": "2026-11-01", "queues": map[string]any{"consumers": consumers, "producers": producers},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx := w.t.Context()
	uploaded, err := w.admin.Upload(ctx, &client.Upload{
		App: name, ConfigFile: "runlot.json", Config: config, Message: message, Modules: []client.Module{{Name: "main.mjs", Kind: "esModule", Body: []byte("export default {}")}},
	})
	if err == nil {
		_, err = w.admin.Deploy(ctx, name, &client.Deploy{Version: uploaded.Version.ID, Message: message})
	}
	m, _, errCompile := compile("", config, "")
	if err != nil || errCompile != nil {
		w.t.Fatal(err, errCompile)
	}
	if err := w.queues.db.Broker.Declare(ctx, m.Queues()); err != nil {
		w.t.Fatal(err)
	}
	w.queues.manifests = append(slices.DeleteFunc(w.queues.manifests, func(x *app.Manifest) bool { return x.Name == name }), m)
	w.fleet.states[name] = apps.Running{State: "live", Since: time.Now(), Manifest: m, MemoryBytes: 48 << 20}
}

func (w *world) send(queueName string, n int, delay float64) {
	w.t.Helper()
	drafts := make([]client.Draft, n)
	for i := range drafts {
		drafts[i] = client.Draft{Body: json.RawMessage(`{"n": 1}`), DelaySeconds: delay}
	}
	for chunk := range slices.Chunk(drafts, 100) {
		if _, err := w.admin.Send(w.t.Context(), "main", queueName, chunk); err != nil {
			w.t.Fatal(err)
		}
	}
}

// write sends a message with a body.
func (w *world) write(queueName, body string) {
	w.t.Helper()
	if _, err := w.admin.Send(w.t.Context(), "main", queueName, []client.Draft{{Body: json.RawMessage(body)}}); err != nil {
		w.t.Fatal(err)
	}
}

// tell records a batch.
func (w *world) tell(r *ledger.Record, lines ...ledger.Line) {
	r.Start = r.Start.Truncate(time.Microsecond)
	for _, line := range lines {
		w.queues.db.Records.Log(r.Delivery, line)
	}
	w.queues.db.Records.Batch(r)
}

// batch records a batch and returns its id, once it can be read.
func (w *world) batch(r *ledger.Record, lines ...ledger.Line) string {
	w.t.Helper()
	w.tell(r, lines...)
	ctx, cancel := context.WithTimeout(w.t.Context(), waitTime)
	defer cancel()
	for {
		page, err := w.admin.Batches(ctx, &client.BatchFilter{Queue: r.ID.Queue, Limit: 100})
		if err != nil {
			w.t.Fatal(err)
		}
		for _, b := range page.Items {
			if b.Delivery == r.Delivery {
				return b.ID
			}
		}
		<-time.After(20 * time.Millisecond)
	}
}

var deliveries int

func delivery() string {
	deliveries++
	return fmt.Sprintf("%032x", deliveries)
}

// failed is the record of a batch whose handler threw.
func failed(queueName string) *ledger.Record {
	return &ledger.Record{
		ID: ledger.ID{Queue: queueName}, App: "crawler", Version: "5f0c1d2e3b4a", Delivery: delivery(), Start: time.Now().Add(-2 * time.Second),
		Duration: 38 * time.Millisecond, Outcome: queue.Failed, Delivered: 10, Acked: 7, Retried: 2, Dead: 1,
		Error: &ledger.Exception{
			Name: "TypeError", Message: "Cannot read properties of null (reading 'url')", Location: "src/index.ts:29:38",
			Stack: "at Object.queue (src/index.ts:29:38)\nat crawl (src/crawl.ts:12:9)",
		},
		Fates: []ledger.Fate{
			{ID: queue.ID{1, 2, 3}, Kind: ledger.Retried, Attempt: 1, Delay: 10 * time.Second},
			{ID: queue.ID{4, 5, 6}, Kind: ledger.Retried, Attempt: 2, Delay: 20 * time.Second},
			{ID: queue.ID{7, 8, 9}, Kind: ledger.Dead, Attempt: 4},
		},
	}
}

// fine is the record of a batch that went well.
func fine(queueName string, n int) *ledger.Record {
	return &ledger.Record{
		ID: ledger.ID{Queue: queueName}, App: "crawler", Version: "5f0c1d2e3b4a", Delivery: delivery(), Start: time.Now().Add(-time.Second),
		Duration: 41 * time.Millisecond, Outcome: queue.OK, Delivered: n, Acked: n,
	}
}

// of makes it the record of a batch that another app took.
func of(appName string, r *ledger.Record) *ledger.Record {
	r.App = appName
	return r
}

// clockwork has one cron in each app, whose runs go well when they are asked for by hand.
type clockwork struct{ runs []schedule.Kept }

const daily = "0 7 * * *"

func (c *clockwork) Crons(context.Context, string) ([]crons.Cron, error) {
	one := crons.Cron{Text: daily, Words: "at 07:00, every day", Next: time.Now().Add(3*time.Hour + time.Minute), State: schedule.State{Cron: daily}}
	if len(c.runs) > 0 {
		one.Standing.Last = &c.runs[0]
	}
	return []crons.Cron{one}, nil
}

func (c *clockwork) Runs(_ context.Context, f *schedule.Filter, limit int) ([]schedule.Kept, error) {
	var list []schedule.Kept
	for _, r := range c.runs {
		if len(list) < limit && (len(f.Outcomes) == 0 || slices.Contains(f.Outcomes, r.Outcome)) {
			list = append(list, r)
		}
	}
	return list, nil
}

func (c *clockwork) Fire(_ context.Context, appName, cron string, at time.Time) (*schedule.Record, error) {
	r := schedule.Record{App: appName, Cron: cron, At: at, Attempt: 1, Node: "test", Start: time.Now(), Duration: 812 * time.Millisecond, Outcome: queue.OK, Manual: true}
	c.runs = append([]schedule.Kept{{Record: r, ID: int64(len(c.runs) + 1)}}, c.runs...)
	return &r, nil
}
