package deploy_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/runlot/runlot/internal/adapter/postgres/cluster/clustertest"
	"github.com/runlot/runlot/internal/adapter/postgres/control"
	"github.com/runlot/runlot/internal/adapter/sealer"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/deploy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(clustertest.Main(m)) }

var errHeld = errors.New("another node has its queues")

// runner is a runtime that writes down what runs: "app@number SECRET=value".
type runner struct {
	mu      sync.Mutex
	running map[string]string
	// at is called between the start and the commit.
	at func()
	// refuse fails Check, start fails the start, after fails what comes behind the commit.
	refuse, start, after error
	// held is how many starts fail from now on.
	held atomic.Int64
	// manifests are what runs beside the app shop, and waiting the messages of queues that have not 7.
	manifests []*app.Manifest
	waiting   map[string]int64
}

func (r *runner) Check(context.Context, *deploy.Version) ([]string, error) {
	return []string{"mind the step"}, r.refuse
}

func (r *runner) Switch(ctx context.Context, v *deploy.Runnable, commit func(context.Context) error) error {
	if r.start != nil {
		return r.start
	}
	if r.held.Add(-1) >= 0 {
		return errHeld
	}
	if r.at != nil {
		r.at()
	}
	loaded, err := v.Load(ctx)
	if err != nil {
		return err
	}
	if err := commit(ctx); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running[v.App] = string(loaded.Bundle.Modules[0].Body) + loaded.Secrets["KEY"]
	return r.after
}

func (r *runner) Resume(ctx context.Context, v *deploy.Runnable) error {
	return r.Switch(ctx, v, func(context.Context) error { return nil })
}

func (r *runner) Remove(_ context.Context, appName string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.running, appName)
	return nil
}

func (r *runner) Waiting(_ context.Context, _, name string) int64 {
	if n, ok := r.waiting[name]; ok {
		return n
	}
	return 7
}

func (r *runner) Running() []*app.Manifest { return r.manifests }

type world struct {
	*deploy.Engine
	t      *testing.T
	runner *runner
	store  *control.Store
	url    string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	a := clustertest.NewDatabase(t)
	w := &world{t: t, url: a.OwnerURL()}
	w.restart()
	return w
}

// restart forgets all but what is in the database.
func (w *world) restart() {
	w.t.Helper()
	s, err := control.Open(w.t.Context(), func(context.Context) (string, error) { return w.url, nil })
	w.must(err)
	w.t.Cleanup(s.Close)
	seal, err := sealer.Open(filepath.Join(w.t.TempDir(), "key"))
	w.must(err)
	w.store, w.runner = s, &runner{running: map[string]string{}}
	w.Engine = deploy.New(deploy.Options{Store: s, Runner: w.runner, Sealer: seal, Log: slog.New(slog.DiscardHandler)})
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(fault.Detail(err))
	}
}

func upload(code string, queues ...string) *deploy.Upload {
	m := &app.Manifest{Name: "shop", Dialect: queue.Runlot, Database: "db"}
	for _, q := range queues {
		m.Consumers = append(m.Consumers, queue.Consumer{Queue: q})
	}
	return &deploy.Upload{
		Manifest: m, Bundle: &app.Bundle{Modules: []app.Module{{Name: "main.mjs", Kind: app.ESModule, Body: []byte(code)}}},
		ConfigFile: "runlot.json", Author: "ann", Message: "m " + code,
	}
}

func (w *world) add(code string, queues ...string) string {
	w.t.Helper()
	u, err := w.Add(w.t.Context(), upload(code, queues...))
	w.must(err)
	return u.Version.ID
}

func (w *world) deploy(id string, action deploy.Action) (*deploy.Deployment, error) {
	return w.Deploy(w.t.Context(), &deploy.Request{App: "shop", Version: id, Action: action, Author: "ann"})
}

func (w *world) runs(want string) {
	w.t.Helper()
	w.runner.mu.Lock()
	got := w.runner.running["shop"]
	w.runner.mu.Unlock()
	if got != want {
		w.t.Errorf("what runs is %q, want %q", got, want)
	}
	a, err := w.store.App(w.t.Context(), "shop")
	w.must(err)
	live := ""
	if a.Live != "" {
		v, err := w.store.Version(w.t.Context(), "shop", a.Live)
		w.must(err)
		live = string(v.Bundle.Modules[0].Body)
	}
	if !strings.HasPrefix(want, live) || live == "" && want != "" {
		w.t.Errorf("what is live is %q, want %q", live, want)
	}
}

