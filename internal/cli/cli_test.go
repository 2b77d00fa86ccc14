package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/runlot/runlot/internal/cli/manual"
)

// commands are all commands of both programs.
func commands() *manual.Book { return book("v0") }

// call runs a command line in this process, and returns its exit code and what it wrote to either stream.
func call(t *testing.T, line ...string) (code int, stdout, stderr string) {
	t.Helper()
	dir := t.TempDir()
	streams := make([]*os.File, 2)
	for i, name := range []string{"out", "err"} {
		file, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		streams[i] = file
	}
	in, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	program := Runlot
	if line[0] == "celld" {
		program = Celld
	}
	code = program("v0", line[1:], in, streams[0], streams[1])
	texts := make([]string, 2)
	for i, file := range streams {
		text, err := os.ReadFile(file.Name())
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = string(text)
	}
	return code, texts[0], texts[1]
}

func TestHelpFitsAnOrdinaryTerminal(t *testing.T) {
	all := commands().Commands()
	if len(all) < 50 {
		t.Fatalf("there are only %d commands", len(all))
	}
	for _, c := range all {
		code, text, _ := call(t, append(strings.Fields(c.CommandPath()), "--help")...)
		if code != ExitOK {
			t.Errorf("%s --help exits with %d", c.CommandPath(), code)
		}
		if !strings.Contains(text, "Usage:") {
			t.Errorf("%s --help shows no usage: %q", c.CommandPath(), text)
		}
		if c.Root().Name() == "celld" && strings.Contains(text, "runlot dev") {
			t.Errorf("%s --help speaks of another program: %s", c.CommandPath(), text)
		}
		if _, example, ok := strings.Cut(text, "Examples:"); !ok || !strings.Contains(example, c.CommandPath()) {
			t.Errorf("%s --help has no example of itself", c.CommandPath())
		}
		for line := range strings.SplitSeq(text, "\n") {
			if width := utf8.RuneCountInString(line); width > 80 {
				t.Errorf("%s --help has a line of %d columns: %s", c.CommandPath(), width, line)
			}
		}
	}
}
