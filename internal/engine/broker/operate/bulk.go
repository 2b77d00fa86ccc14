package operate

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/runlot/runlot/internal/core/filter"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/backlog"
	"github.com/runlot/runlot/internal/engine/broker/look"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// BulkKind is what is done to all messages that match.
type BulkKind string

// The kinds.
const (
	BulkRedrive  BulkKind = "redrive"
	BulkDelete   BulkKind = "delete"
	BulkRetryNow BulkKind = "retry_now"
)

// BulkOptions say what is done, and to which messages.
type BulkOptions struct {
	Kind BulkKind
	// IDs are the messages, at most queue.OperateIDs; none are those that match Filter, of what the queue held at the begin.
	IDs    []queue.ID
	Filter filter.Filter
	// To is where a redrive moves them; "" is where each came from.
	To string
	// May, when it is not nil, says whether messages may be moved to a queue.
	May func(queueName string) bool
	// Action is the name under which it can be undone, as far as notes are kept; "" is not.
	Action string
	// At is where an earlier run of the same had come to; the zero value begins.
	At BulkPlace
}

// BulkPlace is how far a run has come: behind a Seq up to which it was done, or behind so many IDs, and up to which Seq
// it goes.
type BulkPlace struct{ After, UpTo int64 }

// BulkDone is what a step did. Each message that matched is in one of the counts from Done on.
type BulkDone struct {
	Looked, Matched int64
	// Done are moved, deleted, or visible from now on.
	Done int64
	// InFlight were under lease, Changed matched no more, Missing were gone, Unchanged were visible already, NoSource came
	// from no known queue, and Forbidden from one that May refuses.
	InFlight, Changed, Missing, Unchanged, NoSource, Forbidden int64
}

// BulkRun does something to many messages, a step at a time. It belongs to one goroutine. What it does to a message is one
// transaction, and a message that had its turn does not match any more or is left as it is: a run that goes on from an
// older place than it had come to does nothing twice.
type BulkRun struct {
	o  *Operator
	q  *backlog.Queue
	to *backlog.Queue
	b  BulkOptions

	// found is the last step of the search. Those of its matches below next had their turn, and looked of its messages are
	// counted.
	found  look.Step
	next   int
	looked int
	// rest are those of the turn before for which its transaction had no room, with what Step needs to know of them.
	rest turn
	over bool
}

// turn are messages that have their turn: those of the IDs that have one of the Seqs, where seqs is not nil. Behind them the
// run goes on at after.
type turn struct {
	ids   []queue.ID
	seqs  map[int64]struct{}
	after int64
}

// Bulk begins a run, or goes on with one. Faults: those of Redrive, with nothing done.
func (o *Operator) Bulk(ctx context.Context, queueName string, b BulkOptions) (*BulkRun, error) {
	q, err := o.o.Book.Named(queueName)
	if err != nil {
		return nil, err
	}
	r := &BulkRun{o: o, q: q, b: b}
	if b.Kind == BulkRedrive {
		if r.to, err = o.target(q, b.To, b.May); err != nil {
			return nil, err
		}
	}
	if len(b.IDs) > 0 {
		r.b.IDs, err = few(b.IDs)
		r.b.At.UpTo = math.MaxInt64
		return r, err
	}
	if b.At.UpTo == 0 {
		unlock, err := o.o.Owner.LockAll(ctx)
		if err != nil {
			return nil, err
		}
		r.b.At.UpTo = o.o.Owner.LastSeq()
		unlock()
	}
	return r, nil
}

// Place is where the next step begins.
func (r *BulkRun) Place() BulkPlace { return r.b.At }

// Over reports whether every message had its turn.
func (r *BulkRun) Over() bool { return r.over }

// Step does it to at most rows messages, in one transaction. It may find none and not be at the end. A step that fails has
// done nothing, and may be tried again when the fault is of kind Unavailable.
func (r *BulkRun) Step(ctx context.Context, rows int) (BulkDone, error) {
	var done BulkDone
	t, next := r.rest, r.next
	if len(t.ids) == 0 {
		var err error
		if t, next, done.Looked, err = r.take(ctx, max(min(rows, r.o.o.Rows), 1)); err != nil {
			return BulkDone{}, err
		}
	}
	var rest []queue.ID
	if len(t.ids) > 0 {
		var err error
		if rest, err = r.do(ctx, &t, &done); err != nil {
			return BulkDone{}, fmt.Errorf("%s messages of queue %s: %w", r.b.Kind, r.q.Name, err)
		}
	}
	done.Matched = int64(len(t.ids) - len(rest))
	r.looked += int(done.Looked)
	r.next = next
	r.rest = turn{rest, t.seqs, t.after}
	if len(rest) > 0 {
		return done, nil
	}
	r.b.At.After = t.after
	if len(r.b.IDs) > 0 {
		r.over = int(t.after) == len(r.b.IDs)
	} else {
		r.over = next == len(r.found.Matches) && !r.found.More
	}
	return done, nil
}

