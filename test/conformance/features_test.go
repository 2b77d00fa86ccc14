package conformance_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

//go:generate go test -count=1 -run ^TestCompatibilityPage$ -write .

const compatibilityPath = "../../docs/COMPATIBILITY.md"

var write = flag.Bool("write", false, "write docs/COMPATIBILITY.md instead of comparing it")

// state is what there is of a feature.
type state string

const (
	works   state = "works"
	differs state = "differs"
	absent  state = "not there"
)

// area is a part of the page and of the summary.
type area struct {
	title    string
	features []feature
}

// feature is one row: something that a document promises or that Cloudflare Queues has.
type feature struct {
	name string
	// of are the documents that describe it: C is Cloudflare's documentation, R the Runlot document, J the celld document.
	of    string
	state state
	// note says how and why it differs, what is there instead, or what one should know.
	note string
	// cases are ids or beginnings of ids ("settle-*"), with spaces between them. A new case is added to the row of its
	// feature, or has an id that begins like others there.
	cases string
	// tests are test functions elsewhere that show what no case does.
	tests string
}

// shown are the cases of a feature, in the order of the catalogue.
func (f *feature) shown(all []testCase) []string {
	var list []string
	for i := range all {
		if names(f.cases, all[i].id) {
			list = append(list, all[i].id)
		}
	}
	return list
}

// areaOf is the area of the first feature that a case shows.
func areaOf(id string) string {
	for i := range areas {
		for j := range areas[i].features {
			if names(areas[i].features[j].cases, id) {
				return areas[i].title
			}
		}
	}
	return ""
}

// gaps tells what is wrong between the features and the cases.
func gaps(list []area, all []testCase) []string {
	var problems []string
	named := map[string]bool{}
	for i := range list {
		for j := range list[i].features {
			f := &list[i].features[j]
			problem := func(format string, args ...any) {
				problems = append(problems, fmt.Sprintf("feature %q ", f.name)+fmt.Sprintf(format, args...))
			}
			for pattern := range strings.FieldsSeq(f.cases) {
				found := false
				for k := range all {
					if names(pattern, all[k].id) {
						found, named[all[k].id] = true, true
					}
				}
				if !found {
					problem("names the case %q, which does not exist", pattern)
				}
			}
			if strings.Trim(f.of, "CRJ") != "" || f.of == "" {
				problem("is of no document")
			}
			shown := f.cases+f.tests != ""
			switch f.state {
			case works:
				if !shown {
					problem("works, and nothing shows it")
				}
			case differs:
				if !shown || f.note == "" {
					problem("differs, and does not say how, or nothing shows it")
				}
			case absent:
				if shown || f.note == "" {
					problem("is not there, and does not say what to do instead, or something shows it")
				}
			default:
				problem("has no state")
			}
		}
	}
	for i := range all {
		if !named[all[i].id] {
			problems = append(problems, fmt.Sprintf("case %q is in no row of featurelist_test.go", all[i].id))
		}
	}
	return problems
}

func TestFeaturesAndCasesAgree(t *testing.T) {
	all := cases()
	for _, problem := range gaps(areas, all) {
		t.Error(problem)
	}
	one := []testCase{{id: "a-b"}}
	good := feature{name: "x", of: "CR", state: works, cases: "a-*"}
	if problems := gaps([]area{{features: []feature{good}}}, one); len(problems) > 0 {
		t.Errorf("the good example is refused: %s", problems)
	}
	for name, spoil := range map[string]func(*feature){
		"case that is unnamed": func(f *feature) { f.cases, f.tests = "", "`TestX`" }, "case that is not there": func(f *feature) { f.cases += " a-c" },
		"document": func(f *feature) { f.of = "X" }, "state": func(f *feature) { f.state = "" },
		"difference without a note": func(f *feature) { f.state = differs }, "absence that is shown": func(f *feature) { f.state, f.note = absent, "why" },
	} {
		f := good
		spoil(&f)
		if len(gaps([]area{{features: []feature{f}}}, one)) == 0 {
			t.Errorf("a bad %s passes", name)
		}
	}
	if len(gaps([]area{{features: []feature{good, {name: "y", of: "C", state: works}}}}, one)) == 0 {
		t.Error("a feature that works unseen passes")
	}
}

func TestCompatibilityPage(t *testing.T) {
	page := compatibilityPage(cases())
	if *write {
		if err := os.WriteFile(compatibilityPath, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	text, err := os.ReadFile(compatibilityPath)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(text), page); diff != "" {
		t.Errorf("docs/COMPATIBILITY.md is stale; run \"make generate\" (-file +code):\n%s", diff)
	}
}

// compatibilityPage is the whole text of docs/COMPATIBILITY.md.
func compatibilityPage(all []testCase) string {
	var b strings.Builder
	b.WriteString(pageHead)
	in := map[state][]string{}
	for i := range areas {
		for j := range areas[i].features {
			f := &areas[i].features[j]
			in[f.state] = append(in[f.state], f.name)
		}
	}
	fmt.Fprintf(&b, "%d features work, %d differ, %d are not there; %d cases show them. Not there:\n\n", len(in[works]), len(in[differs]), len(in[absent]), len(all))
	for _, name := range in[absent] {
		fmt.Fprintf(&b, "- %s\n", name)
	}
	for i := range areas {
		fmt.Fprintf(&b, "\n## %s\n\n| feature | of | state | what to know | shown by |\n|---|---|---|---|---|\n", areas[i].title)
		for j := range areas[i].features {
			f := &areas[i].features[j]
			var by []string
			if ids := f.shown(all); len(ids) > 0 {
				by = append(by, strings.Join(ids, ", "))
			}
			if f.tests != "" {
				by = append(by, f.tests)
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", f.name, strings.Join(strings.Split(f.of, ""), " "), f.state, f.note, strings.Join(by, "; "))
		}
	}
	peerSection(&b, all)
	caseSection(&b, all)
	return b.String()
}

// peerSection tells how the cases fare on other implementations.
func peerSection(b *strings.Builder, all []testCase) {
	b.WriteString(peerHead)
	for _, p := range peers("") {
		var same, other, skipped int
		for i := range all {
			switch {
			case isNoted(p.skips, all[i].id):
				skipped++
			case isNoted(p.differs, all[i].id):
				other++
			default:
				same++
			}
		}
		fmt.Fprintf(b, "\n### %s\n\n%d cases come to the same, %d to something else, %d cannot run there.\n", p.title, same, other, skipped)
		for _, list := range []struct {
			title, column string
			notes         []peerNote
		}{{"What is different", "what it does", p.differs}, {"What cannot run", "why", p.skips}} {
			fmt.Fprintf(b, "\n%s:\n\n| case | %s |\n|---|---|\n", list.title, list.column)
			for i := range list.notes {
				f := feature{cases: list.notes[i].cases}
				fmt.Fprintf(b, "| %s | %s |\n", strings.Join(f.shown(all), ", "), list.notes[i].why)
			}
		}
	}
}

func isNoted(notes []peerNote, id string) bool {
	_, ok := noted(notes, id)
	return ok
}

// caseSection lists the rules of all cases by area.
func caseSection(b *strings.Builder, all []testCase) {
	b.WriteString(caseHead)
	sorted := make([]*testCase, len(all))
	for i := range all {
		sorted[i] = &all[i]
	}
	slices.SortFunc(sorted, func(a, b *testCase) int { return strings.Compare(a.id, b.id) })
	for _, c := range sorted {
		fmt.Fprintf(b, "| %s | %s | %s |\n", c.id, c.rule, c.source)
	}
}
