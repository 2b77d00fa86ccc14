package series_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/runlot/runlot/internal/engine/series"
)

// TestForget: a queue that is made anew under a name has no numbers of the one that was, neither in memory nor in the store.
func TestForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.close()
		old := w.Tally("jobs")
		old.Sent(5, 50)
		w.Tally("mail").Sent(1, 1)
		time.Sleep(15 * time.Second)
		w.Forget("jobs")
		old.Sent(7, 70) // who counted for it counts for nobody
		w.Tally("jobs").Sent(2, 20)
		time.Sleep(3 * time.Minute)
		if total := sum(t, w.series(series.Query{Queue: "jobs"})); total.Sent != 2 {
			t.Errorf("the queue made anew has %d sends, want 2", total.Sent)
		}
		stored := int64(0)
		for _, row := range w.rows("jobs") {
			stored += row.Sent
		}
		if stored != 2 || len(w.rows("mail")) != 1 {
			t.Errorf("%d of its sends are stored, and %d minutes of the other queue", stored, len(w.rows("mail")))
		}
	})
}
