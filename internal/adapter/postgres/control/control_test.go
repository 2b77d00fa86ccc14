package control_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/runlot/runlot/internal/adapter/postgres/cluster/clustertest"
	"github.com/runlot/runlot/internal/adapter/postgres/control"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/engine/deploy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(clustertest.Main(m)) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(fault.Detail(err))
	}
}

func at(url string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return url, nil }
}

func open(t *testing.T) (store *control.Store, url string) {
	t.Helper()
	a := clustertest.NewDatabase(t)
	s, err := control.Open(t.Context(), at(a.OwnerURL()))
	must(t, err)
	t.Cleanup(s.Close)
	return s, a.OwnerURL()
}

var day = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func upload(appName, code string) *deploy.Version {
	return &deploy.Version{
		App: appName, Created: day, Author: "ann", Message: "first", ConfigFile: "runlot.json", Digest: "d1",
		Manifest: &app.Manifest{
			Name: appName, Dialect: queue.Runlot, Database: "db", CompatibilityDate: "2026-11-01",
			Consumers: []queue.Consumer{{Queue: "jobs", BatchTimeout: 5 * time.Second, Retention: queue.DefaultRetention}},
		},
		Bundle: &app.Bundle{
			Modules:   []app.Module{{Name: "main.mjs", Kind: app.ESModule, Body: []byte(code)}, {Name: "empty.bin", Kind: app.Data, Body: []byte{}}},
			SourceMap: []byte(`{"version":3}`),
		},
	}
}

func code(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || fault.From(err).Code != want {
		t.Errorf("error %v, want the code %s", err, want)
	}
}

func TestAVersionComesBackAsItWasStored(t *testing.T) {
	s, url := open(t)
	v := upload("shop", "export default {}")
	v.OpenUntil, v.Secrets = day.Add(time.Minute), []deploy.Secret{{Name: "GONE"}, {Name: "KEY", Sealed: []byte("sealed")}}
	must(t, s.AddVersion(t.Context(), v, 10))
	if v.Number != 1 || v.ID == "" {
		t.Fatalf("version %+v", v)
	}
	again, err := control.Open(t.Context(), at(url))
	must(t, err)
	defer again.Close()
	got, err := again.Version(t.Context(), "shop", v.ID)
	must(t, err)
	if diff := cmp.Diff(v, got); diff != "" {
		t.Error(diff)
	}
	list, err := s.Versions(t.Context(), "shop", 0, 5)
	must(t, err)
	if diff := cmp.Diff([]deploy.Version{*v}, list, cmpopts.IgnoreFields(deploy.Version{}, "Bundle", "Secrets")); diff != "" {
		t.Error(diff)
	}
	for _, id := range []string{"nonsense", "00000000-0000-7000-8000-000000000000", ""} {
		_, err = s.Version(t.Context(), "shop", id)
		code(t, err, deploy.CodeVersionUnknown)
	}
	_, err = s.Version(t.Context(), "other", v.ID)
	code(t, err, deploy.CodeVersionUnknown)
}

func TestTheLiveVersionChangesOnlyFromWhatItWas(t *testing.T) {
	s, _ := open(t)
	one, two := upload("shop", "1"), upload("shop", "2")
	must(t, s.AddVersion(t.Context(), one, 10))
	must(t, s.AddVersion(t.Context(), two, 10))
	d := &deploy.Deployment{App: "shop", Version: one.ID, Created: day, Action: deploy.ActionDeploy, Author: "ann"}
	must(t, s.SetLive(t.Context(), d, ""))
	late := &deploy.Deployment{App: "shop", Version: two.ID, Created: day, Action: deploy.ActionDeploy, Author: "bob"}
	code(t, s.SetLive(t.Context(), late, ""), deploy.CodeLiveChanged)
	code(t, s.SetLive(t.Context(), late, two.ID), deploy.CodeLiveChanged)
	a, err := s.App(t.Context(), "shop")
	must(t, err)
	if diff := cmp.Diff(deploy.App{Name: "shop", Created: day, Live: one.ID, LiveNumber: 1, Since: day}, a); diff != "" {
		t.Error(diff)
	}
	must(t, s.SetLive(t.Context(), late, one.ID))
	list, err := s.Deployments(t.Context(), "shop", 0, 10)
	must(t, err)
	if diff := cmp.Diff([]deploy.Deployment{*late, *d}, list); diff != "" {
		t.Error(diff)
	}
	if page, err := s.Deployments(t.Context(), "shop", 2, 10); err != nil || len(page) != 1 || page[0].Number != 1 {
		t.Errorf("page %+v, %v", page, err)
	}
	code(t, s.SetLive(t.Context(), &deploy.Deployment{App: "none", Version: one.ID}, ""), deploy.CodeAppUnknown)
	foreign := upload("other", "3")
	must(t, s.AddVersion(t.Context(), foreign, 10))
	code(t, s.SetLive(t.Context(), &deploy.Deployment{App: "shop", Version: foreign.ID, Action: deploy.ActionDeploy}, two.ID), deploy.CodeVersionUnknown)
}

