// Package jsontree makes a tree of a JSON text, for a page on which its objects and lists are opened and closed. The text of
// keys, strings and numbers stays as it is, to the last digit; so do keys that come twice.
package jsontree

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Node is a line of the text, and for an object or a list what is in it.
type Node struct {
	// Line is the text, for an object or a list up to its bracket.
	Line string
	// Close is the line of the other bracket; "" for what has none.
	Close string
	Nodes []Node
}

// A text with more of them is for a plain view: a browser would be slow with it.
const (
	MaxLines = 5_000
	MaxDepth = 100
)

// Of is the tree of a text. It is false for what is no JSON, and for what is too large.
func Of(text []byte) ([]Node, bool) {
	var b bytes.Buffer
	if json.Indent(&b, bytes.TrimSpace(text), "", "") != nil {
		return nil, false
	}
	// Indented, a bracket that opens ends its line, and one that closes begins it. A line feed in a string is escaped.
	lines := strings.Split(b.String(), "\n")
	if len(lines) > MaxLines {
		return nil, false
	}
	nodes, _, ok := nodes(lines, 0)
	return nodes, ok
}

// nodes are those up to the line of the bracket that closes them, and the lines from there on.
func nodes(lines []string, depth int) (list []Node, rest []string, ok bool) {
	if depth > MaxDepth {
		return nil, nil, false
	}
	for len(lines) > 0 {
		n := Node{Line: lines[0]}
		if strings.HasPrefix(n.Line, "}") || strings.HasPrefix(n.Line, "]") {
			return list, lines, true
		}
		lines = lines[1:]
		if strings.HasSuffix(n.Line, "{") || strings.HasSuffix(n.Line, "[") {
			if n.Nodes, lines, ok = nodes(lines, depth+1); !ok || len(lines) == 0 {
				return nil, nil, false
			}
			n.Close, lines = lines[0], lines[1:]
		}
		list = append(list, n)
	}
	return list, nil, true
}
