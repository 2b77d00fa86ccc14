package sourcemap

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/evanw/esbuild/pkg/api"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// encode writes mappings; it is the reverse of Map.decode.
func encode(lines [][]segment) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	var b strings.Builder
	number := func(n int32) {
		v := int64(n) << 1
		if n < 0 {
			v = -int64(n)<<1 | 1
		}
		for {
			digit := v & 31
			if v >>= 5; v != 0 {
				digit |= 32
			}
			b.WriteByte(alphabet[digit])
			if v == 0 {
				return
			}
		}
	}
	var last segment
	for i, line := range lines {
		if i > 0 {
			b.WriteByte(';')
		}
		last.column = 0
		for j, s := range line {
			if j > 0 {
				b.WriteByte(',')
			}
			number(s.column - last.column)
			last.column = s.column
			if s.source >= 0 {
				number(s.source - last.source)
				number(s.sourceLine - last.sourceLine)
				number(s.sourceColumn - last.sourceColumn)
				column := s.column
				last = s
				last.column = column
			}
		}
	}
	return b.String()
}

func mapText(t interface{ Fatal(args ...any) }, sources []string, mappings string) []byte {
	text, err := json.Marshal(map[string]any{"version": 3, "sources": sources, "mappings": mappings})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestParseReadsWhatWasEncoded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sources := []string{"src/a.ts", "src/b.ts", "node_modules/c/c.js"}
		number := rapid.Int32Range(0, math.MaxInt32-1)
		lines := rapid.SliceOfN(rapid.SliceOfN(rapid.Custom(func(t *rapid.T) segment {
			s := segment{column: rapid.Int32Range(0, 1000).Draw(t, "column"), source: rapid.Int32Range(-1, 2).Draw(t, "source")}
			if s.source >= 0 {
				s.sourceLine, s.sourceColumn = number.Draw(t, "line"), number.Draw(t, "sourceColumn")
			}
			return s
		}), 0, 8), 1, 8).Draw(t, "lines")
		m, err := Parse("main.mjs", mapText(t, sources, encode(lines)))
		if err != nil {
			t.Fatal(err)
		}
		if len(m.lines) != len(lines) {
			t.Fatalf("%d lines, want %d", len(m.lines), len(lines))
		}
		for i, line := range lines {
			for column := range int32(1001) {
				// The segment in force is the last one, in the order written, among those with the highest column not above.
				best := segment{source: -1}
				found := false
				for _, s := range line {
					if s.column <= column && (!found || s.column >= best.column) {
						best, found = s, true
					}
				}
				p, ok := m.Position(i+1, int(column)+1)
				if want := found && best.source >= 0; ok != want {
					t.Fatalf("line %d column %d: found %v, want %v", i, column, ok, want)
				}
				if ok {
					want := Position{sources[best.source], int(best.sourceLine) + 1, int(best.sourceColumn) + 1}
					if p != want {
						t.Fatalf("line %d column %d: %v, want %v", i, column, p, want)
					}
				}
			}
		}
	})
}

// TestPositionsOfEsbuild writes TypeScript with marked calls at random places, builds it, and looks each mark up.
func TestPositionsOfEsbuild(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOfN(rapid.SampledFrom([]string{
			"MARK", "MARK", "MARK", "// a comment\n", "enum E%d { A, B = 'x' }\n", "interface I%d { a: string }\n", "\n\n",
			"const u%d: string = 'ä😀';  ", "const f%d = (a: number): number => { MARK; return a };\n", "type T%d = string;\n",
			"if (globalThis.y) { MARK } else { MARK }\n", "class C%d { m() { MARK } }\n",
		}), 1, 40).Draw(t, "pieces")
		var source strings.Builder
		marks := 0
		for i, piece := range pieces {
			if strings.Contains(piece, "%d") {
				piece = fmt.Sprintf(piece, i)
			}
			for strings.Contains(piece, "MARK") {
				piece = strings.Replace(piece, "MARK", fmt.Sprintf("mark(%d) ;", 1000+marks), 1)
				marks++
			}
			source.WriteString(piece)
		}
		minify := rapid.Bool().Draw(t, "minify")
		built := api.Transform(source.String(), api.TransformOptions{
			Loader: api.LoaderTS, Sourcefile: "src/index.ts", Sourcemap: api.SourceMapExternal,
			Charset: api.CharsetUTF8, MinifyWhitespace: minify,
		})
		if len(built.Errors) > 0 {
			t.Fatal(built.Errors[0].Text)
		}
		m, err := Parse("main.mjs", built.Map)
		if err != nil {
			t.Fatal(err)
		}
		for mark := range marks {
			call := fmt.Sprintf("mark(%d)", 1000+mark)
			line, column, ok := find(string(built.Code), call)
			if !ok {
				continue // in a branch that esbuild removed
			}
			got, ok := m.Position(line, column)
			wantLine, wantColumn, _ := find(source.String(), call)
			if want := (Position{"src/index.ts", wantLine, wantColumn}); !ok || got != want {
				t.Fatalf("%s: %v, want %v", call, got, want)
			}
		}
	})
}

