package backup_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/daemon/backup"
	"github.com/runlot/runlot/internal/daemon/celld"
)

// waitTime bounds each wait for something to happen.
const waitTime = 90 * time.Second

// instance is a celld in this process.
type instance struct {
	t    *testing.T
	stop func()
	celld.Ready
	*client.Client
}

// start runs a celld on a folder until stop, or the end of the test. The token is that of the first admin.
func start(t *testing.T, data, token string, urls map[string]string) *instance {
	t.Helper()
	i := &instance{t: t}
	ctx, cancel := context.WithCancel(context.Background())
	ended, ready := make(chan error, 1), make(chan celld.Ready, 1)
	go func() {
		ended <- celld.Run(ctx, &celld.Settings{
			Data: data, Listen: "127.0.0.1:0", Operator: "127.0.0.1:0", AllowPrivate: true, Version: "test", DatabaseURLs: urls,
			Log: slog.New(slog.DiscardHandler), Ready: func(r celld.Ready) { ready <- r },
		})
	}()
	i.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the daemon ended with %v", err)
		}
	})
	t.Cleanup(i.stop)
	select {
	case i.Ready = <-ready:
	case err := <-ended:
		ended <- nil
		t.Fatalf("the daemon did not start: %s", fault.Detail(err))
	}
	if token == "" {
		text, err := os.ReadFile(filepath.Join(data, "admin-token"))
		if err != nil {
			t.Fatal(err)
		}
		token = string(text)
	}
	var err error
	if i.Client, err = client.New(i.Operator, strings.TrimSpace(token)); err != nil {
		t.Fatal(err)
	}
	return i
}

// code tells every message to an address, and sends and stores on request. A message "fail" fails, and one "hang" waits for
// the answer of whom it told.
const code = `import { DurableObject } from "cloudflare:workers";
export class Notes extends DurableObject {
  add(id) { this.ctx.storage.kv.put(id, 1); }
  list() { return [...this.ctx.storage.kv.list()].map(([id]) => id).join(); }
}
export default {
  async fetch(request, env) {
    const url = new URL(request.url), id = url.searchParams.get("id");
    switch (url.pathname) {
      case "/send":
        await env[url.searchParams.get("to")].send({ id }, { delaySeconds: Number(url.searchParams.get("delay") ?? 0) });
        return new Response("sent");
      case "/store":
        await env.DB.exec("CREATE TABLE IF NOT EXISTS note (id TEXT)");
        await env.DB.prepare("INSERT INTO note VALUES (?)").bind(id).run();
        await env.CACHE.put(id, "kept", { metadata: id });
        await env.NOTES.getByName("all").add(id);
        await env.FILES.put("last", id);
        return new Response("stored");
      case "/stored":
        const { keys } = await env.CACHE.list();
        return new Response((await env.DB.prepare("SELECT group_concat(id) AS all_ids FROM note").first("all_ids")) + "+" + keys.map((k) => k.metadata) + "+" + (await env.NOTES.getByName("all").list()) + "+" + (await (await env.FILES.get("last")).text()));
      default:
        return new Response(env.KEY);
    }
  },
  async queue(batch) {
    for (const m of batch.messages) {
      await fetch(%q + "/" + batch.queue + "/" + m.body.id + "/" + m.attempts);
      if (m.body.id === "fail" && batch.queue === "jobs") throw new Error("it fails");
    }
  },
};`

// deploy uploads the app with consumers for some queues.
func (i *instance) deploy(tell string, consumers ...string) {
	i.t.Helper()
	type object = map[string]any
	list := make([]object, len(consumers))
	for n, name := range consumers {
		list[n] = object{"queue": name, "maxBatchSize": 1, "maxBatchTimeout": 60, "maxRetries": 0, "deadLetterQueue": name + "-dead"}
	}
	config, err := json.Marshal(object{
		"name": "shop", "main": "a.js", "database": "shop", "compatibilityDate": "2026-11-01",
		"queues":         object{"producers": []object{{"binding": "JOBS", "queue": "jobs"}, {"binding": "LATER", "queue": "later"}}, "consumers": list},
		"d1Databases":    []object{{"binding": "DB", "databaseName": "notes"}},
		"durableObjects": []object{{"binding": "NOTES", "class": "Notes"}},
		"r2Buckets":      []object{{"binding": "FILES", "bucket": "notes"}},
		"kvNamespaces":   []object{{"binding": "CACHE", "namespace": "notes"}},
	})
	if err != nil {
		i.t.Fatal(err)
	}
	u, err := i.Upload(i.t.Context(), &client.Upload{
		App: "shop", ConfigFile: "runlot.json", Config: config,
		Modules: []client.Module{{Name: "main.mjs", Kind: "esModule", Body: fmt.Appendf(nil, code, tell)}},
	})
	if err != nil {
		i.t.Fatal(err)
	}
	if _, err := i.Deploy(i.t.Context(), "shop", &client.Deploy{Version: u.Version.ID}); err != nil {
		i.t.Fatal(err)
	}
}

