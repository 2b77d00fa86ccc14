package source

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/runlot/runlot/internal/core/queue"
)

// jsonValue draws any JSON value; objects have distinct keys.
func jsonValue(depth int) *rapid.Generator[any] {
	scalars := rapid.OneOf(
		rapid.Just[any](nil),
		rapid.Map(rapid.Bool(), func(b bool) any { return b }),
		rapid.Map(rapid.Int64(), func(i int64) any { return i }),
		rapid.Map(rapid.Float64Range(-1e300, 1e300), func(f float64) any { return f }),
		rapid.Map(rapid.String(), func(s string) any { return s }),
	)
	if depth == 0 {
		return scalars
	}
	inner := jsonValue(depth - 1)
	return rapid.OneOf(scalars,
		rapid.Map(rapid.SliceOfN(inner, 0, 4), func(s []any) any { return s }),
		rapid.Map(rapid.MapOfN(rapid.String(), inner, 0, 4), func(m map[string]any) any { return m }),
	)
}

// TestJSONCReadsWhatJSONSays: the tree of any JSON object, with comments, blanks and trailing commas strewn in, is that object.
func TestJSONCReadsWhatJSONSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want, err := json.Marshal(rapid.MapOfN(rapid.String(), jsonValue(3), 0, 4).Draw(t, "object"))
		if err != nil {
			t.Fatal(err)
		}
		noise := rapid.SampledFrom([]string{"", "", " ", "\n", "\t\r\n", "/**/", "/* } \" ] */", "// , {\n"})
		var text bytes.Buffer
		text.WriteString(noise.Draw(t, "noise"))
		inString, last := false, byte(0)
		for i, c := range want {
			if inString {
				text.WriteByte(c)
				inString = c != '"' || escaped(want[:i])
				last = c
				continue
			}
			if (c == '}' || c == ']') && last != '{' && last != '[' && rapid.Bool().Draw(t, "comma") {
				text.WriteString("," + noise.Draw(t, "noise"))
			}
			text.WriteByte(c)
			inString, last = c == '"', c
			if strings.IndexByte("{}[],:", c) >= 0 {
				text.WriteString(noise.Draw(t, "noise"))
			}
		}
		d, problems := ParseJSONC("f", text.Bytes())
		if problems != nil {
			t.Fatalf("%s: %s", text.Bytes(), problems)
		}
		got, ok := d.Root.JSON()
		if !ok || !bytes.Equal(got, want) {
			t.Fatalf("%s is read as %s, not %s", text.Bytes(), got, want)
		}
	})
}

