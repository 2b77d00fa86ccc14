package source

import (
	"encoding/json"
	"fmt"
	"unicode"
	"unicode/utf8"

	"github.com/runlot/runlot/internal/core/queue"
)

// ParseJSONC reads JSON in which comments (//, /* */) and trailing commas are allowed. It reports the first error of
// syntax, or every key that stands twice in its object. The root is an object.
func ParseJSONC(file string, text []byte) (*Document, Problems) {
	d, problems := check(file, JSONC, text)
	if problems != nil {
		return nil, problems
	}
	p := &jsonParser{doc: d, text: d.text}
	root, err := p.document()
	if err != nil {
		return nil, d.fail(err.offset, err.hint, "%s", err.message)
	}
	if p.problems != nil {
		return nil, p.problems
	}
	d.Root = root
	return d, nil
}

type jsonParser struct {
	doc      *Document
	text     []byte
	pos      int
	depth    int
	problems Problems
}

// syntaxError is the one error of syntax that is reported: behind it, the rest of the text means little.
type syntaxError struct {
	offset  int
	message string
	hint    string
}

func (p *jsonParser) errorAt(offset int, hint, format string, args ...any) *syntaxError {
	return &syntaxError{offset: offset, message: fmt.Sprintf(format, args...), hint: hint}
}

func (p *jsonParser) document() (*Node, *syntaxError) {
	if err := p.space(); err != nil {
		return nil, err
	}
	if p.pos == len(p.text) {
		return nil, p.errorAt(p.pos, "a configuration begins with { and ends with }", "the file is empty")
	}
	start := p.pos
	root, err := p.value()
	if err != nil {
		return nil, err
	}
	if root.Kind != Object {
		return nil, p.errorAt(start, "a configuration begins with { and ends with }",
			"the file must hold an object, found %s", root.describe(JSONC))
	}
	if err := p.space(); err != nil {
		return nil, err
	}
	if p.pos < len(p.text) {
		return nil, p.errorAt(p.pos, "remove it, or look for a } too many before it", "unexpected %s after the end of the object", p.next())
	}
	return root, nil
}

// space skips white space and comments.
func (p *jsonParser) space() *syntaxError {
	for p.pos < len(p.text) {
		switch p.text[p.pos] {
		case ' ', '\t', '\r', '\n':
			p.pos++
		case '/':
			if err := p.comment(); err != nil {
				return err
			}
		default:
			return nil
		}
	}
	return nil
}

func (p *jsonParser) comment() *syntaxError {
	start := p.pos
	switch {
	case p.follows("//"):
		for p.pos < len(p.text) && p.text[p.pos] != '\n' {
			p.pos++
		}
		return nil
	case p.follows("/*"):
		for p.pos += 2; p.pos < len(p.text); p.pos++ {
			if p.follows("*/") {
				p.pos += 2
				return nil
			}
		}
		return p.errorAt(start, "end it with */", "the comment is never closed")
	}
	return p.errorAt(start, "a comment begins with // or /*", "unexpected `/`")
}

func (p *jsonParser) follows(s string) bool {
	return len(p.text)-p.pos >= len(s) && string(p.text[p.pos:p.pos+len(s)]) == s
}

// next names what stands at the current place, for a message.
func (p *jsonParser) next() string {
	if p.pos >= len(p.text) {
		return "end of file"
	}
	if p.text[p.pos] == '"' {
		return "string"
	}
	if word := p.word(p.pos); word != "" {
		if len(word) > maxShown {
			word = word[:maxShown] + "…"
		}
		return "`" + word + "`"
	}
	r, _ := utf8.DecodeRune(p.text[p.pos:])
	if !unicode.IsPrint(r) {
		return fmt.Sprintf("character %U", r)
	}
	return "`" + string(r) + "`"
}

// word returns the run of letters, digits and signs from offset on that a literal, a number or a bare key is made of.
func (p *jsonParser) word(offset int) string {
	end := offset
	for end < len(p.text) {
		c := p.text[end]
		if c != '_' && c != '$' && c != '+' && c != '-' && c != '.' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			break
		}
		end++
	}
	return string(p.text[offset:end])
}

func (p *jsonParser) value() (*Node, *syntaxError) {
	if p.pos == len(p.text) {
		return nil, p.errorAt(p.pos, "the file may be cut off", "expected a value, found end of file")
	}
	start := p.pos
	switch c := p.text[p.pos]; c {
	case '{', '[':
		if p.depth == queue.MaxConfigDepth {
			return nil, p.errorAt(start, "", "objects and arrays are nested more than %d deep", queue.MaxConfigDepth)
		}
		p.depth++
		defer func() { p.depth-- }()
		if c == '{' {
			return p.object()
		}
		return p.array()
	case '"':
		s, err := p.str()
		if err != nil {
			return nil, err
		}
		return &Node{Kind: String, Offset: start, Text: s}, nil
	case '\'', '`':
		return nil, p.errorAt(start, `write "…"`, "a string must be in double quotes")
	}
	word := p.word(start)
	switch {
	case word == "null":
		p.pos += len(word)
		return &Node{Kind: Null, Offset: start, Text: word}, nil
	case word == "true", word == "false":
		p.pos += len(word)
		return &Node{Kind: Boolean, Offset: start, Text: word}, nil
	case word == "":
		return nil, p.errorAt(start, "", "expected a value, found %s", p.next())
	case word[0] != '-' && word[0] != '+' && word[0] != '.' && (word[0] < '0' || word[0] > '9'):
		return nil, p.errorAt(start, "a string must be in double quotes; the literals are true, false and null",
			"%s is not a JSON value", p.next())
	case !json.Valid([]byte(word)):
		return nil, p.errorAt(start, "write it in decimal digits, like 10 or 1.5", "%s is not a JSON number", p.next())
	}
	p.pos += len(word)
	return &Node{Kind: Number, Offset: start, Text: word}, nil
}

