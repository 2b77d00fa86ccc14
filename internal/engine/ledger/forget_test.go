package ledger_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/runlot/runlot/internal/core/queue"
)

// TestForget: what waits of a queue that was deleted is not written, whether its write failed before or not; what comes later
// under the name is.
func TestForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s := start(t)
		s.set(away, false)
		l.Batch(batch("jobs"))
		l.Batch(batch("mail"))
		time.Sleep(2 * queue.RecordEvery) // its write fails, and is repeated
		synctest.Wait()
		l.Batch(batch("jobs"))
		l.Forget("jobs")
		l.Batch(batch("jobs"))
		s.set(nil, false)
		time.Sleep(time.Minute)
		if jobs, mail := s.Count("jobs"), s.Count("mail"); jobs != 1 || mail != 1 {
			t.Errorf("%d records of the queue made anew and %d of the other, want 1 each", jobs, mail)
		}
	})
}