// ask makes a request to the app.
func (i *instance) ask(path string) (string, error) {
	r, err := http.NewRequestWithContext(i.t.Context(), http.MethodGet, i.Public+path, http.NoBody)
	if err != nil {
		return "", err
	}
	r.Host = "shop.localhost"
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: waitTime}
	response, err := c.Do(r)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, text)
	}
	return string(text), err
}

func (i *instance) must(path, want string) {
	i.t.Helper()
	if got, err := i.ask(path); err != nil || got != want {
		i.t.Fatalf("%s: got %q (%v), want %q", path, got, err, want)
	}
}

// ear is what messages are told to.
type ear struct {
	url string
	// let is closed when messages that hang may go on.
	let chan struct{}

	mu     sync.Mutex
	heard  map[string][]time.Time // by "queue/id/attempts"; guarded by mu
	change chan struct{}          // closed and replaced when something is heard; guarded by mu
}

func newEar(t *testing.T) *ear {
	t.Helper()
	e := &ear{let: make(chan struct{}), heard: map[string][]time.Time{}, change: make(chan struct{})}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		e.mu.Lock()
		path := strings.TrimPrefix(r.URL.Path, "/")
		e.heard[path] = append(e.heard[path], time.Now())
		close(e.change)
		e.change = make(chan struct{})
		let := e.let
		e.mu.Unlock()
		if strings.Contains(path, "/hang/") {
			select {
			case <-let:
			case <-r.Context().Done():
			}
		}
	}))
	t.Cleanup(server.Close)
	e.url = server.URL
	return e
}

// wait waits until something is heard, and returns when that was first.
func (e *ear) wait(t *testing.T, path string) time.Time {
	t.Helper()
	deadline := time.After(waitTime)
	for {
		e.mu.Lock()
		times, change := e.heard[path], e.change
		e.mu.Unlock()
		if len(times) > 0 {
			return times[0]
		}
		select {
		case <-change:
		case <-deadline:
			t.Fatalf("%s was not delivered; heard was %v", path, e.all())
		}
	}
}

func (e *ear) all() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Sorted(maps.Keys(e.heard))
}

// release lets what hangs go on, now and from now on.
func (e *ear) release() { close(e.let) }

// forget makes that nothing was heard.
func (e *ear) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	clear(e.heard)
}

