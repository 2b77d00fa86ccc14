package usage

import (
	"testing"

	"github.com/runlot/runlot/internal/core/queue"
)

func TestJudge(t *testing.T) {
	const mega = int64(1 << 20)
	free := func() (int64, error) { return 0, nil }
	small, large := Bounds{Size: 100 * mega}, Bounds{Size: 10_000 * mega}
	disk := Bounds{Free: free}
	both := Bounds{Size: 100 * mega, Free: free}
	size := func(n int64) state { return state{size: n, sizeKnown: true} }
	left := func(n int64) state { return state{free: n, freeKnown: true} }
	for _, c := range []struct {
		name   string
		bounds Bounds
		seen   state
		// starts is whether it becomes full, stays whether it stays so.
		starts, stays bool
	}{
		{"nothing known", both, state{}, false, false},
		{"empty", small, size(0), false, false},
		{"below both marks", small, size(90*mega - 1), false, false},
		{"between the marks", small, size(90 * mega), false, true},
		{"one byte below the stop", small, size(95*mega - 1), false, true},
		{"at the stop", small, size(95 * mega), true, true},
		{"over the cap", small, size(200 * mega), true, true},
		{"the margin of a large cap is absolute", large, size(10_000*mega - queue.SizeMargin - 1), false, true},
		{"a large cap at its stop", large, size(10_000*mega - queue.SizeMargin), true, true},
		{"disk with room", disk, left(10 * queue.DiskReserve), false, false},
		{"disk at the reserve", disk, left(queue.DiskReserve), false, true},
		{"disk below the reserve", disk, left(queue.DiskReserve - 1), true, true},
		{"no cap on the size", disk, size(1 << 50), false, false},
		{"one of two is enough", both, state{size: 0, sizeKnown: true, free: 0, freeKnown: true}, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.bounds.judge(c.seen, false) != ""; got != c.starts {
				t.Errorf("becomes full: %v", got)
			}
			if got := c.bounds.judge(c.seen, true) != ""; got != c.stays {
				t.Errorf("stays full: %v", got)
			}
		})
	}
	if got, want := small.judge(size(96*mega), false), "the database is full: it takes up 96 MiB of the 100 MiB that it may have"; got != want {
		t.Errorf("text %q, want %q", got, want)
	}
}

func TestRoomIsLookedAtInTime(t *testing.T) {
	b := Bounds{Size: 1000 << 20}
	stop := sizeStop(b.Size)
	for _, size := range []int64{0, 100 << 20, stop - 1, stop, 5000 << 20} {
		room := b.room(state{size: size, sizeKnown: true})
		if size+room > b.Size && size < stop {
			t.Errorf("at %d, %d more may be written without a look at a cap of %d", size, room, b.Size)
		}
		if room <= 0 {
			t.Errorf("at %d, a look is due all the time", size)
		}
	}
}
