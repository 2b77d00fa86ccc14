package operate

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/backlog"
	"github.com/runlot/runlot/internal/engine/broker/look"
	"github.com/runlot/runlot/internal/engine/broker/store"
	"github.com/runlot/runlot/internal/engine/broker/undo"
)

// RedriveOptions say what to redrive. The zero value is every message, back to where it came from.
type RedriveOptions struct {
	// IDs are the messages to move, at most queue.OperateIDs; none are all that the queue holds when the call begins.
	IDs []queue.ID
	// To is the queue to move them to; "" is the one that each came from.
	To string
	// May, when it is not nil, says whether messages may be moved to a queue. Nothing is moved when one would have to go
	// where they may not.
	May func(queueName string) bool
	// Rate is the most messages a second; 0 is as many as go.
	Rate int
	// Action is the name under which it can be undone, as far as notes are kept; "" is not.
	Action string
	// Progress, when it is not nil, is told after each step what was done so far. It must not block.
	Progress func(Redriven)
}

// Redriven is what a redrive has done so far.
type Redriven struct {
	// Moved counts the messages that are in their new queues.
	Moved int64
	// InFlight counts those that were under lease when their turn came; they were left alone.
	InFlight int64
	// Missing are the IDs asked for that the queue does not hold.
	Missing []queue.ID
}

// Redrive moves messages of a dead-letter queue, or of any other, back to the queues that they came from. Each keeps its
// id, body, format and send time; its attempts and losses start again, and it is visible at once. It is moved once and
// never lost, in transactions of at most queue.OperateRows messages; what arrives after the call began stays. When ctx ends
// or the process dies, what was moved stays moved and the rest stays.
//
// Faults, with nothing moved: Conflict (CodeNoSource) when a message was sent to the queue directly, or was redriven to it,
// so that To has to name its target; Conflict (CodeOntoItself); Invalid (CodeTargetForbidden); NotFound (queue.CodeQueueNotFound) when the queue or To
// does not exist; Limit (CodeTooManyIDs).
func (o *Operator) Redrive(ctx context.Context, queueName string, r RedriveOptions) (Redriven, error) {
	var done Redriven
	q, err := o.o.Book.Named(queueName)
	if err != nil {
		return done, err
	}
	d := redrive{o: o, q: q, may: r.May, rate: r.Rate, rows: o.o.Rows, done: &done, progress: r.Progress, action: r.Action}
	if r.Rate > 0 {
		d.rows = min(d.rows, r.Rate)
	}
	if d.to, err = o.target(q, r.To, r.May); err != nil {
		return done, err
	}
	if len(r.IDs) > 0 {
		err = d.chosen(ctx, r.IDs)
	} else {
		err = d.everything(ctx)
	}
	return done, err
}

// target finds the queue that messages of q are moved to; "" is nil, where each came from.
func (o *Operator) target(q *backlog.Queue, to string, may func(queueName string) bool) (*backlog.Queue, error) {
	if to == "" {
		return nil, nil //nolint:nilnil // it is not one queue
	}
	named, err := o.o.Book.Named(to)
	if err != nil {
		return nil, err
	}
	if named == q {
		return nil, fault.New(fault.Conflict, CodeOntoItself, "queue %q cannot be redriven to itself", q.Name).WithHint("name another queue")
	}
	if may != nil && !may(named.Name) {
		return nil, fault.New(fault.Invalid, CodeTargetForbidden, "queue %q is not yours to change", named.Name).WithHint("name another queue")
	}
	return named, nil
}

// redrive is one call of Redrive.
type redrive struct {
	o *Operator
	q *backlog.Queue
	// to is the target of every message; nil is where each came from.
	to       *backlog.Queue
	may      func(queueName string) bool
	rate     int
	rows     int
	done     *Redriven
	progress func(Redriven)
	action   string
	// keep, when it is not nil, says which of the messages that were chosen are moved.
	keep func([]store.Head) []store.Head

	// upTo is the highest Seq of the messages that were there when the call began. ready and due are the places of the last
	// messages that had their turn, and readyDone says that the ready ones are through.
	upTo      int64
	ready     int64
	due       store.Due
	readyDone bool
}

