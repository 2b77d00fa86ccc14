package source

import (
	"errors"
	"math/big"
	"strings"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/runlot/runlot/internal/core/queue"
)

// ParseTOML reads TOML 1.1. It reports the first error of syntax or of meaning (a key defined twice, a table reopened).
func ParseTOML(file string, text []byte) (*Document, Problems) {
	d, problems := check(file, TOML, text)
	if problems != nil {
		return nil, problems
	}
	b := &tomlBuilder{index: map[*Node]map[string]int{}}
	b.parser.Reset(d.text)
	root := &Node{Kind: Object}
	for deepest := 0; b.parser.NextExpression(); deepest = 0 {
		if offset := tooDeep(b.parser.Expression(), 0, &deepest); offset >= 0 {
			return nil, d.fail(offset, "", "tables and arrays are nested more than %d deep", queue.MaxConfigDepth)
		}
	}
	// The decoder knows the rules that span expressions, and what a number or a date may look like; the tree below
	// stands on them.
	var discard map[string]any
	if err := toml.Unmarshal(d.text, &discard); err != nil {
		return nil, d.tomlError(err)
	}
	b.parser.Reset(d.text)
	table := root
	for b.parser.NextExpression() {
		e := b.parser.Expression()
		if e.Kind == unstable.KeyValue {
			b.keyValue(table, e)
		} else {
			table = b.table(root, e, e.Kind == unstable.ArrayTable)
		}
	}
	d.Root = root
	return d, nil
}

func (d *Document) tomlError(err error) Problems {
	decode, ok := errors.AsType[*toml.DecodeError](err)
	if !ok {
		return d.fail(0, "", "%s", strings.TrimPrefix(err.Error(), "toml: "))
	}
	line, column := decode.Position()
	line = min(max(line, 1), len(d.lines))
	offset := min(d.lines[line-1]+max(column, 1)-1, len(d.text))
	for offset < len(d.text) && !utf8.RuneStart(d.text[offset]) {
		offset-- // the decoder counts bytes and may point into a character
	}
	message := strings.TrimPrefix(decode.Error(), "toml: ")
	if strings.HasPrefix(message, "expected keyword") || strings.HasPrefix(message, "expected value") || strings.HasSuffix(message, "at start of value") {
		word, _, _ := strings.Cut(string(d.text[offset:]), "\n")
		word, _, _ = strings.Cut(strings.TrimSpace(word), " ")
		if word == "" || word == "=" {
			return d.fail(offset, "a string is written in quotes", "a value is missing after `=`")
		}
		return d.fail(offset, "a string must be in quotes; true and false are written small",
			"%s is not a TOML value", Quote(strings.TrimRight(word, ",]}")))
	}
	return d.fail(offset, "", "%s", message)
}

// tooDeep returns the offset of what nests too deep in an expression, -1 when nothing does. It does not follow an
// expression deeper than the bound.
func tooDeep(n *unstable.Node, depth int, at *int) int {
	if n.Raw.Length > 0 {
		*at = int(n.Raw.Offset)
	}
	if depth > queue.MaxConfigDepth {
		return *at
	}
	keys := 0
	for c := n.Child(); c != nil; c = c.Next() {
		if c.Kind == unstable.Key {
			keys++
			if depth+keys > queue.MaxConfigDepth {
				return int(c.Raw.Offset)
			}
			continue
		}
		if offset := tooDeep(c, depth+1, at); offset >= 0 {
			return offset
		}
	}
	return -1
}

type tomlBuilder struct {
	parser unstable.Parser
	// index finds the members of each table by key.
	index map[*Node]map[string]int
}

// table finds or makes the table that a header names; an array table gets a new item.
func (b *tomlBuilder) table(root *Node, e *unstable.Node, array bool) *Node {
	at := root
	for it := e.Key(); it.Next(); {
		k := it.Node()
		offset := int(k.Raw.Offset)
		m := b.member(at, string(k.Data), offset)
		switch last := it.IsLast(); {
		case m.Value == nil && last && array:
			m.Value = &Node{Kind: Array, Offset: offset, Items: []*Node{{Kind: Object, Offset: offset}}}
		case m.Value == nil:
			m.Value = &Node{Kind: Object, Offset: offset}
		case last && array:
			m.Value.Items = append(m.Value.Items, &Node{Kind: Object, Offset: offset})
		}
		at = m.Value
		if at.Kind == Array {
			at = at.Items[len(at.Items)-1]
		}
	}
	return at
}

// member returns the member of a table with this key, made without a value when it is new.
func (b *tomlBuilder) member(table *Node, key string, offset int) *Member {
	keys := b.index[table]
	if keys == nil {
		keys = map[string]int{}
		b.index[table] = keys
	}
	i, known := keys[key]
	if !known {
		i = len(table.Members)
		keys[key] = i
		table.Members = append(table.Members, Member{Key: key, KeyOffset: offset})
	}
	return &table.Members[i]
}

func (b *tomlBuilder) keyValue(table *Node, e *unstable.Node) {
	for it := e.Key(); it.Next(); {
		k := it.Node()
		offset := int(k.Raw.Offset)
		m := b.member(table, string(k.Data), offset)
		if it.IsLast() {
			m.Value = b.value(e.Value(), offset)
			return
		}
		if m.Value == nil {
			m.Value = &Node{Kind: Object, Offset: offset}
		}
		table = m.Value
	}
}

// value builds the node of a value. The parser does not say where an array begins; the place of its key stands for it.
func (b *tomlBuilder) value(v *unstable.Node, key int) *Node {
	n := &Node{Offset: key, Text: string(v.Data)}
	if v.Raw.Length > 0 {
		n.Offset = int(v.Raw.Offset)
	}
	switch v.Kind { //nolint:exhaustive // the kinds that are left are four ways to write a time
	case unstable.String:
		n.Kind = String
	case unstable.Bool:
		n.Kind = Boolean
	case unstable.Integer:
		n.Kind, n.Text = Number, decimal(n.Text)
	case unstable.Float:
		n.Kind, n.Text = Number, strings.ReplaceAll(strings.TrimPrefix(n.Text, "+"), "_", "")
		if strings.HasSuffix(n.Text, "inf") || strings.HasSuffix(n.Text, "nan") {
			n.Kind = NonFinite
		}
	case unstable.Array:
		n.Kind, n.Text = Array, ""
		for it := v.Children(); it.Next(); {
			n.Items = append(n.Items, b.value(it.Node(), n.Offset))
		}
	case unstable.InlineTable:
		n.Kind, n.Text = Object, ""
		for it := v.Children(); it.Next(); {
			b.keyValue(n, it.Node())
		}
	default:
		n.Kind = Time
	}
	return n
}

// decimal rewrites an integer, which TOML also allows in other bases and with underscores, as JSON writes it.
func decimal(text string) string {
	i, ok := new(big.Int).SetString(text, 0)
	if !ok {
		return text
	}
	return i.String()
}
