// Package terminal writes for a person at a terminal: colours only where they are seen, tables that fit the width,
// durations and sizes in the unit that reads best.
package terminal

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

const (
	// narrow is the width assumed where there is no terminal to ask.
	narrow = 80
	// widest bounds lines on very wide terminals; longer ones are hard to read.
	widest = 160
	// narrowest is the least room for text that is folded: below it a line would be letters under each other.
	narrowest = 20
)

// Output is a stream with what is known of its reader.
type Output struct {
	w     io.Writer
	width func() int
	// Interactive is whether the reader is a terminal, and Colour whether escape sequences may be written.
	Interactive, Colour bool
}

// New looks at f: on a terminal the width follows the window, and colours are on unless NO_COLOR is set or TERM is dumb.
// Elsewhere lines are as long as their text, so that they can be searched.
func New(f *os.File) *Output {
	fd := int(f.Fd())
	if !term.IsTerminal(fd) {
		return Plain(f, 0)
	}
	width := func() int {
		columns, _, err := term.GetSize(fd)
		if err != nil || columns <= 0 {
			return narrow
		}
		return min(columns, widest)
	}
	return &Output{w: f, width: width, Interactive: true, Colour: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

// Plain is an output without colours and with a fixed width; 0 stands for lines of any length.
func Plain(w io.Writer, width int) *Output {
	return &Output{w: w, width: func() int { return width }}
}

// Write implements io.Writer.
func (o *Output) Write(p []byte) (int, error) { return o.w.Write(p) }

// Printf writes formatted text. A reader that has gone away is no reason to fail.
func (o *Output) Printf(format string, args ...any) { _, _ = fmt.Fprintf(o.w, format, args...) }

// Width is the number of columns that a line is laid out for.
func (o *Output) Width() int {
	if w := o.width(); w > 0 {
		return w
	}
	return narrow
}

// Fold splits text into the lines that it has, and each of those that does not fit beside `taken` columns at spaces, or
// within a word that is longer than a line. Where lines have any length, no line is folded.
func (o *Output) Fold(text string, taken int) []string {
	lines := strings.Split(text, "\n")
	if o.width() == 0 {
		return lines
	}
	room := max(o.Width()-taken, narrowest)
	var folded []string
	for _, line := range lines {
		rest := []rune(line)
		for len(rest) > room {
			at := room
			for at > 0 && rest[at] != ' ' {
				at--
			}
			// A space that only indents is no place to fold at.
			if strings.TrimSpace(string(rest[:at])) == "" {
				at = room
			}
			folded = append(folded, strings.TrimRight(string(rest[:at]), " "))
			rest = []rune(strings.TrimLeft(string(rest[at:]), " "))
		}
		folded = append(folded, string(rest))
	}
	return folded
}

// Labelled writes a text behind a label. Lines that had to be folded stand under the text; a text of several lines of its
// own, like code, keeps them as they are.
func (o *Output) Labelled(style Style, label, text string) {
	first, rest, several := strings.Cut(text, "\n")
	for i, line := range o.Fold(first, len(label)) {
		if i == 0 {
			o.Printf("%s%s\n", o.Paint(style, label), line)
			continue
		}
		o.Printf("%s%s\n", strings.Repeat(" ", len(label)), line)
	}
	if several {
		o.Printf("%s\n", rest)
	}
}

// Style is how a piece of text looks.
type Style string

// The styles. Colours are the terminal's own sixteen, so that they fit its theme.
const (
	Normal Style = ""
	Bold   Style = "1"
	Dim    Style = "2"
	Red    Style = "31"
	Green  Style = "32"
	Yellow Style = "33"
	Cyan   Style = "36"
)

// Paint returns text in a style, or unchanged where colours are off.
func (o *Output) Paint(s Style, text string) string {
	if !o.Colour || s == Normal || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

// Cell is a piece of a table row.
type Cell struct {
	Text  string
	Style Style
}

// Table writes rows under a header in aligned columns, indented by two. The last column takes what is left of the width
// and goes on below itself if it must; where hardly anything is left, it stands below its row.
func (o *Output) Table(header []string, rows [][]Cell) {
	widths := make([]int, len(header))
	for i, h := range header {
		widths[i] = utf8.RuneCountInString(h)
	}
	for _, row := range rows {
		for i, c := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(c.Text))
		}
	}
	taken := 2
	for _, w := range widths[:len(widths)-1] {
		taken += w + 2
	}
	gap := ""
	if o.width() > 0 && o.Width()-taken < narrowest {
		taken, gap = 4, "\n    "
	}
	line := func(cells []Cell) {
		var b strings.Builder
		b.WriteString("  ")
		for i, c := range cells {
			if i == len(cells)-1 && c.Text != "" {
				b.WriteString(gap)
				for n, part := range o.Fold(c.Text, taken) {
					if n > 0 {
						b.WriteString("\n" + strings.Repeat(" ", taken))
					}
					b.WriteString(o.Paint(c.Style, part))
				}
				continue
			}
			b.WriteString(o.Paint(c.Style, c.Text))
			b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c.Text)+2))
		}
		for text := range strings.SplitSeq(b.String(), "\n") {
			o.Printf("%s\n", strings.TrimRight(text, " "))
		}
	}
	head := make([]Cell, len(header))
	for i, h := range header {
		head[i] = Cell{Text: h, Style: Dim}
	}
	line(head)
	for _, row := range rows {
		line(row)
	}
}

// Cut shortens text to a number of columns; what was cut is marked by an ellipsis.
func Cut(text string, columns int) string {
	if utf8.RuneCountInString(text) <= columns {
		return text
	}
	runes := []rune(text)
	return string(runes[:max(columns-1, 0)]) + "…"
}

// CutName shortens a name to a number of columns and keeps both its ends, since names that look alike differ there.
func CutName(name string, columns int) string {
	runes := []rune(name)
	if len(runes) <= columns {
		return name
	}
	tail := max((columns-1)/2, 0)
	return string(runes[:max(columns-1-tail, 0)]) + "…" + string(runes[len(runes)-tail:])
}

// Clean replaces control characters, also those that turn the direction of writing, so that text from elsewhere cannot
// move the cursor, forge a line or show itself in another order.
func Clean(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0), unicode.Is(unicode.Bidi_Control, r):
			return '�'
		default:
			return r
		}
	}, text)
}

// Count writes n with a thin space between thousands.
func Count(n int64) string {
	digits := strconv.FormatInt(n, 10)
	var b strings.Builder
	for i, r := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 && digits[i-1] != '-' {
			b.WriteRune('\u202f')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// Plural writes "1 message", "2 messages".
func Plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%s %ss", Count(int64(n)), word)
}
