package upload

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/engine/deploy"
)

func text(err error) string {
	if err == nil {
		return ""
	}
	return fault.From(err).Error()
}

func form(parts ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPut, "/", strings.NewReader("--b\r\n"+strings.Join(parts, "\r\n--b\r\n")+"\r\n--b--\r\n"))
	r.Header.Set("Content-Type", "multipart/form-data; boundary=b")
	return r
}

func module(name, kind string) string {
	return `Content-Disposition: form-data; name="` + name + `"; filename="` + name + "\"\r\nContent-Type: " + kind + "\r\n\r\nbody of " + name
}

const about = "Content-Disposition: form-data; name=\"metadata\"\r\n\r\n" + `{"main_module":"index.js"}`

func TestRead(t *testing.T) {
	_, b, err := read(form(about, module("./note.txt", "text/plain"), module("index.js", "application/javascript+module"), module("index.js.map", "application/source-map")))
	if err != nil {
		t.Fatal(text(err))
	}
	want := []app.Module{{Name: "index.js", Kind: app.ESModule, Body: []byte("body of index.js")}, {Name: "note.txt", Kind: app.Text, Body: []byte("body of ./note.txt")}}
	if diff := cmp.Diff(want, b.Modules); diff != "" || string(b.SourceMap) != "body of index.js.map" {
		t.Errorf("modules (-want +got):\n%s%s", diff, b.SourceMap)
	}
	for want, r := range map[string]*http.Request{
		"is in a folder":      form(about, module("../index.js", "application/javascript+module")),
		"the content type":    form(about, module("a.py", "text/x-python")),
		"no part `metadata`":  form(module("index.js", "application/javascript+module")),
		"no module \"index.j": form(about, module("other.js", "application/javascript+module")),
		"no form":             httptest.NewRequest(http.MethodPut, "/", strings.NewReader("x")),
	} {
		if _, _, err := read(r); !strings.Contains(text(err), want) {
			t.Errorf("%s: %s", want, text(err))
		}
	}
}

func TestDeclare(t *testing.T) {
	before := &app.Manifest{
		Database: "own", Producers: []app.Producer{{Binding: "JOBS", Queue: "jobs"}}, Vars: map[string]json.RawMessage{"A": json.RawMessage(`"1"`), "B": json.RawMessage(`null`)},
	}
	secrets := []deploy.Secret{{Name: "KEY"}}
	parse := func(s string) *metadata {
		var m metadata
		if err := json.Unmarshal([]byte(s), &m); err != nil {
			t.Fatal(err)
		}
		return &m
	}
	// What is to stay is taken from the version before, a name of a queue may have its database before it, and secrets stay.
	d, err := declare("shop", parse(`{"main_module":"index.js","keep_bindings":["plain_text","json"],"bindings":[
		{"type":"inherit","name":"JOBS"},{"type":"inherit","name":"KEY"},{"type":"plain_text","name":"A","text":"2"},
		{"type":"queue","name":"MAIL","queue_name":"own/mail","delivery_delay":5},{"type":"secret_text","name":"NEW","text":"s"}]}`), before, secrets)
	if err != nil {
		t.Fatal(text(err))
	}
	if diff := cmp.Diff([]map[string]any{{"binding": "JOBS", "queue": "jobs"}, {"binding": "MAIL", "queue": "mail", "delivery_delay": 5.0}}, d.Queues.Producers); diff != "" {
		t.Errorf("producers (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]json.RawMessage{"A": json.RawMessage(`"2"`), "B": json.RawMessage(`null`)}, d.Vars); diff != "" {
		t.Errorf("vars (-want +got):\n%s", diff)
	}
	value := "s"
	if diff := cmp.Diff(map[string]*string{"NEW": &value}, d.secrets); diff != "" || d.database != "own" {
		t.Errorf("secrets (-want +got):\n%s%s", diff, d.database)
	}
	// One secret goes by naming those that stay, and the other kind.
	d, err = declare("shop", parse(`{"keep_bindings":["secret_key"],"bindings":[{"type":"inherit","name":"KEY"}]}`), before, append(secrets, deploy.Secret{Name: "OLD"}))
	if err != nil {
		t.Fatal(text(err))
	}
	if diff := cmp.Diff(map[string]*string{"OLD": nil}, d.secrets); diff != "" {
		t.Errorf("secrets (-want +got):\n%s", diff)
	}
	for want, about := range map[string]string{
		"the script has none of the name": `{"bindings":[{"type":"inherit","name":"NONE"}]}`,
		"a binding of the type ai":        `{"bindings":[{"type":"ai","name":"AI"}]}`,
		"of another script":               `{"bindings":[{"type":"durable_object_namespace","name":"X","class_name":"X","script_name":"other"}]}`,
		"static assets":                   `{"assets":{"jwt":"x"}}`,
	} {
		if _, err := declare("shop", parse(about), before, secrets); !strings.Contains(text(err), want) {
			t.Errorf("%s: %s", want, text(err))
		}
	}
}

func TestObjects(t *testing.T) {
	bound := []app.ObjectBinding{{Binding: "A", Class: "A"}}
	var first, next migrations
	for to, from := range map[*migrations]string{
		&first: `{"new_tag":"v2","steps":[{"new_sqlite_classes":["Old"]},{"renamed_classes":[{"from":"Old","to":"A"}],"new_classes":["B"]}]}`,
		&next:  `{"old_tag":"v2","new_tag":"v3","steps":[{"deleted_classes":["B"]}]}`,
	} {
		if err := json.Unmarshal([]byte(from), to); err != nil {
			t.Fatal(err)
		}
	}
	one, err := objects(nil, bound, &first)
	if err != nil {
		t.Fatal(text(err))
	}
	two, err := objects(&app.Manifest{DurableObjects: one}, bound, &next)
	if err != nil {
		t.Fatal(text(err))
	}
	want := &app.Objects{
		Bindings: bound, Classes: []app.ObjectClass{{Class: "A", Key: "Old", SQL: true}}, Migrations: []string{"", "v2", "v3"}, Deleted: []string{"B"},
	}
	if diff := cmp.Diff(want, two); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
	// A configuration that names them all goes on behind it, and one that names others does not.
	for third, ok := range map[string]bool{"v3": true, "other": false} {
		whole := &app.Manifest{DurableObjects: &app.Objects{Migrations: []string{"v1", "v2", third}}}
		if err := whole.Follows(&app.Manifest{DurableObjects: two}); (err == nil) != ok {
			t.Errorf("%s behind %q: %v", third, two.Migrations, err)
		}
	}
	if len(one.Classes) != 2 {
		t.Errorf("the version before has changed: %+v", one)
	}
	if _, err := objects(&app.Manifest{DurableObjects: two}, bound, &next); !strings.Contains(text(err), `the last one of the script is "v3"`) {
		t.Errorf("a migration twice: %s", text(err))
	}
	if _, err := objects(nil, bound, nil); !strings.Contains(text(err), "no migration makes the class A") {
		t.Errorf("a class that none makes: %s", text(err))
	}
	if none, err := objects(nil, nil, nil); none != nil || err != nil {
		t.Error(none, err)
	}
}