// take chooses the messages whose turn it is, and looks for more when all that were found had theirs.
func (r *BulkRun) take(ctx context.Context, rows int) (t turn, next int, looked int64, err error) {
	if len(r.b.IDs) > 0 {
		from := min(int(r.b.At.After), len(r.b.IDs))
		t.ids = r.b.IDs[from:min(from+rows, len(r.b.IDs))]
		t.after = int64(from + len(t.ids))
		return t, 0, int64(len(t.ids)), nil
	}
	if r.next == len(r.found.Matches) {
		found, err := r.o.look.Step(ctx, r.q, r.b.Filter, r.b.At.After, r.b.At.UpTo, queue.SearchRows)
		if err != nil {
			return t, 0, 0, err
		}
		r.found, r.next, r.looked = found, 0, 0
	}
	next = min(r.next+rows, len(r.found.Matches))
	matches := r.found.Matches[r.next:next]
	t = turn{ids: r.o.look.MatchIDs(matches), seqs: make(map[int64]struct{}, len(matches)), after: r.found.Last}
	all := r.found.Looked
	if next < len(r.found.Matches) {
		last := &matches[len(matches)-1]
		all, t.after = last.Place, last.Seq
	}
	for _, m := range matches {
		t.seqs[m.Seq] = struct{}{}
	}
	return t, next, int64(all - r.looked), nil
}

// do changes messages, and returns those for which the transaction had no room.
func (r *BulkRun) do(ctx context.Context, t *turn, done *BulkDone) (rest []queue.ID, err error) {
	now := time.Now().UnixMilli()
	changing := r.b.Filter.Changing()
	keep := func(heads []store.Head) []store.Head {
		flying := map[int64]struct{}{}
		for _, f := range r.q.InFlight() {
			flying[f.Seq] = struct{}{}
		}
		kept := make([]store.Head, 0, len(heads))
		for i := range heads {
			h := &heads[i]
			_, mine := t.seqs[h.Seq]
			_, leased := flying[h.Seq]
			switch {
			case t.seqs != nil && !mine, !leased && !look.Matches(&changing, h, now):
				done.Changed++
			default:
				kept = append(kept, *h)
			}
		}
		return kept
	}
	if r.b.Kind == BulkRedrive {
		return r.redrive(ctx, t.ids, keep, done)
	}
	do := r.o.deleteHeld(r.b.Action)
	if r.b.Kind == BulkRetryNow {
		do = r.o.retryHeld(r.b.Action)
	}
	c, err := r.o.choose(ctx, r.q, t.ids, keep, do)
	done.Done, done.InFlight = int64(c.Done), int64(len(c.InFlight))
	done.Missing, done.Unchanged = int64(len(c.Missing)), int64(len(c.Unchanged))
	return nil, err
}

// redrive moves messages.
func (r *BulkRun) redrive(ctx context.Context, ids []queue.ID, keep func([]store.Head) []store.Head, done *BulkDone) (rest []queue.ID, err error) {
	var moved Redriven
	d := redrive{o: r.o, q: r.q, to: r.to, may: r.b.May, rows: len(ids), done: &moved, upTo: math.MaxInt64, action: r.b.Action}
	d.keep = func(heads []store.Head) []store.Head {
		kept := keep(heads)
		known := kept[:0]
		for i := range kept {
			switch to := d.target(&kept[i]); {
			case to == nil:
				done.NoSource++
			case r.b.May != nil && !r.b.May(to.Name):
				done.Forbidden++
			default:
				known = append(known, kept[i])
			}
		}
		return known
	}
	if _, rest, err = d.chosenStep(ctx, ids); err != nil {
		return nil, err
	}
	done.Done, done.InFlight = moved.Moved, moved.InFlight
	done.Missing = int64(len(ids)-len(rest)) - done.Done - done.InFlight - done.Changed - done.NoSource - done.Forbidden
	return rest, nil
}
