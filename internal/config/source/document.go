// Package source reads configuration text into trees that remember where everything stands, and reports what is wrong
// with it: every problem in one run, each with file, line and column, the rule that is broken and the way out. JSON with
// comments and TOML give the same tree, so that nothing behind this package depends on how a file is written.
package source

import (
	"bytes"
	"encoding/json"
	"sort"
	"strconv"
	"unicode/utf8"

	"github.com/runlot/runlot/internal/core/queue"
)

// Syntax is how a document is written. Hints show lines to add in it.
type Syntax string

// The syntaxes.
const (
	JSONC Syntax = "jsonc"
	TOML  Syntax = "toml"
)

// Document is a configuration file as it was read.
type Document struct {
	// File is the name that diagnostics show.
	File   string
	Syntax Syntax
	Root   *Node

	text  []byte
	lines []int
}

// Kind is the kind of a node.
type Kind string

// The kinds of node. Time and NonFinite occur in TOML only and have no JSON form.
const (
	Null      Kind = "null"
	Boolean   Kind = "boolean"
	Number    Kind = "number"
	String    Kind = "string"
	Array     Kind = "array"
	Object    Kind = "object"
	Time      Kind = "time"
	NonFinite Kind = "nonFinite"
)

// Node is one value of a document.
type Node struct {
	Kind Kind
	// Offset is the byte at which the value starts.
	Offset int
	// Text is the content of a String, the literal of a Number in JSON's form, and of a Boolean, Time or NonFinite what
	// the file says.
	Text string
	// Members are those of an Object, in the order of the file, each key once.
	Members []Member
	// Items are those of an Array.
	Items []*Node
}

// Member is one key of an object with its value.
type Member struct {
	Key       string
	KeyOffset int
	Value     *Node
}

// Find returns the member of an object with this key, nil when there is none.
func (n *Node) Find(key string) *Member {
	for i := range n.Members {
		if n.Members[i].Key == key {
			return &n.Members[i]
		}
	}
	return nil
}

// JSON returns the value as compact JSON, members in the order of the file; ok is false when something in it has no JSON
// form.
func (n *Node) JSON() (text json.RawMessage, ok bool) {
	b := &bytes.Buffer{}
	if !n.write(b) {
		return nil, false
	}
	return b.Bytes(), true
}

func (n *Node) write(b *bytes.Buffer) bool {
	switch n.Kind {
	case Null, Boolean, Number:
		b.WriteString(n.Text)
	case String:
		writeString(b, n.Text)
	case Array:
		b.WriteByte('[')
		for i, item := range n.Items {
			if i > 0 {
				b.WriteByte(',')
			}
			if !item.write(b) {
				return false
			}
		}
		b.WriteByte(']')
	case Object:
		b.WriteByte('{')
		for i := range n.Members {
			if i > 0 {
				b.WriteByte(',')
			}
			writeString(b, n.Members[i].Key)
			b.WriteByte(':')
			if !n.Members[i].Value.write(b) {
				return false
			}
		}
		b.WriteByte('}')
	case Time, NonFinite:
		return false
	}
	return true
}

func writeString(b *bytes.Buffer, s string) {
	text, err := json.Marshal(s)
	if err != nil {
		panic("source: a string always marshals: " + err.Error())
	}
	b.Write(text)
}

// maxShown is how much of a string a message repeats, in bytes.
const maxShown = 72

// describe names a value in a message: what was found instead of what is wanted.
func (n *Node) describe(syntax Syntax) string {
	switch n.Kind {
	case String:
		return Quote(n.Text)
	case Array:
		return "an array"
	case Object:
		if syntax == TOML {
			return "a table"
		}
		return "an object"
	case Time:
		return "the date " + n.Text
	case Null, Boolean, Number, NonFinite:
		if len(n.Text) > maxShown {
			return n.Text[:maxShown] + "…"
		}
	}
	return n.Text
}

// Quote returns a string of the file for a message: in quotes, on one line, and only the beginning of a long one.
func Quote(s string) string {
	if len(s) <= maxShown {
		return strconv.Quote(s)
	}
	end := maxShown
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return strconv.Quote(s[:end] + "…")
}

// newDocument prepares positions of text.
func newDocument(file string, syntax Syntax, text []byte) *Document {
	d := &Document{File: file, Syntax: syntax, text: text, lines: []int{0}}
	for i, c := range text {
		if c == '\n' {
			d.lines = append(d.lines, i+1)
		}
	}
	return d
}

// Position returns the line and the column of a byte, both from 1; columns count characters, not bytes.
func (d *Document) Position(offset int) (line, column int) {
	offset = min(max(offset, 0), len(d.text))
	line = sort.SearchInts(d.lines, offset+1)
	return line, utf8.RuneCount(d.text[d.lines[line-1]:offset]) + 1
}

// check refuses what no syntax can read: a file too big, or one that is not UTF-8. A leading byte order mark is dropped.
func check(file string, syntax Syntax, text []byte) (*Document, Problems) {
	if len(text) > queue.MaxConfigFile {
		d := newDocument(file, syntax, nil)
		return nil, d.fail(0, "keep only configuration in it",
			"the file has %d bytes; at most %d are read", len(text), queue.MaxConfigFile)
	}
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	d := newDocument(file, syntax, text)
	if utf8.Valid(text) {
		return d, nil
	}
	for offset := 0; ; {
		r, size := utf8.DecodeRune(text[offset:])
		if r == utf8.RuneError && size <= 1 {
			return nil, d.fail(offset, "save the file as UTF-8", "the file is not valid UTF-8 here")
		}
		offset += size
	}
}

// fail makes the list of one error about the text itself.
func (d *Document) fail(offset int, hint, format string, args ...any) Problems {
	return Problems{d.diagnostic(Error, offset, "", hint, format, args...)}
}
