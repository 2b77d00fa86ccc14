package starts

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
)

// TestOneStartForAName: callers of one name share one start, and of another name they do not wait, nor does a look.
func TestOneStartForAName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New[int]()
		release, begun := make(chan struct{}), 0
		var callers sync.WaitGroup
		for range 3 {
			callers.Go(func() {
				if v, err := g.Get(t.Context(), "slow", func(context.Context) (int, error) {
					begun++
					<-release
					return 7, nil
				}); v != 7 || err != nil {
					t.Errorf("got %d, %v", v, err)
				}
			})
		}
		synctest.Wait()
		if _, ok := g.Find("slow"); ok || len(g.All()) != 0 {
			t.Error("what is being started is there already")
		}
		if v, err := g.Get(t.Context(), "other", func(context.Context) (int, error) { return 8, nil }); v != 8 || err != nil {
			t.Errorf("another name: %d, %v", v, err)
		}
		close(release)
		callers.Wait()
		if v, ok := g.Find("slow"); v != 7 || !ok || begun != 1 || len(g.All()) != 2 {
			t.Errorf("found %d, %v after %d starts, among %v", v, ok, begun, g.All())
		}
	})
}

// TestAFailureIsSharedAndForgotten: who waited fails with who began, and the next caller tries again.
func TestAFailureIsSharedAndForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, held := New[int](), errors.New("held")
		release, begun := make(chan struct{}), 0
		fails := func(context.Context) (int, error) {
			begun++
			<-release
			return 0, held
		}
		var callers sync.WaitGroup
		for range 2 {
			callers.Go(func() {
				if _, err := g.Get(t.Context(), "a", fails); !errors.Is(err, held) {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		close(release)
		callers.Wait()
		if begun != 1 {
			t.Errorf("%d starts", begun)
		}
		if v, err := g.Get(t.Context(), "a", func(context.Context) (int, error) { return 1, nil }); v != 1 || err != nil {
			t.Errorf("tried again: %d, %v", v, err)
		}
	})
}

// TestWhoWaitsDoesNotDependOnWhoBegan: when the first caller goes away, one that waits begins anew; one that goes away
// itself stops waiting.
func TestWhoWaitsDoesNotDependOnWhoBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New[int]()
		first, leaveFirst := context.WithCancel(t.Context())
		third, leaveThird := context.WithCancel(t.Context())
		patient := func(ctx context.Context) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		}
		var callers sync.WaitGroup
		callers.Go(func() {
			if _, err := g.Get(first, "a", patient); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
		synctest.Wait()
		callers.Go(func() {
			if v, err := g.Get(t.Context(), "a", func(context.Context) (int, error) { return 2, nil }); v != 2 || err != nil {
				t.Errorf("the one that waited: %d, %v", v, err)
			}
		})
		callers.Go(func() {
			if _, err := g.Get(third, "a", patient); !errors.Is(err, ErrGaveUp) || !errors.Is(err, context.Canceled) {
				t.Errorf("the one that went away: %v", err)
			}
		})
		synctest.Wait()
		leaveThird()
		synctest.Wait()
		leaveFirst()
		callers.Wait()
	})
}

// TestCloseEndsStarts: one under way ends, those that wait for it and later ones are refused, and what had started is returned.
func TestCloseEndsStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New[int]()
		if _, err := g.Get(t.Context(), "there", func(context.Context) (int, error) { return 1, nil }); err != nil {
			t.Fatal(err)
		}
		var callers sync.WaitGroup
		for range 2 {
			callers.Go(func() {
				_, err := g.Get(t.Context(), "slow", func(ctx context.Context) (int, error) {
					<-ctx.Done()
					return 0, ctx.Err()
				})
				if err == nil {
					t.Error("a start outlived the group")
				}
			})
		}
		synctest.Wait()
		if all := g.Close(); len(all) != 1 || all["there"] != 1 {
			t.Errorf("left to stop: %v", all)
		}
		callers.Wait()
		if _, err := g.Get(t.Context(), "late", func(context.Context) (int, error) { return 1, nil }); !errors.Is(err, ErrClosed) {
			t.Errorf("a late start: %v", err)
		}
		if v, err := g.Get(t.Context(), "there", nil); v != 1 || err != nil {
			t.Errorf("what had started: %d, %v", v, err)
		}
		if len(g.Close()) != 1 {
			t.Error("a second Close returns something else")
		}
	})
}
