package look

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/backlog"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// PeekOptions say what to look at. The zero value is the first page of everything.
type PeekOptions struct {
	State State
	// Cursor is Page.Next of the page before, of the same state; "" begins.
	Cursor string
	// Rows is the most messages of the page, at most queue.PeekRows; 0 is that. Bytes is about the most bytes of its bodies,
	// at most queue.PeekBytes; 0 is that. The first message is on the page whatever its size.
	Rows  int
	Bytes int
	// Preview is the most bytes of each body that are read; 0 is all.
	Preview int
}

// Page is a part of a queue, in order of when the messages become visible; those in flight in order of acceptance.
type Page struct {
	Messages []Message
	// Next is the cursor of the next page; "" when there is none. A page may have less messages than asked for, also when it
	// is not the last.
	Next string
}

// Peek returns a page of the messages of a queue. What SQL enqueued is in it after it was accepted, which a running broker
// does within a second. Messages that are sent, settled or retried between two pages may be on none of them or on both.
// Faults: Invalid for a bad cursor or state; Unavailable when the database does not answer in time.
func (k *Looker) Peek(ctx context.Context, queueName string, p PeekOptions) (Page, error) {
	q, err := k.book.Named(queueName)
	if err != nil {
		return Page{}, err
	}
	l := look{k: k, q: q, state: p.State, rows: bound(p.Rows, queue.PeekRows), bytes: bound(p.Bytes, queue.PeekBytes), preview: p.Preview, now: time.Now()}
	if err := l.begin(p.Cursor); err != nil {
		return Page{}, err
	}
	unlock, err := k.Lock(ctx)
	if err != nil {
		return Page{}, err
	}
	defer unlock()
	for {
		more, err := l.step(ctx)
		if err != nil {
			return Page{}, fmt.Errorf("look at queue %s: %w", q.Name, err)
		}
		messages, err := k.messages(ctx, q, l.heads, l.now, l.preview)
		switch {
		case err != nil:
			return Page{}, fmt.Errorf("look at queue %s: %w", q.Name, err)
		case !more:
			return Page{Messages: messages}, nil
		case len(messages) > 0:
			return Page{Messages: messages, Next: l.cursor()}, nil
		}
		l.heads = l.heads[:0]
	}
}

func bound(asked, most int) int {
	if asked <= 0 {
		return most
	}
	return min(asked, most)
}

// look is one call of Peek.
type look struct {
	k           *Looker
	q           *backlog.Queue
	state       State
	rows, bytes int
	preview     int
	now         time.Time
	// at is the place of the last message that was looked at, in the order of (when it is visible, Seq).
	at    store.Due
	heads []store.Head
}

// states have a fixed number in a cursor.
var states = map[State]byte{Any: 0, Visible: 1, Delayed: 2, InFlight: 3}

const cursorSize = 1 + 2*8

