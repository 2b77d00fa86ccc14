package inorder_test

import (
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/daemon/inorder"
	"github.com/runlot/runlot/internal/engine/dispatch"
)

// seen notes the deliveries whose records came, in their order.
type seen struct {
	mu   sync.Mutex
	list []string
}

func (s *seen) Batch(r *dispatch.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, r.Delivery)
}

func (s *seen) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.list
	s.list = nil
	return list
}

func record(delivery string, outcome queue.Outcome) *dispatch.Record {
	return &dispatch.Record{Delivery: delivery, Outcome: outcome}
}

func TestARecordWaitsForItsLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &seen{}
		r := inorder.New(s)
		want := func(what string, deliveries ...string) {
			t.Helper()
			synctest.Wait()
			if diff := cmp.Diff(deliveries, s.take()); diff != "" {
				t.Errorf("%s: %s", what, diff)
			}
		}
		r.Batch(record("late", queue.OK))
		want("before the logs")
		r.Logged("early")
		r.Batch(record("early", queue.Failed))
		want("the logs came first, and another waits", "early")
		r.Logged("late")
		want("with the logs", "late")
		r.Batch(record("lost", queue.Lost))
		r.Batch(record("error", queue.Errored))
		want("no logs come", "lost", "error")
		r.Batch(record("never", queue.TimedOut))
		time.Sleep(queue.LogWait - time.Millisecond)
		want("within the bound")
		time.Sleep(time.Millisecond)
		want("at the bound", "never")
		r.Logged("never")
		r.Batch(record("stop", queue.OK))
		r.Flush()
		r.Batch(record("after", queue.OK))
		want("at the end", "stop", "after")
		time.Sleep(time.Minute)
		want("nothing comes twice")
	})
}

func TestWhatIsHeldIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &seen{}
		r := inorder.New(s)
		for i := range queue.RecentDeliveries + 3 {
			r.Batch(record(strconv.Itoa(i), queue.OK))
		}
		if n := len(s.take()); n != 3 {
			t.Errorf("%d records passed a full recorder, want 3", n)
		}
		r.Flush()
		if n := len(s.take()); n != queue.RecentDeliveries {
			t.Errorf("%d records were held", n)
		}
	})
}