// TestBackupUnderLoadAndRestore backs up while messages are sent: waiting, delayed, dead and in flight. Of a restore in
// another folder comes all that was acknowledged before the backup began.
func TestBackupUnderLoadAndRestore(t *testing.T) {
	told := newEar(t)
	data := t.TempDir()
	i := start(t, data, "", nil)
	i.deploy(told.url, "jobs")
	if err := i.PutSecret(t.Context(), "shop", "KEY", "a secret"); err != nil {
		t.Fatal(err)
	}
	i.must("/store?id=before", "stored")
	i.must("/send?to=JOBS&id=fail", "sent")
	told.wait(t, "jobs/fail/1")
	i.must("/send?to=JOBS&id=hang", "sent")
	told.wait(t, "jobs/hang/1")
	const delay = 25
	due := time.Now().Add(delay * time.Second)
	i.must(fmt.Sprintf("/send?to=JOBS&id=delayed&delay=%d", delay), "sent")

	// The queue later has no consumer yet: what is sent to it waits.
	var mu sync.Mutex
	acknowledged := 0
	enough := make(chan struct{})
	sending, stopSending := context.WithCancel(t.Context())
	var sender sync.WaitGroup
	sender.Go(func() {
		for n := 0; sending.Err() == nil; n++ {
			if _, err := i.ask(fmt.Sprintf("/send?to=LATER&id=%d", n)); err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			if acknowledged = n + 1; acknowledged == 100 {
				close(enough)
			}
			mu.Unlock()
		}
	})
	select {
	case <-enough:
	case <-time.After(waitTime):
		t.Fatal("100 messages are not sent in time")
	}
	mu.Lock()
	before := acknowledged
	mu.Unlock()
	dir := t.TempDir()
	file := filepath.Join(dir, "backup.tar.gz")
	var steps []string
	r, err := backup.Make(t.Context(), backup.Options{
		Data: data, File: file, WithKey: true, Version: "test", Log: slog.New(slog.DiscardHandler),
		Progress: func(what string, _, _ int64) {
			if !slices.Contains(steps, what) {
				steps = append(steps, what)
			}
		},
	})
	mu.Lock()
	after := acknowledged
	mu.Unlock()
	stopSending()
	sender.Wait()
	if err != nil {
		t.Fatal(fault.Detail(err))
	}
	t.Logf("%d messages acknowledged before, %d more meanwhile; %d bytes of %d", before, after-before, r.FileBytes, r.Manifest.Bytes())
	if want := []string{"Copying PostgreSQL", "Copying D1 database notes", "Copying KV namespace notes", "Copying R2 buckets", "Copying Durable Objects", "Bringing it to the disk"}; !slices.Equal(steps, want) {
		t.Errorf("the steps were %q", steps)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("beside the backup lies %v (%v)", entries, err)
	}
	i.must("/store?id=after", "stored")
	token, err := os.ReadFile(filepath.Join(data, "admin-token"))
	if err != nil {
		t.Fatal(err)
	}
	told.release()
	i.stop()
	told.forget()

	copied := filepath.Join(t.TempDir(), "copy")
	if _, err := backup.Restore(t.Context(), backup.RestoreOptions{File: file, Data: copied, Progress: quiet}); err != nil {
		t.Fatal(fault.Detail(err))
	}
	i = start(t, copied, string(token), nil)
	if i.Running != 1 {
		t.Errorf("%d apps run", i.Running)
	}
	i.must("/stored", "before+before+before+before")
	i.must("/", "a secret")
	// In flight then: again, without a retry spent. Delayed: at its time.
	told.wait(t, "jobs/hang/1")
	if at := told.wait(t, "jobs/delayed/1"); at.Before(due.Add(-time.Second)) {
		t.Errorf("the delayed message came %s too early", due.Sub(at))
	}
	// The dead letter is in its queue, and so is what waited: new consumers get them.
	if slices.ContainsFunc(told.all(), func(path string) bool { return strings.Contains(path, "/fail/") || strings.HasPrefix(path, "later") }) {
		t.Errorf("delivered was %q", told.all())
	}
	i.deploy(told.url, "jobs", "later", "jobs-dead")
	told.wait(t, "jobs-dead/fail/1")
	for n := range before {
		told.wait(t, fmt.Sprintf("later/%d/1", n))
	}
	// New messages go their way: the numbers go on behind the old ones.
	i.must("/send?to=JOBS&id=new", "sent")
	told.wait(t, "jobs/new/1")
}

// TestBackupOfAStoppedInstance starts the embedded PostgreSQL for the copy; without the key, the secrets wait for it.
func TestBackupOfAStoppedInstance(t *testing.T) {
	told := newEar(t)
	data := t.TempDir()
	i := start(t, data, "", nil)
	i.deploy(told.url, "jobs")
	if err := i.PutSecret(t.Context(), "shop", "KEY", "a secret"); err != nil {
		t.Fatal(err)
	}
	token, err := os.ReadFile(filepath.Join(data, "admin-token"))
	if err != nil {
		t.Fatal(err)
	}
	i.stop()
	file := filepath.Join(t.TempDir(), "backup.tar.gz")
	r, err := backup.Make(t.Context(), backup.Options{Data: data, File: file, Log: slog.New(slog.DiscardHandler), Progress: quiet})
	if err != nil {
		t.Fatal(fault.Detail(err))
	}
	if r.Manifest.Has("secrets.key") || r.Manifest.Has("admin-token") {
		t.Errorf("what opens doors is in the backup: %+v", r.Manifest)
	}
	copied := t.TempDir()
	restored, err := backup.Restore(t.Context(), backup.RestoreOptions{File: file, Data: copied, Progress: quiet})
	if err != nil {
		t.Fatal(fault.Detail(err))
	}
	if !restored.KeyMissing {
		t.Error("nothing is said of the key")
	}
	refused(t, backup.RestoreOptions{File: file, Data: copied, Force: true, Key: filepath.Join(data, "admin-token")}, "secret_key")
	if _, err = backup.Restore(t.Context(), backup.RestoreOptions{File: file, Data: copied, Force: true, Key: filepath.Join(data, "secrets.key"), Progress: quiet}); err != nil {
		t.Fatal(fault.Detail(err))
	}
	i = start(t, copied, string(token), nil)
	i.must("/", "a secret")
}
