package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/internal/cli/manual"
)

// TestCommandsPage holds docs/COMMANDS.md to the programs.
func TestCommandsPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/COMMANDS.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(page), "\n"), strings.Split(commands().Markdown(), "\n")); diff != "" {
		t.Errorf("the page is stale; `make generate` writes it anew (-have +want):\n%s", diff)
	}
}

func TestEveryCommandHasAPageForMan(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man1")
	if code, _, text := call(t, "runlot", "man", dir); code != ExitOK {
		t.Fatal(text)
	}
	for _, c := range commands().Commands() {
		text, err := os.ReadFile(filepath.Join(dir, manual.Name(c)+".1"))
		if err != nil {
			t.Error(err)
			continue
		}
		page := string(text)
		for _, section := range []string{".TH ", ".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION", ".SH EXAMPLES", ".SH EXIT STATUS"} {
			if !strings.Contains(page, section) {
				t.Errorf("the page of %s has no %s", c.CommandPath(), section)
			}
		}
		for _, e := range exits {
			if !strings.Contains(page, fmt.Sprintf("\\fB%d\\fR", e.Code)) {
				t.Errorf("the page of %s does not tell the exit code %d", c.CommandPath(), e.Code)
			}
		}
		for line := range strings.SplitSeq(page, "\n") {
			// A line that begins with a dot is a request; those of text are escaped.
			if strings.HasPrefix(line, ".") && !slices.Contains([]string{".TH", ".SH", ".TP", ".PP", ".nf", ".fi"}, strings.Fields(line)[0]) {
				t.Errorf("the page of %s has a line that man would not show: %s", c.CommandPath(), line)
			}
		}
	}
}

func TestTheManualIsNotWrittenAnywhere(t *testing.T) {
	if code, _, text := call(t, "runlot", "man"); code != ExitUsage || !strings.Contains(text, "needs the folder to write to") {
		t.Errorf("exit code %d: %s", code, text)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, text := call(t, "runlot", "man", filepath.Join(file, "man1")); code != ExitFailed || !strings.Contains(text, "cannot be written") {
		t.Errorf("exit code %d: %s", code, text)
	}
}