func TestOnlyTheLiveVersionIsAmended(t *testing.T) {
	s, _ := open(t)
	one, two := upload("shop", "1"), upload("shop", "2")
	must(t, s.AddVersion(t.Context(), one, 10))
	must(t, s.AddVersion(t.Context(), two, 10))
	changed := *one
	changed.Manifest, changed.Digest = &app.Manifest{Name: "shop", Crons: []string{"0 3 * * *"}}, "d2"
	code(t, s.AmendVersion(t.Context(), &changed, "d1"), deploy.CodeLiveChanged)
	must(t, s.SetLive(t.Context(), &deploy.Deployment{App: "shop", Version: one.ID, Created: day, Action: deploy.ActionDeploy}, ""))
	code(t, s.AmendVersion(t.Context(), &changed, "other"), deploy.CodeLiveChanged)
	must(t, s.AmendVersion(t.Context(), &changed, "d1"))
	got, err := s.Version(t.Context(), "shop", one.ID)
	must(t, err)
	changed.Live = true
	if diff := cmp.Diff(&changed, got); diff != "" {
		t.Error(diff)
	}
	other := changed
	other.App = "none"
	code(t, s.AmendVersion(t.Context(), &other, "d2"), deploy.CodeLiveChanged)
}

func TestSecretsOfAVersionHoldOnceItIsLive(t *testing.T) {
	s, _ := open(t)
	must(t, s.AddVersion(t.Context(), upload("shop", "0"), 10))
	for _, name := range []string{"GONE", "KEY", "STAYS"} {
		must(t, s.PutSecret(t.Context(), "shop", &deploy.Secret{Name: name, Updated: day, Sealed: []byte("old")}))
	}
	v := upload("shop", "1")
	v.Secrets = []deploy.Secret{{Name: "GONE"}, {Name: "KEY", Sealed: []byte("new")}}
	must(t, s.AddVersion(t.Context(), v, 10))
	later := day.Add(time.Hour)
	must(t, s.SetLive(t.Context(), &deploy.Deployment{App: "shop", Version: v.ID, Created: later, Action: deploy.ActionDeploy}, ""))
	got, err := s.Secrets(t.Context(), "shop")
	must(t, err)
	if diff := cmp.Diff([]deploy.Secret{{Name: "KEY", Updated: later, Sealed: []byte("new")}, {Name: "STAYS", Updated: day, Sealed: []byte("old")}}, got); diff != "" {
		t.Error(diff)
	}
	if v, err = s.Version(t.Context(), "shop", v.ID); err != nil || v.Secrets != nil {
		t.Errorf("a live version changes %+v, %v", v.Secrets, err)
	}
}

