// Package runlot_test holds the rules of the house as tests: who may import whom, how large things grow, and what no
// file may contain. They read the sources themselves, so that a changed file is never hidden by a cached result.
package runlot_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

const (
	module          = "github.com/runlot/runlot"
	maxFileLines    = 500
	maxPackageLines = 1_500
)

// room is a row of the import rule. What is not listed in a room's allowed prefixes may not be imported by it.
type room struct {
	// under is the folder of the room. The most specific room of a package counts.
	under string
	// unit says that each folder directly below the room is a unit of its own: it may import itself and what is below
	// it, and no sibling.
	unit bool
	// may lists the folders of this module that packages of the room may import, beside their own unit.
	may []string
	// third allows modules other than this one and the standard library.
	third bool
}

// The rule: imports go downwards only. A test may stand on the real parts it needs, so it is bound by this table in core
// alone, where a test has to be as pure as the code.
var rooms = []room{
	{under: "internal/core", may: []string{"internal/core"}},
	{under: "internal/config", may: []string{"internal/core", "internal/config"}, third: true},
	{under: "internal/engine", unit: true, may: []string{"internal/core"}},
	// The contract of a store, as tests that every store runs: it imports what tests do.
	{under: "internal/engine/broker/storetest", may: []string{"internal/core", "internal/engine/broker"}, third: true},
	{under: "internal/engine/ledger/ledgertest", may: []string{"internal/core", "internal/engine/ledger"}, third: true},
	{under: "internal/engine/series/seriestest", may: []string{"internal/core", "internal/engine/series"}, third: true},
	{under: "internal/adapter", unit: true, may: []string{"internal/core", "internal/engine"}, third: true},
	// The real PostgreSQL and workerd for tests, which find the programs as the product does.
	{
		under: "internal/adapter/postgres/cluster/clustertest", third: true,
		may: []string{"internal/core", "internal/adapter/postgres/cluster", "internal/adapter/binaries"},
	},
	{under: "internal/adapter/workerd/workerdtest", may: []string{"internal/core", "internal/adapter/workerd", "internal/adapter/binaries"}},
	{under: "internal/server", unit: true, may: []string{"internal/core", "internal/engine", "client"}, third: true},
	// What others may import to call the API: nothing but the standard library, and its own parts.
	{under: "client", may: []string{"client"}},
	{
		under: "internal/daemon", third: true,
		may: []string{"internal/core", "internal/config", "internal/engine", "internal/adapter", "internal/server", "internal/daemon"},
	},
	// The command line talks to the API; only "dev" runs a daemon in its own process.
	{under: "internal/cli", may: []string{"internal/core", "internal/config", "internal/daemon", "internal/cli", "client", "schema"}, third: true},
	{under: "cmd", unit: true, may: []string{"internal/core", "internal/cli", "internal/daemon"}},
	// The JSON Schema of runlot.json, for editors; embedded for the tests that hold it to the compiler.
	{under: "schema"},
	// Programs and suites that stand outside the product may reach all of it.
	{under: "test", may: []string{"internal", "test"}, third: true},
	{under: "bench", may: []string{"internal", "test", "bench"}, third: true},
	{under: "examples", may: []string{"examples"}, third: true},
}

// source is one parsed Go file of the module.
type source struct {
	path      string
	text      string
	set       *token.FileSet
	file      *ast.File
	test      bool
	generated bool
}

func (s *source) dir() string { return path.Dir(s.path) }

func (s *source) at(pos token.Pos) string {
	return fmt.Sprintf("%s:%d", s.path, s.set.Position(pos).Line)
}

// lines counts as an editor does: a final line feed ends the last line.
func (s *source) lines() int {
	return strings.Count(strings.TrimSuffix(s.text, "\n"), "\n") + 1
}

