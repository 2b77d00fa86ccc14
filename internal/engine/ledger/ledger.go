package ledger

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/ledger/feed"
)

// Ledger keeps the records of one database. It lives longer than its store: while none is attached, it fills its buffer.
type Ledger struct {
	log *slog.Logger
	hub feed.Feed[*Record]

	mu     sync.Mutex
	buffer buffer
	lines  lines
	store  Store
	// forgotten is, by queue, the last number of the records that are written no more.
	forgotten map[string]int64
	// life ends when the store is detached; dropLife ends it.
	life     context.Context //nolint:containedctx // the time for which the store may be used
	dropLife context.CancelFunc

	// busy is held while the store writes.
	busy sync.Mutex
	// wake has room for one signal: something to write, enough of it, or a store.
	wake chan struct{}
	// work ends when even the last write has to.
	work     context.Context //nolint:containedctx // the life of the goroutine
	stopWork context.CancelFunc
	stopping chan struct{}
	stopOnce sync.Once
	done     chan struct{}
	// failures counts the writes in a row that failed. Of the goroutine.
	failures int
}

// New returns a ledger without a store, which takes records from now on. Start writes them.
func New(log *slog.Logger) *Ledger {
	l := &Ledger{
		log: log, hub: feed.Feed[*Record]{Most: queue.RecordFollow}, buffer: buffer{most: queue.RecordBuffer, byName: map[string]*pending{}}, lines: newLines(queue.RecordLogBuffer),
		forgotten: map[string]int64{}, wake: make(chan struct{}, 1), stopping: make(chan struct{}), done: make(chan struct{}),
	}
	l.work, l.stopWork = context.WithCancel(context.Background())
	l.life, l.dropLife = context.WithCancel(context.Background())
	return l
}

// Start begins to write. It is called once; Stop ends it.
func (l *Ledger) Start() { go l.run() }

// Attach gives the ledger a store, in place of the one before.
func (l *Ledger) Attach(s Store) {
	l.Detach()
	l.mu.Lock()
	l.store = s
	l.life, l.dropLife = context.WithCancel(context.Background())
	l.mu.Unlock()
	l.nudge()
}

// Detach takes the store away: a write under way is cut off, and repeated on the next store. When it returns, nothing
// uses the store any more but reads under way.
func (l *Ledger) Detach() {
	l.mu.Lock()
	l.store = nil
	l.dropLife()
	l.mu.Unlock()
	l.busy.Lock()
	defer l.busy.Unlock()
}

// Batch takes the record of a batch; its number is given here. It never waits. Nobody may write to what the record
// refers to from now on.
func (l *Ledger) Batch(r *Record) {
	r.trim()
	now := time.Now()
	l.mu.Lock()
	r.ID.Number = l.buffer.number(now)
	l.take(func() { l.buffer.add(r) })
	l.hub.Publish(r)
}

// Log takes a line that a handler logged, for the record of its batch: lines that come until the record is written, about
// queue.RecordLinger after its batch was settled at the earliest, are kept in it. It never waits.
func (l *Ledger) Log(delivery string, line Line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines.add(delivery, line)
}

// Expired takes note of n messages of a queue that outlived their retention and were deleted. It never waits.
func (l *Ledger) Expired(queueName string, n int) {
	now := time.Now()
	l.mu.Lock()
	l.take(func() { l.buffer.expired(queueName, n, now) })
}

// Forget drops the records of a queue that was deleted and that are not written yet: another queue of its name is not to have
// them. It waits for a write under way.
func (l *Ledger) Forget(queueName string) {
	l.mu.Lock()
	l.forgotten[queueName] = l.buffer.number(time.Now())
	l.mu.Unlock()
	l.busy.Lock()
	defer l.busy.Unlock()
}

// remembered returns the records that are to be written, in the same memory.
func (l *Ledger) remembered(records []Record) []Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.forgotten) == 0 {
		return records
	}
	return slices.DeleteFunc(records, func(r Record) bool { return r.ID.Number <= l.forgotten[r.ID.Queue] })
}

// take changes the buffer, gives the lock back and wakes the writer when there is a reason.
func (l *Ledger) take(change func()) {
	before, enough := l.buffer.records, l.buffer.enough()
	change()
	wake := before == 0 || !enough && l.buffer.enough()
	l.mu.Unlock()
	if wake {
		l.nudge()
	}
}

func (l *Ledger) nudge() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Stop writes what is left until ctx ends, and waits. What is not written then is lost, and the log says how much. The
// store may be closed afterwards. Calling it twice is fine.
func (l *Ledger) Stop(ctx context.Context) {
	l.stopOnce.Do(func() { close(l.stopping) })
	cut := context.AfterFunc(ctx, l.stopWork)
	defer cut()
	<-l.done
	l.stopWork()
	l.Detach()
}

// run is the one goroutine that writes.
func (l *Ledger) run() {
	defer close(l.done)
	sweep := time.NewTimer(queue.RecordSweepEvery)
	defer sweep.Stop()
	for {
		select {
		case <-l.wake:
			if l.gather() {
				l.flush(false)
			}
		case <-sweep.C:
			sweep.Reset(l.sweep())
		case <-l.stopping:
			l.flush(true)
			l.farewell()
			return
		}
	}
}

// gather lets records come together for one write, and the last lines of their handlers come. It returns false when there
// are none.
func (l *Ledger) gather() bool {
	l.mu.Lock()
	empty := len(l.buffer.queues) == 0
	l.mu.Unlock()
	if empty {
		return false
	}
	wait := time.NewTimer(queue.RecordEvery)
	defer wait.Stop()
	select {
	case <-time.After(queue.RecordLinger):
	case <-l.stopping:
		return true
	}
	for {
		l.mu.Lock()
		enough := l.buffer.enough()
		l.mu.Unlock()
		if enough {
			return true
		}
		select {
		case <-l.wake:
		case <-wait.C:
			return true
		case <-l.stopping:
			return true
		}
	}
}