func TestOldVersionsAreForgottenButNotTheLiveOne(t *testing.T) {
	s, url := open(t)
	first := upload("shop", "code 1")
	must(t, s.AddVersion(t.Context(), first, 3))
	must(t, s.SetLive(t.Context(), &deploy.Deployment{App: "shop", Version: first.ID, Created: day, Action: deploy.ActionDeploy}, ""))
	for i := 2; i <= 6; i++ {
		must(t, s.AddVersion(t.Context(), upload("shop", fmt.Sprintf("code %d", i)), 3))
	}
	list, err := s.Versions(t.Context(), "shop", 0, 10)
	must(t, err)
	numbers := make([]int, 0, len(list))
	for i := range list {
		numbers = append(numbers, list[i].Number)
	}
	if diff := cmp.Diff([]int{6, 5, 4, 1}, numbers); diff != "" {
		t.Error(diff)
	}
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	var blobs int
	must(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM runlot_control.blob").Scan(&blobs))
	// Four codes, the empty module and the source map, which all share.
	if blobs != 6 {
		t.Errorf("%d blobs are left, want 6", blobs)
	}
	must(t, s.DeleteApp(t.Context(), "shop"))
	must(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM runlot_control.blob").Scan(&blobs))
	if blobs != 0 {
		t.Errorf("%d blobs outlive their app", blobs)
	}
	code(t, s.DeleteApp(t.Context(), "shop"), deploy.CodeAppUnknown)
}

func TestUploadsAtTheSameTimeHaveNumbersOfTheirOwn(t *testing.T) {
	s, _ := open(t)
	const uploads = 8
	var wg sync.WaitGroup
	for i := range uploads {
		wg.Go(func() {
			if err := s.AddVersion(context.Background(), upload("shop", fmt.Sprint(i%2)), 10); err != nil {
				t.Error(fault.Detail(err))
			}
		})
	}
	wg.Wait()
	if list, err := s.Versions(t.Context(), "shop", 0, 100); err != nil || len(list) != uploads || list[0].Number != uploads {
		t.Errorf("%d versions, %v", len(list), err)
	}
}

func TestSecrets(t *testing.T) {
	s, _ := open(t)
	must(t, s.PutSecret(t.Context(), "shop", &deploy.Secret{Name: "B", Updated: day, Sealed: []byte{1}}))
	must(t, s.PutSecret(t.Context(), "shop", &deploy.Secret{Name: "A", Updated: day, Sealed: []byte{2}}))
	must(t, s.PutSecret(t.Context(), "shop", &deploy.Secret{Name: "B", Updated: day.Add(1e6), Sealed: []byte{3}}))
	got, err := s.Secrets(t.Context(), "shop")
	must(t, err)
	want := []deploy.Secret{{Name: "A", Updated: day, Sealed: []byte{2}}, {Name: "B", Updated: day.Add(1e6), Sealed: []byte{3}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	must(t, s.DeleteSecret(t.Context(), "shop", "A"))
	code(t, s.DeleteSecret(t.Context(), "shop", "A"), deploy.CodeSecretUnknown)
	code(t, s.DeleteSecret(t.Context(), "other", "B"), deploy.CodeSecretUnknown)
}

func TestEventsAreBounded(t *testing.T) {
	s, _ := open(t)
	for i := range 7 {
		e := &deploy.Event{At: day, Kind: deploy.EventDeployed, App: "app" + fmt.Sprint(i%2), Author: "ann", Detail: map[string]string{"n": fmt.Sprint(i)}}
		must(t, s.AddEvent(t.Context(), e, 5))
	}
	all, err := s.Events(t.Context(), "", 0, 100)
	must(t, err)
	if len(all) != 5 || all[0].Detail["n"] != "6" || all[4].Detail["n"] != "2" {
		t.Errorf("events %+v", all)
	}
	one, err := s.Events(t.Context(), "app1", all[0].ID, 1)
	must(t, err)
	if len(one) != 1 || one[0].Detail["n"] != "5" {
		t.Errorf("events %+v", one)
	}
}

func TestTokens(t *testing.T) {
	s, _ := open(t)
	plain := access.Token{ID: "a", Name: "ci", Role: access.Deploy, Created: day, Hash: make([]byte, 32)}
	scoped := access.Token{ID: "b", Name: "ann", Role: access.Read, App: "shop", Created: day.Add(time.Second), Expires: day.Add(time.Hour), Hash: make([]byte, 32)}
	must(t, s.AddToken(t.Context(), &plain))
	must(t, s.AddToken(t.Context(), &scoped))
	must(t, s.UseToken(t.Context(), "b", day.Add(time.Minute)))
	must(t, s.UseToken(t.Context(), "b", day))
	scoped.Used = day.Add(time.Minute)
	got, err := s.Tokens(t.Context())
	must(t, err)
	if diff := cmp.Diff([]access.Token{plain, scoped}, got); diff != "" {
		t.Error(diff)
	}
	one, err := s.Token(t.Context(), "b")
	must(t, err)
	if diff := cmp.Diff(&scoped, one); diff != "" {
		t.Error(diff)
	}
	must(t, s.DeleteToken(t.Context(), "a"))
	code(t, s.DeleteToken(t.Context(), "a"), access.CodeTokenUnknown)
	_, err = s.Token(t.Context(), "a")
	code(t, err, access.CodeTokenUnknown)
}

func TestADatabaseOfANewerProgramIsRefused(t *testing.T) {
	s, url := open(t)
	s.Close()
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	defer func() { _ = conn.Close(context.Background()) }()
	_, err = conn.Exec(t.Context(), "INSERT INTO runlot_control.schema_version (version_id, is_applied) VALUES (99, true)")
	must(t, err)
	_, err = control.Open(t.Context(), at(url))
	code(t, err, "database_schema_newer")
}
