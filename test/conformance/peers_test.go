package conformance_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/runlot/runlot/internal/adapter/binaries"
	"github.com/runlot/runlot/internal/config/source"
	"github.com/runlot/runlot/internal/daemon"
)

var peersFolder = flag.String("peers", "", "the folder of Miniflare (test/peers): run the cases there and on workerd's own queue, and compare")

// quiet is how long nothing may come after the last delivery that a case waits for.
const quiet = 5 * time.Second

// peerDate is a compatibility date that both peers know. A fixture's own counts.
const peerDate = "2026-07-30"

// peer is another implementation of the same API. The fixtures run on it as they are, and it is judged by what a handler
// and a producer see: it has no records of batches, and its store is closed.
type peer struct {
	name string
	// title is a heading for people.
	title string
	// command runs the project in a folder, writing where it listens to file descriptor 3 and logs to standard output.
	command func(ctx context.Context, dir string) (*exec.Cmd, error)
	// refuses are keys of a producer that the peer does not start with.
	refuses []string
	// skips are the cases that cannot run on it.
	skips []peerNote
	// differs are the cases that come to something else on it.
	differs []peerNote
}

// peerNote says of some cases why they do not run on a peer, or what the peer does instead.
type peerNote struct {
	// cases are ids or beginnings of ids ("sql-*"), with spaces between them.
	cases string
	// why is a sentence for a person.
	why string
}

// names tells whether a list of ids and of beginnings of ids has an id.
func names(list, id string) bool {
	return slices.ContainsFunc(strings.Fields(list), func(pattern string) bool {
		beginning, open := strings.CutSuffix(pattern, "*")
		return pattern == id || open && strings.HasPrefix(id, beginning)
	})
}

// noted returns what the notes say of a case.
func noted(notes []peerNote, id string) (string, bool) {
	for i := range notes {
		if names(notes[i].cases, id) {
			return notes[i].why, true
		}
	}
	return "", false
}

// peerApps are the fixtures that some case runs on a peer. The others speak our own dialect or need our own doors.
var peerApps = []string{"plan", "send", "types", "entrypoint", "serviceworker"}

func TestPeers(t *testing.T) {
	if *peersFolder == "" {
		t.Skip(`"make conformance-peers" runs it`)
	}
	folder, err := filepath.Abs(*peersFolder)
	if err != nil {
		t.Fatal(err)
	}
	all := cases()
	for _, p := range peers(folder) {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			h := &house{gate: newGate(t)}
			h.development = p.start(t, h.gate)
			h.production = h.development
			t.Run("case", func(t *testing.T) {
				for i := range all {
					c := &all[i]
					t.Run(c.id, func(t *testing.T) {
						t.Parallel()
						p.judge(t, h, c)
					})
				}
			})
		})
	}
}

// start runs every app of the peer until the end of the test.
func (p *peer) start(t *testing.T, g *gate) *node {
	t.Helper()
	n := &node{collector: newCollector(), dir: t.TempDir(), outside: true}
	summary := &daemon.Summary{}
	for _, app := range peerApps {
		dir := filepath.Join(n.dir, app)
		if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", app))); err != nil {
			t.Fatal(err)
		}
		if err := p.translate(dir, g.url); err != nil {
			t.Fatalf("%s: %v", app, err)
		}
		port, err := p.run(t, dir, n.collector)
		if err != nil {
			t.Fatalf("%s does not start %s: %v", p.name, app, err)
		}
		summary.Apps = append(summary.Apps, daemon.AppSummary{Name: app, URL: "http://127.0.0.1:" + strconv.Itoa(port)})
	}
	n.Started(summary)
	return n
}

// translate writes a fixture's configuration anew, as the one file that the peers read: JSON without what they refuse,
// with the gate among the vars.
func (p *peer) translate(dir, gateURL string) error {
	var config map[string]any
	for name, parse := range map[string]func(string, []byte) (*source.Document, source.Problems){
		"wrangler.json": source.ParseJSONC, "wrangler.jsonc": source.ParseJSONC, "wrangler.toml": source.ParseTOML,
	} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		document, problems := parse(name, text)
		if problems != nil {
			return problems
		}
		plain, _ := document.Root.JSON()
		if err := json.Unmarshal(plain, &config); err != nil {
			return err
		}
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	if config == nil {
		return errors.New("no configuration")
	}
	if config["compatibility_date"] == nil {
		config["compatibility_date"] = peerDate
	}
	config["no_bundle"] = true
	delete(config, "hyperdrive")
	vars, _ := config["vars"].(map[string]any)
	if vars == nil {
		vars = map[string]any{}
	}
	vars["GATE"] = gateURL
	config["vars"] = vars
	queues, _ := config["queues"].(map[string]any)
	producers, _ := queues["producers"].([]any)
	for _, entry := range producers {
		for _, key := range p.refuses {
			delete(entry.(map[string]any), key)
		}
	}
	text, err := json.Marshal(config)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "wrangler.jsonc"), text, 0o600)
}

