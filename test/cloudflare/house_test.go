package cloudflare_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/runlot/runlot/client"
	"github.com/runlot/runlot/internal/adapter/postgres/cluster/clustertest"
	"github.com/runlot/runlot/internal/daemon/celld"
)

// tools is the folder of the npm packages. The tests run in the root of the repository, whose workerd is the one that counts:
// wrangler brings one of its own.
var tools string

func TestMain(m *testing.M) {
	var err error
	if tools, err = os.Getwd(); err == nil {
		err = os.Chdir("../..")
	}
	if err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(clustertest.Main(m))
}

// waitTime bounds each wait for something to happen, and each run of a tool.
const waitTime = 90 * time.Second

// need skips a test where its tools are missing; in CI they must be there.
func need(t *testing.T) {
	t.Helper()
	missing := func(what string) {
		t.Helper()
		if os.Getenv("CI") != "" {
			t.Fatal(what)
		}
		t.Skip(what)
	}
	if _, err := os.Stat(filepath.Join(tools, "node_modules", "wrangler", "package.json")); err != nil {
		missing("the tools are not installed: make test/cloudflare/node_modules/.package-lock.json")
	}
	out, err := exec.CommandContext(t.Context(), "node", "--version").Output()
	if err != nil {
		missing("there is no node")
	}
	parts := strings.Split(strings.TrimPrefix(strings.TrimSpace(string(out)), "v"), ".")
	major, errMajor := strconv.Atoi(parts[0])
	minor, errMinor := strconv.Atoi(parts[min(1, len(parts)-1)])
	if errMajor != nil || errMinor != nil || major < 20 || major == 20 && minor < 3 {
		missing("wrangler needs Node 20.3 or later; this is " + string(out))
	}
}

// house is a celld in this process, and a copy of a project.
type house struct {
	t     *testing.T
	ready celld.Ready
	token string
	dir   string
	// name is that of the app.
	name string
	*client.Client
}

// open starts a celld, and copies a project of testdata.
func open(t *testing.T, project string) *house {
	t.Helper()
	need(t)
	h := &house{t: t, dir: t.TempDir(), name: "shop"}
	if err := os.CopyFS(h.dir, os.DirFS(filepath.Join(tools, "testdata", project))); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended, ready := make(chan error, 1), make(chan celld.Ready, 1)
	data := t.TempDir()
	go func() {
		ended <- celld.Run(ctx, &celld.Settings{
			Data: data, Listen: "127.0.0.1:0", Operator: "127.0.0.1:0", AllowPrivate: true, Version: "test",
			Log: slog.New(slog.DiscardHandler), Ready: func(r celld.Ready) { ready <- r },
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the daemon ended with %v", err)
		}
	})
	select {
	case h.ready = <-ready:
	case err := <-ended:
		ended <- nil
		t.Fatalf("the daemon did not start: %v", err)
	}
	text, err := os.ReadFile(filepath.Join(data, "admin-token"))
	if err != nil {
		t.Fatal(err)
	}
	h.token = strings.TrimSpace(string(text))
	if h.Client, err = client.New(h.ready.Operator, h.token); err != nil {
		t.Fatal(err)
	}
	return h
}

// environment is what a user sets, and what keeps the tools from asking the network and from a person's own settings.
func (h *house) environment() []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + h.dir, "TMPDIR=" + h.dir, "CI=1", "NO_COLOR=1",
		"CLOUDFLARE_API_BASE_URL=" + h.ready.Operator + "/client/v4", "CLOUDFLARE_BASE_URL=" + h.ready.Operator + "/client/v4",
		"CLOUDFLARE_API_TOKEN=" + h.token, "CLOUDFLARE_ACCOUNT_ID=local",
		"WRANGLER_SEND_METRICS=false", "WRANGLER_HIDE_BANNER=true", "WRANGLER_SEND_ERROR_REPORTS=false",
	}
}

// node runs a script with Node in the project, and returns all that it writes.
func (h *house) node(stdin string, args ...string) (string, error) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), waitTime)
	defer cancel()
	c := exec.CommandContext(ctx, "node", args...)
	c.Dir, c.Env, c.Stdin = h.dir, h.environment(), strings.NewReader(stdin)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	return out.String(), err
}

