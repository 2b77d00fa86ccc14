package config_test

import (
	"encoding/json"
	"errors"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"
	"golang.org/x/tools/txtar"

	"github.com/runlot/runlot/internal/config/dotenv"
	"github.com/runlot/runlot/internal/config/runlotjson"
	"github.com/runlot/runlot/internal/config/source"
	"github.com/runlot/runlot/internal/config/wrangler"
	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/queue"
)

// seed adds the files of the golden cases whose names end so.
func seed(f *testing.F, suffixes ...string) {
	f.Helper()
	cases, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(cases) == 0 {
		f.Fatal("no cases", err)
	}
	for _, file := range cases {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, entry := range archive.Files {
			for _, suffix := range suffixes {
				if strings.HasSuffix(entry.Name, suffix) {
					f.Add(entry.Data)
				}
			}
		}
	}
	f.Add([]byte("\xef\xbb\xbf{}"))
	f.Add([]byte("\xff"))
	f.Add([]byte("\"€"))
	f.Add([]byte("{\"a\": \"\x00"))
}

// inside wants every diagnostic to stand in the file.
func inside(t *testing.T, text []byte, problems source.Problems) {
	t.Helper()
	lines := strings.Split(string(text), "\n")
	for _, d := range problems {
		if d.Line < 1 || d.Line > len(lines) || d.Column < 1 || d.Column > utf8.RuneCountInString(lines[d.Line-1])+1 {
			t.Errorf("outside the file: %s", d)
		}
		if d.Message == "" || strings.Contains(d.Message, "\n") || (strings.Contains(d.Message, "%!") && !strings.Contains(string(text), "%")) {
			t.Errorf("a message that is none: %q", d.Message)
		}
	}
}

func FuzzParseJSONC(f *testing.F) {
	seed(f, "runlot.json", ".jsonc", "wrangler.json")
	f.Fuzz(func(t *testing.T, text []byte) {
		d, problems := source.ParseJSONC("f", text)
		inside(t, text, problems)
		if problems != nil {
			if utf8.Valid(text) && json.Valid(text) && !expected(problems) {
				t.Errorf("refuses JSON: %s", problems)
			}
			return
		}
		if got, ok := d.Root.JSON(); !ok || !json.Valid(got) {
			t.Errorf("the tree is not JSON: %s", got)
		}
	})
}

// expected tells the refusals that JSON as such allows.
func expected(problems source.Problems) bool {
	m := problems[0].Message
	return strings.Contains(m, "twice") || strings.Contains(m, "must hold an object") || strings.Contains(m, "nested")
}

func FuzzParseTOML(f *testing.F) {
	seed(f, ".toml")
	f.Fuzz(func(t *testing.T, text []byte) {
		d, problems := source.ParseTOML("f", text)
		inside(t, text, problems)
		if problems != nil {
			return
		}
		var want map[string]any
		if err := toml.Unmarshal([]byte(strings.TrimPrefix(string(text), "\xef\xbb\xbf")), &want); err != nil {
			t.Fatalf("accepts what the decoder refuses: %v", err)
		}
		same(t, d.Root, want)
	})
}

// same wants a tree to hold what the decoder found.
func same(t *testing.T, n *source.Node, want any) {
	t.Helper()
	switch want := want.(type) {
	case map[string]any:
		if n.Kind != source.Object || len(n.Members) != len(want) {
			t.Fatalf("%+v is not %v", n, want)
		}
		for i := range n.Members {
			same(t, n.Members[i].Value, want[n.Members[i].Key])
		}
	case []any:
		if n.Kind != source.Array || len(n.Items) != len(want) {
			t.Fatalf("%+v is not %v", n, want)
		}
		for i := range want {
			same(t, n.Items[i], want[i])
		}
	case string:
		if n.Kind != source.String || n.Text != want {
			t.Fatalf("%+v is not %q", n, want)
		}
	case bool:
		if n.Kind != source.Boolean || n.Text != strconv.FormatBool(want) {
			t.Fatalf("%+v is not %t", n, want)
		}
	case int64:
		if n.Kind != source.Number || n.Text != strconv.FormatInt(want, 10) {
			t.Fatalf("%+v is not %d", n, want)
		}
	case float64:
		if math.IsInf(want, 0) || math.IsNaN(want) {
			if n.Kind != source.NonFinite {
				t.Fatalf("%+v is not %v", n, want)
			}
			return
		}
		if got, err := strconv.ParseFloat(n.Text, 64); n.Kind != source.Number || err != nil || got != want || !json.Valid([]byte(n.Text)) {
			t.Fatalf("%+v is not %v", n, want)
		}
	default:
		if n.Kind != source.Time {
			t.Fatalf("%+v is not %v", n, want)
		}
	}
}

