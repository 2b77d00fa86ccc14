package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/internal/core/queue"
)

const docPath = "../../../../docs/LIMITS.md"

func TestPageIsFresh(t *testing.T) {
	text, err := os.ReadFile(docPath)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(text), page()); diff != "" {
		t.Errorf("docs/LIMITS.md is stale; run \"make generate\" (-file +code):\n%s", diff)
	}
}

// TestEveryLimitIsListed reads the source, so that a new constant cannot be forgotten.
func TestEveryLimitIsListed(t *testing.T) {
	listed := map[string]int{}
	for _, s := range sections {
		for _, l := range s.limits {
			listed[l.name]++
			if l.protects == "" {
				t.Errorf("%s does not say what it protects", l.name)
			}
		}
	}
	sources := []string{"../limits.go", "../limits_stores.go"}
	constants := make([]string, 0, len(listed))
	for _, name := range sources {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		constants = append(constants, constantsOf(file)...)
	}
	if len(constants) < 40 {
		t.Fatalf("only %d constants found in limits.go; does the test still read it?", len(constants))
	}
	for _, name := range constants {
		if listed[name] == 0 {
			t.Errorf("queue.%s is missing in limitsdoc/table.go", name)
		}
	}
	for name, times := range listed {
		if times > 1 {
			t.Errorf("%s is listed %d times", name, times)
		}
	}
}

func TestConstantsOf(t *testing.T) {
	const source = `package queue
const A = 1
const (
	// B has a doc.
	B, C = 2, 3
	hidden = 4
	Named Dialect = "named"
)
var V = 5
`
	file, err := parser.ParseFile(token.NewFileSet(), "limits.go", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"A", "B", "C"}, constantsOf(file)); diff != "" {
		t.Errorf("constants (-want +got):\n%s", diff)
	}
}

// constantsOf returns the exported constants of a file that are numbers or durations: those without a named type.
func constantsOf(file *ast.File) []string {
	var names []string
	for _, decl := range file.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		for _, spec := range group.Specs {
			value, ok := spec.(*ast.ValueSpec)
			if !ok || value.Type != nil {
				continue
			}
			for _, name := range value.Names {
				if name.IsExported() {
					names = append(names, name.Name)
				}
			}
		}
	}
	return names
}

// TestNamesMatchValues: a row named X shows the constant X.
func TestNamesMatchValues(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "table.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	ast.Inspect(file, func(n ast.Node) bool {
		row, ok := n.(*ast.CompositeLit)
		if !ok || len(row.Elts) != 4 {
			return true
		}
		text, ok := row.Elts[0].(*ast.BasicLit)
		if !ok {
			return true
		}
		rows++
		name, _ := strconv.Unquote(text.Value)
		if constant, ok := row.Elts[1].(*ast.SelectorExpr); !ok || constant.Sel.Name != name {
			t.Errorf("the row %q shows another value", name)
		}
		return true
	})
	if rows < 40 {
		t.Errorf("only %d rows found in table.go; does the test still read it?", rows)
	}
}

func TestEveryDialectFieldIsListed(t *testing.T) {
	listed := map[string]bool{}
	for _, d := range dialects {
		listed[d.name] = true
	}
	for field := range reflect.TypeFor[queue.Limits]().Fields() {
		if !listed[field.Name] {
			t.Errorf("queue.Limits.%s is missing in limitsdoc/table.go", field.Name)
		}
	}
}

func TestWords(t *testing.T) {
	for _, test := range []struct{ got, want string }{
		{size(128 << 10), "128 KiB (131,072 B)"},
		{size(4 << 20), "4 MiB (4,194,304 B)"},
		{size(128_000), "128,000 B"},
		{size(160), "160 B"},
		{number(1_234_567), "1,234,567"},
		{number(100), "100"},
		{backoff(queue.Backoff{}), "none"},
		{backoff(queue.Backoff{First: 10 * time.Second, Max: time.Hour}), "10 s, doubling, at most 1 h"},
	} {
		if test.got != test.want {
			t.Errorf("%q, want %q", test.got, test.want)
		}
	}
}
