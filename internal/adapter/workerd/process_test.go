package workerd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/runlot/runlot/internal/adapter/workerd/workerdtest"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/dispatch"
)

func TestStartErrorsSayWhere(t *testing.T) {
	for _, test := range []struct {
		name, code, want, message string
		change                    func(*Spec)
	}{
		{name: "syntax", code: "export default {\n queue() { return (1 } };", want: "worker_syntax", message: "main.mjs:2:21: SyntaxError"},
		{name: "throw", code: "function f() {\n  throw new TypeError('boom');\n}\nf();\nexport default {};", want: "worker_threw", message: "main.mjs:2:9: TypeError: boom\n    at f (main.mjs:2:9)\n    at main.mjs:4:1"},
		{name: "text", code: "throw 'boom';", want: "worker_threw", message: "Error: boom"},
		{name: "module", code: "import x from './nope.mjs'; export default {};", want: "worker_module", message: "Module not found"},
		{name: "await", code: "await new Promise(() => {}); export default {};", want: "worker_await", message: "at its top level"},
		{name: "reject", code: "await Promise.reject(new Error('no')); export default {};", want: "worker_threw", message: "main.mjs:1:22: Error: no"},
		{name: "default", code: "export const x = 1;", want: "worker_handler", message: "no default export"},
		{name: "flag", code: "export default {};", want: "worker_flag", message: "No such compatibility flag: nope", change: func(s *Spec) { s.Manifest.CompatibilityFlags = []string{"nope"} }},
		{name: "late date", code: "export default {};", want: "worker_date", message: "2030-01-01", change: func(s *Spec) { s.Manifest.CompatibilityDate = "2030-01-01" }},
		{name: "bad date", code: "export default {};", want: "worker_date", message: "nonsense", change: func(s *Spec) { s.Manifest.CompatibilityDate = "nonsense" }},
		{name: "empty", want: "bundle_empty", message: "no module", change: func(s *Spec) { s.Bundle = &app.Bundle{} }},
		{name: "long secret", code: "export default {};", want: "secret_size", message: "secret KEY", change: func(s *Spec) { s.Secrets = map[string]string{"KEY": strings.Repeat("x", queue.MaxSecret+1)} }},
		{name: "secret with NUL", code: "export default {};", want: "secret_nul", message: "secret KEY", change: func(s *Spec) { s.Secrets = map[string]string{"KEY": "\x00"} }},
		{name: "service worker", code: "\n  throw new Error('no');", want: "worker_threw", message: "main.mjs:2:9: Error: no", change: func(s *Spec) { s.Bundle.ServiceWorker = true }},
		{name: "service worker, first line", code: "throw new Error('no');", want: "worker_threw", message: "main.mjs:1:7: Error: no", change: func(s *Spec) { s.Bundle.ServiceWorker = true }},
	} {
		t.Run(test.name, func(t *testing.T) {
			var dir string
			_, err := tryRun(t, test.code, func(_ *Runtime, spec *Spec) {
				dir = spec.Dir
				if test.change != nil {
					test.change(spec)
				}
			})
			f := fault.From(err)
			if err == nil || f.Code != test.want || !strings.Contains(f.Message, test.message) || strings.Contains(f.Message, "runlot") {
				t.Errorf("error %+v", f)
			}
			if left, _ := os.ReadDir(dir); len(left) > 0 {
				t.Errorf("left in the folder: %v", left)
			}
		})
	}
}

func TestStartIsBounded(t *testing.T) {
	_, err := tryRun(t, `while (true) {}`, func(r *Runtime, _ *Spec) { r.startTime = time.Second })
	if f := fault.From(err); f.Kind != fault.Timeout || f.Code != "worker_start_time" {
		t.Errorf("error %+v", f)
	}
}