// flush writes what is there, and tries again while the store does not answer. It goes on while there is more than one
// write holds, or anything at the end; what came meanwhile is gathered again.
func (l *Ledger) flush(end bool) {
	for more := true; more; {
		l.mu.Lock()
		list := l.buffer.take(queue.RecordRows, queue.RecordBytes)
		l.mu.Unlock()
		if len(list) == 0 {
			return
		}
		records := make([]Record, len(list))
		for i, r := range list {
			if r.Outcome == Expired || r.Outcome == Gap {
				l.hub.Publish(r)
			}
			records[i] = *r
		}
		l.addLines(records)
		if !l.keep(list, records) {
			return
		}
		l.mu.Lock()
		more = end || l.buffer.enough()
		l.mu.Unlock()
	}
	l.nudge()
}

// addLines moves what the handlers logged into the records, which nobody else has.
func (l *Ledger) addLines(records []Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lines.byDelivery) == 0 {
		return
	}
	for i := range records {
		records[i].Lines = l.lines.take(records[i].Delivery)
	}
}

// keep writes these records, however often it has to try. It returns false when they were given up because time is over.
func (l *Ledger) keep(list []*Record, records []Record) bool {
	for {
		held, err := l.write(records)
		if err == nil {
			l.settle(list, nil)
			l.noteSuccess()
			l.prune(held)
			return true
		}
		l.noteFailure(err)
		// What is wrong with more than the connection fails at the next try as well.
		hopeless := fault.KindOf(err) != fault.Unavailable
		inTime := l.pause(queue.Backoff{First: queue.StoreRetryFirst, Max: queue.StoreRetryMax}.Delay(l.failures))
		if hopeless || !inTime {
			l.settle(list, err)
			return inTime
		}
	}
}

// settle takes the records out of the account, as written or as missed.
func (l *Ledger) settle(list []*Record, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.buffer.written(list)
		return
	}
	l.buffer.missed(list)
}

// pause waits before another try, at a stop not for long; it returns false when there is no time left.
func (l *Ledger) pause(d time.Duration) bool {
	stopping := l.stopping
	select {
	case <-stopping:
		stopping, d = nil, queue.StoreRetryFirst
	default:
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-stopping:
	case <-l.work.Done():
	}
	return l.work.Err() == nil
}

var errNoStore = fault.New(fault.Unavailable, "records_unavailable", "the history of batches is not there now").
	WithHint("its database does not answer")

func (l *Ledger) write(records []Record) (held []Held, err error) {
	err = l.use(func(ctx context.Context, s Store) error {
		if records = l.remembered(records); len(records) > 0 {
			held, err = s.Write(ctx, records)
		}
		return err
	})
	return held, err
}

// use calls the store for a write, within bounds.
func (l *Ledger) use(call func(ctx context.Context, s Store) error) error {
	l.busy.Lock()
	defer l.busy.Unlock()
	l.mu.Lock()
	s, life := l.store, l.life
	l.mu.Unlock()
	if s == nil {
		return errNoStore
	}
	ctx, cancel := context.WithTimeout(l.work, queue.RecordTime)
	defer cancel()
	detach := context.AfterFunc(life, cancel)
	defer detach()
	return call(ctx, s)
}

func (l *Ledger) noteFailure(err error) {
	l.failures++
	if l.failures == 1 && l.work.Err() == nil {
		l.log.Warn("the records of batches cannot be written; they wait in memory, as far as they fit", "error", fault.Detail(err))
	}
}

func (l *Ledger) noteSuccess() {
	if l.failures > 0 {
		l.failures = 0
		l.log.Info("the records of batches are written again")
	}
}

// prune takes one step in each queue that holds too much. A step deletes more than a write adds.
func (l *Ledger) prune(held []Held) {
	for _, h := range held {
		if h.Records <= queue.RecordsKept {
			continue
		}
		if _, err := l.pruneOne(h.Queue); err != nil {
			return // the next write or the sweep comes back to it
		}
	}
}

func (l *Ledger) pruneOne(queueName string) (more bool, err error) {
	err = l.use(func(ctx context.Context, s Store) error {
		more, err = s.Prune(ctx, queueName, queue.RecordsKept, cutoff(), queue.RecordPruneRows)
		return err
	})
	if err != nil && l.work.Err() == nil {
		l.log.Debug("cannot prune the records of batches", "queue", queueName, "error", fault.Detail(err))
	}
	return more, err
}

// cutoff is the number below which records are too old.
func cutoff() int64 { return numberAt(time.Now().Add(-queue.RecordAge)) }

// sweep takes one step in each queue that holds too much or too old, and returns the pause until the next round.
func (l *Ledger) sweep() time.Duration {
	var names []string
	err := l.use(func(ctx context.Context, s Store) (err error) {
		names, err = s.Overdue(ctx, queue.RecordsKept, cutoff())
		return err
	})
	pause := queue.RecordSweepEvery
	if err != nil {
		return pause
	}
	for _, name := range names {
		more, err := l.pruneOne(name)
		if err != nil {
			break
		}
		if more {
			pause = queue.ExpirePause
		}
	}
	return pause
}

// farewell tells what could not be kept.
func (l *Ledger) farewell() {
	l.mu.Lock()
	left := l.buffer.left()
	l.mu.Unlock()
	if left > 0 {
		l.log.Warn("records of batches were not written before the stop", "records", left)
	}
}
