// Package undo takes back what operators did to messages. What was deleted comes back, what was made visible waits again, and
// what was moved returns, each as it was before and each once: a note of it is used up in the transaction that takes it back.
// What happened to a message since counts for more: it is left as it is.
package undo

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/backlog"
	"github.com/runlot/runlot/internal/engine/broker/look"
	"github.com/runlot/runlot/internal/engine/broker/pace"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// Owner is the broker whose queues they are.
type Owner interface {
	// LockAll waits until no settlement and no new message is between the store and the lanes, and keeps others away until
	// unlock. It fails when ctx ends and when the broker does not run.
	LockAll(ctx context.Context) (unlock func(), err error)
	// Assign returns the first of n Seqs in a row. LockAll is held.
	Assign(n int) (int64, error)
	// Work ends with the broker, and Over is why nothing more can be written after an error; nil while it can.
	Work() context.Context
	Over(err error) error
	// Count adds to the operations of the day what was committed: chunks written and deleted.
	Count(written, deleted int64)
}

// Options are what a Keeper is made of. Every field is required.
type Options struct {
	Owner Owner
	Store store.Store
	Book  *backlog.Book
	Look  *look.Looker
	// Rows is the most messages of one step.
	Rows int
}

// Keeper lists what can be undone in the queues of one broker, and undoes it. Its methods may be called from several
// goroutines. All of them fail with kind NotFound (queue.CodeQueueNotFound) for a queue that does not exist.
type Keeper struct {
	o Options

	mu sync.Mutex
	// known is what there are notes of, by queue, as it was read; whatever changes it empties it. mu guards it.
	known map[int32][]store.Noted
	// version counts the changes. Until a time there may be notes, and what is too old is dropped at the time next. mu guards all.
	version     int64
	until, next time.Time
	// fresh says that it is not known whether an earlier owner left notes. The goroutine that sweeps has it.
	fresh bool
}

// New makes a keeper.
func New(o Options) *Keeper {
	return &Keeper{o: o, known: map[int32][]store.Noted{}, fresh: true}
}

// CodeUnknown is for something that cannot be undone: it was already, is too long ago, or was never done.
const CodeUnknown = "undo_unknown"

// NewAction returns a name for something that is done and can be undone: 16 letters and digits that nobody guesses.
func NewAction() string {
	var raw [8]byte
	_, _ = rand.Read(raw[:]) // it never fails
	return hex.EncodeToString(raw[:])
}

// Note is what a change needs to be undone later; nil for no action.
func Note(action string) *store.Note {
	if action == "" {
		return nil
	}
	return &store.Note{Action: action, At: time.Now().UnixMilli()}
}

// Changed tells the keeper that notes were written.
func (k *Keeper) Changed() {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.known)
	k.version++
	now := time.Now()
	if k.until.Before(now) {
		k.next = now.Add(sweepEvery)
	}
	k.until = now.Add(queue.UndoTime + sweepEvery)
}

// sweepEvery is the pause between two looks for notes that are too old, while there may be some.
const sweepEvery = queue.UndoTime / 6

// Kind is what was done.
type Kind string

// The kinds.
const (
	Deleted Kind = "delete"
	Hurried Kind = "retry_now"
	Moved   Kind = "redrive"
)

var kinds = map[store.NoteKind]Kind{store.NoteDeleted: Deleted, store.NoteHurried: Hurried, store.NoteMoved: Moved}

// Action is something that was done and can be undone.
type Action struct {
	ID   string
	Kind Kind
	// Messages is how many of them there are notes of: of very many, only the last.
	Messages int64
	// At is when it was done, and Until how long it can be undone. Of what took longer, less and less can be.
	At, Until time.Time
}

// Undoable returns what can be undone in a queue, the newest first. It reads the database only after something was done.
func (k *Keeper) Undoable(ctx context.Context, queueName string) ([]Action, error) {
	q, err := k.o.Book.Named(queueName)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	noted, err := k.noted(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("look for what can be undone in queue %s: %w", q.Name, err)
	}
	list := make([]Action, 0, len(noted))
	for _, n := range noted {
		if a := (Action{n.Action, kinds[n.Kind], n.Messages, time.UnixMilli(n.Last), time.UnixMilli(n.Last).Add(queue.UndoTime)}); a.Until.After(now) {
			list = append(list, a)
		}
	}
	return list, nil
}

func (k *Keeper) noted(ctx context.Context, q *backlog.Queue) ([]store.Noted, error) {
	k.mu.Lock()
	list, ok := k.known[q.ID]
	version := k.version
	k.mu.Unlock()
	if ok {
		return list, nil
	}
	unlock, err := k.o.Look.Lock(ctx)
	if err != nil {
		return nil, err
	}
	list, err = k.o.Store.Noted(ctx, q.ID, oldest())
	unlock()
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.version == version {
		k.known[q.ID] = list
	}
	return list, nil
}

// oldest is the time from which on notes count, in milliseconds.
func oldest() int64 { return time.Now().Add(-queue.UndoTime).UnixMilli() }