func TestProbeErrorsSayWhere(t *testing.T) {
	r := newRuntime(t)
	r.probeTime = 2 * time.Second
	for _, test := range []struct {
		name, code, want, message string
		change                    func(*app.Manifest, *app.Bundle)
	}{
		{name: "syntax", code: "export default {\n queue() { return (1 } };", want: "worker_syntax", message: "main.mjs:2:21: SyntaxError"},
		{name: "throw", code: "\n\nthrow new TypeError('boom');", want: "worker_threw", message: "main.mjs:3:7: TypeError: boom"},
		{name: "module", code: "import x from './nope.mjs'; export default {};", want: "worker_module", message: "Module not found"},
		{name: "loop", code: "while (true) {}", want: "worker_start_time", message: "did not start in time"},
		{name: "fetch at top level", code: "await fetch('http://example.com/'); export default {};", want: "worker_threw", message: "Disallowed operation called within global scope"},
		{name: "await", code: "await new Promise(() => {}); export default {};", want: "worker_await", message: "at its top level"},
		{name: "experimental flag", code: "export default {};", want: "worker_flag", message: "service_binding_extra_handlers is experimental", change: func(m *app.Manifest, _ *app.Bundle) {
			m.CompatibilityFlags = []string{"service_binding_extra_handlers"}
		}},
		{name: "service worker", code: "throw new Error('no');", want: "worker_threw", message: "main.mjs:1:7: Error: no", change: func(_ *app.Manifest, b *app.Bundle) { b.ServiceWorker = true }},
		{name: "service worker with modules", code: "x", want: "bundle_service_worker", message: "x.wasm", change: func(_ *app.Manifest, b *app.Bundle) {
			b.ServiceWorker = true
			b.Modules = append(b.Modules, app.Module{Name: "x.wasm", Kind: app.Wasm})
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			m, b := manifest(), bundle(test.code)
			if test.change != nil {
				test.change(m, b)
			}
			_, err := r.Probe(t.Context(), m, b, nil)
			if f := fault.From(err); err == nil || f.Code != test.want || !strings.Contains(f.Message, test.message) || strings.Contains(f.Message, "runlot") {
				t.Errorf("error %+v", f)
			}
		})
	}
}

func TestStartNamesAMissingBinary(t *testing.T) {
	r := New("/nonexistent/workerd", slog.New(slog.DiscardHandler))
	for _, run := range []func() error{
		func() error { _, err := r.Start(t.Context(), Spec{}); return err },
		func() error { _, err := r.Probe(t.Context(), manifest(), bundle("export default {}"), nil); return err },
	} {
		if f := fault.From(run()); f.Code != "workerd_missing" || f.Kind != fault.Environment || f.Hint == "" {
			t.Errorf("error %+v", f)
		}
	}
}

func TestStartLogsWhatModulesSay(t *testing.T) {
	w := run(t, `console.log("loading"); export default { queue() {} };`, nil)
	if line := w.logs.find(t, "loading"); line.Event != "start" || line.Level != "info" {
		t.Errorf("line %+v", line)
	}
}

// deliverAsync delivers in the background.
func (w *world) deliverAsync(ctx context.Context, d *dispatch.Delivery) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := w.Deliver(ctx, d)
		done <- err
	}()
	return done
}

// hang is a worker whose handler never ends, and says over fetch how many run.
const hang = `let running = 0;
export default {
  fetch() { return new Response(String(running)); },
  async queue(batch) { running++; const what = batch.messages[0].body; 
    if (what === "loop") { while (true) {} }
    if (what === "memory") { const all = []; while (true) { all.push(new Array(1e6).fill({})); } }
    await scheduler.wait(what === "short" ? 300 : 1e8);
  },
};`

// started waits until a handler has begun.
func (w *world) started(tb testing.TB) {
	tb.Helper()
	for w.get(tb, "/") != "1" {
	}
}

