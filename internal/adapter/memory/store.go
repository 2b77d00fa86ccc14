package memory

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// storeID is the identity of every database in memory: their messages never meet.
const storeID = 0x6d656d6f72790001

// Database holds messages. Stores are sessions on it; at most one of them is the owner.
type Database struct {
	mu     sync.Mutex
	epoch  int64
	next   int64
	queues []*messages
	byName map[string]*messages
	// held counts what Hold stands for, by queue.
	held    map[string]int
	inbox   []inboxRow
	account account
	notes   []noted
	owner   *tenure
	// freed is closed and replaced when the owner lets go.
	freed   chan struct{}
	pending []*write
	faults  func(call string) Fault
}

// inboxRow is a message that SQL enqueued.
type inboxRow struct {
	queue int32
	body  []byte
	sent  time.Time
	due   time.Time
}

// tenure is one ownership.
type tenure struct{ lost chan struct{} }

// write is a call that has begun and has no effect yet. A crash decides about it.
type write struct {
	effect  func() error
	crashed bool
}

// Fault is what happens to one call. The zero Fault is nothing.
type Fault struct {
	// Before and After are the time that the call takes before it has its effect, or reads, and after it.
	Before, After time.Duration
	// Hold, when it is not nil, is waited for before the effect.
	Hold <-chan struct{}
	// Err fails the call; it then has no effect.
	Err error
}

// NewDatabase returns an empty database without an owner.
func NewDatabase() *Database {
	return &Database{next: 1, byName: map[string]*messages{}, held: map[string]int{}, freed: make(chan struct{})}
}

// SetFaults has faults decide about each call from now on, by the name of the Store's method; nil lets all of them pass.
// It is called from the goroutines that call the store.
func (d *Database) SetFaults(faults func(call string) Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = faults
}

// Crash ends the ownership as if the owner's session had broken. For each write under way, oldest first, lands says
// whether it is carried out all the same; nil lets none. Their callers get an error either way.
func (d *Database) Crash(lands func() bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range d.pending {
		w.crashed = true
		if lands != nil && lands() {
			// Whoever called is told of the crash, not of this.
			_ = w.effect()
		}
	}
	d.pending = nil
	d.free()
}

// free ends the current ownership, if there is one. mu is held.
func (d *Database) free() {
	if d.owner == nil {
		return
	}
	close(d.owner.lost)
	d.owner = nil
	close(d.freed)
	d.freed = make(chan struct{})
}

// Enqueue puts a JSON message into the inbox, as SQL does. Its queue has to exist; a refusal fails it.
func (d *Database) Enqueue(queueName, body string, delay time.Duration) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.byName[queueName]
	if q == nil {
		return fault.New(fault.NotFound, queue.CodeQueueNotFound, "there is no queue %q", queueName)
	}
	if err := d.account.refusal(); err != nil {
		return err
	}
	row := inboxRow{queue: q.info.ID, body: []byte(body), sent: time.Now()}
	if delay > 0 {
		row.due = row.sent.Add(delay)
	}
	d.inbox = append(d.inbox, row)
	return nil
}

// Size is the number and the body bytes of the messages of all queues, for a look at what is left.
func (d *Database) Size() (messages, bytes int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, q := range d.queues {
		c := q.count()
		messages += int(c.Messages)
		bytes += int(c.Bytes)
	}
	return messages, bytes
}

// Store is one session on a database.
type Store struct {
	db *Database
	// own is the session's ownership, nil while it has none. The database's lock guards it.
	own *tenure
}

var _ store.Store = (*Store)(nil)

// Open returns a new session.
func (d *Database) Open() *Store { return &Store{db: d} }

func ownershipLost() error {
	return fault.New(fault.Conflict, store.CodeOwnershipLost, "this session does not own the queues")
}

func unavailable(cause error) error {
	return fault.New(fault.Unavailable, "database_unavailable", "the database does not answer").WithCause(cause)
}

// fault asks what happens to a call.
func (d *Database) fault(call string) Fault {
	d.mu.Lock()
	faults := d.faults
	d.mu.Unlock()
	if faults == nil {
		return Fault{}
	}
	return faults(call)
}

// await lets the time before a call's effect pass; lost, which may be nil, ends it early.
func (f *Fault) await(ctx context.Context, lost <-chan struct{}) error {
	if f.Hold != nil {
		select {
		case <-f.Hold:
		case <-lost:
			return nil
		case <-ctx.Done():
			return unavailable(context.Cause(ctx))
		}
	}
	if f.Before > 0 {
		timer := time.NewTimer(f.Before)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-lost:
			return nil
		case <-ctx.Done():
			return unavailable(context.Cause(ctx))
		}
	}
	return f.Err
}

