package filter

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/runlot/runlot/internal/core/queue"
)

// Subject is a message as a filter looks at it.
type Subject struct {
	ID    queue.ID
	State string
	// SentAt and the now of Match are milliseconds since 1970 UTC.
	SentAt   int64
	Attempts int
	// Size is that of Body, in bytes.
	Size   int
	Source string
	Reason string
	Format queue.Format
	// Body may be nil where NeedsBody is false.
	Body []byte
}

// Match reports whether a message matches all terms.
func (f Filter) Match(s *Subject, now int64) bool {
	doc, ok, read := any(nil), false, false
	for i := range f.Terms {
		t := &f.Terms[i]
		if t.Field == Body && !read {
			doc, ok = document(s.Format, s.Body)
			read = true
		}
		if (t.Field == Body && ok && t.inBody(doc) || t.Field != Body && t.match(s, now)) == t.Not {
			return false
		}
	}
	return true
}

func (t *Term) match(s *Subject, now int64) bool {
	switch t.Field {
	case State:
		return s.State == t.Text
	case ID:
		return s.ID.String() == t.Text
	case Age:
		return t.compare(now-s.SentAt, t.Number)
	case Attempts:
		return t.compare(int64(s.Attempts), t.Number)
	case Size:
		return t.compare(int64(s.Size), t.Number)
	case Source:
		return s.Source == t.Text
	case Reason:
		return strings.Contains(Fold(s.Reason), Fold(t.Text))
	case Text:
		// In a body with a NUL, which is no text, capitals count.
		if bytes.IndexByte(s.Body, 0) >= 0 {
			return bytes.Contains(s.Body, []byte(t.Text))
		}
		return strings.Contains(Fold(string(s.Body)), Fold(t.Text))
	case Body:
	}
	return false
}

func (t *Term) compare(n, with int64) bool {
	switch t.Op {
	case More:
		return n > with
	case AtLeast:
		return n >= with
	case Less:
		return n < with
	case AtMost:
		return n <= with
	case Is:
	}
	return n == with
}

// Fold makes ASCII capitals small. What else there is stays, so that it is the same everywhere.
func Fold(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, text)
}

// inBody looks at the value at the path: a scalar that is meant, or a list with one.
func (t *Term) inBody(doc any) bool {
	node, ok := follow(doc, t.Path)
	if !ok {
		return false
	}
	if t.Op != Is {
		number, ok := node.(json.Number)
		if !ok {
			return false
		}
		n, _ := parseDecimal(number.String())
		with, _ := parseDecimal(t.Text)
		return t.compare(int64(n.compare(with)), 0)
	}
	if list, ok := node.([]any); ok {
		return slices.ContainsFunc(list, t.means)
	}
	return t.means(node)
}

// means reports whether a scalar is the value of the term.
func (t *Term) means(node any) bool {
	switch v := node.(type) {
	case string:
		return v == t.Text
	case json.Number:
		with, ok := parseDecimal(t.Text)
		n, _ := parseDecimal(v.String())
		return ok && !t.Quoted && n.compare(with) == 0
	case bool:
		return !t.Quoted && t.Text == strconv.FormatBool(v)
	case nil:
		return !t.Quoted && t.Text == "null"
	}
	return false
}

// follow finds the value at a path. A part of it is a place in a list where a list is: counted from the end when it is
// negative.
func follow(node any, path []string) (any, bool) {
	for _, part := range path {
		switch v := node.(type) {
		case map[string]any:
			next, ok := v[part]
			if !ok {
				return nil, false
			}
			node = next
		case []any:
			at, err := strconv.ParseInt(strings.TrimLeft(part, " \t\n\v\f\r"), 10, 32)
			if err == nil && at < 0 {
				at += int64(len(v))
			}
			if err != nil || at < 0 || at >= int64(len(v)) {
				return nil, false
			}
			node = v[at]
		default:
			return nil, false
		}
	}
	return node, true
}

// document reads a JSON body. It is false for another format, and for what PostgreSQL does not take as jsonb: such a body
// has no values.
func document(format queue.Format, body []byte) (any, bool) {
	if format != queue.JSON || !utf8.Valid(body) || !escapesFit(body) {
		return nil, false
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var doc any
	if d.Decode(&doc) != nil {
		return nil, false
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, false
	}
	return doc, numbersFit(doc)
}

// escapesFit reports whether no \u escape of a JSON text stands for NUL or for half of a pair.
func escapesFit(body []byte) bool {
	high := false
	for i := 0; i < len(body); i++ {
		if body[i] != '\\' {
			if high {
				return false
			}
			continue
		}
		i++
		code := int64(-1)
		if i < len(body) && body[i] == 'u' && i+4 < len(body) {
			var err error
			if code, err = strconv.ParseInt(string(body[i+1:i+5]), 16, 32); err != nil {
				return false
			}
			i += 4
		}
		low := code >= 0xdc00 && code < 0xe000
		if code == 0 || high != low {
			return false
		}
		high = code >= 0xd800 && code < 0xdc00
	}
	return !high
}

func numbersFit(node any) bool {
	switch v := node.(type) {
	case json.Number:
		n, ok := parseDecimal(v.String())
		return ok && n.fits()
	case []any:
		for _, element := range v {
			if !numbersFit(element) {
				return false
			}
		}
	case map[string]any:
		for _, element := range v {
			if !numbersFit(element) {
				return false
			}
		}
	}
	return true
}

// Values are the JSON scalars that a Body term with Is means: the string, and what else it reads as where it is not quoted.
func (t *Term) Values() []string {
	values := []string{quote(t.Text)}
	if _, number := parseDecimal(t.Text); !t.Quoted && (number || t.Text == "true" || t.Text == "false" || t.Text == "null") {
		values = append(values, t.Text)
	}
	return values
}
