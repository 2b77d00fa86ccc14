package d1_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/runlot/runlot/internal/core/d1"
)

func TestStatements(t *testing.T) {
	trigger := "CREATE TRIGGER t AFTER INSERT ON a BEGIN\n SELECT CASE WHEN 1 THEN 2 END;\n UPDATE b SET c = ';';\nEND;"
	for _, test := range []struct {
		name, text string
		want       []d1.Statement
	}{
		{"none", " ;; -- a;\n/* b; */ ;", nil},
		{"one", "SELECT 1", []d1.Statement{{"SELECT 1", 1}}},
		{"two", "SELECT 1; SELECT 2;\n", []d1.Statement{{"SELECT 1;", 1}, {"SELECT 2;", 1}}},
		{"lines", "\n-- first;\nSELECT 1;\n\nSELECT\n 2", []d1.Statement{{"-- first;\nSELECT 1;", 3}, {"SELECT\n 2", 5}}},
		{"quotes", `SELECT 'it''s;', ";", [;], ` + "`;`; SELECT 2", []d1.Statement{{`SELECT 'it''s;', ";", [;], ` + "`;`;", 1}, {"SELECT 2", 1}}},
		{"comments", "SELECT 1 -- ;\n, 2 /* ; */; SELECT 3", []d1.Statement{{"SELECT 1 -- ;\n, 2 /* ; */;", 1}, {"SELECT 3", 2}}},
		{"trigger", trigger + " SELECT 1;", []d1.Statement{{trigger, 1}, {"SELECT 1;", 4}}},
		{"temp trigger", "create temp trigger x before delete on a begin select 1; end; select 2", []d1.Statement{
			{"create temp trigger x before delete on a begin select 1; end;", 1}, {"select 2", 1},
		}},
		{"drop trigger", "DROP TRIGGER t; BEGIN; COMMIT", []d1.Statement{{"DROP TRIGGER t;", 1}, {"BEGIN;", 1}, {"COMMIT", 1}}},
		{"open string", "SELECT ';", []d1.Statement{{"SELECT ';", 1}}},
		{"open trigger", "CREATE TRIGGER t BEGIN SELECT 1;", []d1.Statement{{"CREATE TRIGGER t BEGIN SELECT 1;", 1}}},
		{"open comment", "SELECT 1; /* a;", []d1.Statement{{"SELECT 1;", 1}}},
		{"column named end", "SELECT a.end, trigger FROM t; SELECT 1", []d1.Statement{{"SELECT a.end, trigger FROM t;", 1}, {"SELECT 1", 1}}},
	} {
		if diff := cmp.Diff(test.want, d1.Statements(test.text)); diff != "" {
			t.Errorf("%s: -want +got\n%s", test.name, diff)
		}
	}
}

func TestBlank(t *testing.T) {
	for text, want := range map[string]bool{
		"": true, " \t\r\n": true, ";": true, "-- a": true, "/* a": true, "/* a */ ; -- b\n;": true,
		"a": false, "-- a\nb": false, "/**/x": false, "'": false, "-": false, "/": false,
	} {
		if got := d1.Blank(text); got != want {
			t.Errorf("Blank(%q) = %v", text, got)
		}
	}
}

// TestStatementsLoseNothing: whatever is written, the statements stand in the text one behind the other with nothing but
// blanks between them, and each of them is one statement again.
func TestStatementsLoseNothing(t *testing.T) {
	pieces := []string{"SELECT 1", ";", "'a;b'", `"x""y"`, " ", "\n", "-- c;\n", "/* d; */", "CREATE TRIGGER t BEGIN", "; END", "CASE", "END", "é", "["}
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 12).Draw(t, "pieces"), " ")
		rest := text
		for _, s := range d1.Statements(text) {
			between, after, found := strings.Cut(rest, s.Text)
			if !found || !d1.Blank(between) || d1.Blank(s.Text) {
				t.Fatalf("%q has the statement %q", text, s.Text)
			}
			rest = after
			if again := d1.Statements(s.Text); len(again) != 1 || again[0].Text != s.Text {
				t.Fatalf("%q becomes %v", s.Text, again)
			}
		}
		if !d1.Blank(rest) {
			t.Fatalf("%q: %q is left", text, rest)
		}
	})
}

func TestWithoutTransaction(t *testing.T) {
	for text, want := range map[string]string{
		"PRAGMA foreign_keys=OFF; BEGIN TRANSACTION; SELECT 1; COMMIT;": "PRAGMA foreign_keys=OFF;SELECT 1;",
		"begin; select 1; end":     "select 1;",
		"BEGIN; SELECT 1":          "BEGIN;SELECT 1",
		"SELECT 1; COMMIT":         "SELECT 1;COMMIT",
		"SELECT 1":                 "SELECT 1",
		"":                         "",
		"-- x\nBEGIN; -- y\nEND":   "",
		"SELECT beginning; SELECT": "SELECT beginning;SELECT",
	} {
		got := ""
		for _, s := range d1.WithoutTransaction(d1.Statements(text)) {
			got += s.Text
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestFileName(t *testing.T) {
	for identity, want := range map[string]string{
		"main": "main.sqlite", "3f0c9b7a-1f0e-4e55-9a8d-2f9c7c1d5b11": "3f0c9b7a-1f0e-4e55-9a8d-2f9c7c1d5b11.sqlite", "a.b_c": "a.b_c.sqlite",
	} {
		if got := d1.FileName(identity); got != want {
			t.Errorf("FileName(%q) = %q", identity, got)
		}
	}
	for _, identity := range []string{"", "../x", "a/b", ".hidden", "Main", "<your-id>", strings.Repeat("a", 101), "con\x00"} {
		got := d1.FileName(identity)
		if !strings.HasPrefix(got, "sha256.") || strings.ContainsAny(got, "/\\<\x00") || len(got) > 64 {
			t.Errorf("FileName(%q) = %q", identity, got)
		}
	}
	if d1.FileName("Main") == d1.FileName("MAIN") {
		t.Error("two identities share a file")
	}
}
