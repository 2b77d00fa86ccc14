package r2_test

import (
	"testing"
	"time"

	"github.com/runlot/runlot/internal/core/r2"
)

func TestConditions(t *testing.T) {
	at := time.UnixMilli(1_000_500)
	o := &r2.Info{Etag: "e", Uploaded: at}
	e := func(list ...r2.Etag) []r2.Etag { return list }
	same, other, weak, every := r2.Etag{Value: "e"}, r2.Etag{Value: "x"}, r2.Etag{Value: "e", Weak: true}, r2.Etag{Any: true}
	for i, c := range []struct {
		c           *r2.Condition
		there, none bool
	}{
		{nil, true, true},
		{&r2.Condition{}, true, true},
		{&r2.Condition{Matches: e(other, same)}, true, false},
		{&r2.Condition{Matches: e(weak)}, false, false},
		{&r2.Condition{Matches: e(every)}, true, false},
		{&r2.Condition{DoesNotMatch: e(other)}, true, true},
		{&r2.Condition{DoesNotMatch: e(weak)}, false, true},
		{&r2.Condition{DoesNotMatch: e(every)}, false, true},
		{&r2.Condition{Before: at.Add(time.Millisecond)}, true, true},
		{&r2.Condition{Before: at}, false, true},
		{&r2.Condition{Before: at, Matches: e(same)}, true, false},
		{&r2.Condition{After: at.Add(-time.Millisecond)}, true, false},
		{&r2.Condition{After: at}, false, false},
		{&r2.Condition{After: at.Add(-time.Millisecond), Seconds: true}, false, false},
		{&r2.Condition{After: at, DoesNotMatch: e(other)}, true, false},
	} {
		if got := c.c.Holds(o); got != c.there {
			t.Errorf("%d: %v for an object", i, got)
		}
		if got := c.c.Holds(nil); got != c.none {
			t.Errorf("%d: %v for none", i, got)
		}
	}
}

func TestRanges(t *testing.T) {
	n := func(i int64) *int64 { return &i }
	for i, c := range []struct {
		w       *r2.Wanted
		want    r2.Range
		partial bool
		bad     bool
	}{
		{nil, r2.Range{0, 10}, false, false},
		{&r2.Wanted{}, r2.Range{0, 10}, false, false},
		{&r2.Wanted{Offset: n(3)}, r2.Range{3, 7}, true, false},
		{&r2.Wanted{Length: n(3)}, r2.Range{0, 3}, true, false},
		{&r2.Wanted{Offset: n(8), Length: n(3)}, r2.Range{8, 2}, true, false},
		{&r2.Wanted{Offset: n(11)}, r2.Range{}, false, true},
		{&r2.Wanted{Length: n(0)}, r2.Range{}, false, true},
		{&r2.Wanted{Suffix: n(3)}, r2.Range{7, 3}, true, false},
		{&r2.Wanted{Suffix: n(30)}, r2.Range{0, 10}, true, false},
		{&r2.Wanted{Suffix: n(0)}, r2.Range{}, false, true},
		{&r2.Wanted{Header: "bytes=2-4"}, r2.Range{2, 3}, true, false},
		{&r2.Wanted{Header: "bytes=2-"}, r2.Range{2, 8}, true, false},
		{&r2.Wanted{Header: "bytes=-4"}, r2.Range{6, 4}, true, false},
		{&r2.Wanted{Header: "bytes=8-20"}, r2.Range{8, 2}, true, false},
		{&r2.Wanted{Header: "bytes=10-"}, r2.Range{}, false, true},
		{&r2.Wanted{Header: "bytes=1-2,4-5"}, r2.Range{0, 10}, false, false},
		{&r2.Wanted{Header: "lines=1-2"}, r2.Range{0, 10}, false, false},
	} {
		got, partial, err := c.w.In(10)
		if (err != nil) != c.bad || err == nil && (got != c.want || partial != c.partial) {
			t.Errorf("%d: %v %v %v", i, got, partial, err)
		}
	}
}
