package series

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/runlot/runlot/internal/core/queue"
)

// Recorder keeps the series of one database. It lives longer than its store: while none is attached, minutes wait in
// memory, as far as they fit.
type Recorder struct {
	log    *slog.Logger
	source Source
	// Sends and Settles count the group commits of the database.
	Sends, Settles Commits

	mu sync.Mutex
	// lines are those of the queues that were ever counted, by name.
	lines map[string]*line
	// writer names this process in the rows that it writes; a new one is taken when the clock was set back.
	writer int64
	// began is from when on the points are in memory; last is the start of the newest. Nothing was counted before started.
	began, last, started time.Time
	pending              []Row
	missed               int
	store                Store
	// life ends when the store is detached; dropLife ends it.
	life     context.Context //nolint:containedctx // the time for which the store may be used
	dropLife context.CancelFunc

	// busy is held while the store writes or prunes.
	busy sync.Mutex
	// wake has room for one signal: something to write, or a store.
	wake     chan struct{}
	work     context.Context //nolint:containedctx // the life of the goroutines
	stopWork context.CancelFunc
	stopping chan struct{}
	stopOnce sync.Once
	running  sync.WaitGroup
}

// line is what is kept of one queue. The lock of its recorder guards all but the tally.
type line struct {
	Tally

	name string
	// seen is what the counters were at the last point.
	seen Counts
	// points are those of the last queue.SeriesMemory in which something happened or was there, in order.
	points []Point
	// minute gathers the points of the minute that began at its Start; zero when there is none.
	minute Point
	// gauges are the last that are known.
	gauges Gauges
}

// New returns a recorder that counts from now on. Start takes points.
func New(log *slog.Logger, source Source) *Recorder {
	r := &Recorder{
		log: log, source: source, lines: map[string]*line{}, writer: newWriter(), wake: make(chan struct{}, 1), stopping: make(chan struct{}),
	}
	r.work, r.stopWork = context.WithCancel(context.Background())
	r.life, r.dropLife = context.WithCancel(context.Background())
	return r
}

func newWriter() int64 { return rand.Int64() } //nolint:gosec // G404: it has to differ, not to be secret

// Tally returns the counters of a queue, which are the same each time. Past queue.SeriesQueues, queues share one whose
// numbers are in no series.
func (r *Recorder) Tally(queueName string) *Tally {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.lines[queueName]; l != nil {
		return &l.Tally
	}
	if len(r.lines) >= queue.SeriesQueues {
		queueName = ""
	}
	l := r.lines[queueName]
	if l == nil {
		l = &line{name: queueName}
		r.lines[queueName] = l
	}
	return &l.Tally
}

// Forget drops what is known of a queue that was deleted and is not written yet, so that another queue of its name begins with
// nothing. It waits for a write under way. Who counts with the tally of the old one counts for nobody.
func (r *Recorder) Forget(queueName string) {
	r.busy.Lock()
	defer r.busy.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.lines, queueName)
	r.pending = slices.DeleteFunc(r.pending, func(row Row) bool { return row.Queue == queueName })
}

// Knows reports whether there are numbers of a queue.
func (r *Recorder) Knows(queueName string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lines[queueName] != nil
}

// Start begins to take points. It is called once; Stop ends it.
func (r *Recorder) Start() {
	now := time.Now()
	r.mu.Lock()
	r.began = now.Truncate(queue.SeriesStep)
	r.started, r.last = r.began, r.began.Add(-queue.SeriesStep)
	r.mu.Unlock()
	r.running.Go(r.sampleLoop)
	r.running.Go(r.writeLoop)
}

// Attach gives the recorder a store, in place of the one before; nil keeps the series in memory alone.
func (r *Recorder) Attach(s Store) {
	r.Detach()
	r.mu.Lock()
	r.store = s
	r.life, r.dropLife = context.WithCancel(context.Background())
	r.mu.Unlock()
	r.nudge()
}

// Detach takes the store away: a write under way is cut off, and repeated on the next store. When it returns, nothing
// uses the store any more but reads under way.
func (r *Recorder) Detach() {
	r.mu.Lock()
	r.store = nil
	r.dropLife()
	r.mu.Unlock()
	r.busy.Lock()
	defer r.busy.Unlock()
}

