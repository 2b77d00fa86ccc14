package span_test

import (
	"math"
	"regexp"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/runlot/runlot/internal/core/span"
)

func TestText(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                                 "0 s",
		1:                                 "1 ns",
		850 * time.Microsecond:            "850 µs",
		12*time.Millisecond + 900:         "12 ms",
		3400 * time.Millisecond:           "3.4 s",
		9990 * time.Millisecond:           "9.9 s",
		2 * time.Second:                   "2 s",
		45 * time.Second:                  "45 s",
		2 * time.Minute:                   "2 min",
		2*time.Minute + 5*time.Second:     "2 min 5 s",
		time.Hour + 5*time.Minute:         "1 h 5 min",
		3*time.Hour + 20*time.Minute:      "3 h 20 min",
		24 * time.Hour:                    "24 h",
		4 * 24 * time.Hour:                "4 days",
		99 * time.Hour:                    "4 days 3 h",
		277777*time.Hour + 46*time.Minute: "11574 days 1 h",
		-time.Minute:                      "-1 min",
		math.MinInt64:                     "-106751 days 23 h",
	} {
		if got := span.Text(d); got != want {
			t.Errorf("%v: got %q, want %q", d, got, want)
		}
	}
}

// TestTextIsShort: no length is written as clocks write it.
func TestTextIsShort(t *testing.T) {
	form := regexp.MustCompile(`^-?\d+(\.\d)? (ns|µs|ms|s|min|h|days)( \d+ (s|min|h))?$`)
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64().Draw(t, "d"))
		if text := span.Text(d); !form.MatchString(text) {
			t.Fatalf("%v is %q", d, text)
		}
	})
}
