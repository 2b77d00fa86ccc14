package esbuild

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/evanw/esbuild/pkg/api"

	"github.com/runlot/runlot/internal/core/queue"
)

// frameWidth is the most characters of a line of code that a message shows.
const frameWidth = 120

// style is the set of ANSI codes of a message; all of them are empty without colours.
type style struct{ bold, red, yellow, green, dim, reset string }

func styleOf(color bool) style {
	if !color {
		return style{}
	}
	return style{bold: "\x1b[1m", red: "\x1b[31m", yellow: "\x1b[33m", green: "\x1b[32m", dim: "\x1b[2m", reset: "\x1b[0m"}
}

// renderErrors writes the message of a failed build.
func renderErrors(errs []api.Message, color bool) string {
	var b strings.Builder
	if len(errs) == 1 {
		b.WriteString("the build failed with an error\n")
	} else {
		fmt.Fprintf(&b, "the build failed with %d errors\n", len(errs))
	}
	s := styleOf(color)
	for i := range errs[:min(len(errs), queue.MaxBuildMessages)] {
		b.WriteByte('\n')
		b.WriteString(render(&errs[i], "error", s.red, s))
	}
	if more := len(errs) - queue.MaxBuildMessages; more > 0 {
		fmt.Fprintf(&b, "\n%d more errors are not shown\n", more)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// renderWarnings writes each warning as a text of its own.
func renderWarnings(warnings []api.Message, color bool) []string {
	s := styleOf(color)
	var texts []string
	for i := range warnings[:min(len(warnings), queue.MaxBuildMessages)] {
		texts = append(texts, strings.TrimSuffix(render(&warnings[i], "warning", s.yellow, s), "\n"))
	}
	if more := len(warnings) - queue.MaxBuildMessages; more > 0 {
		texts = append(texts, fmt.Sprintf("warning: %d more warnings are not shown", more))
	}
	return texts
}

// render writes one message: place, kind and text, the code with a caret under it, and the notes in the same way.
func render(m *api.Message, kind, color string, s style) string {
	var b strings.Builder
	heading(&b, m.Location, kind, color, m.Text, s)
	for _, note := range notes(m) {
		heading(&b, note.Location, "note", s.bold, note.Text, s)
	}
	return b.String()
}

// notes returns esbuild's notes; those that name an option of esbuild, which nobody can set here, give way to ours.
func notes(m *api.Message) []api.Note {
	kept := slices.DeleteFunc(slices.Clone(m.Notes), func(note api.Note) bool {
		return strings.HasPrefix(note.Text, "You can mark the path ")
	})
	if name, ok := strings.CutPrefix(m.Text, "Could not resolve "); ok && len(kept) == 0 && len(m.Notes) > 0 {
		kept = append(kept, api.Note{Text: "It is not installed: add it with npm install, or correct the name in " + name})
	}
	if strings.HasPrefix(m.Text, "No loader is configured ") {
		kept = append(kept, api.Note{Text: "JavaScript, TypeScript, .json, .wasm, .txt, .html, .sql and .bin files can be imported"})
	}
	return kept
}

func heading(b *strings.Builder, at *api.Location, kind, color, text string, s style) {
	if at != nil {
		column := 1
		if at.Column <= len(at.LineText) {
			column = utf8.RuneCountInString(at.LineText[:at.Column]) + 1
		}
		fmt.Fprintf(b, "%s%s:%d:%d:%s ", s.bold, at.File, at.Line, column, s.reset)
	}
	fmt.Fprintf(b, "%s%s:%s %s\n", color, kind, s.reset, text)
	if at != nil && at.LineText != "" {
		codeFrame(b, at, s)
	}
}

// codeFrame writes the line of code and a caret line under it. Of a long line it shows the part around the place.
func codeFrame(b *strings.Builder, at *api.Location, s style) {
	const tab = "  "
	start := min(max(at.Column, 0), len(at.LineText))
	end := min(start+max(at.Length, 1), len(at.LineText))
	before := []rune(strings.ReplaceAll(at.LineText[:start], "\t", tab))
	marked := []rune(strings.ReplaceAll(at.LineText[start:end], "\t", tab))
	after := []rune(strings.ReplaceAll(strings.TrimRight(at.LineText[end:], "\r\n"), "\t", tab))
	const ellipsis = "…"
	if len(before)+len(marked)+len(after) > frameWidth {
		if room := frameWidth / 2; len(before) > room {
			before = append([]rune(ellipsis), before[len(before)-room:]...)
		}
		if room := frameWidth - len(before); len(marked) > room {
			marked, after = append(marked[:room:room], []rune(ellipsis)...), nil
		} else if room -= len(marked); len(after) > room {
			after = append(after[:room:room], []rune(ellipsis)...)
		}
	}
	number := fmt.Sprintf("%5d", at.Line)
	fmt.Fprintf(b, "%s%s │%s %s%s%s\n", s.dim, number, s.reset, string(before), string(marked), string(after))
	caret := "^" + strings.Repeat("~", max(len(marked)-1, 0))
	fmt.Fprintf(b, "%s%s │%s %s%s%s%s\n", s.dim, strings.Repeat(" ", len(number)), s.reset,
		strings.Repeat(" ", len(before)), s.green, caret, s.reset)
	if at.Suggestion != "" {
		fmt.Fprintf(b, "%s%s │%s %s%s%s%s\n", s.dim, strings.Repeat(" ", len(number)), s.reset,
			strings.Repeat(" ", len(before)), s.green, at.Suggestion, s.reset)
	}
}