func TestDeployRollBackAndComeBack(t *testing.T) {
	w := newWorld(t)
	one := w.add("one")
	w.runs("")
	d, err := w.deploy(one, deploy.ActionDeploy)
	w.must(err)
	if d.Number != 1 || d.VersionNumber != 1 {
		t.Errorf("deployment %+v", d)
	}
	w.runs("one")
	two := w.add("two")
	w.runs("one")
	_, err = w.deploy(two, deploy.ActionDeploy)
	w.must(err)
	w.runs("two")
	d, err = w.deploy("", deploy.ActionRollback)
	w.must(err)
	if d.Version != one || d.Action != deploy.ActionRollback {
		t.Errorf("deployment %+v", d)
	}
	w.runs("one")
	w.restart()
	w.must(w.Resume(t.Context()))
	w.runs("one")
	events, err := w.store.Events(t.Context(), "shop", 0, 10)
	w.must(err)
	kinds := make([]string, 0, len(events))
	for i := range events {
		kinds = append(kinds, events[i].Kind+" "+events[i].Detail["number"])
	}
	want := []string{"version.rolled_back 1", "version.deployed 2", "version.uploaded 2", "version.deployed 1", "version.uploaded 1"}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Error(diff)
	}
	if left, err := w.Delete(t.Context(), "shop", "ann", false); err != nil || left != nil {
		t.Errorf("the deletion of an app without queues leaves %+v, %v", left, err)
	}
	if len(w.runner.running) != 0 {
		t.Errorf("%v runs after its deletion", w.runner.running)
	}
	if _, err := w.deploy(one, deploy.ActionDeploy); fault.From(err).Code != deploy.CodeAppUnknown {
		t.Errorf("a deleted app: %v", err)
	}
}

func TestAFailureLeavesTheVersionBefore(t *testing.T) {
	w := newWorld(t)
	one := w.add("one")
	if _, err := w.deploy("", deploy.ActionRollback); fault.From(err).Code != deploy.CodeVersionUnknown {
		t.Errorf("rollback of nothing: %v", err)
	}
	_, err := w.deploy(one, deploy.ActionDeploy)
	w.must(err)
	if _, err := w.deploy("", deploy.ActionRollback); fault.From(err).Code != deploy.CodeVersionUnknown {
		t.Errorf("rollback without an earlier version: %v", err)
	}
	two := w.add("two")

	w.runner.start = fault.New(fault.Invalid, "start_failed", "it throws").WithHint("mend it")
	_, err = w.deploy(two, deploy.ActionDeploy)
	if want := "it throws — mend it; version 1 goes on"; err == nil || err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
	w.runs("one")
	w.runner.start = nil

	// Another node deploys while this one starts the version.
	w.runner.at = func() {
		w.runner.at = nil
		w.must(w.store.SetLive(t.Context(), &deploy.Deployment{App: "shop", Version: two, Action: deploy.ActionDeploy}, one))
	}
	if _, err = w.deploy(two, deploy.ActionDeploy); fault.From(err).Code != deploy.CodeLiveChanged {
		t.Errorf("a deployment beside another: %v", err)
	}
	if w.runner.running["shop"] != "one" {
		t.Errorf("%q runs", w.runner.running["shop"])
	}

	w.runner.refuse = errors.New("broken")
	if _, err := w.Add(t.Context(), upload("three")); err == nil {
		t.Error("a version that cannot run is stored")
	}
	if list, err := w.store.Versions(t.Context(), "shop", 0, 10); err != nil || len(list) != 2 {
		t.Errorf("%d versions, %v", len(list), err)
	}
}

// TestWhatIsCommittedIsLive although its process dies right after.
func TestWhatIsCommittedIsLive(t *testing.T) {
	w := newWorld(t)
	one := w.add("one")
	w.runner.after = errors.New("died")
	if d, err := w.deploy(one, deploy.ActionDeploy); err != nil || d.ID == "" {
		t.Errorf("%+v, %v", d, err)
	}
	w.runs("one")
}

func TestADeployTellsWhatLosesItsConsumer(t *testing.T) {
	w := newWorld(t)
	one := w.add("one", "jobs", "mail")
	_, err := w.deploy(one, deploy.ActionDeploy)
	w.must(err)
	u, err := w.Check(t.Context(), upload("two", "mail", "new"))
	w.must(err)
	if diff := cmp.Diff([]deploy.Orphans{{Queue: "jobs", Messages: 7}}, u.Removed); diff != "" {
		t.Error(diff)
	}
	if u.Version.ID != "" || len(u.Warnings) != 1 {
		t.Errorf("a check gave %+v", u)
	}
	elsewhere := upload("three", "jobs", "mail")
	elsewhere.Manifest.Database = "other"
	if u, err = w.Check(t.Context(), elsewhere); err != nil || len(u.Removed) != 2 {
		t.Errorf("another database: %+v, %v", u, err)
	}
}

