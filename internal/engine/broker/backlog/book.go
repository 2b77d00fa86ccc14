package backlog

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/pace"
	"github.com/runlot/runlot/internal/engine/broker/store"
	"github.com/runlot/runlot/internal/engine/broker/wheel"
	"github.com/runlot/runlot/internal/engine/broker/window"
)

// Reader is the part of a store that windows are filled from; its methods are described at store.Store.
type Reader interface {
	ReadReady(ctx context.Context, queueID int32, after, upTo int64, rows, bytes int) ([]store.Row, error)
	ReadDue(ctx context.Context, queueID int32, after store.Due, upTo int64, rows, bytes int) ([]store.Row, error)
}

// Options are what a Book is made of. Every field is required.
type Options struct {
	Reader Reader
	Bounds window.Bounds
	Log    *slog.Logger
	// Refusal is why no batch is handed out at the moment, and nil when there is no reason. It is called under the lock of
	// a queue and must not call back.
	Refusal func() error
}

// Book holds every queue that a broker knows.
type Book struct {
	reader  Reader
	bounds  window.Bounds
	log     *slog.Logger
	refusal func() error

	// database and nextSeq come with the ownership: the first half of message IDs, and a Seq above every earlier one.
	database uint64
	nextSeq  int64

	// exact is set when the messages that were there at the start are in the counts of the queues.
	exact atomic.Bool
	// lanes is the number of queues with an open lane; what a lane may hold in memory depends on it.
	lanes atomic.Int64
	// readers are the windows that want to be read, in turn.
	readers pace.List[*openWindow]
	wheel   *wheel.Wheel[*Queue]

	mu sync.RWMutex
	// byName and byID hold the queues; mu guards them.
	byName  map[string]*Queue
	byID    map[int32]*Queue
	removed map[int32]struct{} // the numbers of the queues that ended; guarded by mu
}

// New makes a book without queues.
func New(o Options) *Book {
	return &Book{
		reader: o.Reader, bounds: o.Bounds, log: o.Log, refusal: o.Refusal,
		readers: pace.List[*openWindow]{Kick: make(pace.Kick, queue.LaneReaders)},
		wheel:   wheel.New[*Queue](),
		byName:  map[string]*Queue{}, byID: map[int32]*Queue{}, removed: map[int32]struct{}{},
	}
}

// WakeLoop looks at queues when something of theirs can be due, until ctx ends. One goroutine runs it.
func (b *Book) WakeLoop(ctx context.Context) {
	b.wheel.Run(ctx, func(q *Queue, now time.Time) {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.pump(now)
	})
}

// Begin says under which ownership the queues are served from now on. It comes before the first lane.
func (b *Book) Begin(own store.Ownership) { b.database, b.nextSeq = own.Store, own.NextSeq }

// Database is the identity of the database, the first half of the IDs of its messages.
func (b *Book) Database() uint64 { return b.database }

// Know adds the queues that are not known yet. Those that ended since infos were read are left out.
func (b *Book) Know(infos []store.QueueInfo) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range infos {
		if _, removed := b.removed[infos[i].ID]; !removed && b.byID[infos[i].ID] == nil {
			q := newQueue(b, &infos[i])
			b.byID[q.ID] = q
			b.byName[q.Name] = q
		}
	}
}

// Named finds a queue by its name. Fault: NotFound (queue.CodeQueueNotFound).
func (b *Book) Named(name string) (*Queue, error) {
	b.mu.RLock()
	q := b.byName[name]
	b.mu.RUnlock()
	if q == nil {
		return nil, missing(name)
	}
	return q, nil
}

// Numbered finds a queue by its number, and nil when it is not known.
func (b *Book) Numbered(id int32) *Queue {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.byID[id]
}

// All returns every known queue.
func (b *Book) All() []*Queue {
	b.mu.RLock()
	defer b.mu.RUnlock()
	all := make([]*Queue, 0, len(b.byID))
	for _, q := range b.byID {
		all = append(all, q)
	}
	return all
}

// Unlisted returns a queue that the book does not hold: what it is told is forgotten with it.
func (b *Book) Unlisted(id int32) *Queue { return newQueue(b, &store.QueueInfo{ID: id}) }

// ResetCounts sets the counts of all queues to 0, so that what commits from now on is counted from there.
func (b *Book) ResetCounts() {
	for _, q := range b.All() {
		q.mu.Lock()
		q.count, q.bytes = 0, 0
		q.mu.Unlock()
	}
}

// AddCounts adds what the store held when ResetCounts was called.
func (b *Book) AddCounts(counts map[int32]store.Count) {
	for id, count := range counts {
		if q := b.Numbered(id); q != nil {
			q.mu.Lock()
			q.count += count.Messages
			q.bytes += count.Bytes
			q.mu.Unlock()
		}
	}
}

// SetExact says that the counts are exact from now on.
func (b *Book) SetExact() { b.exact.Store(true) }

// CloseLanes fails the calls that wait for a batch; settlements under way stay.
func (b *Book) CloseLanes(reason error) {
	for _, q := range b.All() {
		q.mu.Lock()
		if w := q.win; w != nil {
			for _, wt := range w.waiters {
				wt.lane.closed = reason
				close(wt.batch)
			}
			w.waiters = nil
		}
		q.mu.Unlock()
	}
}

// Exact reports whether the counts of the queues are exact: the messages that were there at the start are in them.
func (b *Book) Exact() bool { return b.exact.Load() }
