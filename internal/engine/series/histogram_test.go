package series_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/runlot/runlot/internal/engine/series"
)

func TestBoundsRise(t *testing.T) {
	if !slices.IsSorted(series.Bounds[:]) || series.Bounds[0] != time.Millisecond || series.Bounds[len(series.Bounds)-1] != 1000*time.Second {
		t.Errorf("bounds: %v", series.Bounds)
	}
}

func TestEveryTimeIsInItsBucket(t *testing.T) {
	for i, bound := range series.Bounds {
		var h series.Histogram
		h.Observe(bound)
		h.Observe(bound + 1)
		if h[i] != 1 || h[i+1] != 1 {
			t.Errorf("%v and a bit more: %v", bound, h)
		}
	}
}

func times() *rapid.Generator[time.Duration] {
	return rapid.Map(rapid.Float64Range(-1, 7), func(exponent float64) time.Duration {
		return time.Duration(math.Pow(10, exponent) * float64(100*time.Microsecond))
	})
}

// A quantile lies in the bucket of the time that it stands for.
func TestQuantile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(times(), 1, 200).Draw(t, "times")
		part := rapid.Float64Range(0.001, 1).Draw(t, "part")
		var h series.Histogram
		for _, d := range list {
			h.Observe(d)
		}
		slices.Sort(list)
		exact := list[max(0, int(math.Ceil(part*float64(len(list))))-1)]
		i, _ := slices.BinarySearch(series.Bounds[:], exact)
		low, high := time.Duration(0), series.Bounds[len(series.Bounds)-1]
		if i > 0 {
			low = series.Bounds[i-1]
		}
		if i < len(series.Bounds) {
			high = series.Bounds[i]
		}
		if got := h.Quantile(part); got < low || got > high {
			t.Errorf("quantile %v is %v, exactly %v, which is in %v to %v", part, got, exact, low, high)
		}
	})
}

// Quantiles of a sum are those of everything that was counted, and rise with the part.
func TestQuantilesOfASum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var parts [3]series.Histogram
		var sum, whole series.Histogram
		for i := range parts {
			for _, d := range rapid.SliceOf(times()).Draw(t, "times") {
				parts[i].Observe(d)
				whole.Observe(d)
			}
			sum.Add(&parts[i])
		}
		if sum != whole || sum.Total() != parts[0].Total()+parts[1].Total()+parts[2].Total() {
			t.Fatal("a sum is not what was counted")
		}
		last := time.Duration(0)
		for part := 0.05; part <= 1; part += 0.05 {
			if q := whole.Quantile(part); q < last {
				t.Errorf("quantile %v is %v, below that of a smaller part, %v", part, q, last)
			} else {
				last = q
			}
		}
	})
}

func TestQuantileOfNothing(t *testing.T) {
	if q := new(series.Histogram).Quantile(0.5); q != 0 {
		t.Error(q)
	}
}
