package queue

import (
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestIDRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		store, seq := rapid.Uint64().Draw(t, "store"), rapid.Int64().Draw(t, "seq")
		id := NewID(store, seq)
		if id.Store() != store || id.Seq() != seq {
			t.Fatalf("%s holds store %d and seq %d", id, id.Store(), id.Seq())
		}
		back, err := ParseID(id.String())
		if err != nil || back != id {
			t.Fatalf("ParseID(%s) = %s, %v", id, back, err)
		}
	})
}

// TestIDText pins the text that handlers see and keep as an idempotency key: it may never change.
func TestIDText(t *testing.T) {
	if got, want := NewID(0x0123456789abcdef, 0x1122334455667788).String(), "0123456789abcdef1122334455667788"; got != want {
		t.Errorf("id %s, want %s", got, want)
	}
}

func TestIDsSortByAcceptance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Int64Range(0, math.MaxInt64).Draw(t, "a"), rapid.Int64Range(0, math.MaxInt64).Draw(t, "b")
		if (a < b) != (NewID(1, a).String() < NewID(1, b).String()) {
			t.Fatalf("the texts of seq %d and %d sort otherwise than they", a, b)
		}
	})
}

func TestParseIDRefuses(t *testing.T) {
	for _, text := range []string{"", "0", strings.Repeat("0", 31), strings.Repeat("0", 33), strings.Repeat("g", 32), strings.Repeat("0", 30) + "é"} {
		if id, err := ParseID(text); err == nil {
			t.Errorf("ParseID(%q) = %s", text, id)
		}
	}
}

func TestFormats(t *testing.T) {
	for format, text := range map[Format]string{JSON: "json", Text: "text", Bytes: "bytes", V8: "v8"} {
		if format.String() != text {
			t.Errorf("%d is written %q, want %q", int16(format), format, text)
		}
		if got, ok := ParseFormat(text); !ok || got != format {
			t.Errorf("ParseFormat(%q) = %s, %v", text, got, ok)
		}
	}
	if got, ok := ParseFormat(""); !ok || got != V8 {
		t.Errorf("a producer that names no format sends %s, %v; want v8", got, ok)
	}
	for _, text := range []string{"JSON", "xml", "format(9)"} {
		if got, ok := ParseFormat(text); ok {
			t.Errorf("ParseFormat(%q) = %s", text, got)
		}
	}
	if got := Format(9).String(); got != "format(9)" {
		t.Errorf("an unknown format is written %q", got)
	}
	if JSON != 1 || Text != 2 || Bytes != 3 || V8 != 4 {
		t.Error("the numbers of formats are stored in databases; they may never change")
	}
}

func TestAttemptsCountsThisDelivery(t *testing.T) {
	if got := (&Message{Failures: 2}).Attempts(); got != 3 {
		t.Errorf("attempts %d after two failures, want 3", got)
	}
}

func TestAlone(t *testing.T) {
	for losses, want := range []bool{false, false, true, true} {
		if got := (&Message{Losses: losses}).Alone(); got != want {
			t.Errorf("after %d losses alone = %v", losses, got)
		}
	}
}

func TestOperations(t *testing.T) {
	for size, want := range map[int]int64{
		0: 1, 1: 1, 63_999: 1, 64_000: 1, 64_001: 2, 128_000: 2, 128_001: 3, 131_072: 3,
	} {
		if got := Operations(size); got != want {
			t.Errorf("%d bytes cost %d operations, want %d", size, got, want)
		}
	}
}

// TestOperationsIsTheLeast: n operations pay for n times 64,000 bytes, and n-1 would not.
func TestOperationsIsTheLeast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 1<<30).Draw(t, "size")
		n := Operations(size)
		if n*64_000 < int64(size) || (n-1)*64_000 >= int64(size) {
			t.Fatalf("%d bytes cost %d operations", size, n)
		}
	})
}

func TestValidName(t *testing.T) {
	for name, want := range map[string]bool{
		"a": true, "0": true, "jobs": true, "jobs-dead": true, "a--b": true, "9lives": true,
		strings.Repeat("a", 63): true, strings.Repeat("a", 64): false,
		"": false, "-": false, "-a": false, "a-": false, "Jobs": false, "a_b": false, "a.b": false, "a b": false,
		"jobs\n": false, "\njobs": false, "jöbs": false, "a/b": false, "a\x00": false,
	} {
		if got := ValidName(name); got != want {
			t.Errorf("ValidName(%q) = %v", name, got)
		}
	}
}

func TestValidNameIsItsRule(t *testing.T) {
	inner := regexp.MustCompile(`^[-a-z0-9]*$`)
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringOfN(rapid.RuneFrom([]rune("ab09-_A")), 0, 70, -1).Draw(t, "name")
		want := len(name) >= 1 && len(name) <= MaxQueueName && inner.MatchString(name) &&
			!strings.HasPrefix(name, "-") && !strings.HasSuffix(name, "-")
		if got := ValidName(name); got != want {
			t.Fatalf("ValidName(%q) = %v", name, got)
		}
	})
}

// TestLimitsOfDialects pins what the two product documents promise.
func TestLimitsOfDialects(t *testing.T) {
	runlot := Limits{
		MessageBytes: 131_072, BatchBytes: 262_144, MaxRetries: 10,
		DefaultBackoff: Backoff{First: 10 * time.Second, Max: time.Hour}, DailyOperations: 1_000_000,
	}
	if got := LimitsOf(Runlot); got != runlot {
		t.Errorf("runlot: %+v", got)
	}
	if got, want := LimitsOf(Wrangler), (Limits{MessageBytes: 128_000, BatchBytes: 256_000, MaxRetries: 100}); got != want {
		t.Errorf("wrangler: %+v", got)
	}
	if got := HandlerTime(Runlot, 5*time.Second); got != 35*time.Second {
		t.Errorf("handler time of runlot: %s", got)
	}
	if got := HandlerTime(Wrangler, 5*time.Second); got != 15*time.Minute {
		t.Errorf("handler time of wrangler: %s", got)
	}
}