// Undone is what became of the messages of an action.
type Undone struct {
	Kind Kind
	// Done counts those that are as they were before.
	Done int64
	// InFlight are being delivered, Changed were tried since or wait for another time, Missing are gone: they were delivered,
	// deleted or moved on. Forbidden would have to come from a queue from which they may not. All of them stay as they are.
	InFlight, Changed, Missing, Forbidden []queue.ID
}

// Undo takes back what was done in a queue, in transactions of at most Rows messages each. May, when it is not nil, says
// whether messages may be taken out of a queue. When ctx ends, what is not done yet can be undone by another call; else
// the action is used up. Fault: NotFound (CodeUnknown).
func (k *Keeper) Undo(ctx context.Context, queueName, action string, may func(queueName string) bool) (Undone, error) {
	var done Undone
	q, err := k.o.Book.Named(queueName)
	if err != nil {
		return done, err
	}
	defer k.Changed()
	known, err := k.noted(ctx, q)
	if err != nil {
		return done, fmt.Errorf("undo in queue %s: %w", q.Name, err)
	}
	at := slices.IndexFunc(known, func(n store.Noted) bool { return n.Action == action && n.Last >= oldest() })
	if at < 0 {
		return done, fault.New(fault.NotFound, CodeUnknown, "there is nothing named %q to undo in queue %q", action, q.Name).
			WithHint("it was undone already, or is more than an hour ago")
	}
	done.Kind = kinds[known[at].Kind]
	u := undoing{k: k, q: q, action: action, may: may, done: &done}
	for more := true; more && err == nil; {
		if err = context.Cause(ctx); err == nil {
			more, err = u.step(ctx)
		}
	}
	if err == nil {
		err = k.commit(&store.Change{Forget: []store.Forget{{Queue: q.ID, Action: action}}})
	}
	if err != nil {
		err = fmt.Errorf("undo in queue %s: %w", q.Name, err)
	}
	return done, err
}

// Forget drops what could be undone in a queue.
func (k *Keeper) Forget(q *backlog.Queue) error {
	defer k.Changed()
	return k.commit(&store.Change{Forget: []store.Forget{{Queue: q.ID}}})
}

// Sweep drops notes that are too old. Where nothing was noted, it does nothing.
func (k *Keeper) Sweep() error {
	if k.fresh {
		left, err := k.o.Store.Noted(k.o.Owner.Work(), 0, 0)
		if err != nil {
			return err
		}
		if len(left) > 0 {
			k.Changed()
		}
		k.fresh = false
	}
	now := time.Now()
	k.mu.Lock()
	due := !k.next.IsZero() && !now.Before(k.next)
	k.mu.Unlock()
	if !due {
		return nil
	}
	err := k.commit(&store.Change{Forget: []store.Forget{{Before: oldest()}}})
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.next = now.Add(sweepEvery); err == nil && now.After(k.until) {
		k.next = time.Time{}
	}
	return err
}

func (k *Keeper) commit(change *store.Change) error {
	return pace.Insist(k.o.Owner.Work(), k.o.Owner.Over, func(ctx context.Context) error { return k.o.Store.Apply(ctx, change) })
}

// undoing is one call of Undo.
type undoing struct {
	k      *Keeper
	q      *backlog.Queue
	action string
	may    func(queueName string) bool
	done   *Undone
	// after is the Seq of the last message that had its turn.
	after int64
}

// step takes back the next messages.
func (u *undoing) step(ctx context.Context) (more bool, err error) {
	unlock, err := u.k.o.Owner.LockAll(ctx)
	if err != nil {
		return false, err
	}
	defer unlock()
	if err := u.q.Gone(); err != nil {
		return false, err
	}
	notes, err := u.k.o.Store.NotedMessages(ctx, u.q.ID, u.action, u.after, u.k.o.Rows)
	if err != nil || len(notes) == 0 {
		return false, err
	}
	bytes := 0
	for i := range notes {
		if bytes += notes[i].Bytes; bytes > queue.ReadBytes && i > 0 {
			notes = notes[:i]
			break
		}
	}
	switch notes[0].Kind {
	case store.NoteDeleted:
		err = u.restore(nil, notes)
	case store.NoteHurried:
		err = u.delay(ctx, notes)
	case store.NoteMoved:
		err = u.bringBack(ctx, notes)
	}
	u.after = notes[len(notes)-1].Seq
	return err == nil, err
}

