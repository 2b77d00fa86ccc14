package trace_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/runlot/runlot/internal/core/trace"
)

func anyContext(t *rapid.T) *trace.Context {
	var c trace.Context
	copy(c.TraceID[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "trace"))
	copy(c.SpanID[:], rapid.SliceOfN(rapid.Byte(), 8, 8).Draw(t, "span"))
	c.TraceID[15] |= 1
	c.SpanID[7] |= 1
	c.Flags = rapid.Byte().Draw(t, "flags")
	return &c
}

func TestAContextSurvivesBothForms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := anyContext(t)
		if diff := cmp.Diff(c, trace.Parse(c.String())); diff != "" {
			t.Errorf("as a header: %s", diff)
		}
		b := c.AppendBinary([]byte("x"))
		if len(b) != 1+trace.ContextBytes {
			t.Errorf("%d bytes", len(b)-1)
		}
		if diff := cmp.Diff(c, trace.FromBinary(b[1:])); diff != "" {
			t.Errorf("as bytes: %s", diff)
		}
		if c.Sampled() != (c.Flags&1 == 1) {
			t.Errorf("sampled with the flags %x", c.Flags)
		}
	})
}

func TestHeadersThatAreNone(t *testing.T) {
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	if trace.Parse(good) == nil || trace.Parse("01"+good[2:]) == nil || trace.Parse("cc"+good[2:]+"-what-comes-later") == nil {
		t.Fatal("good ones are refused")
	}
	for _, bad := range []string{
		"", good[:54], good + "-more", good + "x", "cc" + good[2:] + "x", "ff" + good[2:], "0x" + good[2:], strings.ToUpper(good), strings.Replace(good, "-", "_", 1),
		strings.Replace(good, "0af7651916cd43dd8448eb211c80319c", strings.Repeat("0", 32), 1),
		strings.Replace(good, "b7ad6b7169203331", strings.Repeat("0", 16), 1),
		strings.Replace(good, "b7ad", "b7ag", 1),
	} {
		if c := trace.Parse(bad); c != nil {
			t.Errorf("%q is %v", bad, c)
		}
	}
	for _, bad := range [][]byte{nil, make([]byte, trace.ContextBytes), make([]byte, trace.ContextBytes+1)} {
		if c := trace.FromBinary(bad); c != nil {
			t.Errorf("%x is %v", bad, c)
		}
	}
	if (*trace.Context)(nil).Sampled() {
		t.Error("no context is sampled")
	}
}

func FuzzParse(f *testing.F) {
	f.Add("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	f.Fuzz(func(t *testing.T, header string) {
		if c := trace.Parse(header); c != nil && trace.Parse(c.String()) == nil {
			t.Errorf("%q is %v, which is none", header, c)
		}
	})
}
