package queue

import (
	"bytes"
	"testing"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
)

func draft(size int) Draft { return Draft{Format: JSON, Body: bytes.Repeat([]byte("x"), size)} }

func drafts(count, size int) []Draft {
	all := make([]Draft, count)
	for i := range all {
		all[i] = draft(size)
	}
	return all
}

// wantFault compares kind, code and text; an empty message means that nothing may be refused.
func wantFault(t *testing.T, got *fault.Error, kind fault.Kind, code, message string) {
	t.Helper()
	switch {
	case got == nil && message == "":
	case got == nil:
		t.Errorf("accepted, want %q (%s)", message, code)
	case got.Kind != kind || got.Code != code || got.Message != message:
		t.Errorf("refused with %s, %s, %q; want %s, %s, %q", got.Kind, got.Code, got.Message, kind, code, message)
	}
}

func TestCheckDraft(t *testing.T) {
	tests := []struct {
		name    string
		dialect Dialect
		size    int
		delay   *time.Duration
		kind    fault.Kind
		code    string
		message string
	}{
		{name: "empty", dialect: Runlot},
		{name: "largest", dialect: Runlot, size: 131_072},
		{name: "too large", dialect: Runlot, size: 131_073, kind: fault.Limit, code: "10204", message: "message length of 131073 bytes exceeds limit of 131072"},
		{name: "largest", dialect: Wrangler, size: 128_000},
		{name: "too large", dialect: Wrangler, size: 128_001, kind: fault.Limit, code: "10204", message: "message length of 128001 bytes exceeds limit of 128000"},
		{name: "no delay", dialect: Runlot, size: 1, delay: new(time.Duration(0))},
		{name: "longest delay", dialect: Runlot, size: 1, delay: new(86_400 * time.Second)},
		{name: "too long a delay", dialect: Runlot, size: 1, delay: new(86_401 * time.Second), kind: fault.Invalid, code: "10203", message: "delay of 86401 seconds is outside 0 to 86400"},
		{name: "a fraction too long", dialect: Runlot, size: 1, delay: new(86_400*time.Second + 500*time.Millisecond), kind: fault.Invalid, code: "10203", message: "delay of 86400.5 seconds is outside 0 to 86400"},
		{name: "negative delay", dialect: Wrangler, size: 1, delay: new(-time.Second), kind: fault.Invalid, code: "10203", message: "delay of -1 seconds is outside 0 to 86400"},
	}
	for _, test := range tests {
		t.Run(string(test.dialect)+"/"+test.name, func(t *testing.T) {
			d := draft(test.size)
			d.Delay = test.delay
			wantFault(t, CheckDraft(LimitsOf(test.dialect), &d), test.kind, test.code, test.message)
		})
	}
}

func TestCheckBatch(t *testing.T) {
	badDelay := drafts(3, 10)
	badDelay[2].Delay = new(-time.Second)
	tests := []struct {
		name    string
		dialect Dialect
		drafts  []Draft
		kind    fault.Kind
		code    string
		message string
	}{
		{name: "nothing", dialect: Runlot, kind: fault.Limit, code: "10206", message: "batch message count of 0 is below the minimum of 1"},
		{name: "one", dialect: Runlot, drafts: drafts(1, 1)},
		{name: "most messages", dialect: Runlot, drafts: drafts(100, 1)},
		{name: "too many messages", dialect: Runlot, drafts: drafts(101, 1), kind: fault.Limit, code: "10206", message: "batch message count of 101 exceeds limit of 100"},
		{name: "most bytes", dialect: Runlot, drafts: drafts(2, 131_072)},
		{name: "too many bytes", dialect: Runlot, drafts: append(drafts(2, 131_072), draft(1)), kind: fault.Limit, code: "10205", message: "batch size of 262145 bytes exceeds limit of 262144 bytes"},
		{name: "most bytes", dialect: Wrangler, drafts: drafts(2, 128_000)},
		{name: "too many bytes", dialect: Wrangler, drafts: append(drafts(2, 128_000), draft(1)), kind: fault.Limit, code: "10205", message: "batch size of 256001 bytes exceeds limit of 256000 bytes"},
		{name: "one too large", dialect: Wrangler, drafts: append(drafts(1, 1), draft(128_001)), kind: fault.Limit, code: "10204", message: "message 1: message length of 128001 bytes exceeds limit of 128000"},
		{name: "one with a bad delay", dialect: Runlot, drafts: badDelay, kind: fault.Invalid, code: "10203", message: "message 2: delay of -1 seconds is outside 0 to 86400"},
	}
	for _, test := range tests {
		t.Run(string(test.dialect)+"/"+test.name, func(t *testing.T) {
			wantFault(t, CheckBatch(LimitsOf(test.dialect), test.drafts), test.kind, test.code, test.message)
		})
	}
}
