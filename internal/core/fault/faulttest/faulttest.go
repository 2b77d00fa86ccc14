// Package faulttest checks in tests that an error is the fault that a person is meant to see.
package faulttest

import (
	"strings"
	"testing"

	"github.com/runlot/runlot/internal/core/fault"
)

// Want checks an error's kind and code, and that its message or hint has each of the words. No error at all ends the
// test.
func Want(tb testing.TB, err error, kind fault.Kind, code string, words ...string) {
	tb.Helper()
	if err == nil {
		tb.Fatalf("no error, want %s", code)
	}
	f := fault.From(err)
	if f.Kind != kind || f.Code != code {
		tb.Errorf("fault %s/%s, want %s/%s: %s", f.Kind, f.Code, kind, code, fault.Detail(err))
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			tb.Errorf("%q lacks %q", err, word)
		}
	}
}
