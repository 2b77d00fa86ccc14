package node

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/runlot/runlot/internal/adapter/workerd"
	"github.com/runlot/runlot/internal/adapter/workerd/workerdtest"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/engine/supervise"
	"github.com/runlot/runlot/internal/server/ingress"
)

var switches = flag.Int("switches", 20, "versions that TestASwitchBreaksNoRequest makes live")

// TestASwitchBreaksNoRequest: 16 clients, half of them with kept connections and half of them with bodies, see no broken
// and no refused request while versions take each other's place.
func TestASwitchBreaksNoRequest(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url, log := "http://"+listener.Addr().String(), slog.New(slog.DiscardHandler)
	door := ingress.New(log)
	var serving sync.WaitGroup
	serving.Go(func() { door.Serve(listener) })
	runtime, dir := workerd.New(workerdtest.Binary(t), log), t.TempDir()
	sup := supervise.New(supervise.Options[string, *workerd.Process]{
		App: "test", Log: log,
		Start: func(ctx context.Context, version string) (*workerd.Process, error) {
			code := `export default { async fetch(r) { const body = await r.text(); await scheduler.wait(1); return new Response("` + version + ` " + body) } }`
			return runtime.Start(ctx, workerd.Spec{
				App: "test", Version: version, Manifest: &app.Manifest{Name: "test", CompatibilityDate: "2026-11-17"}, Dir: dir, Public: true,
				Bundle: &app.Bundle{Modules: []app.Module{{Name: "main.mjs", Kind: app.ESModule, Body: []byte(code)}}},
			})
		},
		OnLive: func(p *workerd.Process, _ string) { door.Set(p) },
		OnDown: func(error) { door.Set(nil) },
	})
	if err := sup.Deploy(t.Context(), "v0"); err != nil {
		t.Fatal(err)
	}
	var stop atomic.Bool
	var requests atomic.Int64
	var clients sync.WaitGroup
	for i := range 16 {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: i%2 == 0}, Timeout: 20 * time.Second}
		clients.Go(func() {
			defer client.CloseIdleConnections()
			for !stop.Load() {
				if err := ask(client, url, i%4 < 2); err != nil {
					t.Errorf("client %d: %v", i, err)
				}
				requests.Add(1)
			}
		})
	}
	for i := range *switches {
		if err := sup.Deploy(t.Context(), fmt.Sprintf("v%d", i+1)); err != nil {
			t.Error(err)
		}
	}
	stop.Store(true)
	clients.Wait()
	t.Logf("%d requests over %d switches", requests.Load(), *switches)
	door.Stop(t.Context())
	serving.Wait()
	sup.Stop(t.Context())
}

// ask makes one request, without a body or with one, which has to come back.
func ask(client *http.Client, url string, get bool) error {
	method, body, want := http.MethodPost, io.Reader(strings.NewReader("body")), " body"
	if get {
		method, body, want = http.MethodGet, nil, " "
	}
	r, err := http.NewRequestWithContext(context.Background(), method, url, body)
	if err != nil {
		return err
	}
	response, err := client.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if !strings.HasPrefix(string(text), "v") || !strings.HasSuffix(string(text), want) {
		return fmt.Errorf("%s %s: %q", method, response.Status, text)
	}
	return nil
}
