// Package fault is the one error type of Runlot. A fault says what kind of thing went wrong, carries a stable code for
// programs, a message for a person and, where there is one, the way out. Every other error is internal: its text goes
// to the log and never to a caller.
package fault

import (
	"errors"
	"fmt"
)

// Kind classifies a fault by what the caller can do about it.
type Kind string

// The closed list of kinds.
const (
	// Invalid: the input breaks a rule; sending it again unchanged cannot work.
	Invalid Kind = "invalid"
	// NotFound: the thing named does not exist.
	NotFound Kind = "not_found"
	// Conflict: the thing exists, is held by another, or changed meanwhile.
	Conflict Kind = "conflict"
	// Limit: a bound of docs/LIMITS.md was reached; smaller or later can work.
	Limit Kind = "limit"
	// Unavailable: a part that is needed does not answer now; trying again can work.
	Unavailable Kind = "unavailable"
	// Timeout: the time allowed ran out before the work was done.
	Timeout Kind = "timeout"
	// Environment: the machine or its settings lack something that an operator can mend.
	Environment Kind = "environment"
	// Internal: a defect of ours. Its text is for the log only.
	Internal Kind = "internal"
)

// Error is a fault. Code is stable and machine-readable ("port_in_use", "10204"); Message is a sentence for a person
// without a final full stop; Hint, which may be empty, is the way out; Cause, which may be nil, is for the log.
type Error struct {
	Kind    Kind
	Code    string
	Message string
	Hint    string
	Cause   error
}

// Error implements error. The cause is left out on purpose: internal text never reaches a caller.
func (e *Error) Error() string {
	if e.Hint == "" {
		return e.Message
	}
	return e.Message + " — " + e.Hint
}

// Unwrap gives the cause to errors.Is and errors.As.
func (e *Error) Unwrap() error { return e.Cause }

// New returns a fault without a cause or a hint.
func New(kind Kind, code, format string, args ...any) *Error {
	return &Error{Kind: kind, Code: code, Message: fmt.Sprintf(format, args...)}
}

// WithHint returns a copy of e with the way out set.
func (e *Error) WithHint(format string, args ...any) *Error {
	c := *e
	c.Hint = fmt.Sprintf(format, args...)
	return &c
}

// WithCause returns a copy of e that wraps err, for the log and for errors.Is.
func (e *Error) WithCause(err error) *Error {
	c := *e
	c.Cause = err
	return &c
}

// From finds the fault in err's chain, or wraps err as an internal one. From(nil) is nil.
func From(err error) *Error {
	if err == nil {
		return nil
	}
	if f, ok := errors.AsType[*Error](err); ok {
		return f
	}
	return &Error{Kind: Internal, Code: "internal", Message: "internal error", Hint: "the log has the details", Cause: err}
}

// KindOf returns the kind of err: Internal for an error that is no fault, "" for nil.
func KindOf(err error) Kind {
	if err == nil {
		return ""
	}
	return From(err).Kind
}

// Detail returns the whole text of err, causes included. It is for logs only.
func Detail(err error) string {
	f, ok := errors.AsType[*Error](err)
	switch {
	case err == nil:
		return ""
	case !ok:
		return err.Error()
	case f.Cause == nil:
		return err.Error()
	default:
		return err.Error() + ": " + Detail(f.Cause)
	}
}
