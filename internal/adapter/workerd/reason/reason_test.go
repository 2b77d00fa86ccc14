package reason

import (
	"os/exec"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/internal/core/fault"
)

func TestMap(t *testing.T) {
	const stack = "Error: no\n" +
		"    at f (file:///bundle/src/a.mjs:3:7)\n" +
		"    at queue (runlot-internal:handler:12:3)\n" +
		"    at file:///bundle/runlot-entry.mjs:4:1\n"
	for _, test := range []struct {
		name           string
		m              MapStack
		text, location string
	}{
		{name: "no map", text: "Error: no\n    at f (src/a.mjs:3:7)", location: "src/a.mjs:3:7"},
		{
			name: "map", text: "Error: no\n    at f (src/a.mjs:3:7), mapped", location: "a.ts:1:2",
			m: func(stack string) (string, string) { return stack + ", mapped", "a.ts:1:2" },
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			text, location := Map(test.m, stack)
			if diff := cmp.Diff([]string{test.text, test.location}, []string{text, location}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMapKeepsWhatFollowsAFrameOfOurs(t *testing.T) {
	got, _ := Map(nil, "{\n  e: Error: no\n      at f (file:///bundle/a.mjs:3:7)\n      at queue (runlot-internal:handler:12:3) {\n    code: 1\n  }\n} Error\n"+
		"    at a.mjs:1:1\n    at queue (runlot-internal:handler:12:3) text")
	if diff := cmp.Diff("{\n  e: Error: no\n      at f (a.mjs:3:7) {\n    code: 1\n  }\n} Error\n    at a.mjs:1:1 text", got); diff != "" {
		t.Error(diff)
	}
}

func TestScriptMovesTheFirstLineBack(t *testing.T) {
	m := Script(nil, "main.mjs", 10)
	for place, want := range map[string]string{"worker:1:17": "main.mjs:1:7", "worker:2:17": "main.mjs:2:17", "worker:1:4": "main.mjs:1:1"} {
		if _, location := m("Error: no\n    at " + place); location != want {
			t.Errorf("%s is %s, want %s", place, location, want)
		}
	}
}

func TestStart(t *testing.T) {
	for _, test := range []struct {
		name, stderr, code, message string
		kind                        fault.Kind
	}{
		{
			name: "threw", kind: fault.Invalid, code: "worker_threw",
			stderr:  "service worker: Uncaught Error: boom\n  at file:///bundle/main.mjs:2:9 in f\n  at file:///bundle/runlot-entry.mjs:1:1\n",
			message: "main.mjs:2:9: Error: boom\n    at f (main.mjs:2:9)",
		},
		{
			name: "threw at the top level", kind: fault.Invalid, code: "worker_threw",
			stderr:  "service worker: Uncaught Error: boom\n  at file:///bundle/b.mjs:2:9\n  at file:///bundle/main.mjs:3:1\n",
			message: "b.mjs:2:9: Error: boom\n    at main.mjs:3:1",
		},
		{name: "syntax", kind: fault.Invalid, code: "worker_syntax", stderr: "service worker: Uncaught SyntaxError: x\n", message: "SyntaxError: x"},
		{name: "first rule", kind: fault.Invalid, code: "worker_flag", stderr: "service worker: No such compatibility flag: a\nservice worker: Too new a compatibility date\n", message: "No such compatibility flag: a"},
		{name: "await", kind: fault.Invalid, code: "worker_await", stderr: "service worker: Uncaught Error: Top-level top-level await in module\n", message: "a module awaits at its top level what does not resolve at once"},
		{name: "unknown", kind: fault.Environment, code: "worker_start", stderr: "*** something else\n", message: "the worker process did not start: *** something else"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := Start(test.stderr, nil, nil)
			if f.Kind != test.kind || f.Code != test.code {
				t.Errorf("%s/%s, want %s/%s", f.Kind, f.Code, test.kind, test.code)
			}
			if diff := cmp.Diff(test.message, f.Message); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestExit(t *testing.T) {
	for _, test := range []struct{ script, stderr, want string }{
		{"exit 0", "", "it exited"},
		{"exit 3", "", "it exited with status 3"},
		{"kill -KILL $$", "", "it was ended by the signal killed"},
		{"kill -ABRT $$", "V8 fatal error; Ineffective mark-compacts near heap limit", "it ran out of memory; the limit is 128 MiB of JavaScript heap, and 1024 MiB of memory in all"},
	} {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", test.script)
		_ = cmd.Run() // the state says it
		if got := Exit(test.stderr, cmd.ProcessState, 128); got != test.want {
			t.Errorf("%s: %q, want %q", test.script, got, test.want)
		}
	}
}
