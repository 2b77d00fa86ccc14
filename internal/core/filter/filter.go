// Package filter is the language in which people choose messages of a queue: its terms, how they are read and written, and
// which messages they choose. The same is said in SQL where the messages are stored; both have to agree on every message.
package filter

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// Filter chooses the messages that match all of its terms; without terms it chooses every message.
type Filter struct{ Terms []Term }

// Field is what a term looks at.
type Field string

// The fields.
const (
	// State is visible, delayed or in_flight.
	State Field = "state"
	// ID is that of the message.
	ID Field = "id"
	// Age is the time since the message was sent.
	Age Field = "age"
	// Attempts counts the deliveries that spent a retry.
	Attempts Field = "attempts"
	// Size is that of the body, in bytes.
	Size Field = "size"
	// Source is the queue that a dead letter came from.
	Source Field = "source"
	// Reason is why the last delivery of a dead letter failed; a term names a part of it.
	Reason Field = "reason"
	// Body is a value within a JSON body, at Term.Path.
	Body Field = "body"
	// Text is a part of the stored body of any format; it has no name in the language.
	Text Field = ""
)

// Op is how a field is compared.
type Op string

// The comparisons.
const (
	Is      Op = ":"
	More    Op = ">"
	AtLeast Op = ">="
	Less    Op = "<"
	AtMost  Op = "<="
)

// Term is one condition.
type Term struct {
	// Not turns the condition around.
	Not   bool
	Field Field
	// Path leads into a body: names in objects and places in lists, counted from 0, or from the end from -1.
	Path []string
	Op   Op
	// Text is the value of State, ID, Source, Reason, Body and Text.
	Text string
	// Number is the value of Age in milliseconds, of Attempts, and of Size in bytes.
	Number int64
	// Quoted says that the value of a Body term is a string even where it looks like a number, true, false or null.
	Quoted bool
}

// The states in the language.
const (
	Visible  = "visible"
	Delayed  = "delayed"
	InFlight = "in_flight"
)

// String writes the filter so that Parse reads the same from it.
func (f Filter) String() string {
	texts := make([]string, len(f.Terms))
	for i := range f.Terms {
		texts[i] = f.Terms[i].String()
	}
	return strings.Join(texts, " ")
}

// String writes the term in its shortest form.
func (t *Term) String() string {
	var b strings.Builder
	if t.Not {
		b.WriteByte('-')
	}
	if t.Field == Text {
		return b.String() + quote(t.Text)
	}
	b.WriteString(string(t.Field))
	for _, part := range t.Path {
		b.WriteByte('.')
		if !plainPart(part) {
			part = quote(part)
		}
		b.WriteString(part)
	}
	b.WriteString(string(t.Op))
	switch t.Field {
	case Age:
		b.WriteString(spanText(t.Number))
	case Attempts, Size:
		b.WriteString(strconv.FormatInt(t.Number, 10))
	case State, ID, Source, Reason, Body, Text:
		if t.Quoted || !plainValue(t.Text) {
			b.WriteString(quote(t.Text))
		} else {
			b.WriteString(t.Text)
		}
	}
	return b.String()
}

// NeedsBody reports whether bodies have to be read to tell which messages match.
func (f Filter) NeedsBody() bool {
	return slices.ContainsFunc(f.Terms, func(t Term) bool { return t.Field == Body || t.Field == Text })
}

// Changing is the part of the filter about what may change while a message waits: another look at it says whether a message
// that matched still does.
func (f Filter) Changing() Filter {
	var c Filter
	for i := range f.Terms {
		if field := f.Terms[i].Field; field == State || field == Attempts {
			c.Terms = append(c.Terms, f.Terms[i])
		}
	}
	return c
}

// IDs are the ids that a message has to have one of to match; ok is false when the filter does not name any.
func (f Filter) IDs() (ids []string, ok bool) {
	for i := range f.Terms {
		t := &f.Terms[i]
		if t.Field != ID || t.Not {
			continue
		}
		if ok && ids[0] != t.Text {
			return nil, true
		}
		ids, ok = []string{t.Text}, true
	}
	return ids, ok
}

// Only reports whether the filter chooses messages of one state alone.
func (f Filter) Only(state string) bool {
	return slices.ContainsFunc(f.Terms, func(t Term) bool { return t.Field == State && !t.Not && t.Text == state })
}

// Oldest is the most time in milliseconds that may have passed since a message that matches was sent; -1 is no bound.
func (f Filter) Oldest() int64 {
	oldest := int64(-1)
	for i := range f.Terms {
		t := &f.Terms[i]
		if t.Field == Age && (!t.Not && (t.Op == Less || t.Op == AtMost) || t.Not && (t.Op == More || t.Op == AtLeast)) {
			if oldest < 0 || t.Number < oldest {
				oldest = t.Number
			}
		}
	}
	return oldest
}

// units are those of an age, in milliseconds, the largest first.
var units = []struct {
	name  string
	milli int64
}{{"d", 86_400_000}, {"h", 3_600_000}, {"m", 60_000}, {"s", 1_000}, {"ms", 1}}

func spanText(milli int64) string {
	var b strings.Builder
	for _, u := range units {
		if n := milli / u.milli; n > 0 {
			b.WriteString(strconv.FormatInt(n, 10) + u.name)
			milli %= u.milli
		}
	}
	if b.Len() == 0 {
		return "0s"
	}
	return b.String()
}

// quote writes text as a JSON string.
func quote(text string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(text); err != nil {
		panic("filter: a string always marshals: " + err.Error())
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// plainPart reports whether a part of a path needs no quotes.
func plainPart(part string) bool {
	return part != "" && strings.IndexFunc(part, func(r rune) bool { return !nameRune(r) }) < 0
}

// plainValue reports whether a value needs no quotes.
func plainValue(text string) bool {
	return text != "" && strings.IndexFunc(text, func(r rune) bool { return r == '"' || space(r) }) < 0
}

func nameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '$' || r == '-'
}

func space(r rune) bool { return r == ' ' || r == '\t' || r == '\n' || r == '\r' }
