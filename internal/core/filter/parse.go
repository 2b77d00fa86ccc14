package filter

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

// CodeInvalid is the code of the faults of Parse.
const CodeInvalid = "filter_invalid"

// help names what there is, for a hint.
const help = "terms are state: id: age> attempts> size> source: reason: body.NAME: and \"text\"; - before one turns it around"

// Parse reads a filter. Fault: Invalid (CodeInvalid), with the place in it, counted in characters from 1; Limit (CodeInvalid)
// for one beyond queue.FilterBytes or queue.FilterTerms.
func Parse(text string) (Filter, error) {
	p := parser{text: text}
	if len(text) > queue.FilterBytes {
		return Filter{}, fault.New(fault.Limit, CodeInvalid, "the filter has %d bytes; the most is %d", len(text), queue.FilterBytes)
	}
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return Filter{}, fault.New(fault.Invalid, CodeInvalid, "the filter is no text in UTF-8 without NUL")
	}
	var f Filter
	for p.skip(); p.at < len(text); p.skip() {
		if len(f.Terms) == queue.FilterTerms {
			return Filter{}, fault.New(fault.Limit, CodeInvalid, "the filter has more than %d terms", queue.FilterTerms)
		}
		t, err := p.term()
		if err != nil {
			return Filter{}, err
		}
		f.Terms = append(f.Terms, t)
	}
	return f, nil
}

type parser struct {
	text string
	at   int
}

// fail is a fault at a place.
func (p *parser) fail(at int, hint, format string, args ...any) error {
	place := utf8.RuneCountInString(p.text[:at]) + 1
	f := fault.New(fault.Invalid, CodeInvalid, format, args...)
	f.Message = "the filter cannot be read at character " + strconv.Itoa(place) + ": " + f.Message
	return f.WithHint("%s", hint)
}

func (p *parser) skip() {
	for p.at < len(p.text) && space(rune(p.text[p.at])) {
		p.at++
	}
}

// next is the byte at the place; 0 at the end.
func (p *parser) next() byte {
	if p.at < len(p.text) {
		return p.text[p.at]
	}
	return 0
}

func (p *parser) term() (Term, error) {
	var t Term
	begin := p.at
	if p.next() == '-' {
		t.Not = true
		p.at++
	}
	if c := p.next(); c == 0 || space(rune(c)) || c == '-' {
		return t, p.fail(begin, "put text that begins with - in quotes", "- turns around the term behind it, and there is none")
	}
	start := p.at
	if p.next() == '"' {
		return p.free(t)
	}
	name := p.name()
	switch {
	case name == string(Body) && p.next() == '.':
		t.Field = Body
		if err := p.path(&t); err != nil {
			return t, err
		}
	case p.next() != 0 && strings.IndexByte(":=<>", p.next()) >= 0:
		t.Field = Field(strings.ToLower(name))
	default:
		p.at = start
		return p.bare(t)
	}
	if err := p.op(&t); err != nil {
		return t, err
	}
	return t, p.value(&t, start)
}

// name reads letters, digits and what else a name has.
func (p *parser) name() string {
	begin := p.at
	for p.at < len(p.text) && nameRune(rune(p.text[p.at])) {
		p.at++
	}
	return p.text[begin:p.at]
}

// free reads text in quotes.
func (p *parser) free(t Term) (Term, error) {
	begin := p.at
	text, err := p.quoted()
	if err == nil && text == "" {
		err = p.fail(begin, help, "there is no text between the quotes")
	}
	if err == nil && p.next() != 0 && !space(rune(p.next())) {
		err = p.fail(p.at, "put a space between two terms", "a term goes on behind its quotes")
	}
	t.Op, t.Text = Is, text
	return t, err
}

// bare reads text without quotes.
func (p *parser) bare(t Term) (Term, error) {
	begin := p.at
	text := p.word()
	if strings.ContainsRune(text, '"') {
		return t, p.fail(begin, "put all of it in quotes, with \\\" for each quote in it", "there is a quote within the text %s", text)
	}
	if i := strings.IndexAny(text, ":=<>"); i >= 0 {
		hint := "put text in quotes; " + help
		if strings.Contains(text[:i], ".") {
			hint = "for a value within the body write body." + text
		}
		return t, p.fail(begin, hint, "there is nothing named %q to look at", text[:i])
	}
	t.Op, t.Text = Is, text
	return t, nil
}

// word reads up to the next space.
func (p *parser) word() string {
	begin := p.at
	for p.at < len(p.text) && !space(rune(p.text[p.at])) {
		p.at++
	}
	return p.text[begin:p.at]
}

// quoted reads a JSON string.
func (p *parser) quoted() (string, error) {
	begin := p.at
	for p.at++; p.at < len(p.text); p.at++ {
		switch p.text[p.at] {
		case '\\':
			p.at++
		case '"':
			p.at++
			var text string
			if json.Unmarshal([]byte(p.text[begin:p.at]), &text) != nil || strings.ContainsRune(text, 0) {
				return "", p.fail(begin, `within quotes, a quote is \" and a backslash \\`, "the text in quotes has a backslash or a control character that stands for nothing")
			}
			return text, nil
		}
	}
	p.at = len(p.text)
	return "", p.fail(begin, "end the text with a quote", "the quote is not closed")
}

