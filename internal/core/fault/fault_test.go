package fault_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/runlot/runlot/internal/core/fault"
)

func TestErrorIsForAPerson(t *testing.T) {
	f := fault.New(fault.Conflict, "port_in_use", "port %d is in use", 8787)
	if got := f.Error(); got != "port 8787 is in use" {
		t.Errorf("message %q", got)
	}
	f = f.WithHint("choose another with --%s", "port").WithCause(io.ErrUnexpectedEOF)
	if got := f.Error(); got != "port 8787 is in use — choose another with --port" {
		t.Errorf("message with hint %q", got)
	}
	if got := fault.Detail(f); got != f.Error()+": unexpected EOF" {
		t.Errorf("detail %q", got)
	}
	if !errors.Is(f, io.ErrUnexpectedEOF) {
		t.Error("the cause is not found by errors.Is")
	}
}

func TestWithCopies(t *testing.T) {
	plain := fault.New(fault.Limit, "10204", "too large")
	hinted, caused := plain.WithHint("send less"), plain.WithCause(io.EOF)
	if plain.Hint != "" || plain.Cause != nil {
		t.Errorf("the original changed: %+v", plain)
	}
	if hinted.Hint != "send less" || hinted.Cause != nil || hinted.Code != "10204" || hinted.Kind != fault.Limit {
		t.Errorf("with hint: %+v", hinted)
	}
	if !errors.Is(caused.Cause, io.EOF) || caused.Hint != "" || caused.Message != "too large" {
		t.Errorf("with cause: %+v", caused)
	}
}

func TestFrom(t *testing.T) {
	if got := fault.From(nil); got != nil {
		t.Errorf("From(nil) = %v", got)
	}
	f := fault.New(fault.NotFound, "app_not_found", "no such app")
	for _, err := range []error{f, fmt.Errorf("deploy: %w", f), errors.Join(io.EOF, fmt.Errorf("twice: %w", f))} {
		if got := fault.From(err); got != f {
			t.Errorf("From(%v) = %v", err, got)
		}
	}
	secret := errors.New("password=hunter2")
	got := fault.From(secret)
	if got.Kind != fault.Internal || got.Code != "internal" || !errors.Is(got, secret) {
		t.Errorf("From of a plain error: %+v", got)
	}
	if text := got.Error(); text != "internal error — the log has the details" {
		t.Errorf("a caller would read %q", text)
	}
}

func TestKindOf(t *testing.T) {
	for _, test := range []struct {
		err  error
		want fault.Kind
	}{
		{nil, ""},
		{io.EOF, fault.Internal},
		{fmt.Errorf("send: %w", fault.New(fault.Unavailable, "store", "no answer")), fault.Unavailable},
	} {
		if got := fault.KindOf(test.err); got != test.want {
			t.Errorf("KindOf(%v) = %q, want %q", test.err, got, test.want)
		}
	}
}

func TestDetailHasEveryCause(t *testing.T) {
	inner := fault.New(fault.Unavailable, "store", "the store does not answer").WithCause(io.EOF)
	outer := fault.New(fault.Timeout, "send", "not sent").WithCause(fmt.Errorf("append: %w", inner))
	for _, test := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{io.EOF, "EOF"},
		{fault.New(fault.Limit, "c", "too large"), "too large"},
		{outer, "not sent: append: the store does not answer: EOF"},
	} {
		if got := fault.Detail(test.err); got != test.want {
			t.Errorf("Detail = %q, want %q", got, test.want)
		}
	}
}
