package scaffold

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/runlot/runlot/internal/core/queue"
)

func TestAnAppIsNamedAfterItsFolder(t *testing.T) {
	long := strings.Repeat("x", 61) + " yz"
	for folder, want := range map[string]string{
		"shop": "shop", "My App": "my-app", "v2.0": "v2-0", "--a--": "a", "!?": defaultName, "/": defaultName,
		long: strings.Repeat("x", 61) + "-y",
	} {
		got := nameOf(folder)
		if got != want {
			t.Errorf("%q: got %q, want %q", folder, got, want)
		}
		for _, name := range []string{got, queueOf(got), queueOf(got) + "-dead"} {
			if !queue.ValidName(name) {
				t.Errorf("%q: %q is not a valid name", folder, name)
			}
		}
	}
}

func TestAPathIsShownAsAShellTakesIt(t *testing.T) {
	for path, want := range map[string]string{"a/b-c.d": "a/b-c.d", "my app": "'my app'", "it's": `'it'\''s'`, "$HOME": "'$HOME'"} {
		if got := shown(path); got != want {
			t.Errorf("%q: got %s, want %s", path, got, want)
		}
	}
}

// The types that a project starts with are those that this repository is tested with.
func TestTheVersionOfTheTypes(t *testing.T) {
	var house, written struct {
		DevDependencies map[string]string `json:"devDependencies"`
	}
	text, err := os.ReadFile("../../../package.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &house); err != nil {
		t.Fatal(err)
	}
	for _, f := range fill(&app{Name: "a", Queue: "a", Config: "runlot.json", Ext: "ts"}) {
		if f.path == "package.json" {
			if err := json.Unmarshal(f.text, &written); err != nil {
				t.Fatal(err)
			}
		}
	}
	const types = "@cloudflare/workers-types"
	if got, want := written.DevDependencies[types], "^"+house.DevDependencies[types]; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
