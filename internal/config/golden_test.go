package config_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/tools/txtar"

	"github.com/runlot/runlot/internal/config"
	"github.com/runlot/runlot/internal/config/source"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/schema"
)

var update = flag.Bool("update", false, "rewrite what the cases expect")

// expectations are the files of a case that say what comes out; every other file goes in.
var expectations = []string{"manifest.json", "secrets.json", "warnings", "problems", "fault"}

// TestGolden loads the folder that each case describes. The head of a case is a comment; its lines of the form
// "key: value" choose what a person would by flags (config, env), and "schema: silent" marks a runlot.json whose mistake
// the JSON Schema cannot express.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 80 {
		t.Errorf("there are %d cases; want at least 80", len(files))
	}
	validator := compileSchema(t)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { golden(t, file, validator) })
	}
}

func golden(t *testing.T, file string, validator *jsonschema.Schema) {
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var inputs, want []txtar.File
	for _, f := range archive.Files {
		if slices.Contains(expectations, f.Name) {
			want = append(want, f)
			continue
		}
		inputs = append(inputs, f)
		path := filepath.Join(dir, f.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	head := header(archive.Comment)
	loaded, err := config.Load(dir, config.Choice{File: head["config"], Env: head["env"]})
	got := outcome(t, dir, loaded, err)
	if bad := strings.HasPrefix(filepath.Base(file), "bad-"); bad != (err != nil) {
		t.Errorf("the case is bad: %t; the error is: %v", bad, err)
	}
	checkSchema(t, validator, inputs, err == nil, head["schema"] == "silent")
	if *update {
		archive.Files = slices.Concat(inputs, got)
		if err := os.WriteFile(file, txtar.Format(archive), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(txtar.Format(&txtar.Archive{Files: want})), string(txtar.Format(&txtar.Archive{Files: got}))); diff != "" {
		t.Errorf("other than expected (-want +got):\n%s", diff)
	}
}

func header(comment []byte) map[string]string {
	head := map[string]string{}
	for line := range strings.Lines(string(comment)) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ": "); ok && !strings.Contains(key, " ") {
			head[key] = value
		}
	}
	return head
}

func outcome(t *testing.T, dir string, loaded *config.Loaded, err error) []txtar.File {
	t.Helper()
	file := func(name string, text string) txtar.File {
		return txtar.File{Name: name, Data: []byte(strings.ReplaceAll(strings.TrimRight(text, "\n"), dir, "DIR") + "\n")}
	}
	if problems, ok := errors.AsType[source.Problems](err); ok {
		if fault.KindOf(err) != fault.Invalid || problems.Errors() == 0 {
			t.Errorf("problems of kind %q with %d errors", fault.KindOf(err), problems.Errors())
		}
		return []txtar.File{file("problems", problems.Error())}
	}
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return []txtar.File{file("fault", string(f.Kind)+" "+f.Code+"\n"+f.Message+"\n"+f.Hint)}
	}
	if err != nil {
		t.Fatalf("an error that is no fault: %v", err)
	}
	files := []txtar.File{file("manifest.json", encode(t, loaded.Manifest))}
	if len(loaded.Secrets) > 0 {
		files = append(files, file("secrets.json", encode(t, loaded.Secrets)))
	}
	if len(loaded.Warnings) > 0 {
		files = append(files, file("warnings", source.Problems(loaded.Warnings).Error()))
	}
	return files
}

func encode(t *testing.T, v any) string {
	t.Helper()
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema.Runlot))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(schema.ID, document); err != nil {
		t.Fatal(err)
	}
	validator, err := c.Compile(schema.ID)
	if err != nil {
		t.Fatal(err)
	}
	return validator
}

// checkSchema wants the schema to agree with the compiler about a runlot.json that can be parsed.
func checkSchema(t *testing.T, validator *jsonschema.Schema, inputs []txtar.File, good, silent bool) {
	t.Helper()
	i := slices.IndexFunc(inputs, func(f txtar.File) bool { return f.Name == "runlot.json" })
	if i < 0 {
		return
	}
	document, problems := source.ParseJSONC("runlot.json", inputs[i].Data)
	if problems != nil {
		return
	}
	text, _ := document.Root.JSON()
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	err = validator.Validate(value)
	switch {
	case (good || silent) && err != nil:
		t.Errorf("the schema refuses it: %v", err)
	case !good && !silent && err == nil:
		t.Error("the schema accepts it")
	case good && silent:
		t.Error("marked schema: silent, but nothing is wrong with it")
	}
}