func (h *house) run(stdin, line string) (string, error) {
	h.t.Helper()
	return h.node(stdin, append([]string{"--no-warnings", filepath.Join(tools, "node_modules", "wrangler", "wrangler-dist", "cli.js")}, fields(line)...)...)
}

// fields splits a command line, in which '…' holds spaces together.
func fields(line string) []string {
	quoted := false
	list := strings.FieldsFunc(line, func(r rune) bool {
		if r == '\'' {
			quoted = !quoted
		}
		return r == ' ' && !quoted
	})
	for i := range list {
		list[i] = strings.Trim(list[i], "'")
	}
	return list
}

// wrangler runs a command that has to work, and what it writes has to have the wanted texts.
func (h *house) wrangler(line string, want ...string) string {
	h.t.Helper()
	return h.wranglerWith("", line, want...)
}

func (h *house) wranglerWith(stdin, line string, want ...string) string {
	h.t.Helper()
	out, err := h.run(stdin, line)
	if err != nil {
		h.t.Fatalf("wrangler %s: %v\n%s", line, err, out)
	}
	h.t.Logf("wrangler %s\n%s", line, out)
	has(h.t, "wrangler "+line, out, want...)
	return out
}

// refused runs a command that has to fail, with the wanted texts.
func (h *house) refused(line string, want ...string) {
	h.t.Helper()
	out, err := h.run("", line)
	if err == nil {
		h.t.Errorf("wrangler %s is not refused:\n%s", line, out)
	}
	h.t.Logf("wrangler %s\n%s", line, out)
	has(h.t, "wrangler "+line, out, want...)
}

func has(t *testing.T, what, out string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(out, w) {
			t.Errorf("%s does not say %q:\n%s", what, w, out)
		}
	}
}

// ask makes a request to the app.
func (h *house) ask(path string) string {
	h.t.Helper()
	return h.askOf(h.name, path)
}

// askOf asks an app.
func (h *house) askOf(app, path string) string {
	h.t.Helper()
	r, err := http.NewRequestWithContext(h.t.Context(), http.MethodGet, h.ready.Public+path, http.NoBody)
	if err != nil {
		h.t.Fatal(err)
	}
	r.Host = app + ".localhost"

	r.Header.Set("X-Shop", "yes")
	c := &http.Client{Transport: &http.Transport{}, Timeout: waitTime}
	defer c.CloseIdleConnections()
	response, err := c.Do(r)
	if err != nil {
		h.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// wait waits until something is there; got says what is instead.
func (h *house) wait(what string, is func() (got string, ok bool)) {
	h.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(waitTime)
	for {
		got, ok := is()
		if ok {
			return
		}
		select {
		case <-deadline:
			h.t.Fatalf("%s: %s", what, got)
		case <-tick.C:
		}
	}
}

// until waits until the app answers with a text.
func (h *house) until(path, want string) {
	h.t.Helper()
	h.wait(path+" answers "+want, func() (string, bool) {
		got := h.ask(path)
		return got, strings.Contains(got, want)
	})
}

// empty waits until a queue has no message.
func (h *house) empty(queue string) {
	h.t.Helper()
	h.wait(queue+" is empty", func() (string, bool) {
		q, err := h.Queue(h.t.Context(), "default", queue)
		if err != nil {
			h.t.Fatal(err)
		}
		return fmt.Sprint(q.Unsettled), q.Unsettled == 0
	})
}

// edit replaces a text in a file of the project.
func (h *house) edit(file, old, text string) {
	h.t.Helper()
	path := filepath.Join(h.dir, file)
	before, err := os.ReadFile(path)
	if err != nil {
		h.t.Fatal(err)
	}
	if !bytes.Contains(before, []byte(old)) {
		h.t.Fatalf("%s has no %q", file, old)
	}
	if err := os.WriteFile(path, bytes.ReplaceAll(before, []byte(old), []byte(text)), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// live is the version of shop that serves.
func (h *house) live() (client.Version, []client.Version) {
	h.t.Helper()
	versions, err := h.Versions(h.t.Context(), "shop", 0, 50)
	if err != nil {
		h.t.Fatal(err)
	}
	for i := range versions {
		if versions[i].Live {
			return versions[i], versions
		}
	}
	h.t.Fatal("no version is live")
	panic("unreachable")
}

// count checks a number of something.
func count[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, not %v", what, got, want)
	}
}