// everything moves all that the queue holds now.
func (d *redrive) everything(ctx context.Context) error {
	unlock, err := d.o.o.Owner.LockAll(ctx)
	if err != nil {
		return err
	}
	d.upTo = d.o.o.Owner.LastSeq()
	standing := d.q.Standing(time.Now())
	unlock()
	begin := func() {
		d.ready, d.due, d.readyDone = max(standing.Ready, standing.Floor)-1, store.Due{VisibleAt: standing.Due}, false
	}
	begin()
	if d.to == nil {
		err := d.o.steps(ctx, func() (more bool, err error) {
			heads, err := d.list(ctx, d.o.o.Rows)
			if err != nil || len(heads) == 0 {
				return false, err
			}
			d.advance(heads)
			return true, d.checkSources(d.within(heads))
		})
		if err != nil {
			return err
		}
		begin()
	}
	return d.run(ctx, func() (moved int, more bool, err error) { return d.step(ctx) })
}

// run takes steps, tells of each, and keeps to the rate.
func (d *redrive) run(ctx context.Context, step func() (moved int, more bool, err error)) error {
	err := d.o.steps(ctx, func() (more bool, err error) {
		began := time.Now()
		before := *d.done
		moved, more, err := step()
		if err != nil {
			return false, err
		}
		if d.progress != nil && (d.done.Moved != before.Moved || d.done.InFlight != before.InFlight) {
			d.progress(*d.done)
		}
		if more && d.rate > 0 {
			d.wait(ctx, time.Until(began.Add(time.Duration(moved)*time.Second/time.Duration(d.rate))))
		}
		return more, nil
	})
	if err != nil {
		return fmt.Errorf("redrive queue %s: %w", d.q.Name, err)
	}
	return nil
}

// wait keeps to the rate. It ends early with ctx or the broker, which the next step finds.
func (d *redrive) wait(ctx context.Context, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-d.o.o.Owner.Work().Done():
	}
}

// list returns the heads of the next messages in the order in which they have their turn; none at the end.
func (d *redrive) list(ctx context.Context, rows int) ([]store.Head, error) {
	if !d.readyDone {
		heads, err := d.o.o.Store.ListReady(ctx, d.q.ID, d.ready, d.upTo, rows)
		if err != nil || len(heads) > 0 {
			return heads, err
		}
		d.readyDone = true
	}
	return d.o.o.Store.ListDue(ctx, d.q.ID, d.due, backlog.EndOfTime, rows)
}

// advance notes that messages had their turn.
func (d *redrive) advance(heads []store.Head) {
	if last := &heads[len(heads)-1]; d.readyDone {
		d.due = last.Due()
	} else {
		d.ready = last.Seq
	}
}

// within returns the messages that were there when the call began and were not purged.
func (d *redrive) within(heads []store.Head) []store.Head {
	floor := d.q.Standing(time.Now()).Floor
	kept := make([]store.Head, 0, len(heads))
	for i := range heads {
		if heads[i].Seq <= d.upTo && heads[i].Seq >= floor {
			kept = append(kept, heads[i])
		}
	}
	return kept
}

// target is the queue that a message goes to; nil when it is not known.
func (d *redrive) target(h *store.Head) *backlog.Queue {
	if d.to != nil {
		return d.to
	}
	if h.Source == d.q.ID {
		return nil
	}
	return d.o.o.Book.Numbered(h.Source)
}

// checkSources makes sure that it is known where the messages go.
func (d *redrive) checkSources(heads []store.Head) error {
	for i := range heads {
		to := d.target(&heads[i])
		if to != nil && d.may != nil && !d.may(to.Name) {
			return fault.New(fault.Invalid, CodeTargetForbidden, "message %s would go to queue %q, which is not yours to change", d.o.look.ID(&heads[i]), to.Name).
				WithHint("name another queue to move the messages to, or choose the messages")
		}
		if to == nil {
			return fault.New(fault.Conflict, CodeNoSource,
				"the source of message %s is ambiguous: it did not come to queue %q as a dead letter", d.o.look.ID(&heads[i]), d.q.Name).
				WithHint("name the queue to move the messages to")
		}
	}
	return nil
}

