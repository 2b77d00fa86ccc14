package series_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	memory "github.com/runlot/runlot/internal/adapter/memory/series"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/series"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a recorder over a store in memory, under a fake clock.
type world struct {
	t     *testing.T
	store *memory.Store
	*series.Recorder

	mu     sync.Mutex
	gauges map[string]series.Gauges // guarded by mu
	away   bool                     // nobody serves the queues; guarded by mu
}

// set says what a queue holds from now on.
func (w *world) set(queueName string, g series.Gauges) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.away, w.gauges[queueName] = false, g
}

func (w *world) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.away = true
}

// look is a series.Source.
func (w *world) look(context.Context) (map[string]series.Gauges, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.gauges), !w.away
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, store: &memory.Store{}, gauges: map[string]series.Gauges{}}
	w.store.Declare("jobs", "mail", "idle")
	w.open()
	return w
}

// open begins a recorder as a process does.
func (w *world) open() {
	w.Recorder = series.New(slog.New(slog.DiscardHandler), w.look)
	w.Start()
	w.Attach(w.store)
	synctest.Wait()
}

func (w *world) close() { w.Stop(context.WithoutCancel(w.t.Context())) }

func (w *world) rows(queueName string) []series.Row {
	w.t.Helper()
	rows, err := w.store.Read(w.t.Context(), queueName, time.Now().Add(-9*24*time.Hour), time.Now().Add(time.Hour))
	if err != nil {
		w.t.Fatal(err)
	}
	return rows
}

func (w *world) series(q series.Query) series.Series {
	w.t.Helper()
	s, err := w.Series(w.t.Context(), q)
	if err != nil {
		w.t.Fatal(fault.Detail(err))
	}
	return s
}

// sum adds up points and checks that they lie one behind the other.
func sum(t *testing.T, s series.Series) (total series.Counts) {
	t.Helper()
	for i := range s.Points {
		if i > 0 && !s.Points[i].Start.Equal(s.Points[i-1].Start.Add(s.Step)) {
			t.Errorf("point %d begins at %s, after %s with a step of %s", i, s.Points[i].Start, s.Points[i-1].Start, s.Step)
		}
		total.Add(&s.Points[i].Counts)
	}
	return total
}

// step lets time pass until the next point was taken and written.
func step(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func batch(n int, took time.Duration) *series.Batch {
	return &series.Batch{Outcome: queue.OK, Duration: took, Delivered: n, Acked: n}
}

// Bubbles begin at midnight, UTC.

func TestAPointEveryTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.close()
		for i := range 6 {
			w.Tally("jobs").Sent(i+1, 10*(i+1))
			w.Tally("jobs").Batch(batch(i, time.Duration(i)*time.Second))
			w.set("jobs", series.Gauges{Visible: int64(10 - i), Oldest: time.Duration(5-i) * time.Second, Running: i})
			step(queue.SeriesStep)
		}
		s := w.series(series.Query{Queue: "jobs", From: time.Now().Add(-time.Minute), Step: queue.SeriesStep})
		if s.Step != queue.SeriesStep || len(s.Points) > 7 {
			t.Fatalf("step %s, %d points", s.Step, len(s.Points))
		}
		for i := range 6 {
			p := &s.Points[i]
			if p.Sent != int64(i+1) || p.SentBytes != int64(10*(i+1)) || p.Acked != int64(i) || p.Visible != int64(10-i) || p.Running != i {
				t.Errorf("point %d: %+v", i, p)
			}
		}
		rows := w.rows("jobs")
		if len(rows) != 1 || rows[0].Sent != 21 || rows[0].Visible != 10 || rows[0].Oldest != 5*time.Second || rows[0].Running != 5 || rows[0].Batches[0] != 6 {
			t.Errorf("rows: %+v", rows)
		}
	})
}

// TestWhatIsNotKnownYetIsNoZero: a series ends with the last sample, in the middle of a point if need be.
func TestWhatIsNotKnownYetIsNoZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.close()
		began := time.Now()
		for range 13 {
			w.Tally("jobs").Sent(10, 10)
			step(queue.SeriesStep)
		}
		step(7 * time.Second)
		for span, want := range map[time.Duration]int64{queue.SeriesStep: 10, time.Minute: 10} {
			s := w.series(series.Query{Queue: "jobs", From: began, Step: span})
			if last := s.Points[len(s.Points)-1]; last.Sent != want || !s.Known.Equal(began.Add(130*time.Second)) || last.Start.Add(span).Before(s.Known) {
				t.Errorf("points of %s end with %d at %s, known until %s", span, last.Sent, last.Start, s.Known)
			}
		}
	})
}

func TestNothingIsKeptOfAnIdleQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.close()
		w.set("idle", series.Gauges{Allowed: 1})
		w.set("jobs", series.Gauges{Visible: 1})
		w.Tally("idle")
		step(10 * time.Minute)
		if rows := w.rows("idle"); len(rows) > 0 {
			t.Errorf("%d rows of an idle queue", len(rows))
		}
		if rows := w.rows("jobs"); len(rows) != 10 {
			t.Errorf("%d rows of a queue in which something waits, want 10", len(rows))
		}
	})
}

// What a process that ends without a stop has in memory is the last minute, and nothing before it.
func TestACrashLosesTheLastMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for range 59 {
			w.Tally("jobs").Sent(1, 1)
			step(5 * time.Second)
		}
		var kept int64
		for _, r := range w.rows("jobs") {
			kept += r.Sent
		}
		if kept < 59-12 {
			t.Errorf("%d of 59 are kept", kept)
		}
		w.close()
		if total := sum(t, w.reopened().series(series.Query{Queue: "jobs", From: time.Now().Add(-time.Hour)})); total.Sent != 59 {
			t.Errorf("%d of 59 are kept after a stop", total.Sent)
		}
		w.close()
	})
}

// reopened begins the next process.
func (w *world) reopened() *world {
	w.open()
	return w
}

func TestTheClockMayBeSetBack(t *testing.T) {
	// The clock of a bubble cannot be set back; what is the same is a store that holds minutes of the time to come.
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.close()
		ahead := time.Now().Add(30 * time.Minute)
		if err := w.store.Write(t.Context(), []series.Row{{Queue: "jobs", Writer: 1, Point: series.Point{Start: ahead, Counts: series.Counts{Sent: 7}}}}); err != nil {
			t.Fatal(err)
		}
		w.Tally("jobs").Sent(1, 1)
		step(time.Hour)
		if total := sum(t, w.series(series.Query{Queue: "jobs", From: time.Now().Add(-time.Hour)})); total.Sent != 8 {
			t.Errorf("%d of 8", total.Sent)
		}
	})
}

func TestSeriesOfWhatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.close()
		w.Tally("jobs").Sent(1, 1)
		step(20 * time.Minute)
		w.Detach()
		if _, err := w.Series(t.Context(), series.Query{Queue: "jobs", From: time.Now().Add(-time.Hour)}); fault.KindOf(err) != fault.Unavailable {
			t.Errorf("an hour without the database: %v", err)
		}
		w.series(series.Query{Queue: "jobs", From: time.Now().Add(-14 * time.Minute)})
		if _, err := w.Series(t.Context(), series.Query{Queue: "jobs", From: time.Now().Add(time.Hour)}); fault.KindOf(err) != fault.Invalid {
			t.Errorf("a time to come: %v", err)
		}
	})
}

func TestStepsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.close()
		step(20 * time.Minute)
		for _, c := range []struct {
			span, asked, want time.Duration
		}{
			{15 * time.Minute, 0, 10 * time.Second},
			{14 * time.Minute, 20 * time.Second, 30 * time.Second},
			{time.Hour, 10 * time.Second, 10 * time.Second},
			{6 * time.Hour, 0, 2 * time.Minute},
			{24 * time.Hour, time.Minute, 5 * time.Minute},
			{7 * 24 * time.Hour, 10 * time.Second, 15 * time.Minute},
			{7 * 24 * time.Hour, 0, time.Hour},
			{30 * 24 * time.Hour, time.Hour, time.Hour},
		} {
			s := w.series(series.Query{Queue: "jobs", From: time.Now().Add(-c.span), Step: c.asked})
			if s.Step != c.want || len(s.Points) > queue.SeriesPoints || len(s.Points) == 0 {
				t.Errorf("%s by %s: a step of %s, want %s; %d points", c.span, c.asked, s.Step, c.want, len(s.Points))
			}
		}
	})
}