// find returns the line and the UTF-16 column of a text, counted from 1.
func find(text, part string) (line, column int, ok bool) {
	before, _, ok := strings.Cut(text, part)
	last := before[strings.LastIndexByte(before, '\n')+1:]
	for _, r := range last {
		column++
		if r > 0xffff {
			column++
		}
	}
	return strings.Count(before, "\n") + 1, column + 1, ok
}

func TestStack(t *testing.T) {
	sources := []string{"src/index.ts", "node_modules/lib/lib.js", "../shared/pick.ts"}
	lines := make([][]segment, 40)
	lines[1] = []segment{{0, 0, 11, 6}}
	lines[9] = []segment{{0, 1, 4, 2}}
	lines[19] = []segment{{0, 2, 7, 0}}
	lines[29] = []segment{{0, -1, 0, 0}}
	m, err := Parse("main.mjs", mapText(t, sources, encode(lines)))
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct{ stack, mapped, location string }{
		"url": {
			"Error: no\n    at queue (file:///bundle/main.mjs:2:21)", "Error: no\n    at queue (src/index.ts:12:7)", "src/index.ts:12:7",
		},
		"bare name, method": {
			"TypeError: x\n    at Object.queue (main.mjs:2:3)", "TypeError: x\n    at Object.queue (src/index.ts:12:7)", "src/index.ts:12:7",
		},
		"no function": {"Error\n    at main.mjs:20:1", "Error\n    at ../shared/pick.ts:8:1", "../shared/pick.ts:8:1"},
		"async":       {"Error\n    at async main.mjs:2:1", "Error\n    at async src/index.ts:12:7", "src/index.ts:12:7"},
		"the user's frame is under a package's": {
			"Error\n    at f (main.mjs:10:3)\n    at node:internal/x:1:1\n    at g (main.mjs:2:1)",
			"Error\n    at f (node_modules/lib/lib.js:5:3)\n    at node:internal/x:1:1\n    at g (src/index.ts:12:7)",
			"src/index.ts:12:7",
		},
		"only packages": {"Error\n    at f (main.mjs:10:3)", "Error\n    at f (node_modules/lib/lib.js:5:3)", ""},
		"eval": {
			"Error\n    at eval (eval at queue (main.mjs:2:9), <anonymous>:1:1)",
			"Error\n    at eval (eval at queue (src/index.ts:12:7), <anonymous>:1:1)", "src/index.ts:12:7",
		},
		"in a printed value": {
			"{\n  e: Error: no\n      at queue (main.mjs:2:21) {\n    code: 1\n  },\n  f: Error\n      at main.mjs:20:1,",
			"{\n  e: Error: no\n      at queue (src/index.ts:12:7) {\n    code: 1\n  },\n  f: Error\n      at ../shared/pick.ts:8:1,",
			"src/index.ts:12:7",
		},
		"before another value": {
			"Error\n    at async main.mjs:2:1 { at: 'main.mjs:2:1' } main.mjs:2:1", "Error\n    at async src/index.ts:12:7 { at: 'main.mjs:2:1' } main.mjs:2:1", "src/index.ts:12:7",
		},
		"behind a message": {
			"Uncaught SyntaxError: Unexpected number at file:///bundle/main.mjs:2:21",
			"Uncaught SyntaxError: Unexpected number at src/index.ts:12:7", "src/index.ts:12:7",
		},
		"another module's name ends alike": {"Error\n    at f (domain.mjs:2:1)\n    at g (xmain.mjs:2:1)", "Error\n    at f (domain.mjs:2:1)\n    at g (xmain.mjs:2:1)", ""},
		"text in a message":                {"Error: see main.mjs:2:1 for more\n  ok", "Error: see main.mjs:2:1 for more\n  ok", ""},
		"from no file":                     {"Error\n    at f (main.mjs:30:1)", "Error\n    at f (main.mjs:30:1)", ""},
		"beyond the map":                   {"Error\n    at f (main.mjs:99:1)\n    at main.mjs:99999999999999999999:1", "Error\n    at f (main.mjs:99:1)\n    at main.mjs:99999999999999999999:1", ""},
		"empty":                            {"", "", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			mapped, location := m.Stack(c.stack)
			if diff := cmp.Diff([]string{c.mapped, c.location}, []string{mapped, location}); diff != "" {
				t.Error(diff)
			}
		})
	}
	if mapped, location := (*Map)(nil).Stack("Error\n    at main.mjs:2:1"); mapped != "Error\n    at main.mjs:2:1" || location != "" {
		t.Errorf("the nil map changed the stack: %q, %q", mapped, location)
	}
}

func TestParseRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"no JSON":          `{`,
		"version 2":        `{"version":2,"sources":["a"],"mappings":"AAAA"}`,
		"sections":         `{"version":3,"sections":[]}`,
		"no such source":   `{"version":3,"sources":["a"],"mappings":"ACAA"}`,
		"before the start": `{"version":3,"sources":["a"],"mappings":"AADA"}`,
		"three numbers":    `{"version":3,"sources":["a"],"mappings":"AAA"}`,
		"six numbers":      `{"version":3,"sources":["a"],"mappings":"AAAAAA"}`,
		"bad digit":        `{"version":3,"sources":["a"],"mappings":"AA?A"}`,
		"unfinished":       `{"version":3,"sources":["a"],"mappings":"AAAg"}`,
		"endless":          `{"version":3,"sources":["a"],"mappings":"gggggggggggggA"}`,
		"too far":          `{"version":3,"sources":["a"],"mappings":"+//////A"}`,
		"empty segment":    `{"version":3,"sources":["a"],"mappings":"AAAA,,AAAA"}`,
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse("main.mjs", []byte(text)); err == nil {
				t.Error("accepted")
			}
		})
	}
}

func TestSourceRoot(t *testing.T) {
	m, err := Parse("main.mjs", []byte(`{"version":3,"sourceRoot":"/x/","sources":["a.ts"],"mappings":"AAAA"}`))
	if err != nil {
		t.Fatal(err)
	}
	if p, _ := m.Position(1, 1); p.Source != "/x/a.ts" {
		t.Errorf("source %q", p.Source)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("AAAA;AACA,CAAC", "Error\n at x (main.mjs:1:2)")
	f.Fuzz(func(t *testing.T, mappings, stack string) {
		m, err := Parse("main.mjs", mapText(t, []string{"a.ts"}, mappings))
		if err != nil {
			return
		}
		m.Stack(stack)
	})
}

// FuzzMapText reads any text as a source map, and a stack through it: lines stay lines.
func FuzzMapText(f *testing.F) {
	f.Add([]byte(`{"version":3,"sourceRoot":"/x/","sources":["a.ts",null],"names":["n"],"mappings":"AAAA;AACAA"}`), "Error: x\n    at f (file:///bundle/main.mjs:1:1) {")
	f.Add([]byte(`{"version":3,"sections":[]}`), "main.mjs:0:0\nmain.mjs:99999999999999999999:1")
	f.Add([]byte(`{"version":2}`), "")
	f.Fuzz(func(t *testing.T, text []byte, stack string) {
		m, err := Parse("main.mjs", text)
		if err != nil {
			return
		}
		mapped, location := m.Stack(stack)
		if strings.Count(mapped, "\n") < strings.Count(stack, "\n") || location != "" && mapped == stack {
			t.Errorf("stack %q became %q, at %q", stack, mapped, location)
		}
	})
}
