//go:build linux

// Package projects_test runs whole projects of examples as their users would: wrangler deploys them to a celld, which is
// killed while they work.
package projects_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/cli"
	"github.com/runlot/runlot/test/port"
)

// waitTime bounds each wait for something to happen, and each run of a tool.
const waitTime = 2 * time.Minute

// asProgram in the environment has this program be the one that it names: celld or runlot.
const asProgram = "RUNLOT_TEST_PROGRAM"

// root is the root of the repository, and the working folder.
var root string

func TestMain(m *testing.M) {
	switch os.Getenv(asProgram) {
	case "celld":
		os.Exit(cli.Celld("v0.0.0-test", os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	case "runlot":
		os.Exit(cli.Runlot("v0.0.0-test", os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	var err error
	if root, err = filepath.Abs("../.."); err == nil {
		err = os.Chdir(root)
	}
	if err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// node is a celld over one data folder; it is killed and started again.
type node struct {
	t                *testing.T
	dir, data        string
	public, operator int
	log              *text
	command          *exec.Cmd
	*client.Client
}

// text is what a program writes.
type text struct {
	mu    sync.Mutex
	bytes bytes.Buffer // guarded by mu
}

func (b *text) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bytes.Write(p)
}

func (b *text) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bytes.String()
}

func wranglerPath() string {
	return filepath.Join(root, "test", "cloudflare", "node_modules", "wrangler", "wrangler-dist", "cli.js")
}

func newNode(t *testing.T) *node {
	t.Helper()
	if _, err := os.Stat(wranglerPath()); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("wrangler is not installed: make test/cloudflare/node_modules/.package-lock.json")
	}
	// Not below t.TempDir, which other users cannot enter: PostgreSQL is one when the test runs as root.
	dir, err := os.MkdirTemp("", "runlot-projects-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	n := &node{t: t, dir: dir, data: filepath.Join(dir, "data"), public: port.Free(t), operator: port.Free(t), log: &text{}}
	t.Cleanup(func() {
		n.kill()
		if t.Failed() {
			t.Logf("what celld said:\n%s", n.log)
		}
	})
	n.start()
	return n
}

// program prepares celld or runlot.
func (n *node) program(ctx context.Context, name string, args ...string) *exec.Cmd {
	n.t.Helper()
	self, err := os.Executable()
	if err != nil {
		n.t.Fatal(err)
	}
	c := exec.CommandContext(ctx, self, args...)
	c.Dir, c.WaitDelay = root, time.Second
	c.Env = append(os.Environ(), asProgram+"="+name)
	return c
}

// runlot runs a command that has to work.
func (n *node) runlot(args ...string) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), waitTime)
	defer cancel()
	if out, err := n.program(ctx, "runlot", args...).CombinedOutput(); err != nil {
		n.t.Fatalf("runlot %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// start starts celld and returns when it answers.
func (n *node) start() {
	n.t.Helper()
	n.command = n.program(context.Background(), "celld", "--data", n.data, "--listen", "127.0.0.1:"+strconv.Itoa(n.public),
		"--operator", "127.0.0.1:"+strconv.Itoa(n.operator), "--park-after", "0", "--allow-private")
	n.command.Stdout, n.command.Stderr = n.log, n.log
	if err := n.command.Start(); err != nil {
		n.t.Fatal(err)
	}
	n.await("celld answers", func() (string, bool) {
		token, err := os.ReadFile(filepath.Join(n.data, "admin-token"))
		if err != nil || len(token) == 0 {
			return "there is no token", false
		}
		if n.Client, err = client.New("http://127.0.0.1:"+strconv.Itoa(n.operator), strings.TrimSpace(string(token))); err != nil {
			n.t.Fatal(err)
		}
		_, err = n.Whoami(n.t.Context())
		return fmt.Sprint(err), err == nil
	})
}

// kill ends celld with SIGKILL.
func (n *node) kill() {
	if n.command == nil {
		return
	}
	_ = n.command.Process.Kill()
	_ = n.command.Wait()
	n.command = nil
}

// await waits until something is there; look says what is instead.
func (n *node) await(what string, look func() (got string, ok bool)) {
	n.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(waitTime)
	for {
		got, ok := look()
		if ok {
			return
		}
		select {
		case <-deadline:
			n.t.Fatalf("%s: not within %s: %s", what, waitTime, got)
		case <-tick.C:
		}
	}
}

// environment is what runlot wrangler-env writes, and what keeps wrangler from the network and from a person's settings.
func (n *node) environment() []string {
	token, err := os.ReadFile(filepath.Join(n.data, "admin-token"))
	if err != nil {
		n.t.Fatal(err)
	}
	base := "http://127.0.0.1:" + strconv.Itoa(n.operator) + "/client/v4"
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + n.dir, "TMPDIR=" + n.dir, "CI=1", "NO_COLOR=1",
		"CLOUDFLARE_API_BASE_URL=" + base, "CLOUDFLARE_BASE_URL=" + base,
		"CLOUDFLARE_API_TOKEN=" + strings.TrimSpace(string(token)), "CLOUDFLARE_ACCOUNT_ID=local",
		"WRANGLER_SEND_METRICS=false", "WRANGLER_HIDE_BANNER=true", "WRANGLER_SEND_ERROR_REPORTS=false",
	}
}

// project copies a project of examples.
func (n *node) project(name string) string {
	n.t.Helper()
	dir := filepath.Join(n.dir, name)
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(root, "examples", name))); err != nil {
		n.t.Fatal(err)
	}
	n.runlot("check", dir)
	return dir
}

// wrangler runs a command in a project.
func (n *node) wrangler(dir, stdin string, args ...string) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), waitTime)
	defer cancel()
	c := exec.CommandContext(ctx, "node", append([]string{"--no-warnings", wranglerPath()}, args...)...)
	c.Dir, c.WaitDelay = dir, time.Second
	c.Env, c.Stdin = n.environment(), strings.NewReader(stdin)
	if out, err := c.CombinedOutput(); err != nil {
		n.t.Fatalf("wrangler %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// edit replaces a text in a file.
func edit(t *testing.T, path, old, text string) {
	t.Helper()
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(before, []byte(old)) {
		t.Fatalf("%s has no %q", path, old)
	}
	if err := os.WriteFile(path, bytes.ReplaceAll(before, []byte(old), []byte(text)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// ask makes a request to an app.
func (n *node) ask(app, method, path string, body []byte, header ...string) (int, []byte, error) {
	r, err := http.NewRequestWithContext(n.t.Context(), method, "http://127.0.0.1:"+strconv.Itoa(n.public)+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	r.Host = app + ".localhost"
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: waitTime}
	response, err := c.Do(r)
	if err != nil {
		return 0, nil, err
	}
	got, err := io.ReadAll(response.Body)
	return response.StatusCode, got, errors.Join(err, response.Body.Close())
}

// want makes a request that has to be answered with a status.
func (n *node) want(status int, app, method, path string, body []byte, header ...string) []byte {
	n.t.Helper()
	got, answer, err := n.ask(app, method, path, body, header...)
	if err != nil || got != status {
		n.t.Fatalf("%s %s of %s: status %d, not %d: %v %s", method, path, app, got, status, err, answer)
	}
	return answer
}

// settled waits until a queue is empty and what it could not do is in its dead-letter queue: messages that have a text, and no
// others. They may be several, since a process that dies does a step twice.
func (n *node) settled(queue, dead, text string) {
	n.t.Helper()
	holds := func(name string, wanted func(messages int64) bool) {
		n.await("what is in "+name, func() (string, bool) {
			q, err := n.Queue(n.t.Context(), "default", name)
			if err != nil {
				return err.Error(), false
			}
			return fmt.Sprintf("%+v", q), wanted(q.Unsettled)
		})
	}
	holds(dead, func(messages int64) bool { return messages > 0 })
	holds(queue, func(messages int64) bool { return messages == 0 })
	letters, err := n.Peek(n.t.Context(), "default", dead, "", "", 0)
	if err != nil {
		n.t.Fatal(err)
	}
	for i := range letters.Items {
		if body := letters.Items[i].Body; !bytes.Contains(body, []byte(text)) {
			n.t.Errorf("%s is in %s: %s", body, dead, letters.Items[i].Reason)
		}
	}
}
