package cli

import (
	"os"
	"strings"
	"testing"
)

// TestOperatingTellsTheSettings holds the table of docs/OPERATING.md to the program.
func TestOperatingTellsTheSettings(t *testing.T) {
	page, err := os.ReadFile("../../docs/OPERATING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, begun := strings.Cut(string(page), "compares them -->\n")
	table, _, ended := strings.Cut(rest, "<!-- end of settings -->")
	_, set := celldCommand("v0")
	if want := set.Table(); !begun || !ended || table != want {
		t.Errorf("the table is stale; it should be:\n%s", want)
	}
}