// read parses every Go file of the tree that belongs to this module.
func read(t *testing.T, tree fs.FS) []*source {
	t.Helper()
	var sources []*source
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name == "." {
				return nil
			}
			_, nested := fs.Stat(tree, path.Join(name, "go.mod"))
			hidden := strings.HasPrefix(entry.Name(), ".") || strings.HasPrefix(entry.Name(), "_")
			if hidden || nested == nil || slices.Contains([]string{"node_modules", "testdata", "vendor"}, entry.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(name) != ".go" {
			return nil
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		sources = append(sources, &source{
			path: name, text: string(text), set: set, file: file,
			test: strings.HasSuffix(name, "_test.go"), generated: ast.IsGenerated(file),
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return sources
}

func within(dir, folder string) bool { return dir == folder || strings.HasPrefix(dir, folder+"/") }

// imports checks the table of rooms.
func imports(sources []*source) []string {
	var problems []string
	for _, s := range sources {
		var r *room
		for i := range rooms {
			if within(s.dir(), rooms[i].under) {
				r = &rooms[i]
			}
		}
		if r == nil {
			if s.dir() != "." || !s.test {
				problems = append(problems, s.path+": no room in floors_test.go covers this folder")
			}
			continue
		}
		if s.test && r.under != "internal/core" {
			continue
		}
		for _, spec := range s.file.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil || r.allows(s, name) {
				continue
			}
			problems = append(problems, fmt.Sprintf("%s: %s may not import %s", s.at(spec.Pos()), r.under, name))
		}
	}
	return problems
}

func (r *room) allows(s *source, imported string) bool {
	target, own := strings.CutPrefix(imported, module+"/")
	if !own {
		if strings.HasPrefix(imported, "golang.org/x/sync/") {
			return true // kept by Go's own team, and as pure as the standard library
		}
		standard := imported == "C" || !strings.Contains(strings.SplitN(imported, "/", 2)[0], ".")
		return standard || r.third || s.test
	}
	for _, folder := range r.may {
		if within(target, folder) {
			return true
		}
	}
	if !r.unit {
		return false
	}
	below := strings.TrimPrefix(s.dir(), r.under+"/")
	return within(target, r.under+"/"+strings.SplitN(below, "/", 2)[0])
}

// packageDocs wants a doc comment on every package, which starts with its name as godoc expects.
func packageDocs(sources []*source) []string {
	documented := map[string]bool{}
	for _, s := range sources {
		if s.test {
			continue
		}
		want := "Package " + s.file.Name.Name + " "
		if s.file.Name.Name == "main" {
			want = "Command "
		}
		documented[s.dir()] = documented[s.dir()] || strings.HasPrefix(s.file.Doc.Text(), want)
	}
	var problems []string
	for dir, ok := range documented {
		if !ok {
			problems = append(problems, dir+": no file has a package doc (\"Package name …\", or \"Command …\" for a program)")
		}
	}
	slices.Sort(problems)
	return problems
}

// The words are put together so that this file does not contain them.
var marker = regexp.MustCompile(`\b(` + strings.Join([]string{"TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"}, "|") + `)\b`)

// markers finds notes about unfinished work: what is on main is finished, the rest is an issue.
func markers(sources []*source) []string {
	var problems []string
	for _, s := range sources {
		line := 0
		for text := range strings.Lines(s.text) {
			line++
			if found := marker.FindString(text); found != "" && !s.generated {
				problems = append(problems, fmt.Sprintf("%s:%d: %s", s.path, line, found))
			}
		}
	}
	return problems
}

// sleeps finds every use of the Sleep of package time, under whichever name it is imported: code waits for a signal or a
// timer that it can be stopped with, tests for a signal. In a file of tests that run in synctest bubbles a sleep is fine:
// the clock there is a fake one that moves when everything waits.
func sleeps(sources []*source) []string {
	var problems []string
	for _, s := range sources {
		name, bubble := "", false
		for _, spec := range s.file.Imports {
			if spec.Path.Value == `"testing/synctest"` {
				bubble = s.test
			}
			if spec.Path.Value == `"time"` {
				name = "time"
				if spec.Name != nil {
					name = spec.Name.Name
				}
			}
		}
		if name == "" || bubble {
			continue
		}
		if name == "." {
			problems = append(problems, s.path+": imports the package time with a dot")
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			selector, ok := n.(*ast.SelectorExpr)
			if !ok || selector.Sel.Name != "Sleep" {
				return true
			}
			if base, ok := selector.X.(*ast.Ident); ok && base.Name == name {
				problems = append(problems, s.at(n.Pos())+": sleeps; wait for a signal or a timer instead")
			}
			return true
		})
	}
	return problems
}

func fileSizes(sources []*source) []string {
	var problems []string
	for _, s := range sources {
		if n := s.lines(); n > maxFileLines && !s.generated {
			problems = append(problems, fmt.Sprintf("%s: %d lines, the most is %d", s.path, n, maxFileLines))
		}
	}
	return problems
}

func packageSizes(sources []*source) []string {
	lines := map[string]int{}
	for _, s := range sources {
		if !s.test && !s.generated {
			lines[s.dir()] += s.lines()
		}
	}
	var problems []string
	for dir, n := range lines {
		if n > maxPackageLines {
			problems = append(problems, fmt.Sprintf("%s: %d lines without tests, the most is %d", dir, n, maxPackageLines))
		}
	}
	slices.Sort(problems)
	return problems
}

var vague = regexp.MustCompile(`^(utils?|common|mocks?|helpers?|misc|shared)$|util$|utils$|mock$|mocks$`)

// packageNames refuses names that say nothing about what is inside.
func packageNames(sources []*source) []string {
	var problems []string
	for _, s := range sources {
		for _, name := range []string{s.file.Name.Name, path.Base(s.dir())} {
			if vague.MatchString(name) {
				problems = append(problems, fmt.Sprintf("%s: a package named %q; name it for what it does", s.path, name))
				break
			}
		}
	}
	return problems
}

// rule is a rule of the house with examples that it must refuse, each a file's path and text, and one that it must let
// pass. The examples prove that the rule can fail.
type rule struct {
	name  string
	check func([]*source) []string
	bad   []fstest.MapFS
	good  fstest.MapFS
}

func files(pairs ...string) fstest.MapFS {
	tree := fstest.MapFS{}
	for i := 0; i < len(pairs); i += 2 {
		tree[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1])}
	}
	return tree
}