// step moves the next messages.
func (d *redrive) step(ctx context.Context) (moved int, more bool, err error) {
	unlock, err := d.o.o.Owner.LockAll(ctx)
	if err != nil {
		return 0, false, err
	}
	defer unlock()
	heads, err := d.list(ctx, d.rows)
	if err != nil || len(heads) == 0 {
		return 0, false, err
	}
	heads = look.Bounded(heads)
	moved, err = d.move(d.within(heads))
	if err != nil {
		return 0, false, err
	}
	d.advance(heads)
	return moved, true, nil
}

// move moves those of the messages that are not in flight, in one transaction. LockAll is held.
func (d *redrive) move(heads []store.Head) (moved int, err error) {
	if err := d.there(); err != nil {
		return 0, err
	}
	known := heads[:0]
	for i := range heads {
		// A message that a late settlement brought in sight since the sources were checked stays.
		if d.target(&heads[i]) != nil {
			known = append(known, heads[i])
		}
	}
	held := d.q.Hold(known, time.Now())
	inFlight := int64(len(known) - len(held))
	if err := d.moveHeld(held); err != nil {
		d.q.Unchanged()
		return 0, err
	}
	d.done.Moved += int64(len(held))
	d.done.InFlight += inFlight
	return len(held), nil
}

// there refuses to go on when one of the queues that were named has ended. LockAll is held.
func (d *redrive) there() error {
	if err := d.q.Gone(); err != nil || d.to == nil {
		return err
	}
	return d.to.Gone()
}

// arrival is what comes to one queue in one step.
type arrival struct {
	first, last int64
	count       store.Count
}

// moveHeld moves messages that are held, and ends the hold when it did.
func (d *redrive) moveHeld(held []store.Head) error {
	var gone store.Count
	var written int64
	if len(held) > 0 {
		seq, err := d.o.o.Owner.Assign(len(held))
		if err != nil {
			return err
		}
		change := store.Change{Move: make([]store.Move, 0, len(held)), Note: undo.Note(d.action)}
		arrivals := map[*backlog.Queue]*arrival{}
		for i := range held {
			h := &held[i]
			to := d.target(h)
			change.Move = append(change.Move, store.Move{From: store.Key{Queue: d.q.ID, Seq: h.Seq}, To: store.Key{Queue: to.ID, Seq: seq}})
			a := arrivals[to]
			if a == nil {
				a = &arrival{first: seq}
				arrivals[to] = a
			}
			a.last = seq
			a.count.Messages++
			a.count.Bytes += int64(h.Bytes)
			gone.Messages++
			gone.Bytes += int64(h.Bytes)
			written += queue.Operations(h.Bytes)
			seq++
		}
		if err := d.o.commit(&change); err != nil {
			return err
		}
		for to, a := range arrivals {
			to.Arrived(a.first, a.last, a.count)
		}
	}
	d.q.Removed(gone)
	d.o.o.Owner.Count(written, 0)
	return nil
}

// chosen moves the messages with these IDs.
func (d *redrive) chosen(ctx context.Context, ids []queue.ID) error {
	ids, err := few(ids)
	if err != nil {
		return err
	}
	d.upTo = math.MaxInt64
	err = d.o.steps(ctx, func() (more bool, err error) {
		heads, err := d.o.look.Find(ctx, d.q, ids)
		if err != nil {
			return false, err
		}
		found := d.o.look.IDs(heads)
		d.done.Missing = look.Without(ids, found)
		ids = found
		return false, d.checkSources(heads)
	})
	if err != nil {
		return err
	}
	return d.run(ctx, func() (moved int, more bool, err error) {
		moved, ids, err = d.chosenStep(ctx, ids)
		return moved, len(ids) > 0, err
	})
}

// chosenStep moves the first of the messages with these IDs and returns those of the others.
func (d *redrive) chosenStep(ctx context.Context, ids []queue.ID) (moved int, rest []queue.ID, err error) {
	unlock, err := d.o.o.Owner.LockAll(ctx)
	if err != nil {
		return 0, ids, err
	}
	defer unlock()
	turn := ids[:min(len(ids), d.rows)]
	heads, err := d.o.look.Find(ctx, d.q, turn)
	if err != nil {
		return 0, ids, err
	}
	if d.keep != nil {
		heads = d.keep(heads)
	}
	part := look.Bounded(heads)
	rest = append(d.o.look.IDs(heads[len(part):]), ids[len(turn):]...)
	if moved, err = d.move(part); err != nil {
		return 0, ids, err
	}
	return moved, rest, nil
}