// TestAnotherKeyIsSaidAtTheStart: an app that has secrets does not run, the others do, and it runs when they are set again.
func TestAnotherKeyIsSaidAtTheStart(t *testing.T) {
	w := newWorld(t)
	one := w.add("one")
	_, err := w.deploy(one, deploy.ActionDeploy)
	w.must(err)
	w.must(w.PutSecret(t.Context(), "shop", "KEY", "+old", "ann"))
	w.must(w.PutSecret(t.Context(), "new", "TOKEN", "x", "ann"))
	w.restart() // with a new key
	err = w.Resume(t.Context())
	if err == nil || !strings.Contains(fault.Detail(err), "secrets of new were stored with another key: TOKEN") ||
		!strings.Contains(fault.Detail(err), "secrets of shop were stored with another key: KEY") {
		t.Errorf("resumed with another key: %v", err)
	}
	if len(w.runner.running) != 0 {
		t.Errorf("%v runs without its secret", w.runner.running)
	}
	w.must(w.PutSecret(t.Context(), "shop", "KEY", "+new", "ann"))
	w.runs("one+new")
}

func TestSecretsComeWithTheNextStart(t *testing.T) {
	w := newWorld(t)
	w.must(w.PutSecret(t.Context(), "shop", "KEY", "+early", "ann"))
	one := w.add("one")
	_, err := w.deploy(one, deploy.ActionDeploy)
	w.must(err)
	w.runs("one+early")
	w.must(w.PutSecret(t.Context(), "shop", "KEY", "+late", "ann"))
	w.runs("one+late")
	w.runner.start = fault.New(fault.Invalid, "start_failed", "it throws")
	if err := w.PutSecret(t.Context(), "shop", "KEY", "+bad", "ann"); err == nil || fault.From(err).Code != "secret_restart" {
		t.Errorf("error %v", err)
	}
	w.runs("one+late")
	w.runner.start = nil
	w.must(w.DeleteSecret(t.Context(), "shop", "KEY", "ann"))
	w.runs("one")
	list, err := w.Secrets(t.Context(), "shop")
	if err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
	for name, value := range map[string]string{"": "x", "1A": "x", "a-b": "x", "LONG": strings.Repeat("x", queue.MaxSecret+1)} {
		if err := w.PutSecret(t.Context(), "shop", name, value, "ann"); err == nil {
			t.Errorf("the secret %q is accepted", name)
		}
	}
}

// TestWhatIsDeclaredSoonBelongsToTheVersion: a client that uploads the code first, and sets crons and consumers behind it.
func TestWhatIsDeclaredSoonBelongsToTheVersion(t *testing.T) {
	w := newWorld(t)
	open := func(code string) string {
		t.Helper()
		u := upload(code)
		u.Open = true
		stored, err := w.Add(t.Context(), u)
		w.must(err)
		_, err = w.deploy(stored.Version.ID, deploy.ActionDeploy)
		w.must(err)
		return stored.Version.ID
	}
	revise := func(author string, crons ...string) error {
		return w.Revise(t.Context(), &deploy.Revision{App: "shop", Author: author, Message: "crons", Change: func(m *app.Manifest) error {
			m.Crons = crons
			return nil
		}})
	}
	numbers := func() (list []int) {
		t.Helper()
		versions, err := w.store.Versions(t.Context(), "shop", 0, 10)
		w.must(err)
		for i := range versions {
			list = append(list, versions[i].Number)
		}
		return list
	}
	crons := func(id string) []string {
		t.Helper()
		v, err := w.store.Version(t.Context(), "shop", id)
		w.must(err)
		return v.Manifest.Crons
	}
	one := open("one")
	before, err := w.store.Version(t.Context(), "shop", one)
	w.must(err)
	w.must(revise("ann", "0 3 * * *"))
	w.runs("one")
	after, err := w.store.Version(t.Context(), "shop", one)
	w.must(err)
	if diff := cmp.Diff([]int{1}, numbers()); diff != "" || after.Digest == before.Digest || len(after.Manifest.Crons) != 1 {
		t.Errorf("amended: %s %+v", diff, after)
	}
	if e, err := w.store.Events(t.Context(), "shop", 0, 1); err != nil || e[0].Kind != deploy.EventAmended || e[0].Detail["message"] != "crons" {
		t.Errorf("the event of an amendment: %+v, %v", e, err)
	}
	// What another one than its author changes is a version of its own, and so is what comes to one that is not open.
	w.must(revise("bob", "0 4 * * *"))
	w.must(revise("bob", "0 5 * * *"))
	if diff := cmp.Diff([]int{3, 2, 1}, numbers()); diff != "" {
		t.Error(diff)
	}
	// A rollback brings back what belongs to the version.
	_, err = w.deploy(one, deploy.ActionRollback)
	w.must(err)
	if diff := cmp.Diff([]string{"0 3 * * *"}, crons(one)); diff != "" {
		t.Error(diff)
	}
	// A change that cannot run leaves all as it was.
	w.runner.start = fault.New(fault.Invalid, "start_failed", "it throws")
	if err := revise("ann", "0 6 * * *"); fault.From(err).Code != "start_failed" {
		t.Errorf("a change that does not start: %v", err)
	}
	w.runner.start, w.runner.refuse = nil, fault.New(fault.Invalid, "worker_handler", "no handler")
	if err := revise("ann", "0 6 * * *"); fault.From(err).Code != "worker_handler" {
		t.Errorf("a change that is refused: %v", err)
	}
	w.runner.refuse = nil
	if diff := cmp.Diff([]string{"0 3 * * *"}, crons(one)); diff != "" {
		t.Error(diff)
	}
	// One that was committed is the one that runs, also when its process dies.
	w.runner.after = errors.New("died")
	w.must(revise("ann", "0 7 * * *"))
	if diff := cmp.Diff([]string{"0 7 * * *"}, crons(one)); diff != "" {
		t.Error(diff)
	}
}