func TestQueuesPastTheBoundShareATally(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.close()
		for i := range queue.SeriesQueues + 5 {
			w.Tally(fmt.Sprintf("queue-%d", i)).Sent(1, 1)
		}
		step(queue.SeriesStep)
		list := w.Watched()
		if len(list) != queue.SeriesQueues+1 || list[0].Queue != "" || list[0].Sent != 5 {
			t.Errorf("%d queues, the first is %q with %d", len(list), list[0].Queue, list[0].Sent)
		}
		if n := len(w.Recent(30).Queues); n != queue.SeriesQueues {
			t.Errorf("rates of %d queues", n)
		}
	})
}

func TestRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.close()
		for range 120 {
			w.Tally("jobs").Sent(20, 1)
			w.Tally("jobs").Arrived(10)
			w.Tally("jobs").Left(5)
			step(queue.SeriesStep)
		}
		for _, points := range []int{1, 7, 30, 90, 1000} {
			r := w.Recent(points)
			if len(r.Queues) != 1 || r.Queues[0].Queue != "jobs" || len(r.Queues[0].In) > queue.SeriesPoints {
				t.Fatalf("%+v", r)
			}
			for i, in := range r.Queues[0].In {
				if out := r.Queues[0].Out[i]; in < 2.999 || in > 3.001 || out < 0.499 || out > 0.501 {
					t.Errorf("%d points: %v in, %v out at %d", points, in, out, i)
				}
			}
		}
	})
}

// TestNumbersAddUp runs processes over one store, one after the other and sometimes two at once, with a database that goes
// away; at the end every number is where it belongs.
func TestNumbersAddUp(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { simulate(t, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

// happened is what was counted at a time.
type happened struct {
	at   time.Time
	sent int64
}

func simulate(t *testing.T, random *rand.Rand) {
	w := newWorld(t)
	began := time.Now()
	var all []happened
	var highest int64
	for range 40 {
		switch random.IntN(8) {
		case 0:
			w.Detach()
			step(time.Duration(random.IntN(300)) * time.Second)
			w.Attach(w.store)
		case 1:
			w.close()
			step(time.Duration(random.IntN(100)) * time.Second)
			w.open()
		case 2:
			// The queues move to another node: the next has begun before the one before ends.
			before := w.Recorder
			w.open()
			before.Stop(context.WithoutCancel(t.Context()))
		case 3:
			w.leave()
		default:
			n := 1 + random.IntN(50)
			took := time.Duration(random.IntN(5000)) * time.Millisecond
			w.Tally("jobs").Sent(n, n)
			w.Tally("jobs").Batch(batch(n, took))
			all = append(all, happened{time.Now(), int64(n)})
			depth := int64(random.IntN(1000))
			highest = max(highest, depth)
			w.set("jobs", series.Gauges{Visible: depth})
			step(queue.SeriesStep)
		}
		step(time.Duration(random.IntN(30)) * time.Second)
	}
	w.Attach(w.store)
	step(2 * time.Minute)
	var want int64
	for _, h := range all {
		want += h.sent
	}
	for _, by := range []time.Duration{0, time.Minute, 5 * time.Minute, time.Hour} {
		s := w.series(series.Query{Queue: "jobs", From: began, Step: by})
		total := sum(t, s)
		if total.Sent != want || total.Acked != want || total.Handler.Total() != int64(len(all)) {
			t.Errorf("by %s: %d sent, %d acked, %d calls, want %d and %d", by, total.Sent, total.Acked, total.Handler.Total(), want, len(all))
		}
		var seen int64
		for i := range s.Points {
			seen = max(seen, s.Points[i].Visible)
		}
		if seen != highest {
			t.Errorf("by %s: at most %d visible, want %d", by, seen, highest)
		}
		// Each number is in the point of its time: points are taken within a step.
		for i := range s.Points {
			from, to := s.Points[i].Start, s.Points[i].Start.Add(s.Step)
			var least, most int64
			for _, h := range all {
				if !h.at.Before(from) && h.at.Before(to.Add(-queue.SeriesStep)) {
					least += h.sent
				}
				if h.at.After(from.Add(-queue.SeriesStep)) && h.at.Before(to.Add(queue.SeriesStep)) {
					most += h.sent
				}
			}
			if got := s.Points[i].Sent; got < least || got > most {
				t.Errorf("by %s: point %s has %d sent, want %d to %d", by, from.Format(time.TimeOnly), got, least, most)
			}
		}
	}
	w.close()
}