// write carries effect out under the database's lock, if the session is the owner then.
func (s *Store) write(ctx context.Context, call string, effect func() error) error {
	if ctx.Err() != nil {
		return unavailable(context.Cause(ctx))
	}
	f := s.db.fault(call)
	s.db.mu.Lock()
	own := s.own
	if own == nil || own != s.db.owner {
		s.db.mu.Unlock()
		return ownershipLost()
	}
	if f == (Fault{}) {
		defer s.db.mu.Unlock()
		return effect()
	}
	w := &write{effect: effect}
	s.db.pending = append(s.db.pending, w)
	s.db.mu.Unlock()
	err := f.await(ctx, own.lost)
	err = s.land(w, err)
	if err == nil && f.After > 0 {
		<-time.After(f.After)
	}
	return err
}

// land carries a write out whose time has come, unless it failed with err or a crash decided about it.
func (s *Store) land(w *write, err error) error {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	if w.crashed {
		return ownershipLost()
	}
	for i, p := range s.db.pending {
		if p == w {
			s.db.pending = append(s.db.pending[:i], s.db.pending[i+1:]...)
			break
		}
	}
	if err != nil {
		return err
	}
	return w.effect()
}

// read looks under the database's lock.
func (s *Store) read(ctx context.Context, call string, look func()) error {
	if ctx.Err() != nil {
		return unavailable(context.Cause(ctx))
	}
	f := s.db.fault(call)
	if err := f.await(ctx, nil); err != nil {
		return err
	}
	s.db.mu.Lock()
	look()
	s.db.mu.Unlock()
	if f.After > 0 {
		<-time.After(f.After)
	}
	return nil
}

// Acquire implements store.Store.
func (s *Store) Acquire(ctx context.Context) (store.Ownership, error) {
	if err := s.Release(ctx); err != nil {
		return store.Ownership{}, err
	}
	d := s.db
	for {
		d.mu.Lock()
		if d.owner == nil {
			defer d.mu.Unlock()
			d.epoch++
			d.owner = &tenure{lost: make(chan struct{})}
			s.own = d.owner
			return store.Ownership{Store: storeID, Epoch: d.epoch, NextSeq: d.next, Lost: d.owner.lost}, nil
		}
		freed := d.freed
		d.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return store.Ownership{}, fault.New(fault.Unavailable, "database_held", "another session owns the queues").WithCause(context.Cause(ctx))
		}
	}
}

// Release implements store.Store.
func (s *Store) Release(context.Context) error {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	if s.own != nil && s.own == s.db.owner {
		s.db.free()
	}
	s.own = nil
	return nil
}

// Reserve implements store.Store.
func (s *Store) Reserve(ctx context.Context, limit int64) error {
	return s.write(ctx, "Reserve", func() error {
		s.db.next = max(s.db.next, limit)
		return nil
	})
}

// Declare implements store.Store.
func (s *Store) Declare(ctx context.Context, names []string) ([]store.QueueInfo, error) {
	infos := make([]store.QueueInfo, 0, len(names))
	err := s.write(ctx, "Declare", func() error {
		for _, name := range names {
			if !queue.ValidName(name) {
				return fault.New(fault.Invalid, queue.CodeQueueNotFound, "%q is no queue name: %s", name, queue.NameRule)
			}
		}
		for _, name := range names {
			q := s.db.byName[name]
			if q == nil {
				q = newMessages(store.QueueInfo{ID: int32(len(s.db.queues) + 1), Name: name, Created: time.Now().UnixMilli()})
				s.db.queues = append(s.db.queues, q)
				s.db.byName[name] = q
			}
			infos = append(infos, q.info)
		}
		return nil
	})
	return infos, err
}

// Queues implements store.Store.
func (s *Store) Queues(ctx context.Context) ([]store.QueueInfo, error) {
	var infos []store.QueueInfo
	err := s.read(ctx, "Queues", func() {
		for _, q := range s.db.queues {
			if !q.removed {
				infos = append(infos, q.info)
			}
		}
	})
	return infos, err
}

// SaveMarks implements store.Store.
func (s *Store) SaveMarks(ctx context.Context, marks []store.Mark) error {
	return s.write(ctx, "SaveMarks", func() error {
		for _, m := range marks {
			if q := s.db.numbered(m.Queue); q != nil {
				q.info.ReadyMark, q.info.DueMark = m.ReadyMark, m.DueMark
			}
		}
		return nil
	})
}

// Snapshot implements store.Store.
func (s *Store) Snapshot(ctx context.Context) (store.Snapshot, error) {
	view := &snapshot{store: s, counts: map[int32]store.Count{}}
	err := s.read(ctx, "Snapshot", func() {
		for _, q := range s.db.queues {
			view.counts[q.info.ID] = q.count()
		}
	})
	if err != nil {
		return nil, err
	}
	return view, nil
}

// snapshot is what was counted when it was opened.
type snapshot struct {
	store  *Store
	counts map[int32]store.Count
}

// Counts implements store.Snapshot.
func (v *snapshot) Counts(ctx context.Context) (map[int32]store.Count, error) {
	var counts map[int32]store.Count
	err := v.store.read(ctx, "Counts", func() { counts = maps.Clone(v.counts) })
	return counts, err
}

// Close implements store.Snapshot.
func (*snapshot) Close(context.Context) error { return nil }
