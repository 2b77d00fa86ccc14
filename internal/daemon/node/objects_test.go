package node

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/runlot/runlot/internal/adapter/workerd/workerdtest"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	folder "github.com/runlot/runlot/internal/daemon/state"
)

// counter has a class that counts, and whose alarm counts too.
const counter = `import { DurableObject } from "cloudflare:workers";
export class %[1]s extends DurableObject {
  async fetch(request) {
    const { pathname, searchParams } = new URL(request.url);
    if (pathname === "/alarm") return new Response(String(await this.ctx.storage.setAlarm(Date.now() + Number(searchParams.get("in")))));
    if (pathname === "/alarms") {
      while (!(await this.ctx.storage.get("alarms"))) await scheduler.wait(20);
      return new Response("fired");
    }
    const n = ((await this.ctx.storage.get("n")) ?? 0) + 1;
    await this.ctx.storage.put("n", n);
    return new Response(String(n));
  }
  async alarm() { await this.ctx.storage.put("alarms", 1); }
}
%[2]s
export default { fetch: (request, env) => env.COUNTER.getByName("one").fetch(request) };`

// objectVersion is a version whose class was made and renamed as steps say.
func objectVersion(t *testing.T, id, class, more string, steps ...func(*app.Objects) error) *Version {
	t.Helper()
	objects := &app.Objects{Bindings: []app.ObjectBinding{{Binding: "COUNTER", Class: class}}}
	for i, step := range steps {
		if err := step(objects); err != nil {
			t.Fatal(err)
		}
		objects.Migrations = append(objects.Migrations, fmt.Sprint("v", i))
	}
	code := []byte(fmt.Sprintf(counter, class, more))
	return &Version{
		ID: id, Manifest: &app.Manifest{Name: "shop", CompatibilityDate: "2026-11-17", DurableObjects: objects},
		Load: func(context.Context) (*Loaded, error) {
			return &Loaded{Bundle: &app.Bundle{Modules: []app.Module{{Name: "main.mjs", Kind: app.ESModule, Body: code}}}}, nil
		},
	}
}

func create(name string) func(*app.Objects) error {
	return func(o *app.Objects) error { return o.Create(name, true) }
}

// objectApp is an app on a node of its own.
func objectApp(t *testing.T) *App {
	t.Helper()
	state := t.TempDir()
	if err := os.Mkdir(folder.RunDir(state), 0o700); err != nil {
		t.Fatal(err)
	}
	n := New(Options{Workerd: workerdtest.Binary(t), State: state, StopTime: time.Second, Log: slog.New(slog.DiscardHandler), Observer: make(runs, 1)})
	t.Cleanup(n.Stop)
	a := n.NewApp("shop")
	t.Cleanup(a.Stop)
	return a
}

func (a *App) mustDeploy(t *testing.T, v *Version) {
	t.Helper()
	if err := a.Deploy(t.Context(), v, nil); err != nil {
		t.Fatal(fault.Detail(err))
	}
}

func (a *App) ask(t *testing.T, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	a.Door().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
	return w
}

func (a *App) get(t *testing.T, path string) string {
	t.Helper()
	w := a.ask(t, path)
	if w.Code != http.StatusOK {
		t.Errorf("%s: %d %s", path, w.Code, w.Body)
	}
	return w.Body.String()
}

// TestDurableObjects: what an object has stored goes on over deployments, failures, kills and renames, and ends with a
// deletion.
func TestDurableObjects(t *testing.T) {
	a := objectApp(t)
	a.mustDeploy(t, objectVersion(t, "1", "Counter", "", create("Counter")))
	if got := a.get(t, "/"); got != "1" {
		t.Fatal(got)
	}
	if a.Park(0) {
		t.Error("an app with Durable Objects is parked")
	}
	// A version that does not start leaves the old one, with its objects.
	if err := a.Deploy(t.Context(), objectVersion(t, "2", "Counter", "throw new Error('broken')", create("Counter")), nil); err == nil {
		t.Fatal("it started")
	}
	if got := a.get(t, "/"); got != "2" {
		t.Fatal(got)
	}
	// An alarm outlives the process that was told of it.
	a.get(t, "/alarm?in=300")
	if err := syscall.Kill(a.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for {
		w := a.ask(t, "/alarms") // the first one may come to the process that dies
		if w.Code == http.StatusOK {
			break
		}
		if w.Code != http.StatusBadGateway {
			t.Fatal(w.Code, w.Body)
		}
	}
	rename := func(o *app.Objects) error { return o.Rename("Counter", "Tally") }
	a.mustDeploy(t, objectVersion(t, "3", "Tally", "", create("Counter"), rename))
	if got := a.get(t, "/"); got != "3" {
		t.Fatal(got)
	}
	err := a.Deploy(t.Context(), objectVersion(t, "1", "Counter", "", create("Counter")), nil)
	if f := fault.From(err); f == nil || f.Code != "object_migrations" {
		t.Errorf("a version from before the migration: %v", err)
	}
	remove := func(o *app.Objects) error { return o.Delete("Tally") }
	a.mustDeploy(t, objectVersion(t, "4", "Tally", "", create("Counter"), rename, remove, create("Tally")))
	if got := a.get(t, "/"); got != "1" {
		t.Errorf("a class of an earlier name counts on at %s", got)
	}
	entries, err := os.ReadDir(a.n.objects(a.Live().Manifest))
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if !slices.Equal(names, []string{"lock", "shop-Tally"}) || err != nil {
		t.Errorf("there is %v, %v", names, err)
	}
}

// TestNoCallIsLostOverDeployments: every call is answered once and in its turn, while versions take each other's place.
func TestNoCallIsLostOverDeployments(t *testing.T) {
	a := objectApp(t)
	a.mustDeploy(t, objectVersion(t, "0", "Counter", "", create("Counter")))
	var stop atomic.Bool
	var mu sync.Mutex
	var counted []int
	answers := make(chan struct{})
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for !stop.Load() {
				n, err := strconv.Atoi(a.get(t, "/"))
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				counted = append(counted, n)
				mu.Unlock()
				select {
				case answers <- struct{}{}:
				default:
				}
			}
		})
	}
	for i := range 4 {
		a.mustDeploy(t, objectVersion(t, fmt.Sprint(i+1), "Counter", "", create("Counter")))
		for range 20 {
			<-answers
		}
	}
	stop.Store(true)
	clients.Wait()
	slices.Sort(counted)
	for i, n := range counted {
		if n != i+1 {
			t.Fatalf("answer %d is %d: a call was lost, or two processes answered", i+1, n)
		}
	}
	t.Logf("%d calls", len(counted))
}
