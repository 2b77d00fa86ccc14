package source

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/runlot/runlot/internal/core/queue"
)

// Reader reads a document by the rules of a dialect and collects what breaks them.
type Reader struct {
	doc   *Document
	found Problems
	count map[Severity]int
}

// Read begins to read a document.
func Read(d *Document) *Reader { return &Reader{doc: d, count: map[Severity]int{}} }

// Root returns the whole document.
func (r *Reader) Root() Value {
	return Value{reader: r, node: r.doc.Root, offset: r.doc.Root.Offset, keyOffset: r.doc.Root.Offset}
}

// Done ends the reading. When nothing is wrong it returns the warnings; else the error is a Problems with everything that
// was found. Both are in the order of the file, with at most queue.MaxProblems of each severity.
func (r *Reader) Done() (warnings Problems, err error) {
	r.found.Sort()
	if r.count[Error] > 0 {
		return nil, r.found
	}
	return r.found, nil
}

func (r *Reader) addf(s Severity, offset int, path, hint, format string, args ...any) {
	if r.count[s] == queue.MaxProblems {
		return
	}
	r.count[s]++
	r.found = append(r.found, r.doc.diagnostic(s, offset, path, hint, format, args...))
}

// Value is a value of the document, or the place where one is missing. Its methods report what does not fit and then say
// that they have nothing, so that reading goes on to the next problem.
type Value struct {
	reader    *Reader
	node      *Node
	key       string
	path      string
	offset    int
	keyOffset int
}

// Exists reports whether the value is in the document; null is a value.
func (v Value) Exists() bool { return v.node != nil }

// IsNull reports whether the value is there and null.
func (v Value) IsNull() bool { return v.node != nil && v.node.Kind == Null }

// IsEmpty reports whether the value asks for nothing: it is missing, null, false, or an array or object that holds
// nothing else.
func (v Value) IsEmpty() bool { return v.node == nil || v.node.empty() }

func (n *Node) empty() bool {
	switch n.Kind {
	case Null:
		return true
	case Boolean:
		return n.Text == "false"
	case Array:
		return len(n.Items) == 0
	case Object:
		return !slices.ContainsFunc(n.Members, func(m Member) bool { return !m.Value.empty() })
	case Number, String, Time, NonFinite:
	}
	return false
}

// Path returns the place of the value in the document ("queues.consumers[0].maxRetries").
func (v Value) Path() string { return v.path }

// Key returns the key under which the value stands.
func (v Value) Key() string { return v.key }

// Line shows how a key with a value, given as JSON, is written in this document's syntax; for hints.
func (v Value) Line(key, value string) string {
	if v.reader.doc.Syntax == TOML {
		return key + " = " + value
	}
	return strconv.Quote(key) + ": " + value
}

// Refusef reports an error at the value. The hint may be empty.
func (v Value) Refusef(hint, format string, args ...any) {
	v.reader.addf(Error, v.offset, v.path, hint, format, args...)
}

// RefuseKeyf reports an error at the key of the value.
func (v Value) RefuseKeyf(hint, format string, args ...any) {
	v.reader.addf(Error, v.keyOffset, v.path, hint, format, args...)
}

// Warnf reports a warning at the key of the value.
func (v Value) Warnf(hint, format string, args ...any) {
	v.reader.addf(Warning, v.keyOffset, v.path, hint, format, args...)
}

// Get returns the member with this key, which may be missing. Reading it out of something that is no object finds nothing.
func (v Value) Get(key string) Value {
	m := Value{reader: v.reader, key: key, path: join(v.path, key), offset: v.offset, keyOffset: v.offset}
	if v.node == nil || v.node.Kind != Object {
		return m
	}
	if found := v.node.Find(key); found != nil {
		m.node, m.offset, m.keyOffset = found.Value, found.Value.Offset, found.KeyOffset
	}
	return m
}

func join(path, key string) string {
	switch {
	case strings.ContainsFunc(key, func(r rune) bool { return r == '.' || r == '[' || r <= ' ' || r == '"' }) || key == "":
		return path + "[" + strconv.Quote(key) + "]"
	case path == "":
		return key
	default:
		return path + "." + key
	}
}

// IsObject reports whether the value is an object, and reports an error when it is something else; a missing value is
// none, without an error.
func (v Value) IsObject() bool {
	if v.node == nil {
		return false
	}
	if v.node.Kind != Object {
		v.mismatch("an object")
		return false
	}
	return true
}

// Members returns the members of an object in the order of the file.
func (v Value) Members() []Value {
	if !v.IsObject() {
		return nil
	}
	members := make([]Value, 0, len(v.node.Members))
	for i := range v.node.Members {
		m := &v.node.Members[i]
		members = append(members, Value{
			reader: v.reader, node: m.Value, key: m.Key, path: join(v.path, m.Key), offset: m.Value.Offset, keyOffset: m.KeyOffset,
		})
	}
	return members
}

