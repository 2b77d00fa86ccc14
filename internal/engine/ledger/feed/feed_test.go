package feed_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/internal/engine/ledger/feed"
)

// rest reads what a subscription holds.
func rest(t *testing.T, s *feed.Subscription[int]) (items []int, missed int) {
	t.Helper()
	for {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		item, n, err := s.Next(ctx)
		cancel()
		if err != nil {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			return items, missed
		}
		items, missed = append(items, item), missed+n
	}
}

func TestEachGetsWhatItWants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := feed.Feed[int]{Most: 10}
		f.Publish(0) // before anybody listens
		all, even := f.Subscribe(nil), f.Subscribe(func(n int) bool { return n%2 == 0 })
		for n := range 5 {
			f.Publish(n + 1)
		}
		all.Close()
		all.Close()
		f.Publish(6)
		for _, c := range []struct {
			sub  *feed.Subscription[int]
			want []int
		}{{all, []int{1, 2, 3, 4, 5}}, {even, []int{2, 4, 6}}} {
			got, missed := rest(t, c.sub)
			if diff := cmp.Diff(c.want, got); diff != "" || missed != 0 {
				t.Errorf("%d missed; %s", missed, diff)
			}
		}
	})
}

func TestSlowReaderMissesTheOldest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := feed.Feed[int]{Most: 3}
		s := f.Subscribe(nil)
		defer s.Close()
		for n := range 10 {
			f.Publish(n)
		}
		if item, missed, err := s.Next(t.Context()); item != 7 || missed != 7 || err != nil {
			t.Errorf("%d after %d missed, %v", item, missed, err)
		}
		f.Publish(10)
		got, missed := rest(t, s)
		if diff := cmp.Diff([]int{8, 9, 10}, got); diff != "" || missed != 0 {
			t.Errorf("%d missed; %s", missed, diff)
		}
	})
}

// TestManyAtOnce: whatever is published is either read or counted, and each reader wakes.
func TestManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := feed.Feed[int]{Most: 50}
		var wg sync.WaitGroup
		const writers, each = 8, 500
		for range 4 {
			s := f.Subscribe(nil)
			wg.Go(func() {
				defer s.Close()
				for seen := 0; seen < writers*each; seen++ {
					_, missed, err := s.Next(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					seen += missed
				}
			})
		}
		for range writers {
			wg.Go(func() {
				for n := range each {
					f.Publish(n)
				}
			})
		}
		wg.Wait()
	})
}