func importing(names ...string) string {
	text := "package p\n"
	for _, name := range names {
		if strings.HasPrefix(name, "internal/") || strings.HasPrefix(name, "test/") {
			name = module + "/" + name
		}
		text += fmt.Sprintf("import _ %q\n", name)
	}
	return text
}

func long(lines int) string { return "package p\n" + strings.Repeat("// x\n", lines-1) }

var rules = []rule{
	{
		name: "imports", check: imports,
		bad: []fstest.MapFS{
			files("internal/core/queue/a.go", importing("internal/config/source")),
			files("internal/core/queue/a.go", importing("github.com/some/library")),
			files("internal/core/queue/a_test.go", importing("internal/engine/broker")),
			files("internal/config/wrangler/a.go", importing("internal/engine/broker")),
			files("internal/engine/dispatch/a.go", importing("internal/engine/broker")),
			files("internal/engine/broker/lane/a.go", importing("internal/engine/dispatch")),
			files("internal/engine/broker/a.go", importing("internal/adapter/postgres")),
			files("internal/engine/broker/a.go", importing("github.com/jackc/pgx/v5")),
			files("internal/engine/broker/a.go", importing("internal/config/source")),
			files("internal/adapter/postgres/a.go", importing("internal/adapter/binaries")),
			files("internal/adapter/postgres/cluster/a.go", importing("internal/adapter/binaries")),
			files("internal/adapter/postgres/cluster/clustertest/a.go", importing("internal/adapter/workerd")),
			files("internal/adapter/post/a.go", importing("internal/adapter/postgres")),
			files("internal/adapter/postgres/a.go", importing("internal/server/api")),
			files("internal/adapter/workerd/a.go", importing("internal/cli")),
			files("internal/adapter/workerd/workerdtest/a.go", importing("internal/adapter/postgres")),
			files("internal/adapter/workerd/a.go", importing("internal/daemon")),
			files("internal/server/api/a.go", importing("internal/adapter/postgres")),
			files("internal/server/api/a.go", importing("internal/server/binding")),
			files("internal/cli/a.go", importing("internal/engine/broker")),
			files("internal/cli/a.go", importing("internal/adapter/postgres")),
			files("internal/daemon/a.go", importing("internal/cli")),
			files("cmd/runlot/main.go", importing("internal/engine/broker")),
			files("internal/core/queue/a.go", importing("internal/corelike")),
			files("internal/nowhere/a.go", importing()),
			files("root.go", importing()),
		},
		good: files(
			"internal/core/app/a.go", importing("time", "internal/core/queue"),
			"internal/core/app/a_test.go", importing("pgregory.net/rapid", "internal/core/queue"),
			"internal/config/wrangler/a.go", importing("internal/core/app", "internal/config/source", "github.com/pelletier/go-toml/v2"),
			"internal/engine/broker/a.go", importing("internal/core/queue", "internal/engine/broker/lane"),
			"internal/engine/broker/a_test.go", importing("internal/adapter/postgres"),
			"internal/adapter/postgres/a.go", importing("internal/engine/broker", "internal/adapter/postgres/cluster", "github.com/jackc/pgx/v5"),
			"internal/adapter/postgres/cluster/a.go", importing("internal/adapter/postgres/sql"),
			"internal/adapter/postgres/cluster/clustertest/a.go", importing("internal/adapter/binaries"),
			"internal/server/api/a.go", importing("internal/engine/broker", "internal/core/fault"),
			"internal/daemon/a.go", importing("internal/adapter/postgres", "internal/server/api", "internal/config/source"),
			"internal/cli/a.go", importing("internal/daemon"),
			"cmd/runlot/main.go", importing("os", "internal/cli"),
			"test/simulation/a.go", importing("internal/engine/broker", "test/store"),
			"floors_test.go", importing("github.com/some/library"),
		),
	},
	{
		name: "package docs", check: packageDocs,
		bad: []fstest.MapFS{
			files("a/a.go", "package a\n"),
			files("a/a.go", "// Something else.\npackage a\n"),
			files("a/a.go", "// Package a is detached.\n\npackage a\n"),
			files("a/a.go", "package a\n", "a/a_test.go", "// Package a is only documented in a test.\npackage a\n"),
			files("cmd/x/main.go", "package main\n"),
		},
		good: files(
			"a/a.go", "package a\n", "a/doc.go", "// Package a is documented.\npackage a\n",
			"cmd/x/main.go", "// Command x does something.\npackage main\n", "b/b_test.go", "package b_test\n",
		),
	},
	{
		name: "markers", check: markers,
		bad: []fstest.MapFS{
			files("a/a.go", "package a\n\n// "+"TO"+"DO: later\n"), files("a/a_test.go", "package a // "+"FIX"+"ME\n"),
			files("a/a.go", "package a\n\n/* "+"XX"+"X */\n"), files("a/a.go", "package a\n\nconst s = \""+"HA"+"CK\"\n"),
		},
		good: files("a/a.go", "package a\n\n// Mastodons and \""+"XX"+"XX\" are fine.\n"),
	},
	{
		name: "sleeps", check: sleeps,
		bad: []fstest.MapFS{
			files("a/a.go", "package a\nimport \"time\"\nfunc f() { time.Sleep(1) }\n"),
			files("a/a_test.go", "package a\nimport \"time\"\nvar f = time.Sleep\n"),
			files("a/a.go", "package a\nimport clock \"time\"\nfunc f() { clock.Sleep(1) }\n"),
			files("a/a.go", "package a\nimport . \"time\"\nfunc f() { Sleep(1) }\n"),
			files("a/a.go", "package a\nimport \"testing/synctest\"\nimport \"time\"\nfunc f() { time.Sleep(1) }\n"),
		},
		good: files(
			"a/a.go", "package a\nimport \"time\"\n// time.Sleep is not used.\nfunc f() { bed.Sleep(time.Now()) }\n",
			"a/a_test.go", "package a\nimport \"testing/synctest\"\nimport \"time\"\nfunc f() { time.Sleep(1) }\n",
		),
	},
	{
		name: "file sizes", check: fileSizes,
		bad: []fstest.MapFS{files("a/a.go", long(maxFileLines+1)), files("a/a_test.go", long(maxFileLines+1))},
		good: files(
			"a/a.go", long(maxFileLines), "b/b.go", "// Code generated by x. DO NOT EDIT.\n"+long(900),
			"examples/x/node_modules/p/p.go", long(900), "tools/go.mod", "module tools\n", "tools/t.go", long(900),
		),
	},
	{
		name: "package sizes", check: packageSizes,
		bad: []fstest.MapFS{
			files("a/a.go", long(maxPackageLines-10), "a/b.go", long(11)),
		},
		good: files(
			"a/a.go", long(500), "a/b.go", long(500), "a/c.go", long(500), "a/a_test.go", long(400), "a/b/b.go", long(400),
			"a/g.go", "// Code generated by x. DO NOT EDIT.\n"+long(400),
		),
	},
	{
		name: "package names", check: packageNames,
		bad: []fstest.MapFS{
			files("util/a.go", "package util\n"), files("common/a.go", "package c\n"), files("a/a.go", "package mock\n"),
			files("sqlutil/a.go", "package sqlutil\n"), files("a/mocks/a_test.go", "package mocks\n"),
		},
		good: files("utilization/a.go", "package utilization\n", "commons/a.go", "package commons\n"),
	},
}

func TestFloors(t *testing.T) {
	house := read(t, os.DirFS("."))
	if len(house) < 20 {
		t.Fatalf("only %d Go files found; does the test still read the tree?", len(house))
	}
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			for _, problem := range r.check(house) {
				t.Error(problem)
			}
			for i, tree := range r.bad {
				if len(r.check(read(t, tree))) == 0 {
					t.Errorf("bad example %d passes: the rule cannot fail", i)
				}
			}
			for _, problem := range r.check(read(t, r.good)) {
				t.Error("the good example is refused: ", problem)
			}
		})
	}
}