// Allow reports every key of an object that is not in the list, with the one that was probably meant.
func (v Value) Allow(keys ...string) { v.AllowAlso(nil, keys...) }

// AllowAlso is Allow with further keys that are known but not offered as what can stand here: only a slip of one letter
// finds them.
func (v Value) AllowAlso(also []string, keys ...string) {
	if v.node == nil || v.node.Kind != Object {
		return
	}
	known := slices.Concat(keys, also)
	for _, m := range v.Members() {
		if slices.Contains(known, m.key) {
			continue
		}
		near := Suggest(m.key, keys)
		for _, k := range also {
			if near == "" && len(m.key) <= maxSuggest && distance(flatten(m.key), flatten(k)) <= 1 {
				near = k
			}
		}
		if near != "" {
			m.RefuseKeyf("", "unknown key `%s`; did you mean `%s`?", printable(m.key), near)
			continue
		}
		m.RefuseKeyf("the keys here are "+strings.Join(keys, ", "), "unknown key `%s`", printable(m.key))
	}
}

// printable keeps a key of the file on one line and short.
func printable(key string) string { return strings.Trim(Quote(key), `"`) }

// Items returns the items of an array; it reports anything else.
func (v Value) Items() []Value {
	if v.node == nil {
		return nil
	}
	if v.node.Kind != Array {
		v.mismatch("an array")
		return nil
	}
	items := make([]Value, 0, len(v.node.Items))
	for i, n := range v.node.Items {
		items = append(items, Value{
			reader: v.reader, node: n, key: v.key, path: fmt.Sprintf("%s[%d]", v.path, i), offset: n.Offset, keyOffset: n.Offset,
		})
	}
	return items
}

// Text returns a string; it reports anything else, and the empty string.
func (v Value) Text() (string, bool) {
	switch {
	case v.node == nil:
		return "", false
	case v.node.Kind != String:
		v.mismatch("a string")
		return "", false
	case v.node.Text == "":
		v.Refusef("", "%s must not be empty", v.label())
		return "", false
	}
	return v.node.Text, true
}

// Peek returns a string, and reports nothing when it is something else.
func (v Value) Peek() (string, bool) {
	if v.node == nil || v.node.Kind != String {
		return "", false
	}
	return v.node.Text, true
}

// PeekItems returns the items of an array, and reports nothing when it is something else.
func (v Value) PeekItems() []Value {
	if v.node == nil || v.node.Kind != Array {
		return nil
	}
	return v.Items()
}

// Date returns a date as text: a string, or a date as TOML writes it without quotes.
func (v Value) Date() (string, bool) {
	if v.node != nil && v.node.Kind == Time {
		return v.node.Text, true
	}
	return v.Text()
}

// Integer returns a whole number from lo to hi; it reports anything else. what names it in the report: "an integer", "a
// whole number of seconds". A number without a fraction is whole however it is written: 10, 10.0 and 1e1.
func (v Value) Integer(what string, lo, hi int64) (int64, bool) {
	if v.node == nil {
		return 0, false
	}
	i, ok := v.node.integer()
	if !ok || i < lo || i > hi {
		v.mismatch(fmt.Sprintf("%s from %d to %d", what, lo, hi))
		return 0, false
	}
	return i, true
}

// maxInteger is the largest number below which JSON numbers are exact.
const maxInteger = 1 << 53

func (n *Node) integer() (int64, bool) {
	if n.Kind != Number {
		return 0, false
	}
	if i, err := strconv.ParseInt(n.Text, 10, 64); err == nil {
		return i, true
	}
	f, err := strconv.ParseFloat(n.Text, 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > maxInteger {
		return 0, false
	}
	return int64(f), true
}

// Boolean returns true or false; it reports anything else.
func (v Value) Boolean() (value, ok bool) {
	if v.node == nil {
		return false, false
	}
	if v.node.Kind != Boolean {
		v.mismatch("true or false")
		return false, false
	}
	return v.node.Text == "true", true
}

// JSON returns the value as JSON; it reports what has no JSON form.
func (v Value) JSON() (json.RawMessage, bool) {
	if v.node == nil {
		return nil, false
	}
	text, ok := v.node.JSON()
	if !ok {
		v.Refusef("write it as a string, in quotes", "%s holds a date, inf or nan, which JSON does not have", v.label())
	}
	return text, ok
}

func (v Value) label() string {
	if v.key == "" {
		return "the file"
	}
	if i := strings.LastIndexByte(v.path, '['); i > 0 && strings.HasSuffix(v.path, "]") && !strings.HasSuffix(v.path, `"]`) {
		return "`" + printable(v.key) + v.path[i:] + "`"
	}
	return "`" + printable(v.key) + "`"
}

func (v Value) mismatch(wanted string) {
	if v.reader.doc.Syntax == TOML && wanted == "an object" {
		wanted = "a table"
	}
	v.Refusef("", "%s must be %s, found %s", v.label(), wanted, v.node.describe(v.reader.doc.Syntax))
}
