package render_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/runlot/runlot/internal/adapter/workerd/render"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/fault/faulttest"
	"github.com/runlot/runlot/internal/core/queue"
)

// worker consumes a queue with a bundle of these modules.
func worker(modules ...app.Module) *render.Worker {
	return &render.Worker{
		Manifest:   &app.Manifest{Name: "a", CompatibilityDate: "2026-11-17", Consumers: []queue.Consumer{{Queue: "jobs"}}},
		Bundle:     &app.Bundle{Modules: modules},
		HostSocket: "/run/host.sock", HeapMiB: 128,
	}
}

func module(name, body string) app.Module {
	return app.Module{Name: name, Kind: app.ESModule, Body: []byte(body)}
}

func TestWhatHasNoRendering(t *testing.T) {
	two := worker(module("a.mjs", ""), module("b.mjs", ""))
	two.Bundle.ServiceWorker = true
	long, nul := worker(module("a.mjs", "")), worker(module("a.mjs", ""))
	long.Secrets = map[string]string{"KEY": strings.Repeat("x", queue.MaxSecret+1)}
	nul.Secrets = map[string]string{"KEY": "a\x00b"}
	for _, test := range []struct {
		worker *render.Worker
		kind   fault.Kind
		code   string
		word   string
	}{
		{worker(), fault.Invalid, "bundle_empty", "no module"},
		{two, fault.Invalid, "bundle_service_worker", "b.mjs"},
		{worker(module("a.mjs", strings.Repeat(" ", queue.MaxBundle+1))), fault.Limit, "bundle_size", "limit"},
		{long, fault.Limit, "secret_size", "secret KEY"},
		{nul, fault.Invalid, "secret_nul", "secret KEY"},
	} {
		_, err := render.Process(test.worker)
		faulttest.Want(t, err, test.kind, test.code, test.word)
	}
}

// TestPrefixIsWhatStandsBeforeTheScript: columns of the first line are moved by it, and no line may be added.
func TestPrefixIsWhatStandsBeforeTheScript(t *testing.T) {
	const script = "addEventListener('queue', () => {});"
	consumes := worker(module("main.js", script))
	consumes.Bundle.ServiceWorker = true
	plain := worker(module("main.js", script))
	plain.Bundle.ServiceWorker, plain.Manifest.Consumers = true, nil
	for name, rendered := range map[string]func() (*render.Files, error){
		"consumer": func() (*render.Files, error) { return render.Process(consumes) },
		"plain":    func() (*render.Files, error) { return render.Process(plain) },
		"probe":    func() (*render.Files, error) { return render.Probe(consumes.Manifest, consumes.Bundle) },
	} {
		files, err := rendered()
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := files.Write(dir); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(dir, "script.js"))
		if err != nil {
			t.Fatal(err)
		}
		at := bytes.Index(text, []byte(script))
		if at <= 0 || at != files.Prefix || bytes.ContainsRune(text[:at], '\n') {
			t.Errorf("%s: the script begins at %d, its prefix is %d", name, at, files.Prefix)
		}
	}
}
