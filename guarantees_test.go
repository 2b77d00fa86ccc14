package runlot_test

import (
	"go/ast"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	testName  = regexp.MustCompile("`(Test[A-Z][A-Za-z0-9]*)`")
	caseNames = regexp.MustCompile("`TestConformance` \\(([^)]*)\\)")
)

// missingTests returns the test functions that a page names and the sources do not have.
func missingTests(page string, sources []*source) []string {
	have := map[string]bool{}
	for _, s := range sources {
		for _, decl := range s.file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && s.test {
				have[f.Name.Name] = true
			}
		}
	}
	var missing []string
	for _, found := range testName.FindAllStringSubmatch(page, -1) {
		if !have[found[1]] {
			missing = append(missing, found[1])
		}
	}
	return missing
}

// missingCases returns the conformance cases that a page names and test/conformance does not. "a-*" stands for the cases
// that begin so; a text of the sources that ends with a dash is the beginning of cases that are named after something.
func missingCases(page string, sources []*source) []string {
	var have []string
	for _, s := range sources {
		if s.dir() != "test/conformance" {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING {
				if id, err := strconv.Unquote(text.Value); err == nil && id != "" {
					have = append(have, id)
				}
			}
			return true
		})
	}
	var missing []string
	for _, list := range caseNames.FindAllStringSubmatch(page, -1) {
		for name := range strings.SplitSeq(list[1], ", ") {
			beginning, open := strings.CutSuffix(name, "*")
			if !slices.ContainsFunc(have, func(id string) bool {
				return id == name || open && strings.HasPrefix(id, beginning) || strings.HasSuffix(id, "-") && strings.HasPrefix(name, id)
			}) {
				missing = append(missing, name)
			}
		}
	}
	return missing
}

func TestPagesNameTestsThatExist(t *testing.T) {
	house := read(t, os.DirFS("."))
	for _, path := range []string{"docs/GUARANTEES.md", "docs/COMPATIBILITY.md"} {
		page, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range missingTests(string(page), house) {
			t.Errorf("%s names %s, which no test file has", path, name)
		}
		for _, name := range missingCases(string(page), house) {
			t.Errorf("%s names the case %s, which test/conformance does not have", path, name)
		}
	}
	tree := files("a/a_test.go", "package a\nfunc TestThere() {}\n", "a/a.go", "package a\nfunc TestNot() {}\n")
	if got := missingTests("`TestThere` `TestNot` `TestGone` TestUnquoted", read(t, tree)); !slices.Equal(got, []string{"TestNot", "TestGone"}) {
		t.Errorf("missing tests of the example: %v", got)
	}
	tree = files("test/conformance/a_test.go", "package a\nvar ids = []string{\"dead\", \"settle-x\", \"by-\" + \"y\"}\n", "a/a_test.go", "package a\nvar id = \"gone\"\n")
	if got := missingCases("`TestConformance` (dead, settle-*, by-y, gone, set-*)", read(t, tree)); !slices.Equal(got, []string{"gone", "set-*"}) {
		t.Errorf("missing cases of the example: %v", got)
	}
}
