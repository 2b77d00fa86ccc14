package main

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPageIsFresh(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/METRICS.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(text), page()); diff != "" {
		t.Errorf("docs/METRICS.md is stale; run \"make generate\" (-file +code):\n%s", diff)
	}
}
