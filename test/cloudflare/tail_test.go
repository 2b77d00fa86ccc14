package cloudflare_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/runlot/runlot/client"
)

// follower is a `wrangler tail` that runs.
type follower struct {
	h    *house
	cmd  *exec.Cmd
	done chan struct{}

	mu   sync.Mutex
	text strings.Builder
}

func (h *house) follow(args ...string) *follower {
	h.t.Helper()
	f := &follower{h: h, done: make(chan struct{})}
	f.cmd = exec.Command("node", append([]string{"--no-warnings", filepath.Join(tools, "node_modules", "wrangler", "wrangler-dist", "cli.js"), "tail"}, args...)...)
	f.cmd.Dir, f.cmd.Env = h.dir, h.environment()
	out, err := f.cmd.StdoutPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	f.cmd.Stderr = f.cmd.Stdout
	if err := f.cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	go func() {
		defer close(f.done)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			f.mu.Lock()
			f.text.WriteString(lines.Text() + "\n")
			f.mu.Unlock()
		}
	}()
	h.t.Cleanup(func() {
		_ = f.cmd.Process.Kill() // it may have ended
		<-f.done
		_ = f.cmd.Wait() // killed, as a rule
	})
	return f
}

func (f *follower) said() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.text.String()
}

// until does something until the follower has said a text.
func (f *follower) until(want string, do func()) {
	f.h.t.Helper()
	f.h.wait("wrangler tail says "+want, func() (string, bool) {
		if do != nil {
			do()
		}
		got := f.said()
		return got, strings.Contains(got, want)
	})
}

// interrupt ends it as a person does.
func (f *follower) interrupt() {
	f.h.t.Helper()
	if err := f.cmd.Process.Signal(os.Interrupt); err != nil {
		f.h.t.Fatal(err)
	}
	<-f.done
}

// api makes a call of Cloudflare's API that has to work, and returns its result.
func (h *house) api(method, path string) json.RawMessage {
	h.t.Helper()
	r, err := http.NewRequestWithContext(h.t.Context(), method, h.ready.Operator+"/client/v4"+path, http.NoBody)
	if err != nil {
		h.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+h.token)
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: waitTime}
	response, err := c.Do(r)
	if err != nil {
		h.t.Fatal(err)
	}
	defer response.Body.Close()
	var e struct{ Result json.RawMessage }
	if err := json.NewDecoder(response.Body).Decode(&e); err != nil || response.StatusCode != http.StatusOK {
		h.t.Fatalf("%s %s: %d %v", method, path, response.StatusCode, err)
	}
	return e.Result
}

// tails counts those that celld knows of.
func (h *house) tails() int {
	h.t.Helper()
	var list []map[string]any
	if err := json.Unmarshal(h.api("GET", "/accounts/local/workers/scripts/watched/tails"), &list); err != nil {
		h.t.Fatal(err)
	}
	return len(list)
}

func TestWranglerTail(t *testing.T) {
	t.Parallel()
	h := open(t, "watched")
	h.name = "watched"
	h.wrangler("queues create jobs")
	h.wrangler("deploy", "Current Version ID")
	pretty := h.follow("--format", "pretty")
	events := h.follow("--format", "json", "--method", "PUT", "--method", "GET", "--search", "order 7", "--header", "x-shop: yes")
	failed := h.follow("watched", "--format", "json", "--status", "error")

	pretty.until("/hello - Ok @", func() { h.ask("/hello") })
	pretty.until("/boom - Exception Thrown @", func() { h.ask("/boom") })
	pretty.until("TypeError: boom", nil)
	pretty.until("src/index.ts:12:", nil)
	has(t, "pretty", pretty.said(), "Successfully created tail", "(log) hello { path: '/hello' }")
	failed.until(`"boom"`, func() { h.ask("/boom") })
	events.until("order 7", func() { h.ask("/order?n=7") })
	h.ask("/send?n=3")
	pretty.until("Queue jobs (1 message) - Ok @", nil)
	pretty.until("(warn) job 3", nil)
	if _, err := h.RunCron(t.Context(), "watched", &client.RunCron{Cron: "0 3 * * *"}); err != nil {
		t.Fatal(err)
	}
	pretty.until(`"0 3 * * *" @`, nil)
	if text := failed.said(); strings.Contains(text, "hello") || strings.Contains(text, "jobs") {
		t.Errorf("--status error says %s", text)
	}
	if text := events.said(); strings.Contains(text, "hello") || strings.Contains(text, "boom") {
		t.Errorf("--search says %s", text)
	}
	var event struct {
		Outcome   string
		Script    string              `json:"scriptName"`
		Version   struct{ ID string } `json:"scriptVersion"`
		Timestamp int64               `json:"eventTimestamp"`
		Logs      []struct {
			Level   string
			Message []string
		}
		Event struct {
			Request  struct{ URL, Method string }
			Response struct{ Status int }
		}
	}
	text := events.said()
	_, rest, _ := strings.Cut(text, "{")
	if err := json.NewDecoder(strings.NewReader("{" + rest)).Decode(&event); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if event.Outcome != "ok" || event.Script != "watched" || !uuid.MatchString(event.Version.ID) || event.Timestamp == 0 || event.Logs[0].Message[0] != "order 7" ||
		event.Event.Request.Method != http.MethodGet || event.Event.Response.Status != 200 || !strings.HasSuffix(event.Event.Request.URL, "/order?n=7") {
		t.Errorf("event %+v", event)
	}

	// A new version is followed too, and who goes away is forgotten.
	h.edit("src/index.ts", `"hello"`, `"hi again"`)
	h.wrangler("deploy")
	pretty.until("(log) hi again", func() { h.ask("/hello") })
	count(t, "tails", h.tails(), 3)
	pretty.interrupt()
	events.interrupt()
	failed.interrupt()
	h.wait("no tail is left", func() (string, bool) { n := h.tails(); return string(rune('0' + n)), n == 0 })
	h.refused("tail --ip self", "celld does not keep it")
	h.refused("tail nothing", "there is no app nothing", "10007")
}