// closes consumes what may stand between two entries or after the last one, and reports whether the list ended. comma is
// where a comma would have to stand.
func (p *jsonParser) closes(opened int, closer byte, what string, first bool) (bool, *syntaxError) {
	comma := p.pos
	if err := p.space(); err != nil {
		return false, err
	}
	separated := first
	if !first && p.pos < len(p.text) && p.text[p.pos] == ',' {
		separated = true
		p.pos++
		if err := p.space(); err != nil {
			return false, err
		}
	}
	switch {
	case p.pos == len(p.text):
		line, column := p.doc.Position(opened)
		return false, p.errorAt(opened, fmt.Sprintf("add the missing `%c`", closer),
			"the %s that begins at %d:%d is never closed", what, line, column)
	case p.text[p.pos] == closer:
		p.pos++
		return true, nil
	case !separated && (p.text[p.pos] == '}' || p.text[p.pos] == ']'):
		return false, p.errorAt(p.pos, "", "expected `%c` to close the %s, found %s", closer, what, p.next())
	case !separated:
		return false, p.errorAt(comma, "", "expected `,` or `%c` here, before %s", closer, p.next())
	}
	return false, nil
}

func (p *jsonParser) array() (*Node, *syntaxError) {
	n := &Node{Kind: Array, Offset: p.pos}
	p.pos++
	for {
		closed, err := p.closes(n.Offset, ']', "array", len(n.Items) == 0)
		if err != nil {
			return nil, err
		}
		if closed {
			return n, nil
		}
		item, err := p.value()
		if err != nil {
			return nil, err
		}
		n.Items = append(n.Items, item)
	}
}

func (p *jsonParser) object() (*Node, *syntaxError) {
	n := &Node{Kind: Object, Offset: p.pos}
	seen := map[string]int{}
	p.pos++
	for first := true; ; first = false {
		closed, err := p.closes(n.Offset, '}', "object", first)
		if err != nil {
			return nil, err
		}
		if closed {
			return n, nil
		}
		m, err := p.member()
		if err != nil {
			return nil, err
		}
		if earlier, twice := seen[m.Key]; twice {
			line, column := p.doc.Position(earlier)
			if len(p.problems) < queue.MaxProblems {
				p.problems = append(p.problems, p.doc.diagnostic(Error, m.KeyOffset, "", "keep one of them",
					"the key %s stands twice in this object; the first is at %d:%d", Quote(m.Key), line, column))
			}
			continue
		}
		seen[m.Key] = m.KeyOffset
		n.Members = append(n.Members, m)
	}
}

func (p *jsonParser) member() (Member, *syntaxError) {
	m := Member{KeyOffset: p.pos}
	var err *syntaxError
	switch c := p.text[p.pos]; {
	case c == '"':
		if m.Key, err = p.str(); err != nil {
			return m, err
		}
	case c == '\'' || c == '`' || p.word(p.pos) != "":
		return m, p.errorAt(p.pos, `write "key": value`, "a key must be in double quotes, found %s", p.next())
	default:
		return m, p.errorAt(p.pos, "", "expected a key in double quotes, found %s", p.next())
	}
	if err := p.space(); err != nil {
		return m, err
	}
	if p.pos == len(p.text) || p.text[p.pos] != ':' {
		return m, p.errorAt(p.pos, "", "expected `:` after the key %s, found %s", Quote(m.Key), p.next())
	}
	p.pos++
	if err := p.space(); err != nil {
		return m, err
	}
	m.Value, err = p.value()
	return m, err
}

func (p *jsonParser) str() (string, *syntaxError) {
	start := p.pos
	for p.pos++; p.pos < len(p.text); p.pos++ {
		switch c := p.text[p.pos]; {
		case c == '"':
			p.pos++
			var s string
			if err := json.Unmarshal(p.text[start:p.pos], &s); err != nil {
				return "", p.errorAt(start, `the escapes are \" \\ \/ \b \f \n \r \t \uXXXX`, "the string holds an escape that JSON does not have")
			}
			return s, nil
		case c == '\\':
			p.pos++
		case c == '\n' || c == '\r':
			return "", p.errorAt(start, `close it with ", or write \n for a line break`, "the string does not end on its line")
		case c < ' ':
			return "", p.errorAt(p.pos, fmt.Sprintf(`write \u%04x`, c), "a string cannot hold the character %U", c)
		}
	}
	return "", p.errorAt(start, `close it with "`, "the string is never closed")
}
