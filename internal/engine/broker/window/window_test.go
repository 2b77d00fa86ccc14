package window

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// TestWindowIsBounded commits, reads and leases at random, and checks what the window holds against its bounds.
func TestWindowIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lanes := rapid.IntRange(1, 5).Draw(t, "lanes")
		bounds := Bounds{
			ReadRows: queue.ReadRows, ReadBytes: queue.ReadBytes,
			LaneRows:       rapid.IntRange(1, 50).Draw(t, "rows"),
			LaneBytes:      rapid.IntRange(1, 20_000).Draw(t, "bytes"),
			StoreLaneBytes: rapid.IntRange(1000, 50_000).Draw(t, "all bytes"),
			DueRows:        rapid.IntRange(1, 50).Draw(t, "due rows"),
		}
		w := New(&bounds, func() int { return lanes }, 1, never.VisibleAt)
		const largest = 300
		var newest int64
		row := func(visibleAt int64) *store.Row {
			return &store.Row{Seq: newest + 1, VisibleAt: visibleAt, Losses: rapid.Int16Range(0, 3).Draw(t, "losses"), Body: make([]byte, rapid.IntRange(0, largest).Draw(t, "size"))}
		}
		t.Repeat(map[string]func(*rapid.T){
			"commit": func(*rapid.T) {
				r := row(0)
				w.Commit(r, newest)
				newest = r.Seq
			},
			"delayed": func(t *rapid.T) {
				newest++
				w.AddDue(row(rapid.Int64Range(1, 1000).Draw(t, "at")))
			},
			"read": func(t *rapid.T) {
				if !w.WantsReady(newest, false) {
					t.Skip()
				}
				read := w.BeginReady(newest)
				var rows []store.Row
				left := read.Bytes
				for seq := read.After + 1; seq <= read.UpTo && len(rows) < read.Rows; seq++ {
					r := row(0)
					r.Seq = seq
					if left -= len(r.Body); left < 0 && len(rows) > 0 {
						break
					}
					rows = append(rows, *r)
				}
				for range rapid.IntRange(0, 60).Draw(t, "meanwhile") {
					r := row(0)
					w.Commit(r, newest)
					newest = r.Seq
				}
				w.EndReady(read, rows, newest, nil)
			},
			"lease": func(t *rapid.T) {
				w.Ripen(time.UnixMilli(500))
				w.Take(rapid.IntRange(1, 20).Draw(t, "size"), func(*store.Row) {})
			},
			"": func(t *rapid.T) {
				share := min(bounds.LaneBytes, bounds.StoreLaneBytes/lanes)
				one := largest + queue.RowOverhead
				if w.ready.len()+len(w.tail) > bounds.LaneRows+1 || w.readyBytes+w.tailBytes > share-share/4+2*one {
					t.Fatalf("%d ready and %d more in %d and %d bytes, bounds %+v", w.ready.len(), len(w.tail), w.readyBytes, w.tailBytes, bounds)
				}
				if w.dueRows() > bounds.DueRows || w.dueBytes > max(share/4, one) {
					t.Fatalf("%d due in %d bytes, bounds %+v", w.dueRows(), w.dueBytes, bounds)
				}
				size := 0
				for _, rows := range [][]store.Row{w.due, w.suspects, w.mature.all()} {
					for i := range rows {
						size += rowSize(&rows[i])
						if w.horizon.Before(rows[i].Due()) {
							t.Fatalf("a message beyond the horizon %+v: %+v", w.horizon, rows[i].Due())
						}
					}
				}
				if size != w.dueBytes {
					t.Fatalf("%d due bytes are counted as %d", size, w.dueBytes)
				}
				last := int64(math.MinInt64)
				for i := range w.ready.all() {
					r := &w.ready.all()[i]
					if r.Seq <= last || r.Seq > w.cursor {
						t.Fatalf("seq %d after %d, cursor %d", r.Seq, last, w.cursor)
					}
					last = r.Seq
				}
			},
		})
	})
}
