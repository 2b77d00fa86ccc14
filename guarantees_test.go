package runlot_test

import (
	"go/ast"
	"os"
	"regexp"
	"slices"
	"testing"
)

var testName = regexp.MustCompile("`(Test[A-Z][A-Za-z0-9]*)`")

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

func TestGuaranteesNameTestsThatExist(t *testing.T) {
	page, err := os.ReadFile("docs/GUARANTEES.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range missingTests(string(page), read(t, os.DirFS("."))) {
		t.Errorf("docs/GUARANTEES.md names %s, which no test file has", name)
	}
	tree := files("a/a_test.go", "package a\nfunc TestThere() {}\n", "a/a.go", "package a\nfunc TestNot() {}\n")
	if got := missingTests("`TestThere` `TestNot` `TestGone` TestUnquoted", read(t, tree)); !slices.Equal(got, []string{"TestNot", "TestGone"}) {
		t.Errorf("missing tests of the example: %v", got)
	}
}
