package untold_test

import (
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/internal/adapter/workerd/untold"
	"github.com/runlot/runlot/internal/core/queue"
)

func TestWhatTheTailToldIsForgotten(t *testing.T) {
	var l untold.Lines
	l.Told("one") // the tail may be faster
	for _, part := range []string{"one\ntwo {\n  a: 1\n}\non", "e\nthree\n", "half"} {
		_, _ = io.WriteString(&l, part)
	}
	l.Told("two {\n  a: 1\n}")
	l.Told("never written")
	if diff := cmp.Diff([]string{"one", "three", "half"}, l.Rest()); diff != "" {
		t.Error(diff)
	}
	if rest := l.Rest(); len(rest) > 0 {
		t.Errorf("again: %q", rest)
	}
}

func TestTheLastLinesAreKept(t *testing.T) {
	var l untold.Lines
	line := strings.Repeat("x", 999)
	for range 2 * queue.OutputBytes / len(line) {
		_, _ = io.WriteString(&l, line+"\n")
	}
	_, _ = io.WriteString(&l, strings.Repeat("y", 2*queue.OutputBytes))
	rest := l.Rest()
	if n := len(rest); n != queue.OutputBytes/len(line)+1 || len(rest[n-1]) != queue.OutputBytes {
		t.Errorf("%d lines, the last of %d bytes", n, len(rest[n-1]))
	}
}

func TestWorkerdsOwnWordsAreLeftOut(t *testing.T) {
	var l untold.Lines
	_, _ = io.WriteString(&l, "mine\nworkerd/server/server.c++:5: error: exception = kj/async.c++:1\nstack: a b\nalso mine\n"+
		"workerd/jsg/setup.c++:9: fatal: V8 fatal error; heap limit\n 1: 0xdead\n")
	if diff := cmp.Diff([]string{"mine", "also mine"}, l.Rest()); diff != "" {
		t.Error(diff)
	}
}