// restore brings messages back into the queue, out of another one that holds them or, for nil, out of their notes.
func (u *undoing) restore(from *backlog.Queue, notes []store.NotedMessage) error {
	if len(notes) == 0 {
		if from != nil {
			from.Unchanged()
		}
		return nil
	}
	seq, err := u.k.o.Owner.Assign(len(notes))
	first := seq
	var came store.Count
	var written int64
	due := int64(backlog.EndOfTime)
	change := store.Change{Return: make([]store.Return, len(notes))}
	for i := range notes {
		n := &notes[i]
		r := store.Return{Queue: u.q.ID, Seq: n.Seq, Action: u.action, To: seq, VisibleAt: n.VisibleAt}
		if r.VisibleAt > 0 {
			r.VisibleAt = max(r.VisibleAt, u.q.DueFloor())
			due = min(due, r.VisibleAt)
		}
		change.Return[i] = r
		came.Messages++
		came.Bytes += int64(n.Bytes)
		written += queue.Operations(n.Bytes)
		seq++
	}
	u.q.Hold(nil, time.Now())
	if err == nil {
		err = u.k.commit(&change)
	}
	if err != nil {
		u.q.Unchanged()
		if from != nil {
			from.Unchanged()
		}
		return err
	}
	if from != nil {
		from.Removed(came)
	}
	u.q.Arrived(first, seq-1, came)
	u.q.Rescheduled(due)
	u.k.o.Owner.Count(written, 0)
	u.done.Done += came.Messages
	return nil
}

// delay has messages wait for the times that they waited for before.
func (u *undoing) delay(ctx context.Context, notes []store.NotedMessage) error {
	held, err := u.hold(ctx, u.q, notes, func(n *store.NotedMessage, h *store.Head) bool {
		return h.Seq == n.Seq && h.VisibleAt == n.ToVisibleAt && h.Failures == n.Failures && h.Losses == n.Losses
	})
	if err != nil {
		return err
	}
	if len(held) == 0 {
		u.q.Unchanged()
		return nil
	}
	due, floor := int64(backlog.EndOfTime), u.q.DueFloor()
	change := store.Change{Return: make([]store.Return, len(held))}
	for i := range held {
		change.Return[i] = store.Return{Queue: u.q.ID, Seq: held[i].Seq, Action: u.action, VisibleAt: max(held[i].VisibleAt, floor)}
		due = min(due, change.Return[i].VisibleAt)
	}
	if err := u.k.commit(&change); err != nil {
		u.q.Unchanged()
		return err
	}
	u.q.Rescheduled(due)
	u.done.Done += int64(len(held))
	return nil
}

// bringBack moves messages back into the queue, for each of the queues that they went to in a transaction of its own.
func (u *undoing) bringBack(ctx context.Context, notes []store.NotedMessage) error {
	byQueue := map[int32][]store.NotedMessage{}
	for i := range notes {
		to := notes[i].To.Queue
		byQueue[to] = append(byQueue[to], notes[i])
	}
	for id, there := range byQueue {
		from := u.k.o.Book.Numbered(id)
		if from == nil || u.may != nil && !u.may(from.Name) {
			list := &u.done.Missing
			if from != nil {
				list = &u.done.Forbidden
			}
			for i := range there {
				*list = append(*list, u.k.o.Look.ID(&there[i].Head))
			}
			continue
		}
		held, err := u.hold(ctx, from, there, func(n *store.NotedMessage, h *store.Head) bool {
			return h.Seq == n.To.Seq && h.Failures == 0 && h.Losses == 0 && h.VisibleAt == 0
		})
		if err != nil {
			return err
		}
		if err := u.restore(from, held); err != nil {
			return err
		}
	}
	return nil
}

// hold holds those messages of a queue that are as they were left, and returns their notes. The caller ends the hold.
func (u *undoing) hold(ctx context.Context, q *backlog.Queue, notes []store.NotedMessage, same func(n *store.NotedMessage, h *store.Head) bool) ([]store.NotedMessage, error) {
	ids := make([]queue.ID, len(notes))
	for i := range notes {
		ids[i] = u.k.o.Look.ID(&notes[i].Head)
	}
	heads, err := u.k.o.Look.Find(ctx, q, ids)
	if err != nil {
		return nil, err
	}
	found := map[queue.ID]*store.Head{}
	for i := range heads {
		found[u.k.o.Look.ID(&heads[i])] = &heads[i]
	}
	flying := map[int64]bool{}
	for _, f := range q.InFlight() {
		flying[f.Seq] = true
	}
	var left []store.NotedMessage
	var hold []store.Head
	for i := range notes {
		switch h := found[ids[i]]; {
		case h == nil:
			u.done.Missing = append(u.done.Missing, ids[i])
		case flying[h.Seq]:
			u.done.InFlight = append(u.done.InFlight, ids[i])
		case !same(&notes[i], h):
			u.done.Changed = append(u.done.Changed, ids[i])
		default:
			left, hold = append(left, notes[i]), append(hold, *h)
		}
	}
	// A lease may have been given since: what is not held stays.
	held := map[int64]bool{}
	for _, h := range q.Hold(hold, time.Now()) {
		held[h.Seq] = true
	}
	kept := left[:0]
	for i := range left {
		if held[hold[i].Seq] {
			kept = append(kept, left[i])
		} else {
			u.done.InFlight = append(u.done.InFlight, u.k.o.Look.ID(&left[i].Head))
		}
	}
	return kept, nil
}
