package app_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/queue"
)

func manifest() *app.Manifest {
	return &app.Manifest{
		Name: "crawler", Dialect: queue.Runlot, Main: "src/index.ts", Database: "crawler", CompatibilityDate: "2026-11-01",
		Producers: []app.Producer{{Binding: "JOBS", Queue: "jobs"}, {Binding: "AGAIN", Queue: "jobs"}, {Binding: "MAIL", Queue: "mail"}},
		Consumers: []queue.Consumer{
			{Queue: "jobs", DeadLetterQueue: "dead", MaxRetries: 3},
			{Queue: "other", DeadLetterQueue: "dead"},
			{Queue: "mail"},
		},
		Vars: map[string]json.RawMessage{"A": json.RawMessage(`"1"`), "B": json.RawMessage(`{"x":2}`)},
	}
}

func TestQueuesNamesEachOnce(t *testing.T) {
	if diff := cmp.Diff([]string{"jobs", "mail", "other", "dead"}, manifest().Queues()); diff != "" {
		t.Errorf("queues (-want +got):\n%s", diff)
	}
	if got := (&app.Manifest{}).Queues(); got != nil {
		t.Errorf("queues of nothing: %v", got)
	}
}

func TestDigest(t *testing.T) {
	digest := manifest().Digest()
	if again := manifest().Digest(); again != digest {
		t.Errorf("equal manifests have digests %s and %s", digest, again)
	}
	if len(digest) != 64 {
		t.Errorf("digest %q is no SHA-256 in hexadecimal", digest)
	}
	for name, change := range map[string]func(*app.Manifest){
		"a name":        func(m *app.Manifest) { m.Name = "crawlers" },
		"a retry":       func(m *app.Manifest) { m.Consumers[0].MaxRetries = 0 },
		"a var's value": func(m *app.Manifest) { m.Vars["A"] = json.RawMessage(`1`) },
		"a delay of 0":  func(m *app.Manifest) { m.Producers[0].DeliveryDelay = new(m.Consumers[2].BatchTimeout) },
		"an order":      func(m *app.Manifest) { m.Producers[0], m.Producers[2] = m.Producers[2], m.Producers[0] },
	} {
		m := manifest()
		change(m)
		if m.Digest() == digest {
			t.Errorf("%s does not change the digest", name)
		}
	}
}

func TestHandlersHas(t *testing.T) {
	h := &app.Handlers{Exports: map[string]app.Export{
		"default": {Kind: "object", Handlers: []string{"fetch", "queue"}},
		"Named":   {Kind: "WorkerEntrypoint", Handlers: []string{"scheduled"}},
	}}
	for handler, want := range map[string]bool{"queue": true, "fetch": true, "scheduled": false, "": false} {
		if h.Has(handler) != want {
			t.Errorf("Has(%q) = %v", handler, !want)
		}
	}
	if (&app.Handlers{}).Has("queue") {
		t.Error("a bundle without exports has a queue handler")
	}
}
