package reason

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/internal/core/queue"
)

func TestFailures(t *testing.T) {
	const output = "the worker's own line, error: e = mine\n" +
		"workerd/jsg/util.c++:320: error: e = rust/worker/ffi.rs:104: failed: TLS handshake failed: no\n" +
		"stack: /a/workerd@2b5edc0 /a/workerd@3fe4230; sentryErrorContext = jsgInternalError; wdErrId = abc1\n" +
		"wdErrId = nothing\n" +
		"workerd/jsg/util.c++:320: error: e = on one line; sentryErrorContext = jsgInternalError; wdErrId = abc2\n"
	for _, size := range []int{1, 7, len(output)} {
		var got []string
		f := NewReader(func(id, text string) { got = append(got, id+" "+text) })
		for rest := output; rest != ""; {
			n, _ := f.Write([]byte(rest[:min(size, len(rest))]))
			rest = rest[n:]
		}
		if diff := cmp.Diff([]string{"abc1 TLS handshake failed: no", "abc2 on one line"}, got); diff != "" {
			t.Errorf("in pieces of %d: %s", size, diff)
		}
	}
}

func TestFailuresKeepNoEndlessLine(t *testing.T) {
	f := NewReader(func(string, string) { t.Error("reported") })
	for range 3 {
		_, _ = f.Write([]byte(strings.Repeat("x", queue.OutputBytes)))
	}
	if len(f.rest) > queue.OutputBytes {
		t.Errorf("%d bytes are kept", len(f.rest))
	}
}

func TestFailure(t *testing.T) {
	for _, test := range []struct {
		text    string
		private bool
		want    string
	}{
		{"connecting to 127.0.0.1:1 is not allowed", false, "connecting to 127.0.0.1:1 is not allowed: it is a private address (celld --allow-private lets Workers reach those)"},
		{"connecting to /run/x.sock is not allowed", true, "connecting to /run/x.sock is not allowed"},
		{"failed to lookup address information: Name or service not known", true, "the host name was not found (DNS: Name or service not known)"},
		{"TLS handshake failed: no", true, "TLS handshake failed: no"},
		{"expected a > b", true, "internal error: expected a > b"},
	} {
		if got := Failure(test.text, test.private); got != test.want {
			t.Errorf("%q: %q", test.text, got)
		}
	}
}
