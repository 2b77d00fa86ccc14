package binding

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// TestCompactJSONOfValues: what encoding/json writes of any value is taken, and not one byte less of it.
func TestCompactJSONOfValues(t *testing.T) {
	var value func(depth int) *rapid.Generator[any]
	value = func(depth int) *rapid.Generator[any] {
		kinds := []*rapid.Generator[any]{
			rapid.Just[any](nil), rapid.Bool().AsAny(), rapid.String().AsAny(), rapid.Int().AsAny(),
			rapid.Float64Range(-1e300, 1e300).AsAny(), rapid.SampledFrom([]any{"\"\\/\b\f\n\r\t\u2028\x01", -0.5, 1e-7, 1e21}),
		}
		if depth > 0 {
			kinds = append(kinds, rapid.SliceOfN(value(depth-1), 0, 4).AsAny(), rapid.MapOfN(rapid.String(), value(depth-1), 0, 4).AsAny())
		}
		return rapid.OneOf(kinds...)
	}
	rapid.Check(t, func(t *rapid.T) {
		text, err := json.Marshal(value(4).Draw(t, "value"))
		if err != nil {
			t.Fatal(err)
		}
		if !isCompactJSON(text) {
			t.Fatalf("refused %s", text)
		}
		for i := range text {
			if isCompactJSON(text[:i]) && !json.Valid(text[:i]) {
				t.Fatalf("accepted %s", text[:i])
			}
		}
	})
}

func TestCompactJSONLeavesTheRest(t *testing.T) {
	if deep := strings.Repeat("[", 64) + "0" + strings.Repeat("]", 64); !isCompactJSON([]byte(deep)) {
		t.Error("64 deep is not taken")
	}
	for _, text := range []string{
		"", " 1", "1 ", "[1, 2]", "undefined", "[", "]", "{", "}", "[}", "{]", `{"a":1]`, "[1}", "[1,]", "[,1]", "[1", `{"a":}`, `{"a"}`,
		`{"a":1,}`, `{a:1}`, `{"a":1,2}`, `"`, `"\`, `"\x"`, `"\u12g4"`, `"\u123`, "\"\n\"", "01", "-", "1.", ".1", "1e", "1e+", "+1", "-01", "tru",
		"truefalse", "1,2", "{}{}", "[]]", `{"a":1}}`, "NaN", strings.Repeat("[", 65) + "0" + strings.Repeat("]", 65), strings.Repeat("[", 66),
	} {
		if isCompactJSON([]byte(text)) {
			t.Errorf("accepted %q", text)
		}
	}
}

func FuzzCompactJSON(f *testing.F) {
	for _, text := range []string{`{"a":[1,-2.5e+10,true,false,null,"\u00e4\n"],"b":{"c":{}}}`, "[[],[{}]]", "0", `""`, `{"":""}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		compact, valid := isCompactJSON(text), json.Valid(text)
		if compact && !valid {
			t.Errorf("accepted %q", text)
		}
		if !valid || !utf8.Valid(text) {
			return
		}
		// Written again by a compact writer, valid JSON of bounded depth is taken.
		var raw json.RawMessage = text
		again, err := json.Marshal(raw)
		if err == nil && strings.Count(string(again), "[")+strings.Count(string(again), "{") <= 64 && !isCompactJSON(again) {
			t.Errorf("refused %q", again)
		}
	})
}
