package ledger_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/runlot/runlot/internal/adapter/memory/record"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/ledger"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// store is a store in memory that counts its writes and can fail or hang.
type store struct {
	record.Store
	mu     sync.Mutex
	writes []int
	err    error
	// hang, while it is not nil, holds each write back until the call's context ends.
	hang bool
	time time.Duration
}

// takes sets how long a write takes.
func (s *store) takes(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.time = d
}

func (s *store) set(err error, hang bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err, s.hang = err, hang
}

func (s *store) Write(ctx context.Context, records []ledger.Record) ([]ledger.Held, error) {
	s.mu.Lock()
	err, hang, took := s.err, s.hang, s.time
	if err == nil && !hang {
		s.writes = append(s.writes, len(records))
	}
	s.mu.Unlock()
	if hang {
		<-ctx.Done()
		return nil, away
	}
	if err != nil {
		return nil, err
	}
	time.Sleep(took)
	return s.Store.Write(ctx, records)
}

func (s *store) written() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes
}

var away = fault.New(fault.Unavailable, "away", "the database is away")

// start returns a running ledger on a store with the queues jobs and mail. It is stopped at the end of the bubble.
func start(t *testing.T) (*ledger.Ledger, *store) {
	t.Helper()
	s := &store{}
	s.Declare("jobs", "mail")
	l := ledger.New(slog.New(slog.DiscardHandler))
	l.Attach(s)
	l.Start()
	t.Cleanup(func() { stop(l) })
	return l, s
}

func stop(l *ledger.Ledger) {
	ctx, cancel := context.WithTimeout(context.Background(), queue.RecordStopTime)
	defer cancel()
	l.Stop(ctx)
}

func batch(queueName string) *ledger.Record {
	return &ledger.Record{ID: ledger.ID{Queue: queueName}, App: "app", Version: "v1", Start: time.Now(), Duration: time.Second, Outcome: queue.OK, Delivered: 10, Acked: 10}
}

// big is a record whose stack is as long as it may be.
func big(queueName string) *ledger.Record {
	r := batch(queueName)
	r.Error = &ledger.Exception{Name: "Error", Stack: strings.Repeat("x", queue.RecordStack)}
	return r
}

func TestRecordsAreGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s := start(t)
		for range 3 {
			l.Batch(batch("jobs"))
		}
		time.Sleep(queue.RecordEvery - time.Nanosecond)
		synctest.Wait()
		if w := s.written(); len(w) != 0 {
			t.Errorf("written before the time: %v", w)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if diff := cmp.Diff([]int{3}, s.written()); diff != "" {
			t.Errorf("writes: %s", diff)
		}
	})
}

// TestWritesStayRare: records that come while others are written wait for the next write like these did.
func TestWritesStayRare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s := start(t)
		const records, every = 1_000, time.Millisecond
		s.takes(3 * every)
		for range records {
			l.Batch(batch("jobs"))
			time.Sleep(every)
		}
		time.Sleep(time.Second)
		if n, most := len(s.written()), int(records*every/queue.RecordEvery)+1; n > most || s.Count("jobs") != records {
			t.Errorf("%d writes for %d records, the most is %d", n, s.Count("jobs"), most)
		}
	})
}

func TestManyRecordsDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s := start(t)
		for range queue.RecordRows + 1 {
			l.Batch(batch("jobs"))
		}
		time.Sleep(queue.RecordLinger - time.Nanosecond)
		synctest.Wait()
		if w := s.written(); len(w) != 0 {
			t.Errorf("written before the last lines can be there: %v", w)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if diff := cmp.Diff([]int{queue.RecordRows}, s.written()); diff != "" {
			t.Errorf("writes: %s", diff)
		}
		time.Sleep(time.Second)
		for range 1 + queue.RecordBytes/queue.RecordStack {
			l.Batch(big("mail"))
		}
		time.Sleep(queue.RecordLinger)
		synctest.Wait()
		if n := len(s.written()); n != 3 {
			t.Errorf("%d writes of what is more than one may hold", n)
		}
	})
}

func TestStopWritesTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s := start(t)
		l.Batch(batch("jobs"))
		begin := time.Now()
		stop(l)
		if took := time.Since(begin); took != 0 || s.Count("jobs") != 1 {
			t.Errorf("after %s there are %d records", took, s.Count("jobs"))
		}
		stop(l) // twice is fine
	})
}

func TestStopIsBounded(t *testing.T) {
	for name, err := range map[string]error{"away": away, "hanging": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, s := start(t)
				s.set(err, err == nil)
				l.Batch(batch("jobs"))
				time.Sleep(time.Minute)
				l.Batch(batch("jobs"))
				begin := time.Now()
				stop(l)
				if took := time.Since(begin); took > queue.RecordStopTime {
					t.Errorf("the stop took %s", took)
				}
			})
		})
	}
}

func TestStoreThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s := start(t)
		s.set(away, false)
		for range 2_000 {
			l.Batch(batch("jobs"))
		}
		time.Sleep(time.Hour)
		if n := s.Count("jobs"); n != 0 {
			t.Fatalf("%d records in a store that is away", n)
		}
		l.Batch(batch("jobs"))
		s.set(nil, false)
		time.Sleep(queue.StoreRetryMax + queue.RecordEvery)
		if n := s.Count("jobs"); n != 2_001 {
			t.Errorf("%d records afterwards", n)
		}
	})
}

func TestAttachGoesOnWithAnotherStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s := start(t)
		s.set(nil, true)
		l.Batch(batch("jobs"))
		time.Sleep(time.Second)
		begin := time.Now()
		l.Detach()
		if took := time.Since(begin); took != 0 {
			t.Errorf("a write that hangs held Detach up for %s", took)
		}
		if _, err := l.Last(t.Context()); fault.KindOf(err) != fault.Unavailable {
			t.Errorf("a read without a store: %v", err)
		}
		next := &store{}
		next.Declare("jobs")
		l.Attach(next)
		time.Sleep(queue.StoreRetryMax)
		if n := next.Count("jobs"); n != 1 {
			t.Errorf("the next store has %d records", n)
		}
		last, err := l.Last(t.Context())
		if err != nil || len(last) != 1 {
			t.Errorf("last: %v, %v", last, err)
		}
	})
}

// TestStalledStoreBlocksNothing fills the buffer many times over while a write hangs: time does not pass, memory does not
// grow, and the count of what was not kept is exact.
func TestStalledStoreBlocksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s := start(t)
		s.set(nil, true)
		const busy, quiet = 20_000, 50
		sub := l.Subscribe(ledger.Filter{Queues: []string{"mail"}})
		defer sub.Close()
		begin := time.Now()
		for i := range busy {
			l.Batch(big("jobs"))
			if i%(busy/quiet) == 0 {
				l.Batch(batch("mail"))
				if r, missed, err := sub.Next(t.Context()); err != nil || missed != 0 || r.ID.Queue != "mail" {
					t.Fatalf("followed %v, %d missed, %v", r, missed, err)
				}
			}
		}
		if took := time.Since(begin); took != 0 {
			t.Errorf("%d records took %s of a stalled store", busy, took)
		}
		s.set(nil, false)
		time.Sleep(queue.RecordTime + time.Minute)
		for name, made := range map[string]int{"jobs": busy, "mail": quiet} {
			kept, missed, delivered, bytes := 0, 0, 0, 0
			for _, r := range s.All(name) {
				delivered += r.Delivered
				if r.Outcome == ledger.Gap {
					missed += r.Missed
					continue
				}
				kept++
				if r.Error != nil {
					bytes += len(r.Error.Stack)
				}
			}
			if kept+missed != made || delivered != 10*made {
				t.Errorf("%s: %d kept and %d missed of %d, with %d of %d messages", name, kept, missed, made, delivered, 10*made)
			}
			if name == "mail" && missed > 0 {
				t.Errorf("the busy queue cost the quiet one %d records", missed)
			}
			if name == "jobs" && (missed == 0 || bytes > queue.RecordBuffer || bytes < queue.RecordBuffer/2) {
				t.Errorf("%d missed; %d bytes were held", missed, bytes)
			}
		}
	})
}

func TestHopelessRecordsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s := start(t)
		s.set(fault.New(fault.Internal, "broken", "no such column"), false)
		for range 3 {
			l.Batch(batch("jobs"))
		}
		time.Sleep(time.Minute)
		s.set(nil, false)
		time.Sleep(time.Minute)
		all := s.All("jobs")
		if len(all) != 1 || all[0].Outcome != ledger.Gap || all[0].Missed != 3 || all[0].Acked != 30 || all[0].App != "app" {
			t.Errorf("records: %+v", all)
		}
	})
}

func TestExpiredIsOneRecordAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s := start(t)
		sub := l.Subscribe(ledger.Filter{Outcomes: []queue.Outcome{ledger.Expired}})
		defer sub.Close()
		for range 3 {
			l.Expired("jobs", 1_000)
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(time.Second)
		l.Expired("jobs", 7)
		time.Sleep(time.Second)
		all := s.All("jobs")
		if len(all) != 2 || all[0].Expired != 3_000 || all[0].Duration != 200*time.Millisecond || all[1].Expired != 7 || all[1].Outcome != ledger.Expired {
			t.Errorf("records: %+v", all)
		}
		for _, want := range []int{3_000, 7} {
			if r, _, err := sub.Next(t.Context()); err != nil || r.Expired != want {
				t.Errorf("followed %+v, %v", r, err)
			}
		}
	})
}

func TestPruning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s := start(t)
		l.Batch(batch("mail"))
		for range queue.RecordsKept + 5*queue.RecordRows/2 {
			l.Batch(batch("jobs"))
		}
		time.Sleep(time.Second)
		if jobs, mail := s.Count("jobs"), s.Count("mail"); jobs != queue.RecordsKept || mail != 1 {
			t.Errorf("%d of jobs and %d of mail are kept", jobs, mail)
		}
		time.Sleep(queue.RecordAge - time.Minute)
		l.Batch(batch("jobs"))
		time.Sleep(time.Second)
		if jobs := s.Count("jobs"); jobs != queue.RecordsKept {
			t.Errorf("%d of jobs are kept", jobs)
		}
		time.Sleep(2*time.Minute + queue.RecordSweepEvery)
		if jobs, mail := s.Count("jobs"), s.Count("mail"); jobs != 1 || mail != 0 {
			t.Errorf("after a week %d of jobs and %d of mail are kept", jobs, mail)
		}
	})
}
