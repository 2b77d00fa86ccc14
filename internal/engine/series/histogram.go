package series

import (
	"sync/atomic"
	"time"
)

// Bounds are the upper bounds of the buckets of a histogram of times: six to a decade, from a millisecond to 1,000 s. One
// more bucket takes what is longer. They are stored by place and never change.
var Bounds = [...]time.Duration{
	1 * ms, 1500 * us, 2 * ms, 3 * ms, 5 * ms, 7 * ms,
	10 * ms, 15 * ms, 20 * ms, 30 * ms, 50 * ms, 70 * ms,
	100 * ms, 150 * ms, 200 * ms, 300 * ms, 500 * ms, 700 * ms,
	1 * s, 1500 * ms, 2 * s, 3 * s, 5 * s, 7 * s,
	10 * s, 15 * s, 20 * s, 30 * s, 50 * s, 70 * s,
	100 * s, 150 * s, 200 * s, 300 * s, 500 * s, 700 * s,
	1000 * s,
}

const (
	us = time.Microsecond
	ms = time.Millisecond
	s  = time.Second
)

// Buckets is the number of buckets of a histogram.
const Buckets = len(Bounds) + 1

// Histogram counts times by bucket.
type Histogram [Buckets]int64

// bucketOf is the place of the bucket of a time.
func bucketOf(d time.Duration) int {
	low, high := 0, len(Bounds)
	for low < high {
		if middle := (low + high) / 2; d <= Bounds[middle] {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return low
}

// Observe counts a time.
func (h *Histogram) Observe(d time.Duration) { h[bucketOf(d)]++ }

// Add adds what another histogram counted.
func (h *Histogram) Add(o *Histogram) {
	for i := range h {
		h[i] += o[i]
	}
}

// Total is how many times were counted.
func (h *Histogram) Total() int64 {
	var n int64
	for _, c := range h {
		n += c
	}
	return n
}

// Quantile is the time that a part of what was counted does not exceed, 0 < part <= 1, as far as the buckets tell: within
// a bucket the times are taken to lie evenly. 0 when nothing was counted; what is longer than the last bound counts as that.
func (h *Histogram) Quantile(part float64) time.Duration {
	total := h.Total()
	if total == 0 {
		return 0
	}
	rank := part * float64(total)
	var below int64
	for i, n := range h {
		if n == 0 || float64(below+n) < rank {
			below += n
			continue
		}
		if i == len(Bounds) {
			break
		}
		var low time.Duration
		if i > 0 {
			low = Bounds[i-1]
		}
		return low + time.Duration(float64(Bounds[i]-low)*(rank-float64(below))/float64(n))
	}
	return Bounds[len(Bounds)-1]
}

// timer is a histogram that several goroutines count in.
type timer struct {
	buckets [Buckets]atomic.Int64
	total   atomic.Int64
}

func (t *timer) observe(d time.Duration) {
	t.buckets[bucketOf(d)].Add(1)
	t.total.Add(int64(d))
}

func (t *timer) read() (h Histogram, total time.Duration) {
	for i := range t.buckets {
		h[i] = t.buckets[i].Load()
	}
	return h, time.Duration(t.total.Load())
}
