package serverlog

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWriter(t *testing.T) {
	var out bytes.Buffer
	var seen []string
	w := New(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})), func(text string) { seen = append(seen, text) })
	// Split anywhere, and longer than any line may be.
	for _, part := range []string{
		"client backend [1] ERR", "OR:  theirs\nclient backend [1] DETAIL:  of theirs\n", "\n", "checkpointer [2] LOG:  routine\n",
		"autovacuum worker [3] ERROR:  ours\nautovacuum worker [3] HINT:  of ours\n\tgoes on\n", "client backend [4] PANIC:  all\n",
		"postmaster [5] WARNING:  " + strings.Repeat("x", 3*lineBytes), "\npostmaster [5] FATAL:  end\n",
	} {
		if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		got = append(got, fmt.Sprintf("%.60s", strings.TrimSpace(line)))
	}
	want := []string{
		`level=ERROR msg=postgresql process="autovacuum worker" text=`,
		`level=ERROR msg=postgresql process="autovacuum worker" text=`,
		`level=ERROR msg=postgresql process="" text="\tgoes on"`,
		`level=ERROR msg=postgresql process="client backend" text="PA`,
		`level=WARN msg=postgresql process=postmaster text="WARNING: `,
		`level=ERROR msg=postgresql process=postmaster text="FATAL: e`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(seen) != 9 {
		t.Errorf("%d lines seen", len(seen))
	}
	for i := range 100 {
		fmt.Fprintf(w, "line %d\n", i)
	}
	fmt.Fprint(w, "half")
	tail := w.Tail()
	if n := strings.Count(tail, "\n"); n != tailLines+1 || !strings.HasSuffix(tail, "line 99\n  half") {
		t.Errorf("tail of %d lines: %s", n, tail)
	}
	if len(out.String()) > 3*lineBytes {
		t.Errorf("a long line came through whole: %d bytes", out.Len())
	}
}