func (l *look) begin(cursor string) error {
	number, ok := states[l.state]
	if !ok {
		return fault.New(fault.Invalid, CodeCursor, "%q is no state of a message", string(l.state)).
			WithHint("ask for %s, %s or %s", Visible, Delayed, InFlight)
	}
	if cursor == "" {
		return nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(raw) != cursorSize || raw[0] != number {
		return fault.New(fault.Invalid, CodeCursor, "the cursor is not one of this list").WithHint("begin without one")
	}
	l.at = store.Due{VisibleAt: int64(binary.BigEndian.Uint64(raw[1:])), Seq: int64(binary.BigEndian.Uint64(raw[9:]))}
	// A place beyond what can be asked for is a forged one.
	if l.at.VisibleAt < 0 || l.at.VisibleAt > backlog.EndOfTime || l.at.Seq < 0 {
		return fault.New(fault.Invalid, CodeCursor, "the cursor is not one of this list").WithHint("begin without one")
	}
	return nil
}

func (l *look) cursor() string {
	raw := append(make([]byte, 0, cursorSize), states[l.state])
	raw = binary.BigEndian.AppendUint64(raw, uint64(l.at.VisibleAt))
	raw = binary.BigEndian.AppendUint64(raw, uint64(l.at.Seq))
	return base64.RawURLEncoding.EncodeToString(raw)
}

// step adds the next heads and reports whether there may be more.
func (l *look) step(ctx context.Context) (more bool, err error) {
	if l.state == InFlight {
		return l.stepFlying(ctx)
	}
	standing := l.q.Standing(l.now)
	var ready, due []store.Head
	if l.state != Delayed {
		after := max(readyAfter(l.at), standing.Ready-1, standing.Floor-1)
		if ready, err = l.k.store.ListReady(ctx, l.q.ID, after, math.MaxInt64, l.rows); err != nil {
			return false, err
		}
	}
	after, upTo := l.at, int64(backlog.EndOfTime)
	if least := (store.Due{VisibleAt: standing.Due}); after.Before(least) {
		after = least
	}
	switch l.state {
	case Delayed:
		if least := (store.Due{VisibleAt: l.now.UnixMilli(), Seq: math.MaxInt64}); after.Before(least) {
			after = least
		}
	case Visible:
		upTo = l.now.UnixMilli()
	case Any, InFlight:
	}
	if due, err = l.k.store.ListDue(ctx, l.q.ID, after, upTo, l.rows); err != nil {
		return false, err
	}
	cut := l.merge(ready, due, standing.Floor)
	return cut || len(ready) == l.rows || len(due) == l.rows, nil
}

// read is how much of a body is read, in bytes.
func read(h *store.Head, preview int) int { return min(h.Bytes, cmp.Or(preview, h.Bytes)) }

// place is that of a message in the order of when they become visible.
func place(h *store.Head) store.Due {
	if h.VisibleAt > 0 {
		return h.Due()
	}
	return store.Due{VisibleAt: h.Seq >> store.SeqBits, Seq: h.Seq}
}

// readyAfter is the Seq above which the messages with VisibleAt 0 are that come after a place.
func readyAfter(at store.Due) int64 {
	accepted := at.Seq >> store.SeqBits
	switch {
	case at.VisibleAt >= math.MaxInt64>>store.SeqBits:
		return math.MaxInt64
	case at.VisibleAt > accepted:
		return at.VisibleAt<<store.SeqBits - 1
	case at.VisibleAt < accepted:
		return (at.VisibleAt+1)<<store.SeqBits - 1
	default:
		return at.Seq
	}
}

// merge takes the first of both lists, which are in order, into the page, and reports whether some are left.
func (l *look) merge(ready, due []store.Head, floor int64) (cut bool) {
	flying := map[int64]struct{}{}
	if l.state == Visible {
		for _, f := range l.q.InFlight() {
			flying[f.Seq] = struct{}{}
		}
	}
	bytes := 0
	for range l.rows {
		var h *store.Head
		switch {
		case len(ready) == 0 && len(due) == 0:
			return false
		case len(due) == 0 || len(ready) > 0 && place(&ready[0]).Before(place(&due[0])):
			h, ready = &ready[0], ready[1:]
		default:
			h, due = &due[0], due[1:]
		}
		_, leased := flying[h.Seq]
		if !leased && h.Seq >= floor {
			if bytes += read(h, l.preview); bytes > l.bytes && len(l.heads) > 0 {
				return true
			}
			l.heads = append(l.heads, *h)
		}
		l.at = place(h)
	}
	return len(ready)+len(due) > 0
}

// stepFlying adds the next messages in flight; their place is their Seq alone.
func (l *look) stepFlying(ctx context.Context) (more bool, err error) {
	var (
		accepted []int64
		last     int64
	)
	seqs := map[int64]struct{}{}
	for _, f := range l.q.InFlight() {
		if f.Seq <= l.at.Seq {
			continue
		}
		if len(accepted) == l.rows {
			more = true
			break
		}
		accepted = append(accepted, f.Accepted)
		seqs[f.Seq] = struct{}{}
		last = f.Seq
	}
	if len(accepted) == 0 {
		return false, nil
	}
	found, err := l.k.store.Find(ctx, l.q.ID, accepted)
	if err != nil {
		return false, err
	}
	bytes := 0
	for i := range found {
		if _, ok := seqs[found[i].Seq]; !ok {
			continue
		}
		if bytes += read(&found[i], l.preview); bytes > l.bytes && len(l.heads) > 0 {
			return true, nil
		}
		l.heads = append(l.heads, found[i])
		l.at.Seq = found[i].Seq
	}
	l.at.Seq = last
	return more, nil
}
