package terminal_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/internal/cli/terminal"
)

func TestTableFitsTheWidth(t *testing.T) {
	var b strings.Builder
	out := terminal.Plain(&b, 40)
	out.Table([]string{"Queue", "Consumer"}, [][]terminal.Cell{
		{{Text: "jobs"}, {Text: "my-app, batches of 10 or 5 s, 3 retries"}},
		{{Text: "jobs-dead"}, {Text: "none"}},
	})
	want := "" +
		"  Queue      Consumer\n" +
		"  jobs       my-app, batches of 10 or 5\n" +
		"             s, 3 retries\n" +
		"  jobs-dead  none\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestTableStacksWhatHasNoRoom(t *testing.T) {
	var b strings.Builder
	out := terminal.Plain(&b, 40)
	out.Table([]string{"Queue", "Waiting", "Consumer"}, [][]terminal.Cell{
		{{Text: "notifications-by-mail"}, {Text: "0"}, {Text: "batches of 10 or 5 s, 3 retries → dead-mails"}},
		{{Text: "jobs"}, {Text: "12"}, {Text: "none"}},
		{{Text: "old"}, {Text: "0"}, {}},
	})
	want := "" +
		"  Queue                  Waiting\n" +
		"    Consumer\n" +
		"  notifications-by-mail  0\n" +
		"    batches of 10 or 5 s, 3 retries →\n" +
		"    dead-mails\n" +
		"  jobs                   12\n" +
		"    none\n" +
		"  old                    0\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestPaintIsPlainWithoutColour(t *testing.T) {
	out := terminal.Plain(&strings.Builder{}, 80)
	if got := out.Paint(terminal.Red, "x"); got != "x" {
		t.Errorf("without colour: %q", got)
	}
	out.Colour = true
	if got := out.Paint(terminal.Red, "x"); got != "\x1b[31mx\x1b[0m" {
		t.Errorf("with colour: %q", got)
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1\u202f000", 1234567: "1\u202f234\u202f567", -1000: "-1\u202f000", -100: "-100"} {
		if got := terminal.Count(n); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}

func TestCleanStopsEscapes(t *testing.T) {
	if got := terminal.Clean("a\x1b[2Jb\r\nc\u009bd\te\u202ef\u2066"); got != "a�[2Jb��c�d e�f�" {
		t.Errorf("got %q", got)
	}
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		text    string
		columns int
		want    string
	}{{"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"äöüß", 3, "äö…"}, {"ab", 0, "…"}} {
		if got := terminal.Cut(c.text, c.columns); got != c.want {
			t.Errorf("%q in %d: got %q, want %q", c.text, c.columns, got, c.want)
		}
	}
}

func TestCutName(t *testing.T) {
	for _, c := range []struct {
		name    string
		columns int
		want    string
	}{{"jobs", 4, "jobs"}, {"mails-high", 7, "mai…igh"}, {"mails-high", 6, "mai…gh"}, {"ab", 1, "…"}, {"äöüßéè", 5, "äö…éè"}} {
		if got := terminal.CutName(c.name, c.columns); got != c.want {
			t.Errorf("%q in %d: got %q, want %q", c.name, c.columns, got, c.want)
		}
	}
}

func TestFold(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string
	}{
		{"fits in one line", []string{"fits in one line"}},
		{"goes on at the space that is the last one", []string{"goes on at the space", "that is the last one"}},
		{"exactly-20-columns-x y", []string{"exactly-20-columns-x", "y"}},
		{"aLongWordWithoutAnySpaceInIt", []string{"aLongWordWithoutAnySp"[:20], "paceInIt"}},
		{"  {\n    \"name\": 1\n  }", []string{"  {", "    \"name\": 1", "  }"}},
		{"    anIndentedWordTooLong", []string{"    anIndentedWordTo", "oLong"}},
		{"äöüäöüäöü éèêéèêéèê äöü", []string{"äöüäöüäöü éèêéèêéèê", "äöü"}},
	} {
		if diff := cmp.Diff(c.want, terminal.Plain(nil, 30).Fold(c.text, 10)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c.text, diff)
		}
		if got := strings.Join(terminal.Plain(nil, 0).Fold(c.text, 10), "\n"); got != c.text {
			t.Errorf("without a width: got %q, want %q", got, c.text)
		}
	}
}
