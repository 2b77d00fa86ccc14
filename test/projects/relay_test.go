//go:build linux

package projects_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// buildTime bounds the build of a program over Cloudflare's Go package, which is large.
const buildTime = 10 * time.Minute

// target is what webhooks are forwarded to. It takes none at the first time, and those to /never at no time.
type target struct {
	mu    sync.Mutex
	tries map[string]int    // by path; guarded by mu
	took  map[string]string // bodies by path; guarded by mu
	ids   map[string]string // by path; guarded by mu
	seen  chan struct{}     // gets a value for each request
}

func (g *target) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.tries[r.URL.Path]++
	id := r.Header.Get("Webhook-Id")
	known, again := g.ids[r.URL.Path]
	g.ids[r.URL.Path] = id
	switch {
	case err != nil || again && known != id || r.Header.Get("X-Github-Event") != "push" || r.Header.Get("X-Hub-Signature-256") != sign(body):
		w.WriteHeader(http.StatusBadRequest)
	case r.URL.Path == "/in/never" || g.tries[r.URL.Path] == 1:
		w.WriteHeader(http.StatusServiceUnavailable)
	default:
		g.took[r.URL.Path] = string(body)
	}
	g.seen <- struct{}{}
}

const relaySecret = "sesame"

func sign(body []byte) string {
	h := hmac.New(sha256.New, []byte(relaySecret))
	h.Write(body)
	return "sha256=" + hex.EncodeToString(h.Sum(nil))
}

// relay: every webhook that was answered reaches the target, though celld and the consumer are killed in the middle; what
// the target never takes ends as a dead letter.
func relay(t *testing.T, n *node) {
	const app, hooks = "webhook-relay", 60
	dir := n.project(app)
	consumer := filepath.Join(n.dir, "consumer")
	ctx, cancel := context.WithTimeout(t.Context(), buildTime)
	defer cancel()
	build := exec.CommandContext(ctx, "go", "build", "-o", consumer, ".")
	build.Dir = filepath.Join(root, "examples", app, "consumer")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	n.wrangler(dir, "", "queues", "create", "webhooks")
	n.wrangler(dir, "", "queues", "create", "webhooks-dead")
	n.wrangler(dir, "", "queues", "consumer", "http", "add", "webhooks", "--message-retries", "3", "--dead-letter-queue", "webhooks-dead")
	n.wrangler(dir, "", "deploy")
	n.wrangler(dir, relaySecret, "secret", "put", "WEBHOOK_SECRET")

	g := &target{tries: map[string]int{}, took: map[string]string{}, ids: map[string]string{}, seen: make(chan struct{}, 10_000)}
	server := httptest.NewServer(g)
	defer server.Close()
	out := &text{}
	start := func() (kill func()) {
		c := exec.CommandContext(context.Background(), consumer, "-queue", "webhooks", "-target", server.URL+"/in/")
		c.Env, c.Dir, c.Stdout, c.Stderr, c.WaitDelay = n.environment(), n.dir, out, out, time.Second
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		return sync.OnceFunc(func() {
			_ = c.Process.Kill()
			_ = c.Wait()
		})
	}
	defer func() {
		if t.Failed() {
			t.Logf("what the consumer said:\n%s", out)
		}
	}()
	body := func(i int) []byte { return fmt.Appendf(nil, `{"push": %d, "text": "für dich"}`, i) }
	send := func(status int, path string, body []byte, signature string) {
		n.want(status, app, "POST", path, body, "X-GitHub-Event", "push", "X-Hub-Signature-256", signature, "Content-Type", "application/json")
	}
	for i := range hooks / 2 {
		send(http.StatusAccepted, fmt.Sprintf("/hooks/%d", i), body(i), sign(body(i)))
	}
	send(http.StatusAccepted, "/hooks/never", body(0), sign(body(0)))
	send(http.StatusUnauthorized, "/hooks/forged", body(0), sign(body(1)))
	send(http.StatusUnauthorized, "/hooks/forged", body(0), "")
	send(http.StatusRequestEntityTooLarge, "/hooks/large", []byte(strings.Repeat("x", 100_001)), "")

	kill := start()
	defer func() { kill() }()
	deadline := time.After(waitTime)
	for range hooks / 4 {
		select {
		case <-g.seen:
		case <-deadline:
			t.Fatal("nothing reaches the target")
		}
	}
	n.kill()
	n.start()
	kill()
	kill = start()
	for i := hooks / 2; i < hooks; i++ {
		send(http.StatusAccepted, fmt.Sprintf("/hooks/%d", i), body(i), sign(body(i)))
	}

	n.settled("webhooks", "webhooks-dead", "/never")
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range hooks {
		path := fmt.Sprintf("/in/%d", i)
		if g.took[path] != string(body(i)) || g.tries[path] < 2 {
			t.Errorf("%s: %q after %d tries", path, g.took[path], g.tries[path])
		}
	}
	if len(g.took) != hooks || g.tries["/in/never"] < 2 || len(g.tries) != hooks+1 {
		t.Errorf("the target took %d webhooks, and was asked %d times for one that it never takes: %v", len(g.took), g.tries["/in/never"], g.tries)
	}
}
