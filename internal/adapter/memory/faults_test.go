package memory_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/runlot/runlot/internal/adapter/memory"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// owner opens a database with one queue and a session that owns it.
func owner(t *testing.T) (*memory.Database, *memory.Store, store.Ownership) {
	t.Helper()
	db := memory.NewDatabase()
	s := db.Open()
	own, err := s.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Declare(t.Context(), []string{"a"}); err != nil {
		t.Fatal(err)
	}
	return db, s, own
}

func row(seq int64) []store.Row {
	return []store.Row{{Queue: 1, Seq: seq, Format: queue.JSON, SentAt: 1, Body: []byte("1")}}
}

// TestCrashDecidesAboutWritesUnderWay: a write under way is carried out or not, its caller gets an error either way, and
// nothing of the old session comes after the next owner's start.
func TestCrashDecidesAboutWritesUnderWay(t *testing.T) {
	for name, lands := range map[string]bool{"lands": true, "vanishes": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db, s, own := owner(t)
				db.SetFaults(func(string) memory.Fault { return memory.Fault{Before: time.Second} })
				outcome := make(chan error, 1)
				go func() { outcome <- s.Append(t.Context(), row(1), nil) }()
				synctest.Wait()
				db.Crash(func() bool { return lands })
				<-own.Lost
				if f := fault.From(<-outcome); f == nil || f.Code != store.CodeOwnershipLost {
					t.Errorf("the caller got %v", f)
				}
				db.SetFaults(nil)
				if _, err := db.Open().Acquire(t.Context()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				if n, _ := db.Size(); (n == 1) != lands {
					t.Errorf("%d messages are stored", n)
				}
			})
		})
	}
}

func TestFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, s, _ := owner(t)
		broken := errors.New("broken")
		release := make(chan struct{})
		var f memory.Fault
		db.SetFaults(func(string) memory.Fault { return f })
		f = memory.Fault{Err: broken}
		if err := s.Append(t.Context(), row(1), nil); !errors.Is(err, broken) {
			t.Errorf("a failing call: %v", err)
		}
		if _, err := s.ReadReady(t.Context(), 1, 0, 10, 10, 10); !errors.Is(err, broken) {
			t.Errorf("a failing read: %v", err)
		}
		f = memory.Fault{Before: time.Second, After: time.Minute, Hold: release}
		began := time.Now()
		time.AfterFunc(time.Hour, func() { close(release) })
		done := make(chan error, 1)
		go func() { done <- s.Append(t.Context(), row(2), nil) }()
		time.Sleep(time.Hour)
		if n, _ := db.Size(); n != 0 {
			t.Error("a call had its effect before its time")
		}
		time.Sleep(2 * time.Second)
		if n, _ := db.Size(); n != 1 {
			t.Error("a call had no effect at its time")
		}
		if err := <-done; err != nil || time.Since(began) != time.Hour+time.Second+time.Minute {
			t.Errorf("a slow call ended after %s with %v", time.Since(began), err)
		}
	})
}
