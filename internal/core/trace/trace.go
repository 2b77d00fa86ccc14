// Package trace is the place of work in a distributed trace: the context that goes along with a message, in the form of
// the W3C Trace Context recommendation, and the port through which spans are made. It knows no exporter.
package trace

import (
	"encoding/hex"
	"strings"
	"time"
)

// Context names a span and the trace that it belongs to.
type Context struct {
	TraceID [16]byte
	SpanID  [8]byte
	// Flags are those of the traceparent header; Sampled is the only one that counts here.
	Flags byte
}

// Sampled says that the spans of a trace are kept.
const Sampled = 0x01

// ContextBytes is the size of a Context as bytes.
const ContextBytes = 16 + 8 + 1

// Sampled reports whether the spans of the trace are kept.
func (c *Context) Sampled() bool { return c != nil && c.Flags&Sampled != 0 }

// AppendBinary appends the ContextBytes bytes of c to b: trace id, span id, flags.
func (c *Context) AppendBinary(b []byte) []byte {
	return append(append(append(b, c.TraceID[:]...), c.SpanID[:]...), c.Flags)
}

// FromBinary reads what AppendBinary wrote. It is nil for anything else, so that a column that someone wrote into costs a
// message its trace and nothing more.
func FromBinary(b []byte) *Context {
	if len(b) != ContextBytes {
		return nil
	}
	c := &Context{TraceID: [16]byte(b[:16]), SpanID: [8]byte(b[16:24]), Flags: b[24]}
	if !c.valid() {
		return nil
	}
	return c
}

func (c *Context) valid() bool { return c.TraceID != [16]byte{} && c.SpanID != [8]byte{} }

// String is the value of a traceparent header.
func (c *Context) String() string {
	return "00-" + hex.EncodeToString(c.TraceID[:]) + "-" + hex.EncodeToString(c.SpanID[:]) + "-" + hex.EncodeToString([]byte{c.Flags})
}

// headerLength is that of a traceparent header of version 00. Later versions may go on behind it, after a hyphen.
const headerLength = len("00-") + 32 + len("-") + 16 + len("-00")

// Parse reads the value of a traceparent header; nil when it is none.
func Parse(header string) *Context {
	if len(header) < headerLength || header[2] != '-' || header[35] != '-' || header[52] != '-' || header != strings.ToLower(header) {
		return nil
	}
	version := header[:2]
	if version == "ff" || version == "00" && len(header) != headerLength || len(header) > headerLength && header[headerLength] != '-' {
		return nil
	}
	var c Context
	var v, flags [1]byte
	for _, part := range []struct {
		to   []byte
		from string
	}{{v[:], version}, {c.TraceID[:], header[3:35]}, {c.SpanID[:], header[36:52]}, {flags[:], header[53:55]}} {
		if _, err := hex.Decode(part.to, []byte(part.from)); err != nil {
			return nil
		}
	}
	c.Flags = flags[0]
	if !c.valid() {
		return nil
	}
	return &c
}

// Kind is the part that a span plays, as OpenTelemetry has it.
type Kind int

// The kinds in use.
const (
	Internal Kind = iota
	Server
	Producer
	Consumer
)

// Attribute is something that is known of a span. Value is a string, an int64, a bool or a []string.
type Attribute struct {
	Key   string
	Value any
}

// Start is what is known of a span when it begins.
type Start struct {
	Name string
	Kind Kind
	// Parent is the span that this one is a part of; nil begins a trace. Links are spans that it has to do with.
	Parent *Context
	Links  []*Context
	// At is when it began; the zero time is now.
	At         time.Time
	Attributes []Attribute
}

// Tracer makes spans. Its methods may be called from several goroutines and do not wait.
type Tracer interface {
	// Enabled reports whether any span is ever kept, so that nobody gathers what nobody reads.
	Enabled() bool
	// Begin begins a span. Whether it is kept is decided by its parent, or by a share of all traces where it begins one.
	Begin(s Start) Span
}

// Span is work under way. End is called once.
type Span interface {
	// Context is nil when the span is not kept.
	Context() *Context
	// End ends it now; err is why it failed.
	End(err error, attributes ...Attribute)
}

// None makes no spans.
var None Tracer = none{}

type none struct{}

func (none) Enabled() bool           { return false }
func (none) Begin(Start) Span        { return none{} }
func (none) Context() *Context       { return nil }
func (none) End(error, ...Attribute) {}