// path reads .name.name behind body.
func (p *parser) path(t *Term) error {
	for p.next() == '.' {
		p.at++
		begin := p.at
		part := p.name()
		if part == "" && p.next() == '"' {
			var err error
			if part, err = p.quoted(); err != nil {
				return err
			}
		} else if part == "" {
			return p.fail(begin, `a name with other characters goes in quotes: body."a b":1`, "the name of a value in the body is missing")
		}
		t.Path = append(t.Path, part)
	}
	return nil
}

// op reads a comparison.
func (p *parser) op(t *Term) error {
	switch {
	case strings.HasPrefix(p.text[p.at:], ">="):
		t.Op = AtLeast
	case strings.HasPrefix(p.text[p.at:], "<="):
		t.Op = AtMost
	case p.next() == '>':
		t.Op = More
	case p.next() == '<':
		t.Op = Less
	case p.next() == ':', p.next() == '=':
		t.Op = Is
		p.at++
		return nil
	default:
		return p.fail(p.at, "write : > >= < or <= and the value, without a space", "a comparison is missing")
	}
	p.at += len(t.Op)
	return nil
}

// value reads what a field is compared with.
func (p *parser) value(t *Term, start int) error {
	begin := p.at
	text, quoted := "", p.next() == '"'
	if quoted {
		var err error
		if text, err = p.quoted(); err != nil {
			return err
		}
		if p.next() != 0 && !space(rune(p.next())) {
			return p.fail(p.at, "put a space between two terms", "a term goes on behind its quotes")
		}
	} else {
		text = p.word()
		if strings.ContainsRune(text, '"') {
			return p.fail(begin, "put all of the value in quotes", "there is a quote within the value %s", text)
		}
		if text == "" {
			return p.fail(begin, "write the value right behind the comparison; an empty text is \"\"", "the value of %s is missing", t.Field)
		}
	}
	wrong := func(hint string) error {
		return p.fail(begin, hint, "%s cannot be compared with %s", t.Field, text)
	}
	equal := func() error {
		if t.Op != Is {
			return p.fail(begin, "write "+string(t.Field)+":"+text, "%s is not more or less than something", t.Field)
		}
		return nil
	}
	switch t.Field {
	case State:
		t.Text = strings.ReplaceAll(strings.ToLower(text), "-", "_")
		if !slices.Contains([]string{Visible, Delayed, InFlight}, t.Text) {
			return wrong("the states are visible, delayed and in_flight")
		}
		return equal()
	case ID:
		id, err := queue.ParseID(strings.ToLower(text))
		if err != nil {
			return wrong("an id has 32 hexadecimal digits")
		}
		t.Text = id.String()
		return equal()
	case Source, Reason:
		t.Text = text
		if text == "" {
			return wrong("name a queue, or a part of the reason")
		}
		return equal()
	case Age:
		n, ok := parseSpan(text)
		if !ok || t.Op == Is {
			return wrong("write age>5m or age<1h30m, in d, h, m, s and ms")
		}
		t.Number = n
	case Attempts:
		n, ok := parseCount(text, false)
		if !ok {
			return wrong("write a number, like attempts>=2")
		}
		t.Number = n
	case Size:
		n, ok := parseCount(text, true)
		if !ok {
			return wrong("write a number of bytes, or of 1,024 or 1,048,576 bytes with k or m: size>1k")
		}
		t.Number = n
	case Body:
		t.Text, t.Quoted = text, quoted
		if n, ok := parseDecimal(text); t.Op != Is && (quoted || !ok || !n.fits()) {
			return wrong("more and less are for numbers: body.price>100")
		}
		if n, ok := parseDecimal(text); ok && !quoted && !n.fits() {
			return wrong("the number has too many digits")
		}
		if len(t.Path) == 0 {
			return p.fail(start, "write body.NAME:VALUE, or just the text", "a name of a value in the body is missing")
		}
	case Text:
		fallthrough
	default:
		return p.fail(start, "put text in quotes; "+help, "there is nothing named %q to look at", string(t.Field))
	}
	return nil
}

// parseSpan reads a length of time like 1h30m, in milliseconds.
func parseSpan(text string) (int64, bool) {
	if text == "" {
		return 0, false
	}
	total := int64(0)
	for text != "" {
		digits := 0
		for digits < len(text) && text[digits] >= '0' && text[digits] <= '9' {
			digits++
		}
		letters := digits
		for letters < len(text) && text[letters] >= 'a' && text[letters] <= 'z' {
			letters++
		}
		n, err := strconv.ParseInt(text[:digits], 10, 64)
		at := -1
		for i := range units {
			if units[i].name == text[digits:letters] {
				at = i
			}
		}
		if err != nil || at < 0 || n > mostMilli/units[at].milli || total > mostMilli-n*units[at].milli {
			return 0, false
		}
		total += n * units[at].milli
		text = text[letters:]
	}
	return total, true
}

// mostMilli is the longest time that a term may name: any that is longer says the same.
const mostMilli = 100 * 365 * 86_400_000

// parseCount reads a number of 0 or more, with a unit of bytes where that is allowed.
func parseCount(text string, bytes bool) (int64, bool) {
	factor := int64(1)
	if bytes {
		text = strings.TrimSuffix(strings.ToLower(text), "b")
		if rest, ok := strings.CutSuffix(text, "k"); ok {
			text, factor = rest, 1<<10
		} else if rest, ok := strings.CutSuffix(text, "m"); ok {
			text, factor = rest, 1<<20
		}
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil || int64(n) > math.MaxInt32/factor {
		return 0, false
	}
	return int64(n) * factor, true
}
