// Package dotenv reads files of NAME=value lines, which hold an app's secrets on a developer's machine. Diagnostics never
// repeat a value.
package dotenv

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/runlot/runlot/internal/config/rules"
	"github.com/runlot/runlot/internal/config/source"
	"github.com/runlot/runlot/internal/core/queue"
)

// Entry is one name with its value.
type Entry struct {
	Name  string
	Value string
	// File and Line say where it stands; names stand at the beginning of their lines.
	File   string
	Line   int
	Column int
}

// Diagnostic makes a diagnostic about the entry.
func (e *Entry) Diagnostic(s source.Severity, hint, format string, args ...any) source.Diagnostic {
	return source.Diagnostic{
		Severity: s, File: e.File, Line: e.Line, Column: e.Column, Path: e.Name,
		Message: fmt.Sprintf(format, args...), Hint: hint,
	}
}

var entryPattern = regexp.MustCompile(`^[ \t]*(?:export[ \t]+)?([^\s=#"'` + "`" + `]+)[ \t]*=[ \t]*`)

// Parse reads entries. A value stands without quotes, or in ', " or `, where it may go over several lines; in " the
// escapes \n, \r, \t, \" and \\ are known. Nothing is expanded: a $ is a $. What tools read in different ways (a # in the
// middle of a value without quotes) and what they skip silently (a line without =) is an error.
func Parse(file string, text []byte) ([]Entry, source.Problems) {
	p := parser{file: file, line: 1}
	switch {
	case len(text) > queue.MaxConfigFile:
		p.failf(1, "", "the file has %d bytes; at most %d are read", len(text), queue.MaxConfigFile)
	case !utf8.Valid(text):
		p.failf(1, "save the file as UTF-8", "the file is not valid UTF-8")
	default:
		text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
		p.rest = strings.ReplaceAll(string(text), "\r\n", "\n")
		p.parse()
	}
	return p.entries, p.problems
}

type parser struct {
	file     string
	rest     string
	line     int
	entries  []Entry
	problems source.Problems
}

func (p *parser) failf(column int, hint, format string, args ...any) {
	if len(p.problems) == queue.MaxProblems {
		return
	}
	p.problems = append(p.problems, source.Diagnostic{
		Severity: source.Error, File: p.file, Line: p.line, Column: column, Message: fmt.Sprintf(format, args...), Hint: hint,
	})
}

func (p *parser) parse() {
	seen := map[string]int{}
	for ; p.rest != ""; p.line++ {
		line, _, _ := strings.Cut(p.rest, "\n")
		trimmed := strings.TrimSpace(line)
		if trimmed == "" || trimmed[0] == '#' {
			p.skip(len(line))
			continue
		}
		column := utf8.RuneCountInString(line) - utf8.RuneCountInString(strings.TrimLeftFunc(line, unicode.IsSpace)) + 1
		match := entryPattern.FindStringSubmatchIndex(line)
		if match == nil {
			p.failf(column, "write NAME=value, or begin a comment with #", "the line is not NAME=value")
			p.skip(len(line))
			continue
		}
		name := line[match[2]:match[3]]
		entry := Entry{Name: name, File: p.file, Line: p.line, Column: utf8.RuneCountInString(line[:match[2]]) + 1}
		value, ok := p.value(line, match[1])
		if !ok {
			continue
		}
		entry.Value = value
		earlier, twice := seen[name]
		switch {
		case !rules.ValidBinding(name):
			p.problems = append(p.problems, entry.Diagnostic(source.Error, "write it like API_KEY",
				"%s cannot be a name in env: %s", source.Quote(name), rules.BindingRule))
		case twice:
			p.problems = append(p.problems, entry.Diagnostic(source.Error, "keep one of them",
				"`%s` stands twice; the first is on line %d", name, earlier))
		default:
			seen[name] = entry.Line
			p.entries = append(p.entries, entry)
		}
	}
}

// skip goes to the next line, n bytes on.
func (p *parser) skip(n int) { p.rest = strings.TrimPrefix(p.rest[n:], "\n") }

// value reads the value that begins at a byte of the current line, and moves to the next line.
func (p *parser) value(line string, start int) (string, bool) {
	column := utf8.RuneCountInString(line[:start]) + 1
	if start < len(line) && strings.IndexByte("'\"`", line[start]) >= 0 {
		return p.quoted(start, column)
	}
	value := line[start:]
	p.skip(len(line))
	if i := strings.IndexByte(value, '#'); i == 0 || i > 0 && (value[i-1] == ' ' || value[i-1] == '\t') {
		value = value[:i]
	} else if i > 0 {
		p.failf(column+utf8.RuneCountInString(value[:i]), "put the value in quotes, or a space before a comment",
			"a value without quotes cannot have # in it: it may or may not begin a comment")
		return "", false
	}
	return strings.TrimSpace(value), true
}

var escapes = strings.NewReplacer(`\n`, "\n", `\r`, "\r", `\t`, "\t", `\"`, `"`, `\\`, `\`)

func (p *parser) quoted(start, column int) (string, bool) {
	quote := p.rest[start]
	end := start + 1
	for end < len(p.rest) && p.rest[end] != quote {
		if p.rest[end] == '\\' && quote == '"' {
			end++
		}
		end++
	}
	if end >= len(p.rest) {
		p.failf(column, "", "the value's quote is never closed")
		p.rest = ""
		return "", false
	}
	value := p.rest[start+1 : end]
	behind, _, _ := strings.Cut(p.rest[end+1:], "\n")
	lines := strings.Count(value, "\n")
	p.skip(end + 1 + len(behind))
	if t := strings.TrimSpace(behind); t != "" && t[0] != '#' {
		p.failf(column, "", "text follows the value's closing quote")
		p.line += lines
		return "", false
	}
	p.line += lines
	if quote == '"' {
		value = escapes.Replace(value)
	}
	return value, true
}