func (r *Recorder) nudge() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Stop takes a last point, writes what is left until ctx ends, and waits. The store may be closed afterwards. Calling it
// twice is fine.
func (r *Recorder) Stop(ctx context.Context) {
	r.stopOnce.Do(func() { close(r.stopping) })
	cut := context.AfterFunc(ctx, r.stopWork)
	defer cut()
	r.running.Wait()
	r.stopWork()
	r.Detach()
}

// sampleLoop takes a point at each multiple of queue.SeriesStep.
func (r *Recorder) sampleLoop() {
	for {
		now := time.Now()
		next := time.NewTimer(now.Truncate(queue.SeriesStep).Add(queue.SeriesStep).Sub(now))
		select {
		case <-next.C:
			r.sample(time.Now())
		case <-r.stopping:
			next.Stop()
			return
		}
	}
}

// sample takes a point of the span that ends now.
func (r *Recorder) sample(now time.Time) {
	ctx, cancel := context.WithTimeout(r.work, queue.SeriesStep/2)
	gauges, known := r.source(ctx)
	cancel()
	for name := range gauges {
		r.Tally(name)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.take(now.Truncate(queue.SeriesStep).Add(-queue.SeriesStep), gauges, known)
	if r.close(now.Truncate(time.Minute)) {
		r.nudge()
	}
}

// take adds the point of a span that begins at start. The caller holds mu.
func (r *Recorder) take(start time.Time, gauges map[string]Gauges, known bool) {
	back := start.Before(r.last)
	if back {
		// The clock was set back. What is newer than now is left to what was written of it.
		r.close(start.Add(24 * time.Hour))
		r.writer = newWriter()
		r.began, r.started = start, start
	}
	r.last = start
	// One minute more than can be asked for, for a question that comes late.
	oldest := start.Add(-queue.SeriesMemory - time.Minute)
	if r.began.Before(oldest) {
		r.began = oldest
	}
	for _, l := range r.lines {
		if l.name == "" {
			continue
		}
		if known {
			l.gauges = gauges[l.name]
		} else {
			// What waits goes on waiting, and nobody is at work on it.
			l.gauges = Gauges{Visible: l.gauges.Visible + l.gauges.InFlight, Delayed: l.gauges.Delayed, Oldest: l.gauges.Oldest}
		}
		counts := l.Counts()
		p := Point{Start: start, Counts: counts.Since(&l.seen), Gauges: l.gauges}
		l.seen = counts
		l.forget(oldest)
		if back {
			l.points = nil
		}
		if p.idle() {
			continue
		}
		if n := len(l.points); n > 0 && l.points[n-1].Start.Equal(start) {
			l.points[n-1].merge(&p)
		} else {
			l.points = append(l.points, p)
		}
		if minute := start.Truncate(time.Minute); !l.minute.Start.Equal(minute) {
			r.closeLine(l)
			l.minute = Point{Start: minute}
		}
		l.minute.merge(&p)
	}
}

// forget drops the points before a time.
func (l *line) forget(before time.Time) {
	n := 0
	for n < len(l.points) && l.points[n].Start.Before(before) {
		n++
	}
	if n == len(l.points) {
		l.points = nil
		return
	}
	l.points = append(l.points[:0], l.points[n:]...)
}

// close hands the minutes that began before a time to the writer, and reports whether there are any. The caller holds mu.
func (r *Recorder) close(before time.Time) bool {
	for _, l := range r.lines {
		if l.minute.Start.Before(before) {
			r.closeLine(l)
		}
	}
	r.trim()
	return len(r.pending) > 0
}

// trim gives up the oldest rows that wait to be written when there are too many. The caller holds mu.
func (r *Recorder) trim() {
	if over := len(r.pending) - queue.SeriesPending; over > 0 {
		r.missed += over
		r.pending = append(r.pending[:0], r.pending[over:]...)
	}
}

func (r *Recorder) closeLine(l *line) {
	if !l.minute.Start.IsZero() {
		r.pending = append(r.pending, Row{Queue: l.name, Writer: r.writer, Point: l.minute})
	}
	l.minute = Point{}
}
