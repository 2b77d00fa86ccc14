package tracing_test

import (
	"context"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlpspan "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/runlot/runlot/internal/adapter/memory"
	"github.com/runlot/runlot/internal/adapter/memory/record"
	"github.com/runlot/runlot/internal/adapter/otlp"
	"github.com/runlot/runlot/internal/adapter/workerd"
	"github.com/runlot/runlot/internal/adapter/workerd/workerdtest"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/daemon/node"
	folder "github.com/runlot/runlot/internal/daemon/state"
	"github.com/runlot/runlot/internal/engine/dispatch"
	"github.com/runlot/runlot/internal/engine/ledger"
	"github.com/runlot/runlot/internal/engine/schedule"
	"github.com/runlot/runlot/internal/engine/series"
)

// collecting is a collector of spans, as OTLP over HTTP has it.
type collecting struct {
	mu    sync.Mutex
	spans []*otlpspan.Span // guarded by mu
}

func (c *collecting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var request collector.ExportTraceServiceRequest
	if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, &request) != nil {
		http.Error(w, "no spans", http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range request.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			c.spans = append(c.spans, scope.GetSpans()...)
		}
	}
}

// named are the spans of a name.
func (c *collecting) named(name string) []*otlpspan.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []*otlpspan.Span
	for _, s := range c.spans {
		if s.GetName() == name {
			list = append(list, s)
		}
	}
	return list
}

// one is the only span of a name.
func (c *collecting) one(t *testing.T, name string) *otlpspan.Span {
	t.Helper()
	list := c.named(name)
	if len(list) != 1 {
		t.Fatalf("%d spans are called %q", len(list), name)
	}
	return list[0]
}

// observer hands on how batches ended.
type observer chan *dispatch.Record

func (o observer) Batch(r *dispatch.Record)     { o <- r }
func (observer) Run(*schedule.Record)           {}
func (observer) Progress(string)                {}
func (observer) Down(string, string)            {}
func (observer) Line(_ string, _ *workerd.Line) {}
func (observer) Notice(string)                  {}

// await returns the record of the next batch of a queue.
func (o observer) await(t *testing.T, queueName string) *dispatch.Record {
	t.Helper()
	for {
		select {
		case r := <-o:
			if r.Error != nil {
				t.Fatalf("%s: %s: %s", r.Queue, r.Error.Name, r.Error.Message)
			}
			if r.Queue == queueName {
				return r
			}
		case <-time.After(time.Minute):
			t.Fatalf("no batch of %s", queueName)
		}
	}
}

// storage is a store in memory. Records are dropped.
type storage struct{ *memory.Store }

func (storage) Records() ledger.Store             { return &record.Store{} }
func (storage) Series() series.Store              { return nil }
func (s storage) Close(ctx context.Context) error { return s.Release(ctx) }

const worker = `
const text = "ä\u0000b", bytes = [0, 1, 255];
export default {
	async fetch(request, env) {
		const { pathname } = new URL(request.url);
		if (pathname === "/later") await scheduler.wait(1);
		await env.FIRST.send({ pathname, seen: request.headers.get("traceparent") });
		return new Response("sent");
	},
	async queue(batch, env) {
		if (batch.queue === "first") {
			await env.SECOND.sendBatch([
				{ body: text, contentType: "text" },
				{ body: new Uint8Array(bytes), contentType: "bytes" },
				{ body: new Uint8Array(bytes).buffer, contentType: "bytes" },
				{ body: { big: [text, null] } },
				{ body: new Map([[1, text]]), contentType: "v8" },
			]);
			return;
		}
		const same = (x, y) => { if (JSON.stringify(x) !== JSON.stringify(y)) throw new Error(JSON.stringify(x) + " is not " + JSON.stringify(y)); };
		same(batch.messages.length, 5);
		same(batch.messages[0].body, text);
		same([...new Uint8Array(batch.messages[1].body)], bytes);
		same([...new Uint8Array(batch.messages[2].body)], bytes);
		same(batch.messages[3].body, { big: [text, null] });
		same([...batch.messages[4].body], [[1, text]]);
	},
}`

