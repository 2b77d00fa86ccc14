package conformance_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
)

var summarize = flag.Bool("summary", false, "print a table of the features, with how many of their cases passed")

// catalogue lists the cases as a table.
func catalogue(all []testCase) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d cases\n| case | rule | source | fixture | rejects |\n|---|---|---|---|---|\n", len(all))
	for i := range all {
		c := &all[i]
		names := make([]string, len(c.wrong))
		for j, w := range c.wrong {
			names[j] = w.name
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", c.id, c.rule, c.source, c.app, strings.Join(names, "; "))
	}
	return b.String()
}

var (
	caseID = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	// A source is a document that anybody can find, with a section or page; LIMITS.md is one table. Several stand with
	// semicolons between them.
	sourceForm = regexp.MustCompile(`^((Runlot document|celld document|Cloudflare Queues docs|Workers docs|workerd|GUARANTEES\.md|CONFIGURATION\.md), [^;§]+|LIMITS\.md)$`)
)

// audit tells what a catalogue lacks.
func audit(all []testCase) []string {
	var problems []string
	seen, rules := map[string]bool{}, map[string]string{}
	fixtures := slices.Concat(developmentApps, productionApps)
	for i := range all {
		c := &all[i]
		lacks := func(format string, args ...any) {
			problems = append(problems, fmt.Sprintf("case %q ", c.id)+fmt.Sprintf(format, args...))
		}
		if !caseID.MatchString(c.id) || seen[c.id] {
			lacks("needs an id of its own, in lower case")
		}
		seen[c.id] = true
		if c.rule == "" || rules[c.rule] != "" {
			lacks("needs a rule that no other case has, and %q has it", rules[c.rule])
		}
		rules[c.rule] = c.id
		for source := range strings.SplitSeq(c.source, "; ") {
			if !sourceForm.MatchString(source) {
				lacks("needs a source that is a public document and its section; %q is none", source)
			}
		}
		if !slices.Contains(fixtures, c.app) {
			lacks("needs a fixture that runs; %q does not", c.app)
		}
		if c.drive == nil || c.check == nil {
			lacks("needs a drive and a check")
		}
		names := map[string]bool{}
		for _, w := range c.wrong {
			if w.name == "" || names[w.name] || w.apply == nil {
				lacks("has the wrong behaviour %q without a name of its own or without an effect", w.name)
			}
			names[w.name] = true
		}
		if len(names) == 0 {
			lacks("names no wrong behaviour")
		}
	}
	return problems
}

func TestCatalogueIsComplete(t *testing.T) {
	for _, problem := range audit(cases()) {
		t.Error(problem)
	}
	good := func() testCase {
		return testCase{
			id: "a-b", rule: "it holds", source: cloudflare + ", Batching; " + limits, app: "plan", drive: func(*run) {},
			check: func(*observation) error { return nil }, wrong: []wrong{cut("it does not", 0)},
		}
	}
	if problems := audit([]testCase{good()}); len(problems) > 0 {
		t.Errorf("the good example is refused: %s", problems)
	}
	for name, spoil := range map[string]func(*testCase){
		"id": func(c *testCase) { c.id = "A" }, "rule": func(c *testCase) { c.rule = "" }, "source": func(c *testCase) { c.source = cloudflare },
		"section": func(c *testCase) { c.source = cloudflare + " §1.8" }, "place": func(c *testCase) { c.source = "notes, Settling" },
		"fixture": func(c *testCase) { c.app = "none" }, "drive": func(c *testCase) { c.drive = nil }, "check": func(c *testCase) { c.check = nil },
		"wrong": func(c *testCase) { c.wrong = nil }, "two wrongs of a name": func(c *testCase) { c.wrong = append(c.wrong, c.wrong...) },
	} {
		c := good()
		spoil(&c)
		if len(audit([]testCase{c})) == 0 {
			t.Errorf("a case with a bad %s passes", name)
		}
	}
	if len(audit([]testCase{good(), good()})) != 2 {
		t.Error("two cases of the same id and rule pass")
	}
}

// verdicts are the results of the cases that ran.
type verdicts struct {
	mu     sync.Mutex
	passed map[string]bool // guarded by mu
}

// keep is called once for each case, at its end.
func (v *verdicts) keep(id string, passed bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.passed == nil {
		v.passed = map[string]bool{}
	}
	v.passed[id] = passed
}

// print writes a line for each feature, and one for each case that failed.
func (v *verdicts) print(all []testCase) {
	v.mu.Lock()
	defer v.mu.Unlock()
	_, _ = os.Stdout.WriteString(v.table(all))
}

// table is what print writes. mu is held.
func (v *verdicts) table(all []testCase) string {
	type line struct {
		passed, ran int
		failed      []string
	}
	var order []string
	lines := map[string]*line{}
	total := &line{}
	for i := range all {
		name := areaOf(all[i].id)
		if lines[name] == nil {
			lines[name] = &line{}
			order = append(order, name)
		}
		passed, ran := v.passed[all[i].id]
		for _, l := range []*line{lines[name], total} {
			switch {
			case passed:
				l.passed++
				l.ran++
			case ran:
				l.ran++
				l.failed = append(l.failed, all[i].id)
			}
		}
	}
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "feature\tpassed\tfailed\n")
	for _, name := range append(order, "") {
		l := lines[name]
		if name == "" {
			name, l = "all", total
		}
		if l.ran > 0 {
			fmt.Fprintf(w, "%s\t%d of %d\t%s\n", name, l.passed, l.ran, strings.Join(l.failed, ", "))
		}
	}
	_ = w.Flush()
	return b.String()
}

func TestVerdicts(t *testing.T) {
	v := verdicts{}
	v.keep("settle-throw", true)
	v.keep("settle-return", false)
	want := areaOf("settle-throw")
	got := v.table([]testCase{{id: "settle-throw"}, {id: "settle-return"}, {id: "batch-full"}})
	lines := strings.Split(strings.TrimSpace(got), "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[1], want) || !strings.HasSuffix(lines[1], "1 of 2  settle-return") {
		t.Errorf("table:\n%s", got)
	}
}
