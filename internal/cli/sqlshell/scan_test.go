package sqlshell

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestStatements(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string
		left       string
	}{
		{"two on a line", "select 1; select 2;\n", []string{"select 1;", " select 2;"}, ""},
		{"over lines", "select\n  1\n;\n", []string{"select\n  1\n;"}, ""},
		{"not ended", "select 1", nil, "select 1"},
		{"only space and comments", " ;; -- a; b\n/* ; */ ;\n", nil, ""},
		{"quotes", `select ';', "a;b", 'it''s;';` + "\n", []string{`select ';', "a;b", 'it''s;';`}, ""},
		{"escapes", `select e'\';', E'\\';` + "\n", []string{`select e'\';', E'\\';`}, ""},
		{"no escapes after a word", `select love'\';` + "\n", []string{`select love'\';`}, ""},
		{"comments", "select 1 -- ; '\n + 2 /* ; /* ; */ ' */;\n", []string{"select 1 -- ; '\n + 2 /* ; /* ; */ ' */;"}, ""},
		{"bodies", "do $$ begin; end $$;\ndo $fn$ a; $$ ; $fn$;\n", []string{"do $$ begin; end $$;", "\ndo $fn$ a; $$ ; $fn$;"}, ""},
		{"a dollar in a name", "select a$b$c; select 1;\n", []string{"select a$b$c;", " select 1;"}, ""},
		{"a parameter", "select $1;\n", []string{"select $1;"}, ""},
		{"parentheses", "create rule r as on insert to t do (select 1; select 2);\n", []string{"create rule r as on insert to t do (select 1; select 2);"}, ""},
		{"a string over lines", "select 'a;\nb';\n", []string{"select 'a;\nb';"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s scanner
			var got []string
			for line := range strings.Lines(c.text) {
				got = append(got, s.line(line)...)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if left := s.rest(); left != c.left {
				t.Errorf("left: got %q, want %q", left, c.left)
			}
		})
	}
}