func TestAKilledProcessLosesItsDeliveries(t *testing.T) {
	w := run(t, hang, nil)
	d := w.deliverAsync(t.Context(), delivery("d", jsons(`"wait"`)...))
	w.started(t)
	if err := syscall.Kill(w.child.cmd.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := <-d; !errors.Is(err, dispatch.ErrLost) || !strings.Contains(err.Error(), "killed") {
		t.Errorf("error %v", err)
	}
	<-w.Done()
	if err := w.Err(); fault.From(err).Code != "worker_ended" {
		t.Errorf("end %v", err)
	}
	if _, err := w.Deliver(t.Context(), delivery("d2", jsons(`1`)...)); !errors.Is(err, dispatch.ErrGone) {
		t.Errorf("after the end: %v", err)
	}
	if _, err := os.Stat(w.place.Dir); !os.IsNotExist(err) {
		t.Errorf("the folder is left: %v", err)
	}
}

func TestOutOfMemoryIsNamed(t *testing.T) {
	w := run(t, hang, func(r *Runtime, _ *Spec) { r.heapMiB = 32 })
	_, err := w.Deliver(t.Context(), delivery("d", jsons(`"memory"`)...))
	if !errors.Is(err, dispatch.ErrLost) || !strings.Contains(err.Error(), "out of memory; the limit is 32 MiB") {
		t.Errorf("error %v", err)
	}
}

func TestTheWatchdogKillsALoop(t *testing.T) {
	w := run(t, hang, func(r *Runtime, _ *Spec) { r.pingEvery, r.pingTime = 50*time.Millisecond, 2*time.Second })
	other := w.deliverAsync(t.Context(), delivery("other", jsons(`"wait"`)...))
	w.started(t)
	_, err := w.Deliver(t.Context(), delivery("d", jsons(`"loop"`)...))
	if !errors.Is(err, dispatch.ErrLost) || !regexp.MustCompile(`it did not answer for [1-9]\d* s: a loop in a handler, or out of memory$`).MatchString(err.Error()) {
		t.Errorf("error %v", err)
	}
	if err := <-other; !errors.Is(err, dispatch.ErrLost) || !strings.Contains(err.Error(), "loop") {
		t.Errorf("the other delivery: %v", err)
	}
}

func TestACancelledLoopIsKilled(t *testing.T) {
	w := run(t, hang, func(r *Runtime, _ *Spec) { r.cancelGrace = 250 * time.Millisecond })
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := w.Deliver(ctx, delivery("d", jsons(`"loop"`)...)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	<-w.Done()
	if err := w.Err(); err == nil || !strings.Contains(err.Error(), "did not let go") {
		t.Errorf("end %v", err)
	}
}

func TestDrainFinishesWhatIsInFlight(t *testing.T) {
	w := run(t, hang, nil)
	d := w.deliverAsync(t.Context(), delivery("d", jsons(`"short"`)...))
	w.started(t)
	if err := w.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-d; err != nil {
		t.Errorf("the delivery in flight: %v", err)
	}
	if w.Err() != nil {
		t.Errorf("end %v", w.Err())
	}
	if err := w.Drain(t.Context()); err != nil {
		t.Errorf("second drain: %v", err)
	}
	if _, err := w.Deliver(t.Context(), delivery("d2", jsons(`1`)...)); !errors.Is(err, dispatch.ErrGone) {
		t.Errorf("after the drain: %v", err)
	}
}

func TestDrainKillsWhenItsTimeIsOver(t *testing.T) {
	w := run(t, hang, nil)
	d := w.deliverAsync(t.Context(), delivery("d", jsons(`"wait"`)...))
	w.started(t)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := w.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("drain: %v", err)
	}
	if err := <-d; !errors.Is(err, dispatch.ErrLost) {
		t.Errorf("the delivery in flight: %v", err)
	}
}

// TestDrainWaitsForWhatIsOnItsWay: a request or delivery that was let in is answered, whatever the process had read of it
// when the drain began; what comes later is refused unseen.
func TestDrainWaitsForWhatIsOnItsWay(t *testing.T) {
	for range 20 {
		w := run(t, `export default { async fetch() { await scheduler.wait(5); return new Response("ok"); }, queue() {} };`, nil)
		var clients sync.WaitGroup
		warm := make(chan struct{}, 1)
		for range 4 {
			clients.Go(func() {
				for {
					r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://worker/", strings.NewReader("x"))
					if err != nil {
						t.Error(err)
						return
					}
					response, err := w.RoundTrip(r)
					if errors.Is(err, dispatch.ErrGone) {
						return
					}
					if err != nil {
						t.Errorf("a request broke: %v", err)
						return
					}
					if text, err := io.ReadAll(response.Body); err != nil || string(text) != "ok" {
						t.Errorf("answer %q, %v", text, err)
					}
					_ = response.Body.Close()
					select {
					case warm <- struct{}{}:
					default:
					}
				}
			})
			clients.Go(func() {
				for {
					if _, err := w.Deliver(context.Background(), delivery("d", jsons(`1`)...)); errors.Is(err, dispatch.ErrGone) {
						return
					} else if err != nil {
						t.Errorf("a delivery broke: %v", err)
						return
					}
				}
			})
		}
		<-warm
		if err := w.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		clients.Wait()
	}
}

func TestALongFolderHasItsSocketsElsewhere(t *testing.T) {
	var short string
	w := run(t, `export default { queue() {} };`, func(_ *Runtime, spec *Spec) {
		spec.Dir = filepath.Join(spec.Dir, strings.Repeat("x", 100))
		if err := os.Mkdir(spec.Dir, 0o700); err != nil {
			t.Fatal(err)
		}
	})
	short = filepath.Dir(w.place.Socket(routerSocket))
	if short == w.place.Dir {
		t.Fatal("the path is not long")
	}
	w.deliver(t, "d", jsons(`1`)...)
	if err := w.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if exists(short) {
		t.Error("the second folder is left")
	}
}

func TestOutboundTrafficIsPublicOnly(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "inside") })}
	go server.Serve(l)
	defer server.Close()
	code := `export default { async fetch() { try { return new Response(await (await fetch("http://` + l.Addr().String() + `/")).text()); } catch (e) { return new Response("refused"); } }, queue() {} };`
	if got := run(t, code, nil).get(t, "/"); got == "inside" {
		t.Errorf("a private address answers %q", got)
	}
	if got := run(t, code, func(_ *Runtime, spec *Spec) { spec.AllowPrivate = true }).get(t, "/"); got != "inside" {
		t.Errorf("with AllowPrivate: %q", got)
	}
}

