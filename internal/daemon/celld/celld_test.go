package celld_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/adapter/postgres/cluster"
	"github.com/runlot/runlot/internal/adapter/postgres/cluster/clustertest"
	"github.com/runlot/runlot/internal/daemon/celld"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(clustertest.Main(m)) }

var deployments = flag.Int("deployments", 10, "how often TestADeployBreaksNoRequest deploys")

// waitTime bounds each wait for something to happen.
const waitTime = 60 * time.Second

// instance is a daemon in this process.
type instance struct {
	t     *testing.T
	data  string
	park  time.Duration
	stop  func()
	ready celld.Ready
	*client.Client
}

// start runs a daemon on a folder until stop, or the end of the test.
func start(t *testing.T, data string, park time.Duration) *instance {
	t.Helper()
	return startOn(t, data, park, nil)
}

// startOn runs a daemon with PostgreSQL servers of its own.
func startOn(t *testing.T, data string, park time.Duration, databases map[string]string) *instance {
	t.Helper()
	i := &instance{t: t, data: data, park: park}
	ctx, cancel := context.WithCancel(context.Background())
	ended, ready := make(chan error, 1), make(chan celld.Ready, 1)
	go func() {
		ended <- celld.Run(ctx, &celld.Settings{
			Data: data, Listen: "127.0.0.1:0", Operator: "127.0.0.1:0", ParkAfter: park, DatabaseURLs: databases, AllowPrivate: true, Version: "test",
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
	case i.ready = <-ready:
	case err := <-ended:
		ended <- nil
		t.Fatalf("the daemon did not start: %v", err)
	}
	token, err := os.ReadFile(filepath.Join(data, "admin-token"))
	if err != nil {
		t.Fatal(err)
	}
	if i.Client, err = client.New(i.ready.Operator, strings.TrimSpace(string(token))); err != nil {
		t.Fatal(err)
	}
	return i
}

// upload is an app that answers with a word, and whose messages become requests to tell.
func upload(name, word, tell string) *client.Upload {
	code := fmt.Sprintf(`export default {
  async fetch(request, env) {
    const delay = new URL(request.url).searchParams.get("delay");
    if (delay !== null) { await env.JOBS.send("x", { delaySeconds: Number(delay) }); return new Response("sent"); }
    return new Response(%[1]q + " " + await request.text());
  },
  async queue(batch) { for (const m of batch.messages) await fetch(%[2]q + "/" + %[1]q + "/" + m.attempts); },
};`, word, tell)
	return &client.Upload{
		App: name, ConfigFile: "runlot.json", Modules: []client.Module{{Name: "main.mjs", Kind: "esModule", Body: []byte(code)}},
		Config: fmt.Appendf(nil, `{"name": %q, "main": "a.js", "database": %q, "compatibilityDate": "2026-11-01", "queues": {
			"producers": [{"binding": "JOBS", "queue": "jobs"}], "consumers": [{"queue": "jobs", "maxBatchTimeout": 1}]}}`, name, name),
	}
}

func (i *instance) deploy(name, word, tell string) *client.Deployment {
	i.t.Helper()
	u, err := i.Upload(i.t.Context(), upload(name, word, tell))
	if err != nil {
		i.t.Fatal(err)
	}
	d, err := i.Deploy(i.t.Context(), name, &client.Deploy{Version: u.Version.ID})
	if err != nil {
		i.t.Fatal(err)
	}
	return d
}

// ask makes a request to an app.
func ask(c *http.Client, public, name, path, body string) (string, error) {
	r, err := http.NewRequest(http.MethodPost, public+path, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	r.Host = name + ".localhost"
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

func (i *instance) ask(name, path string) string {
	i.t.Helper()
	c := &http.Client{Transport: &http.Transport{}, Timeout: waitTime}
	defer c.CloseIdleConnections()
	text, err := ask(c, i.ready.Public, name, path, "")
	if err != nil {
		i.t.Fatal(err)
	}
	return strings.TrimSpace(text)
}

// makeToken makes a token by a call with an idempotency key, and returns the answer.
func (i *instance) makeToken(key string) string {
	i.t.Helper()
	token, err := os.ReadFile(filepath.Join(i.data, "admin-token"))
	if err != nil {
		i.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(i.t.Context(), http.MethodPost, i.ready.Operator+"/v1/tokens", strings.NewReader(`{"name":"ci","role":"read"}`))
	if err != nil {
		i.t.Fatal(err)
	}
	r.Header = http.Header{"Authorization": {"Bearer " + strings.TrimSpace(string(token))}, "Idempotency-Key": {key}, "Content-Type": {"application/json"}}
	c := &http.Client{Transport: &http.Transport{}, Timeout: waitTime}
	defer c.CloseIdleConnections()
	response, err := c.Do(r)
	if err != nil {
		i.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusCreated {
		i.t.Fatalf("%s %s, %v", response.Status, text, err)
	}
	return string(text)
}

// until waits for a state of an app.
func (i *instance) until(name, state string) client.App {
	i.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(waitTime)
	for {
		a, err := i.App(i.t.Context(), name)
		if err != nil {
			i.t.Fatal(err)
		}
		if a.State == state {
			return *a
		}
		select {
		case <-tick.C:
		case <-deadline:
			i.t.Fatalf("%s is %s (%s), not %s", name, a.State, a.Reason, state)
		}
	}
}

// TestADeployBreaksNoRequest: clients with kept connections and with new ones see no failure and no version older than one
// that was deployed before they asked, over -deployments of them.
func TestADeployBreaksNoRequest(t *testing.T) {
	i := start(t, t.TempDir(), 0)
	i.deploy("shop", "0", "http://127.0.0.1:1")
	var live atomic.Int64
	var stop atomic.Bool
	var requests atomic.Int64
	var clients sync.WaitGroup
	for n := range 8 {
		clients.Go(func() {
			c := &http.Client{Transport: &http.Transport{DisableKeepAlives: n%2 == 0}, Timeout: waitTime}
			defer c.CloseIdleConnections()
			for !stop.Load() {
				least := live.Load()
				body := fmt.Sprintf("%d-%s", n, strings.Repeat("x", n*1000))
				text, err := ask(c, i.ready.Public, "shop", "/", body)
				if err != nil {
					t.Error(err)
					return
				}
				var version int64
				if _, err := fmt.Sscan(text, &version); err != nil || version < least || !strings.HasSuffix(text, " "+body) {
					t.Errorf("answer %.40q after version %d was live", text, least)
				}
				requests.Add(1)
			}
		})
	}
	for n := 1; n <= *deployments; n++ {
		d := i.deploy("shop", fmt.Sprint(n), "http://127.0.0.1:1")
		live.Store(int64(n))
		if d.Version.Number != n+1 {
			t.Errorf("deployment %d made version %d live", n, d.Version.Number)
		}
	}
	stop.Store(true)
	clients.Wait()
	t.Logf("%d requests over %d deployments", requests.Load(), *deployments)
}

func TestWhatWasDeployedComesBack(t *testing.T) {
	data := t.TempDir()
	i := start(t, data, 0)
	i.deploy("shop", "one", "http://127.0.0.1:1")
	i.deploy("shop", "two", "http://127.0.0.1:1")
	i.deploy("blog", "other", "http://127.0.0.1:1")
	if err := i.PutSecret(t.Context(), "shop", "KEY", "x"); err != nil {
		t.Fatal(err)
	}
	made := i.makeToken("a key")
	i.stop()
	i = start(t, data, 0)
	if i.ready.TokenFile != "" || i.ready.Running != 2 {
		t.Errorf("the second start says %+v", i.ready)
	}
	if again := i.makeToken("a key"); again != made {
		t.Errorf("a call that is repeated after a restart is answered %s, and before it %s", again, made)
	}
	if got := i.ask("shop", "/"); got != "two" {
		t.Errorf("shop answers %q", got)
	}
	if got := i.ask("blog", "/"); got != "other" {
		t.Errorf("blog answers %q", got)
	}
	if _, err := i.Deploy(t.Context(), "shop", &client.Deploy{Rollback: true}); err != nil {
		t.Fatal(err)
	}
	if got := i.ask("shop", "/"); got != "one" {
		t.Errorf("shop answers %q after the rollback", got)
	}
	if err := i.DeleteApp(t.Context(), "blog"); err != nil {
		t.Fatal(err)
	}
	if _, err := ask(http.DefaultClient, i.ready.Public, "blog", "/", ""); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("a deleted app: %v", err)
	}
	http.DefaultClient.CloseIdleConnections()
}

// TestADeletedAppLeavesNoCrons: one of the same name must not run an occurrence of the time before it.
func TestADeletedAppLeavesNoCrons(t *testing.T) {
	data := t.TempDir()
	i := start(t, data, 0)
	u, err := i.Upload(t.Context(), &client.Upload{
		App: "tick", ConfigFile: "runlot.json", Modules: []client.Module{{Name: "main.mjs", Kind: "esModule", Body: []byte(`export default { scheduled() {} };`)}},
		Config: []byte(`{"name": "tick", "main": "a.js", "database": "tick", "compatibilityDate": "2026-11-01", "crons": ["0 0 1 1 *"]}`),
	})
	if err == nil {
		_, err = i.Deploy(t.Context(), "tick", &client.Deploy{Version: u.Version.ID})
	}
	if err != nil {
		t.Fatal(err)
	}
	access, err := cluster.Locate(filepath.Join(data, "postgres"), "tick")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), access.OwnerURL())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	remembered := func() (n int) {
		t.Helper()
		if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM runlot_queue.cron").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(waitTime)
	for remembered() == 0 {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("the cron is not remembered")
		}
	}
	if err := i.DeleteApp(t.Context(), "tick"); err != nil {
		t.Fatal(err)
	}
	if n := remembered(); n != 0 {
		t.Errorf("%d crons are remembered of an app that was deleted", n)
	}
}

// TestAnIdleAppIsParked: its process is gone, also after a restart of the daemon; a request brings it back, and so does a
// message that falls due.
func TestAnIdleAppIsParked(t *testing.T) {
	told := make(chan string, 10)
	ear := newEar(t, told)
	data := t.TempDir()
	const park = 200 * time.Millisecond
	i := start(t, data, park)
	i.deploy("shop", "awake", ear)
	parked := i.until("shop", "parked")
	if parked.MemoryBytes != 0 {
		t.Errorf("a parked app has %d bytes", parked.MemoryBytes)
	}
	if got := i.ask("shop", "/"); got != "awake" {
		t.Errorf("a parked app answers %q", got)
	}
	if got := i.ask("shop", "/?delay=2"); got != "sent" {
		t.Errorf("the app answers %q", got)
	}
	i.until("shop", "parked")
	i.stop()
	i = start(t, data, park)
	select {
	case path := <-told:
		if path != "/awake/1" {
			t.Errorf("the handler told %q", path)
		}
	case <-time.After(waitTime):
		t.Error("a message did not wake its app")
	}
	if a := i.until("shop", "parked"); a.Messages != 0 {
		t.Errorf("%d messages wait", a.Messages)
	}
}