// TestSecretsOfAVersionHoldFromItsDeploymentOn, and those that came before it is live go on with the versions behind it.
func TestSecretsOfAVersionHoldFromItsDeploymentOn(t *testing.T) {
	w := newWorld(t)
	value := func(s string) *string { return &s }
	one := w.add("one")
	_, err := w.deploy(one, deploy.ActionDeploy)
	w.must(err)
	w.must(w.ChangeSecrets(t.Context(), "shop", map[string]*string{"KEY": value("+a"), "OLD": value("x")}, "ann"))
	w.runs("one+a")
	u := upload("two")
	u.Secrets = map[string]*string{"KEY": value("+b"), "OLD": nil, "NONE": nil}
	two, err := w.Add(t.Context(), u)
	w.must(err)
	w.runs("one+a")
	stored, err := w.store.Version(t.Context(), "shop", two.Version.ID)
	w.must(err)
	u = upload("three")
	u.Secrets, u.Inherited = map[string]*string{"NEW": value("y")}, stored.Secrets
	three, err := w.Add(t.Context(), u)
	w.must(err)
	names := func() (list []string) {
		t.Helper()
		secrets, err := w.Secrets(t.Context(), "shop")
		w.must(err)
		for i := range secrets {
			list = append(list, secrets[i].Name)
		}
		return list
	}
	if diff := cmp.Diff([]string{"KEY", "OLD"}, names()); diff != "" {
		t.Error(diff)
	}
	_, err = w.deploy(three.Version.ID, deploy.ActionDeploy)
	w.must(err)
	w.runs("three+b")
	if diff := cmp.Diff([]string{"KEY", "NEW"}, names()); diff != "" {
		t.Error(diff)
	}
	// From then on they are those of the app: a later change stays, also when the version comes again.
	w.must(w.PutSecret(t.Context(), "shop", "KEY", "+c", "ann"))
	_, err = w.deploy(one, deploy.ActionRollback)
	w.must(err)
	w.runs("one+c")
	_, err = w.deploy(three.Version.ID, deploy.ActionDeploy)
	w.must(err)
	w.runs("three+c")

	u = upload("four")
	u.Secrets = map[string]*string{"1A": value("x")}
	if _, err := w.Add(t.Context(), u); fault.From(err).Code != "secret_name" {
		t.Errorf("a secret without a name: %v", err)
	}
	if err := w.ChangeSecrets(t.Context(), "shop", map[string]*string{"GOOD": value("x"), "NONE": nil}, "ann"); fault.From(err).Code != deploy.CodeSecretUnknown {
		t.Errorf("a secret that is not there: %v", err)
	}
	if diff := cmp.Diff([]string{"KEY", "NEW"}, names()); diff != "" {
		t.Errorf("a refused change: %s", diff)
	}
}
