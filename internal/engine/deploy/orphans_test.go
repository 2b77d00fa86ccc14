package deploy_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/deploy"
)

// manifest is an app with queues: those that it sends to, and those that it consumes, with dead letters behind a colon.
func manifest(name, database, sends, consumed string) *app.Manifest {
	m := &app.Manifest{Name: name, Dialect: queue.Runlot, Database: database}
	for q := range strings.FieldsSeq(sends) {
		m.Producers = append(m.Producers, app.Producer{Binding: strings.ToUpper(q), Queue: q})
	}
	for q := range strings.FieldsSeq(consumed) {
		name, dead, _ := strings.Cut(q, ":")
		m.Consumers = append(m.Consumers, queue.Consumer{Queue: name, DeadLetterQueue: dead})
	}
	return m
}

func (w *world) deployManifest(m *app.Manifest) []deploy.Orphans {
	w.t.Helper()
	u := upload("one")
	u.Manifest = m
	added, err := w.Add(w.t.Context(), u)
	w.must(err)
	_, err = w.deploy(added.Version.ID, deploy.ActionDeploy)
	w.must(err)
	return added.Removed
}

func TestAnAppThatOthersDependOnIsNotDeleted(t *testing.T) {
	w := newWorld(t)
	for _, step := range []struct {
		sends, consumed string
		others          []*app.Manifest
		refused         string
	}{
		{"out", "jobs:dead", nil, ""},
		{"out", "jobs", []*app.Manifest{manifest("web", "db", "jobs", "")}, "web sends to the queue jobs, which only shop consumes"},
		{"out", "jobs", []*app.Manifest{manifest("web", "other", "jobs", "out")}, ""},
		{"out", "", []*app.Manifest{manifest("mail", "db", "", "out")}, "mail consumes the queue out, to which only shop sends"},
		{"out", "", []*app.Manifest{manifest("mail", "db", "", "out"), manifest("web", "db", "out", "")}, ""},
		{"", "jobs:dead", []*app.Manifest{manifest("undertaker", "db", "", "dead")}, "undertaker consumes the queue dead, to which only shop sends"},
		{"out", "", []*app.Manifest{manifest("web", "db", "out", "")}, ""},
		{"jobs", "jobs", nil, ""},
	} {
		w.runner.manifests = nil
		w.deployManifest(manifest("shop", "db", step.sends, step.consumed))
		w.runner.manifests = append(slices.Clone(step.others), manifest("shop", "db", step.sends, step.consumed))
		_, err := w.Delete(t.Context(), "shop", "ann", false)
		if step.refused == "" {
			w.must(err)
			continue
		}
		if f := fault.From(err); f == nil || f.Code != deploy.CodeAppNeeded || !strings.Contains(f.Message, step.refused) || !strings.Contains(f.Hint, "--force") {
			t.Errorf("%+v: %v", step, err)
		}
		if len(w.runner.running) != 1 {
			t.Errorf("%+v: a refused deletion leaves %v", step, w.runner.running)
		}
		_, err = w.Delete(t.Context(), "shop", "ann", true)
		w.must(err)
	}
}

func TestWhatIsLeftOfQueues(t *testing.T) {
	w := newWorld(t)
	w.runner.waiting = map[string]int64{"empty": 0, "dead": 3}
	w.deployManifest(manifest("shop", "db", "out empty shared", "jobs:dead mail"))
	w.runner.manifests = []*app.Manifest{manifest("shop", "db", "out empty shared", "jobs:dead mail"), manifest("web", "db", "shared", "")}
	got := w.deployManifest(manifest("shop", "db", "jobs", "mail"))
	want := []deploy.Orphans{{Queue: "out", Messages: 7, Undeclared: true}, {Queue: "jobs", Messages: 7}, {Queue: "dead", Messages: 3, Undeclared: true}}
	sorted := func(list []deploy.Orphans) map[string]deploy.Orphans {
		byName := map[string]deploy.Orphans{}
		for _, o := range list {
			byName[o.Queue] = o
		}
		return byName
	}
	if diff := cmp.Diff(sorted(want), sorted(got)); diff != "" || len(want) != len(got) {
		t.Error(diff)
	}
	// The rollback loses what the deployment had brought, and says so too.
	w.runner.manifests = []*app.Manifest{manifest("shop", "db", "jobs", "mail")}
	back := w.deployManifest(manifest("shop", "db", "jobs", "mail post"))
	if len(back) != 0 {
		t.Errorf("a queue more orphans %+v", back)
	}
	d, err := w.deploy("", deploy.ActionRollback)
	w.must(err)
	if diff := cmp.Diff([]deploy.Orphans{{Queue: "post", Messages: 7}}, d.Removed); diff != "" {
		t.Error(diff)
	}
	left, err := w.Delete(t.Context(), "shop", "ann", false)
	w.must(err)
	want = []deploy.Orphans{{Queue: "jobs", Messages: 7, Undeclared: true}, {Queue: "mail", Messages: 7}}
	if diff := cmp.Diff(sorted(want), sorted(left)); diff != "" {
		t.Error(diff)
	}
}