func FuzzRunlotJSON(f *testing.F) {
	seed(f, "runlot.json")
	f.Fuzz(func(t *testing.T, text []byte) {
		m, warnings, err := runlotjson.Compile("f", text)
		compiled(t, text, m, warnings, err)
	})
}

func FuzzWranglerJSONC(f *testing.F) {
	seed(f, ".jsonc", "wrangler.json")
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, env := range []string{"", "staging"} {
			m, warnings, err := wrangler.Compile("f", source.JSONC, text, env)
			compiled(t, text, m, warnings, err)
		}
	})
}

func FuzzWranglerTOML(f *testing.F) {
	seed(f, ".toml")
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, env := range []string{"", "staging"} {
			m, warnings, err := wrangler.Compile("f", source.TOML, text, env)
			compiled(t, text, m, warnings, err)
		}
	})
}

// compiled wants either problems or a manifest that keeps every rule.
func compiled(t *testing.T, text []byte, m *app.Manifest, warnings source.Problems, err error) {
	t.Helper()
	if err != nil {
		problems, ok := errors.AsType[source.Problems](err)
		if !ok || problems.Errors() == 0 || m != nil {
			t.Fatalf("fails without an error: %v", err)
		}
		inside(t, text, problems)
		return
	}
	inside(t, text, warnings)
	if warnings.Errors() > 0 {
		t.Fatalf("an error among the warnings: %v", warnings)
	}
	if !queue.ValidName(m.Name) || m.CompatibilityDate == "" || m.Digest() == "" {
		t.Fatalf("not complete: %+v", m)
	}
	names := map[string]bool{m.DatabaseBinding: true}
	for _, p := range m.Producers {
		if p.Binding == "" || names[p.Binding] || m.Vars[p.Binding] != nil {
			t.Fatalf("two things are called %q", p.Binding)
		}
		names[p.Binding] = true
	}
	if len(m.Queues()) > 0 && m.Database == "" {
		t.Fatal("queues without a database")
	}
	if len(m.Consumers) > 0 && m.Main == "" {
		t.Fatal("a consumer without code")
	}
	for _, name := range m.Queues() {
		if !queue.ValidName(name) {
			t.Fatalf("a queue called %q", name)
		}
	}
	limits := queue.LimitsOf(m.Dialect)
	for _, c := range m.Consumers {
		if c.DeadLetterQueue == c.Queue || c.BatchSize < 1 || c.BatchSize > queue.MaxBatchSize || c.BatchTimeout < 0 ||
			c.BatchTimeout > queue.MaxBatchTimeout || c.MaxRetries < 0 || c.MaxRetries > limits.MaxRetries ||
			c.MaxConcurrency < 0 || c.MaxConcurrency > queue.MaxConcurrency || c.Backoff.First < 0 ||
			c.Backoff.Max > queue.MaxDelay || c.Backoff.First > c.Backoff.Max || c.HandlerTime <= 0 ||
			c.Retention < queue.MinRetention || c.Retention > queue.MaxRetention {
			t.Fatalf("outside the limits: %+v", c)
		}
	}
}

func FuzzDotenv(f *testing.F) {
	seed(f, ".vars", ".env", ".local")
	f.Fuzz(func(t *testing.T, text []byte) {
		entries, problems := dotenv.Parse("f", text)
		inside(t, text, problems)
		seen := map[string]bool{}
		for _, e := range entries {
			if seen[e.Name] || e.Line < 1 || e.Line > strings.Count(string(text), "\n")+1 {
				t.Fatalf("%+v stands twice or outside", e)
			}
			seen[e.Name] = true
		}
	})
}
