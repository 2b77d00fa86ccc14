package jsontree

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestTheTextStaysAsItIs(t *testing.T) {
	got, ok := Of([]byte(` {"id":12345678901234567890,"id":1.50,"a":[],"o":{"t":"}, [\n{","e":"\u00e9"},"l":[[null]]}` + "\n"))
	want := []Node{{Line: "{", Close: "}", Nodes: []Node{
		{Line: `"id": 12345678901234567890,`},
		{Line: `"id": 1.50,`},
		{Line: `"a": [],`},
		{Line: `"o": {`, Close: "},", Nodes: []Node{{Line: `"t": "}, [\n{",`}, {Line: `"e": "\u00e9"`}}},
		{Line: `"l": [`, Close: "]", Nodes: []Node{{Line: "[", Close: "]", Nodes: []Node{{Line: "null"}}}}},
	}}}
	if d := cmp.Diff(want, got); !ok || d != "" {
		t.Error(ok, d)
	}
}

func TestWhatIsForAPlainView(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + "1" + strings.Repeat("]", n) }
	long := func(n int) string { return "[" + strings.Repeat("1,", n-1) + "1]" }
	for text, want := range map[string]bool{
		"": false, "{": false, `{"a":}`: false, "1": true, `"{"`: true, `"}"`: true, "{}": true, deep(MaxDepth): true, deep(MaxDepth + 1): false, long(MaxLines - 2): true, long(MaxLines - 1): false,
	} {
		if _, ok := Of([]byte(text)); ok != want {
			t.Errorf("%.40s: %t", text, ok)
		}
	}
}

// TestNothingIsLost: the lines of a tree, in order, are the text again.
func TestNothingIsLost(t *testing.T) {
	value := rapid.Deferred(func() *rapid.Generator[any] { return anyValue(3) })
	rapid.Check(t, func(t *rapid.T) {
		text, err := json.Marshal(value.Draw(t, "value"))
		if err != nil {
			t.Fatal(err)
		}
		tree, ok := Of(text)
		if !ok {
			t.Fatalf("no tree of %s", text)
		}
		var lines strings.Builder
		write(&lines, tree)
		var got bytes.Buffer
		if err := json.Compact(&got, []byte(lines.String())); err != nil || got.String() != string(text) {
			t.Fatalf("%s became %s, %v", text, &got, err)
		}
	})
}

func write(b *strings.Builder, nodes []Node) {
	for _, n := range nodes {
		b.WriteString(n.Line)
		write(b, n.Nodes)
		b.WriteString(n.Close)
	}
}

func anyValue(depth int) *rapid.Generator[any] {
	one := []*rapid.Generator[any]{rapid.String().AsAny(), rapid.SampledFrom([]string{"{", "}", "[", "]", "a {", "},", "\n"}).AsAny(), rapid.Int64().AsAny(), rapid.Bool().AsAny(), rapid.Just[any](nil)}
	if depth > 0 {
		inner := anyValue(depth - 1)
		one = append(one, rapid.SliceOfN(inner, 0, 4).AsAny(), rapid.MapOfN(rapid.String(), inner, 0, 4).AsAny())
	}
	return rapid.OneOf(one...)
}
