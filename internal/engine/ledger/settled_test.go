package ledger_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/ledger"
)

// TestPagesOfSettledMessages cuts the same list into pages of all sizes: each message is on one of them, the newest batch's
// first.
func TestPagesOfSettledMessages(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		sizes := rapid.SliceOfN(rapid.IntRange(0, 7), 0, 30).Draw(rt, "acks")
		limit := rapid.IntRange(1, 20).Draw(rt, "limit")
		synctest.Test(t, func(t *testing.T) {
			l, _ := start(t)
			var want []string
			seq := int64(0)
			for _, n := range sizes {
				r := batch("jobs")
				var mine []string
				for range n {
					seq++
					r.Acks = append(r.Acks, queue.Acked{ID: queue.NewID(7, seq), Attempt: 1})
					mine = append(mine, fmt.Sprint(seq, ledger.Acked))
				}
				if n%2 == 1 {
					seq++
					r.Dead = 1
					r.Fates = []ledger.Fate{{ID: queue.NewID(7, seq), Kind: ledger.Dead, Attempt: 4}, {ID: queue.NewID(7, seq), Kind: ledger.Retried}}
					mine = append(mine, fmt.Sprint(seq, ledger.Dead))
				}
				l.Batch(r)
				want = append(mine, want...)
			}
			time.Sleep(10 * time.Second)
			var got []string
			for cursor, pages := "", 0; ; pages++ {
				page, err := l.Settled(t.Context(), "jobs", cursor, limit)
				if err != nil || len(page.Messages) > limit || pages > len(want) {
					t.Fatalf("page %d has %d messages, %v", pages, len(page.Messages), err)
				}
				for i := range page.Messages {
					m := &page.Messages[i]
					got = append(got, fmt.Sprint(m.ID.Seq(), m.Kind))
					if m.Record.Acks != nil || m.Record.ID.Queue != "jobs" {
						t.Errorf("message %s is of %+v", m.ID, m.Record)
					}
				}
				if cursor = page.Next; cursor == "" {
					break
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
		})
	})
}

func TestCursorsOfSettledMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := start(t)
		r := batch("jobs")
		r.Acks = []queue.Acked{{ID: queue.NewID(7, 1)}, {ID: queue.NewID(7, 2)}}
		l.Batch(r)
		time.Sleep(10 * time.Second)
		page, err := l.Settled(t.Context(), "jobs", "", 1)
		if err != nil || page.Next == "" {
			t.Fatalf("page %+v, %v", page, err)
		}
		if _, err := l.Settled(t.Context(), "mail", page.Next, 1); fault.KindOf(err) != fault.Invalid {
			t.Errorf("the cursor of another queue: %v", err)
		}
		for _, bad := range []string{"x", page.Messages[0].Record.ID.Cursor(), "!"} {
			if _, err := l.Settled(t.Context(), "jobs", bad, 1); fault.KindOf(err) != fault.Invalid {
				t.Errorf("cursor %q: %v", bad, err)
			}
		}
	})
}
