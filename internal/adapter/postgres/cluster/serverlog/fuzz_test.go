package serverlog

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
)

// FuzzWriter writes what a server says at once and in two pieces: the lines are the same, each bounded, and so is what is
// kept of them.
func FuzzWriter(f *testing.F) {
	f.Add("client backend [1] ERROR:  theirs\nclient backend [1] DETAIL:  of theirs\n", 25)
	f.Add("postmaster [5] FATAL:  end\n\tgoes on\n\n\xff\nhalf", 20)
	f.Add(strings.Repeat("x", lineBytes+1)+"\n"+strings.Repeat("y\n", tailLines+1), lineBytes-1)
	f.Fuzz(func(t *testing.T, output string, cut int) {
		if cut < 0 || cut > len(output) {
			return
		}
		read := func(parts ...string) ([]string, string) {
			var lines []string
			w := New(slog.New(slog.DiscardHandler), func(text string) { lines = append(lines, text) })
			for _, part := range parts {
				if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
					t.Errorf("wrote %d of %d, %v", n, len(part), err)
				}
			}
			return lines, w.Tail()
		}
		lines, tail := read(output)
		again, tailAgain := read(output[:cut], output[cut:])
		if !slices.Equal(lines, again) || tail != tailAgain {
			t.Errorf("at once %q, %q; in pieces %q, %q", lines, tail, again, tailAgain)
		}
		for _, line := range lines {
			if len(line) > lineBytes || strings.TrimSpace(line) == "" || strings.Contains(line, "\n") {
				t.Errorf("line %q", line)
			}
		}
		if n := strings.Count(tail, "\n"); n > tailLines+1 || tail == "" {
			t.Errorf("a tail of %d lines: %q", n, tail)
		}
	})
}
