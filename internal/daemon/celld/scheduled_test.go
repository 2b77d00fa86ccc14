package celld_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/runlot/runlot/client"
)

// TestARunByHandWakesItsAppAndIsTheOnlyOne: it is recorded, and a second one is refused while it goes on.
func TestARunByHandWakesItsAppAndIsTheOnlyOne(t *testing.T) {
	began, end := make(chan struct{}, 1), make(chan struct{})
	ear := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		began <- struct{}{}
		<-end
	}))
	defer ear.Close()
	i := start(t, t.TempDir(), 500*time.Millisecond)
	_, err := i.Crons(t.Context(), "tick")
	if e, ok := errors.AsType[*client.Error](err); !ok || e.Code != "app_not_running" {
		t.Errorf("before the app is deployed: %v", err)
	}
	u, err := i.Upload(t.Context(), &client.Upload{
		App: "tick", ConfigFile: "runlot.json",
		Modules: []client.Module{{Name: "main.mjs", Kind: "esModule", Body: fmt.Appendf(nil, `export default { async scheduled() { await fetch(%q); } };`, ear.URL)}},
		Config:  []byte(`{"name": "tick", "main": "a.js", "database": "tick", "compatibilityDate": "2026-11-01", "crons": ["0 0 1 1 *"]}`),
	})
	if err == nil {
		_, err = i.Deploy(t.Context(), "tick", &client.Deploy{Version: u.Version.ID})
	}
	if err != nil {
		t.Fatal(err)
	}
	i.until("tick", "parked")
	type answer struct {
		run *client.Run
		err error
	}
	first := make(chan answer, 1)
	go func() {
		run, err := i.RunCron(t.Context(), "tick", &client.RunCron{})
		first <- answer{run, err}
	}()
	<-began
	i.until("tick", "live")
	_, err = i.RunCron(t.Context(), "tick", &client.RunCron{})
	if e, ok := errors.AsType[*client.Error](err); !ok || e.Code != "run_under_way" {
		t.Errorf("a second run: %v", err)
	}
	close(end)
	got := <-first
	if got.err != nil || got.run.Outcome != "ok" || !got.run.Manual || got.run.Cron != "0 0 1 1 *" {
		t.Fatalf("the first run: %+v, %v", got.run, got.err)
	}
	runs, err := i.Runs(t.Context(), "tick", &client.RunFilter{Cron: "0 0 1 1 *"})
	if err != nil || len(runs.Items) != 1 || !runs.Items[0].Manual || runs.Items[0].ID == 0 || runs.Next != "" {
		t.Fatalf("%+v, %v", runs, err)
	}
	crons, err := i.Crons(t.Context(), "tick")
	if err != nil || len(crons) != 1 || crons[0].Last == nil || crons[0].Last.ID != runs.Items[0].ID || crons[0].FailingSince != nil || crons[0].RunningSince != nil {
		t.Errorf("%+v, %v", crons, err)
	}
}