// run starts one app and returns its port.
func (p *peer) run(t *testing.T, dir string, c *collector) (int, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd, err := p.command(ctx, dir)
	if err != nil {
		cancel()
		return 0, err
	}
	control, write, err := os.Pipe()
	if err != nil {
		cancel()
		return 0, err
	}
	defer control.Close()
	var failures bytes.Buffer
	cmd.Dir, cmd.ExtraFiles, cmd.Stderr = dir, []*os.File{write}, &failures
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	_ = write.Close()
	if err != nil {
		cancel()
		return 0, err
	}
	var reading sync.WaitGroup
	reading.Go(func() { c.read(filepath.Base(dir), out) })
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait()
		reading.Wait()
	})
	var listen struct{ Port int }
	line, err := bufio.NewReader(control).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &listen)
	}
	if err != nil || listen.Port == 0 {
		cancel()
		_ = cmd.Wait()
		return 0, fmt.Errorf("%w: %s", err, bytes.TrimSpace(failures.Bytes()))
	}
	return listen.Port, nil
}

// read takes the lines that handlers log. Each is a delivery, which ends for all that is known when it begins.
func (c *collector) read(app string, out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for number := 0; lines.Scan(); number++ {
		e := event{delivery: app + strconv.Itoa(number)}
		if !strings.HasPrefix(lines.Text(), "{") || json.Unmarshal(lines.Bytes(), &e) != nil || e.Queue == "" {
			continue
		}
		c.add(func() {
			c.events = append(c.events, e)
			c.records = append(c.records, daemon.Record{
				App: app, Queue: e.Queue, Delivery: e.delivery, Start: time.Now(), Delivered: len(e.Messages),
			})
		})
	}
}

// judge runs a case and holds what came of it against what is known of the peer.
func (p *peer) judge(t *testing.T, h *house, c *testCase) {
	t.Helper()
	if why, ok := noted(p.skips, c.id); ok {
		t.Skip(why)
	}
	why, known := noted(p.differs, c.id)
	course := tried(t, h, c)
	switch {
	case course == nil && known:
		t.Errorf("the peer keeps the rule now (%s); the note is stale: %s", c.rule, why)
	case course != nil && !known:
		t.Errorf("the peer differs: %s (%s)\n%v", c.rule, c.source, course)
	case course != nil:
		t.Logf("differs, as noted: %s\n%v", why, course)
	}
}

// tried runs a case to its end and returns how it fails.
func tried(t *testing.T, h *house, c *testCase) error {
	t.Helper()
	a := &attempted{TB: t}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer func() {
			if reason := recover(); reason != nil {
				a.failf("the case needs what a peer does not have: %v", reason)
			}
		}()
		r := &run{TB: a, house: h, node: h.development, c: c, o: &observation{}}
		c.drive(r)
		select {
		case <-time.After(quiet):
		case <-t.Context().Done():
		}
		r.observe()
		if err := c.check(r.o); err != nil {
			a.failf("%v\nobserved: %q", err, r.o.trace(c))
		}
	}()
	<-ended
	return a.failure
}

// attempted keeps what would end a test.
type attempted struct {
	testing.TB
	failure error
}

func (a *attempted) failf(format string, args ...any) {
	if a.failure == nil {
		a.failure = fmt.Errorf(format, args...)
	}
}

// Errorf keeps the first failure.
func (a *attempted) Errorf(format string, args ...any) { a.failf(format, args...) }

// Fatalf keeps the first failure and ends the case.
func (a *attempted) Fatalf(format string, args ...any) {
	a.failf(format, args...)
	runtime.Goexit()
}

// Fatal is like Fatalf.
func (a *attempted) Fatal(args ...any) { a.Fatalf("%s", fmt.Sprint(args...)) }

// peers are the other implementations. folder holds Miniflare.
func peers(folder string) []*peer {
	return []*peer{
		{
			name: "workerd", title: "workerd's own queue (`workerd serve wrangler.jsonc --experimental`)", refuses: []string{"delivery_delay"}, skips: workerdSkips, differs: workerdDiffers,
			command: func(ctx context.Context, dir string) (*exec.Cmd, error) {
				program, err := binaries.Workerd(".")
				if err != nil {
					return nil, err
				}
				return exec.CommandContext(ctx, program, "serve", filepath.Join(dir, "wrangler.jsonc"), "--experimental",
					"--control-fd=3", "--socket-addr", "http=127.0.0.1:0"), nil
			},
		},
		{
			name: "Miniflare", title: "Miniflare, the simulator of `wrangler dev`", skips: miniflareSkips, differs: miniflareDiffers,
			command: func(ctx context.Context, dir string) (*exec.Cmd, error) {
				return exec.CommandContext(ctx, "node", filepath.Join(folder, "miniflare.mjs"), dir), nil
			},
		},
	}
}