// orphanEnv makes the test binary a parent that starts a worker, prints its pid and waits to be killed.
const orphanEnv = "RUNLOT_TEST_ORPHAN"

func orphanParent() {
	p, err := New(os.Getenv(orphanEnv), slog.New(slog.DiscardHandler)).Start(context.Background(), Spec{
		Manifest: manifest(), Bundle: bundle(`export default { queue() {} };`), Dir: os.Getenv("TMPDIR"),
	})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(p.child.cmd.Process.Pid)
	select {}
}

func TestNoOrphanAfterKill(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), orphanEnv+"="+workerdtest.Binary(t), "TMPDIR="+t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatalf("the parent says %q", line)
	}
	if err := syscall.Kill(pid, 0); err != nil {
		t.Fatalf("the worker does not run: %v", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	for deadline := time.Now().Add(time.Minute); alive(pid); {
		if time.Now().After(deadline) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			t.Fatal("the worker outlives its parent")
		}
	}
}

// alive reports whether a process runs: one that ended and waits to be reaped by init does not.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(after, "Z")
}

func TestChildrenHaveOurLimitOfFiles(t *testing.T) {
	w := run(t, `export default { queue() {} };`, nil)
	var ours syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &ours); err != nil {
		t.Fatal(err)
	}
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", w.child.cmd.Process.Pid))
	if err != nil {
		t.Skip("no /proc here")
	}
	_, line, _ := strings.Cut(string(limits), "Max open files")
	if got := strings.Fields(line)[0]; got != strconv.FormatUint(ours.Cur, 10) {
		t.Errorf("the limit of the worker process is %s; ours is %d", got, ours.Cur)
	}
}
