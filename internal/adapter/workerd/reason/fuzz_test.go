package reason

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/runlot/runlot/internal/core/queue"
)

// FuzzReader writes the output of workerd at once and in two pieces: the same failures are found, each with a reference and
// of bounded length.
func FuzzReader(f *testing.F) {
	f.Add("workerd/jsg/util.c++:320: error: e = kj/async.c++:10: failed: TLS handshake failed\nstack: 1 2; wdErrId = 456ulo\n", 40)
	f.Add("a.c++:1: error: e = x; sentryErrorContext = y; wdErrId = a\nb.c++:2: error: e = failed: \nwdErrId = b\n\n", 61)
	f.Add("user says wdErrId = x\n:1: error: e = \xff\nwdErrId = \n", 3)
	f.Fuzz(func(t *testing.T, output string, cut int) {
		if cut < 0 || cut > len(output) {
			return
		}
		read := func(parts ...string) []string {
			var found []string
			r := NewReader(func(id, text string) {
				if id == "" || len(text) > queue.OutputBytes || strings.Contains(text, "\n") {
					t.Errorf("failure %q: %q", id, text)
				}
				for _, private := range []bool{true, false} {
					if Failure(text, private) == "" && text != "" {
						t.Errorf("nothing is said of %q", text)
					}
				}
				found = append(found, id+" "+text)
			})
			for _, part := range parts {
				if n, err := r.Write([]byte(part)); n != len(part) || err != nil {
					t.Errorf("wrote %d of %d, %v", n, len(part), err)
				}
			}
			return found
		}
		if whole, pieces := read(output), read(output[:cut], output[cut:]); !slices.Equal(whole, pieces) {
			t.Errorf("at once %q, in pieces %q", whole, pieces)
		}
	})
}

// FuzzStart explains any output of a start: there is always something to say, and a place stands in it when there is one.
func FuzzStart(f *testing.F) {
	f.Add("service worker: Uncaught SyntaxError: Unexpected number\n  at file:///bundle/main.mjs:2:21\n")
	f.Add("service worker: Uncaught Error: x\n  at file:///bundle/main.mjs:2:21 in f\nservice worker: no such named entrypoint\n")
	f.Add("top-level await\n")
	f.Add("\n  \n\xff: worker:1:99999999999999999999\n    at f (runlot-entry.mjs:1:2) {\n")
	f.Fuzz(func(t *testing.T, stderr string) {
		mapped := Script(nil, "index.js", 100)
		for _, m := range []MapStack{nil, mapped} {
			fault := Start(stderr, &os.ProcessState{}, m)
			if fault.Code == "" || strings.TrimSpace(fault.Message) == "" {
				t.Errorf("nothing is said: %+v", fault)
			}
			if _, location := Map(m, stderr); location != "" && strings.ContainsAny(location, " \n\t()\"") {
				t.Errorf("the place is %q", location)
			}
		}
		if line := Line(stderr); strings.HasSuffix(line, "\n") {
			t.Errorf("the line ends with its end: %q", line)
		}
	})
}