func TestATraceGoesThroughTheQueues(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	c := &collecting{}
	server := httptest.NewServer(c)
	defer server.Close()
	tracer, err := otlp.Open(t.Context(), otlp.Options{Endpoint: server.URL, Share: 0, Version: "test", Log: log})
	if err != nil {
		t.Fatal(fault.Detail(err))
	}
	state := t.TempDir()
	if err := os.Mkdir(folder.RunDir(state), 0o700); err != nil {
		t.Fatal(err)
	}
	ended := make(observer, 100)
	n := node.New(node.Options{
		Workerd: workerdtest.Binary(t), State: state, StopTime: time.Second, Log: log, Observer: ended, Tracer: tracer,
		Store: func(context.Context, string) (node.Store, error) { return storage{memory.NewDatabase().Open()}, nil },
	})
	defer n.Stop()
	a := n.NewApp("shop")
	defer a.Stop()
	v := &node.Version{
		ID: "v1", Manifest: &app.Manifest{
			Name: "shop", Dialect: queue.Wrangler, Database: app.DefaultDatabase, CompatibilityDate: "2026-11-17",
			Producers: []app.Producer{{Binding: "FIRST", Queue: "first"}, {Binding: "SECOND", Queue: "second"}},
			Consumers: []queue.Consumer{consumer("first"), consumer("second")},
		},
		Load: func(context.Context) (*node.Loaded, error) {
			module := app.Module{Name: "main.mjs", Kind: app.ESModule, Body: []byte(worker)}
			return &node.Loaded{Bundle: &app.Bundle{Modules: []app.Module{module}}}, nil
		},
	}
	if err := a.Deploy(t.Context(), v, nil); err != nil {
		t.Fatal(fault.Detail(err))
	}
	public := httptest.NewServer(a.Door())
	defer public.Close()

	// Without a caller's trace, and a share of 0, nothing is kept: the messages are the same.
	get(t, public.URL+"/", "")
	ended.await(t, "second")
	const caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	get(t, public.URL+"/later", caller)
	ended.await(t, "second")
	if err := tracer.Close(t.Context()); err != nil {
		t.Fatal(err)
	}

	parent := caller[36:52]
	for _, name := range []string{"GET", "send first", "deliver first", "process first", "send second"} {
		s := c.one(t, name)
		if got := hex.EncodeToString(s.GetTraceId()); got != caller[3:35] {
			t.Errorf("%s is of the trace %s", name, got)
		}
		if got := hex.EncodeToString(s.GetParentSpanId()); got != parent {
			t.Errorf("%s is a part of %s, not of %s", name, got, parent)
		}
		if s.GetEndTimeUnixNano() < s.GetStartTimeUnixNano() || s.GetStatus().GetCode() == otlpspan.Status_STATUS_CODE_ERROR {
			t.Errorf("%s: %v", name, s)
		}
		parent = hex.EncodeToString(s.GetSpanId())
	}
	// All messages of a batch are of the trace of their send; the handler's span is in the first one's and linked to the rest.
	// Of the one in the format that only workerd knows, the sender is told by the batch.
	delivers := c.named("deliver second")
	if len(delivers) != 5 {
		t.Fatalf("%d spans are called %q", len(delivers), "deliver second")
	}
	for _, s := range delivers {
		if got := hex.EncodeToString(s.GetParentSpanId()); got != parent {
			t.Errorf("a delivery is a part of %s, not of %s", got, parent)
		}
	}
	if got := len(c.one(t, "process second").GetLinks()); got != 4 {
		t.Errorf("the handler's span has %d links", got)
	}
	for name, of := range map[string]string{"commit first": "send first", "commit second": "send second", "settle first": "deliver first"} {
		if string(c.one(t, name).GetParentSpanId()) != string(c.one(t, of).GetSpanId()) {
			t.Errorf("%s is not a part of %s", name, of)
		}
	}
	if got := len(c.named("settle second")); got != 5 {
		t.Errorf("%d settlements", got)
	}
}

func consumer(queueName string) queue.Consumer {
	return queue.Consumer{
		Queue: queueName, BatchSize: 10, BatchTimeout: 100 * time.Millisecond, MaxRetries: 3, HandlerTime: time.Minute, Retention: time.Hour,
	}
}

func get(t *testing.T, url, traceparent string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if traceparent != "" {
		r.Header.Set("Traceparent", traceparent)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if text, err := io.ReadAll(response.Body); err != nil || !strings.HasPrefix(string(text), "sent") {
		t.Fatalf("%d %s %v", response.StatusCode, text, err)
	}
}
