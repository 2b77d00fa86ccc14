package source

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/runlot/runlot/internal/core/queue"
)

// Severity says whether a diagnostic stops the work.
type Severity string

// The severities.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
)

// Diagnostic is one thing to say about a place in a file.
type Diagnostic struct {
	Severity Severity `json:"severity"`
	File     string   `json:"file"`
	// Line and Column count from 1; columns count characters.
	Line   int `json:"line"`
	Column int `json:"column"`
	// Path is the place in the document ("queues.consumers[0].maxRetries"); "" for the whole of it.
	Path string `json:"path,omitempty"`
	// Message is a sentence for a person without a final full stop, Hint the way out; Hint may be empty.
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// String renders the diagnostic for a terminal: one line, and one more for the hint.
func (d Diagnostic) String() string {
	text := fmt.Sprintf("%s:%d:%d: %s: %s", d.File, d.Line, d.Column, d.Severity, d.Message)
	if d.Hint == "" {
		return text
	}
	return text + "\n    hint: " + strings.ReplaceAll(d.Hint, "\n", "\n    ")
}

// Problems is what is wrong with a configuration, in the order of the file. As an error it has at least one diagnostic
// of severity Error; the warnings of the same run stand between them.
type Problems []Diagnostic //nolint:errname // a list of diagnostics that is also an error reads best under its own name

// Error renders the problems for a terminal, at most queue.MaxProblems of them.
func (p Problems) Error() string {
	lines := make([]string, 0, min(len(p), queue.MaxProblems)+1)
	for i := range p {
		if i == queue.MaxProblems {
			lines = append(lines, fmt.Sprintf("… and %d more", len(p)-i))
			break
		}
		lines = append(lines, p[i].String())
	}
	return strings.Join(lines, "\n")
}

// Errors returns the number of diagnostics that stop the work.
func (p Problems) Errors() int {
	n := 0
	for i := range p {
		if p[i].Severity == Error {
			n++
		}
	}
	return n
}

// Sort orders the problems by file and place.
func (p Problems) Sort() {
	slices.SortStableFunc(p, func(a, b Diagnostic) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

func (d *Document) diagnostic(s Severity, offset int, path, hint, format string, args ...any) Diagnostic {
	line, column := d.Position(offset)
	return Diagnostic{
		Severity: s, File: d.File, Line: line, Column: column, Path: path,
		Message: fmt.Sprintf(format, args...), Hint: hint,
	}
}
