package queue

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestBackoffDelay(t *testing.T) {
	runlot := LimitsOf(Runlot).DefaultBackoff
	tests := []struct {
		name     string
		backoff  Backoff
		failures int
		want     time.Duration
	}{
		{"first", runlot, 1, 10 * time.Second},
		{"doubled", runlot, 2, 20 * time.Second},
		{"last below the hour", runlot, 9, 2560 * time.Second},
		{"capped", runlot, 10, time.Hour},
		{"for ever", runlot, math.MaxInt, time.Hour},
		{"none", LimitsOf(Wrangler).DefaultBackoff, 5, 0},
		{"none with a maximum", Backoff{Max: time.Hour}, math.MaxInt, 0},
		{"constant", Backoff{First: 30 * time.Second, Max: 30 * time.Second}, 7, 30 * time.Second},
		{"a first above the maximum", Backoff{First: time.Hour, Max: time.Minute}, 1, time.Minute},
		{"exactly the maximum", Backoff{First: time.Second, Max: 4 * time.Second}, 3, 4 * time.Second},
		{"no failure", runlot, 0, 10 * time.Second},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := test.backoff.Delay(test.failures); got != test.want {
				t.Errorf("after %d failures: %s, want %s", test.failures, got, test.want)
			}
		})
	}
}

// TestBackoffDelayDoublesToItsMaximum: the wait never falls, never passes the maximum, and doubles until it is there,
// also where doubling would overflow.
func TestBackoffDelayDoublesToItsMaximum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := time.Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "first"))
		b := Backoff{First: first, Max: time.Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "max"))}
		previous := b.Delay(1)
		if previous != min(b.First, b.Max) {
			t.Fatalf("the first wait is %s", previous)
		}
		for failures := 2; failures < 80; failures++ {
			wait := b.Delay(failures)
			want := b.Max
			if previous <= b.Max/2 {
				want = 2 * previous
			}
			if wait != want {
				t.Fatalf("after %d failures %s, want %s after %s", failures, wait, want, previous)
			}
			previous = wait
		}
	})
}

func TestErrorBackoff(t *testing.T) {
	for inARow, want := range map[int]time.Duration{
		1: time.Second, 2: 2 * time.Second, 6: 32 * time.Second, 7: time.Minute, 1000: time.Minute,
	} {
		if got := ErrorBackoff(inARow); got != want {
			t.Errorf("%d in a row: %s, want %s", inARow, got, want)
		}
	}
}

func TestClampDelay(t *testing.T) {
	for _, test := range []struct {
		in, out time.Duration
		clamped bool
	}{
		{0, 0, false},
		{-1, 0, true},
		{MaxDelay, MaxDelay, false},
		{MaxDelay + 1, MaxDelay, true},
		{math.MinInt64, 0, true},
		{math.MaxInt64, MaxDelay, true},
	} {
		if out, clamped := ClampDelay(test.in); out != test.out || clamped != test.clamped {
			t.Errorf("ClampDelay(%s) = %s, %v", test.in, out, clamped)
		}
	}
}
