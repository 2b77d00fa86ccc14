package view

import (
	"strings"
	"testing"
)

func TestNumbersAsTheyAreShown(t *testing.T) {
	for got, want := range map[string]string{
		Count(0): "0", Count(999): "999", Count(int64(1_234_567)): "1\u202f234\u202f567", Count(-1): "–", Bytes(0): "0\u00a0B", Bytes(1023): "1023\u00a0B",
		Bytes(1536): "1.5\u00a0KiB", Bytes(61 << 20): "61\u00a0MiB", Bytes(-1): "–", Span(0.2): "<\u00a01\u00a0ms", Span(41): "41\u00a0ms",
		Span(40_000): "40.0\u00a0s", Span(61_000): "1\u00a0min\u00a01\u00a0s", Span(7_260_000): "2\u00a0h\u00a01\u00a0min", Span(72 * 3_600_000): "3\u00a0days",
		Rate(0): "0", Rate(0.01): "<\u00a00.1", Rate(3.14): "3.1", Rate(20_000): "20\u202f000", share(0, 10): "0\u00a0%", share(1, 1000): "<\u00a01\u00a0%",
		share(900, 1000): "90\u00a0%", share(2000, 1000): "100\u00a0%", plural(1, "retry", "retries"): "1\u00a0retry", plural(3, "retry", "retries"): "3\u00a0retries",
		short("01a22ea0-4ef7-7c15-8fbb-50d1dd575e59"): "01a22ea0-4ef7", short("abc"): "abc",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestWordsOfACommand(t *testing.T) {
	for word, want := range map[string]string{"jobs": "jobs", "0 7 * * *": "'0 7 * * *'", "it's": `'it'\''s'`, "": "''", "$(rm)": "'$(rm)'", "a;b": "'a;b'"} {
		if got := Quote(word); got != want {
			t.Errorf("Quote(%q) = %s, want %s", word, got, want)
		}
	}
}

func TestASparkline(t *testing.T) {
	if got, want := Points([]float64{0, 5, 10}, 10), "0.0,19.0 50.0,10.0 100.0,1.0"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for _, values := range [][]float64{nil, {0}, {0, 0}, {3}} {
		if got := Points(values, Most(values, nil)); strings.Contains(got, "NaN") {
			t.Errorf("%v gives %s", values, got)
		}
	}
}