// escaped reports whether what follows text stands behind an odd number of backslashes.
func escaped(text []byte) bool {
	return (len(text)-len(bytes.TrimRight(text, `\`)))%2 == 1
}

func TestPositionCountsCharacters(t *testing.T) {
	d := newDocument("f", JSONC, []byte("aé\n€€x\r\n\n"))
	for offset, want := range map[int]string{0: "1:1", 1: "1:2", 3: "1:3", 4: "2:1", 7: "2:2", 10: "2:3", 13: "3:1", 14: "4:1", 99: "4:1", -1: "1:1"} {
		line, column := d.Position(offset)
		if got := fmt.Sprintf("%d:%d", line, column); got != want {
			t.Errorf("offset %d is at %s, not %s", offset, got, want)
		}
	}
}

func TestSuggest(t *testing.T) {
	known := []string{"maxBatchSize", "maxBatchTimeout", "maxRetries", "queue", "main", "name", "d1_databases"}
	for word, want := range map[string]string{
		"maxBatchsize": "maxBatchSize", "max_batch_size": "maxBatchSize", "maxBatchTimeOut": "maxBatchTimeout", "maxRetry": "maxRetries", "database": "",
		"maxRteries": "maxRetries", "queues": "queue", "nam": "name", "type": "", "x": "", "": "",
		strings.Repeat("q", 1000): "",
	} {
		if got := Suggest(word, known); got != want {
			t.Errorf("Suggest(%q) = %q, want %q", word, got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "abc", 3}, {"abc", "", 3}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"abc", "ab", 1}, {"abc", "xbc", 1}, {"kitten", "sitting", 3}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("distance(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

// TestWhatIsRefusedBeforeReading: sizes, encodings and depth, in both syntaxes.
func TestWhatIsRefusedBeforeReading(t *testing.T) {
	deepTable := "[" + strings.TrimSuffix(strings.Repeat("a.", queue.MaxConfigDepth+1), ".") + "]\n"
	for _, c := range []struct {
		name, text, want string
		parse            func(string, []byte) (*Document, Problems)
	}{
		{"big JSON", `{"a":"` + strings.Repeat("x", queue.MaxConfigFile) + `"}`, "f:1:1: error: the file has 1048584 bytes; at most 1048576 are read", ParseJSONC},
		{"latin-1", "{\n\"a\": \"\xe9\"}", "f:2:7: error: the file is not valid UTF-8 here", ParseJSONC},
		{"latin-1 TOML", "a = \"\xe9\"", "f:1:6: error: the file is not valid UTF-8 here", ParseTOML},
		{"UTF-16", "\xff\xfe{\x00}\x00", "f:1:1: error: the file is not valid UTF-8 here", ParseJSONC},
		{"control character", "{\"a\": \"\x01\"}", "f:1:8: error: a string cannot hold the character U+0001", ParseJSONC},
		{"TOML value missing", "a = \nb = 1", "f:1:5: error: a value is missing after `=`", ParseTOML},
		{"TOML value missing at the end", "a =", "f:1:3: error: a value is missing after `=`", ParseTOML},
		{"TOML error in a character", "\"€", "f:1:2: error: unterminated basic string", ParseTOML},
		{"continuation byte", "\x9f", "f:1:1: error: the file is not valid UTF-8 here", ParseJSONC},
		{"deep TOML array", "a = " + strings.Repeat("[", 200) + strings.Repeat("]", 200), "nested more than 100 deep", ParseTOML},
		{"deep TOML table", deepTable, "f:1:202: error: tables and arrays are nested more than 100 deep", ParseTOML},
		{"deep TOML key", strings.Repeat("a.", queue.MaxConfigDepth+1) + "a = 1", "nested more than 100 deep", ParseTOML},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, problems := c.parse("f", []byte(c.text))
			if d != nil || !strings.Contains(problems.Error(), c.want) {
				t.Errorf("got %.200s, want %s", problems.Error(), c.want)
			}
		})
	}
}

func TestDeepestThatIsRead(t *testing.T) {
	text := strings.Repeat(`{"a":`, queue.MaxConfigDepth-1) + "{}" + strings.Repeat("}", queue.MaxConfigDepth-1)
	if _, problems := ParseJSONC("f", []byte(text)); problems != nil {
		t.Error(problems)
	}
	table := "[" + strings.TrimSuffix(strings.Repeat("a.", queue.MaxConfigDepth), ".") + "]\n"
	if _, problems := ParseTOML("f", []byte(table)); problems != nil {
		t.Error(problems)
	}
}

// TestManyProblems: the list is bounded, and warnings cannot crowd out the errors that stop the work.
func TestManyProblems(t *testing.T) {
	text := "{"
	for i := range 3 * queue.MaxProblems {
		text += fmt.Sprintf("\"%04d\": 1,\n", i)
	}
	d, problems := ParseJSONC("f", []byte(text+"}"))
	if problems != nil {
		t.Fatal(problems)
	}
	r := Read(d)
	for _, m := range r.Root().Members() {
		m.Warnf("", "a warning")
	}
	r.Root().Allow("name")
	warnings, err := r.Done()
	found, ok := err.(Problems) //nolint:errorlint // the type that Done documents
	if !ok || warnings != nil || len(found) != 2*queue.MaxProblems || found.Errors() != queue.MaxProblems {
		t.Fatalf("%d problems with %d errors", len(found), found.Errors())
	}
	shown := strings.Split(found.Error(), "\n")
	if last := shown[len(shown)-1]; last != "… and 100 more" {
		t.Errorf("the list ends with %q", last)
	}
}

func TestQuoteIsShortAndOnOneLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringN(0, 200, 400).Draw(t, "s")
		q := Quote(s)
		if strings.ContainsAny(q, "\n\r") || len(q) > 10*maxShown || (len(s) <= maxShown && q != fmt.Sprintf("%q", s)) {
			t.Fatalf("%q", q)
		}
	})
}

func TestDiagnosticPaths(t *testing.T) {
	d, problems := ParseJSONC("f", []byte(`{"queues": {"consumers": [{"maxRetries": "x"}]}, "vars": {"a.b": 1}}`))
	if problems != nil {
		t.Fatal(problems)
	}
	r := Read(d)
	r.Root().Get("queues").Get("consumers").Items()[0].Get("maxRetries").Integer("an integer", 0, 1)
	r.Root().Get("vars").Get("a.b").Text()
	_, err := r.Done()
	found, ok := err.(Problems) //nolint:errorlint // the type that Done documents
	if !ok || len(found) != 2 || found[0].Path != "queues.consumers[0].maxRetries" || found[1].Path != `vars["a.b"]` {
		t.Errorf("%+v", found)
	}
}
