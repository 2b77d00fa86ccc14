package look

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/filter"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/backlog"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// SearchOptions say what to look for.
type SearchOptions struct {
	Filter filter.Filter
	// Cursor is Found.Next of the page before, of the same filter; "" begins.
	Cursor string
	// Rows is the most messages of the page, at most queue.PeekRows; 0 is that.
	Rows int
	// Preview is the most bytes of each body that are read for the page; 0 is all.
	Preview int
	// Within, above 0, ends the page after about this time, with what was found by then.
	Within time.Duration
}

// Found is a part of what matches a filter, in order of acceptance.
type Found struct {
	Messages []Message
	// Looked counts the messages that were looked at for this page, and Complete says that the queue has no more behind it.
	Looked   int
	Complete bool
	// Next is the cursor of the next page; "" when Complete. A page may be empty and not the last: a call looks at no more
	// than queue.SearchLooked messages.
	Next string
}

// Search returns a page of the messages of a queue that match a filter. A message that stays in the queue is on exactly one
// page. What SQL enqueued is in it after it was accepted. Faults: Invalid (CodeCursor); Unavailable when the database does not
// answer in time.
func (k *Looker) Search(ctx context.Context, queueName string, o SearchOptions) (Found, error) {
	var found Found
	q, err := k.book.Named(queueName)
	if err != nil {
		return found, err
	}
	at, err := parseCursor(o.Cursor, o.Filter)
	if err != nil {
		return found, err
	}
	rows := bound(o.Rows, queue.PeekRows)
	bytes, e := 0, effort{within: o.Within, began: time.Now()}
	for len(found.Messages) < rows && found.Looked < queue.SearchLooked {
		began := time.Now()
		step, err := k.Step(ctx, q, o.Filter, at, math.MaxInt64, e.rows(queue.SearchLooked-found.Looked))
		if err != nil {
			return Found{}, err
		}
		if len(step.Matches) > rows-len(found.Messages) {
			step.cut(rows - len(found.Messages))
		}
		messages, err := k.shown(ctx, q, &o, &step, &bytes)
		if err != nil {
			return Found{}, err
		}
		found.Messages = append(found.Messages, messages...)
		found.Looked += step.Looked
		at = step.Last
		if !step.More {
			found.Complete = true
			return found, nil
		}
		if bytes > queue.PeekBytes || e.spent() {
			break
		}
		rest(ctx, time.Since(began))
	}
	found.Next = cursorOf(at, o.Filter)
	return found, nil
}

// shown reads the messages of a step. Where their bodies become more than a page should have, the step ends before.
func (k *Looker) shown(ctx context.Context, q *backlog.Queue, o *SearchOptions, step *Step, bytes *int) ([]Message, error) {
	if len(step.Matches) == 0 {
		return nil, nil
	}
	unlock, err := k.Lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	heads, err := k.Find(ctx, q, k.MatchIDs(step.Matches))
	if err != nil {
		return nil, err
	}
	for i := range heads {
		if *bytes += read(&heads[i], o.Preview); *bytes > queue.PeekBytes && i > 0 {
			heads = heads[:i]
			at, _ := slices.BinarySearchFunc(step.Matches, heads[i-1].Seq, func(m store.Match, seq int64) int { return cmp.Compare(m.Seq, seq) })
			step.cut(at + 1)
			break
		}
	}
	now := time.Now()
	messages, err := k.messages(ctx, q, heads, now, o.Preview)
	// What was settled, leased or retried since the search may match no more.
	changing := o.Filter.Changing()
	return slices.DeleteFunc(messages, func(m Message) bool {
		return !changing.Match(&filter.Subject{State: string(m.State), Attempts: m.Attempts}, now.UnixMilli())
	}), err
}

// Counted is how many messages match a filter, as far as was looked.
type Counted struct {
	Matched, Looked int
	// Complete says that all of the queue was looked at. Else there may be more than Matched.
	Complete bool
}

// Count counts the messages of a queue that match a filter, up to queue.CountMatched among the first queue.CountLooked. Within, above 0, ends it after
// about this time.
func (k *Looker) Count(ctx context.Context, queueName string, f filter.Filter, within time.Duration) (Counted, error) {
	var c Counted
	q, err := k.book.Named(queueName)
	if err != nil {
		return c, err
	}
	e := effort{within: within, began: time.Now()}
	for at := int64(0); c.Looked < queue.CountLooked && c.Matched < queue.CountMatched; {
		began := time.Now()
		step, err := k.Step(ctx, q, f, at, math.MaxInt64, e.rows(queue.CountLooked-c.Looked))
		if err != nil {
			return Counted{}, err
		}
		if left := queue.CountMatched - c.Matched; len(step.Matches) > left {
			step.cut(left)
		}
		c.Matched += len(step.Matches)
		c.Looked += step.Looked
		at = step.Last
		if !step.More {
			c.Complete = true
			break
		}
		if e.spent() {
			break
		}
		rest(ctx, time.Since(began))
	}
	return c, nil
}

// effort is how long somebody waits for an answer; a time of 0 or less is as long as it takes.
type effort struct {
	within time.Duration
	began  time.Time
	least  int
}

// rows bounds the next step, so that the first ones are short where somebody waits.
func (e *effort) rows(most int) int {
	if e.within <= 0 {
		return most
	}
	e.least = max(2*e.least, firstRows)
	return min(most, e.least)
}

// spent reports whether the time is over.
func (e *effort) spent() bool { return e.within > 0 && time.Since(e.began) >= e.within }

// firstRows is how many messages the first step looks at where somebody waits.
const firstRows = 500

// rest pauses as long as a step took, so that deliveries have half of the time to themselves. The next step finds the end of
// ctx.
func rest(ctx context.Context, took time.Duration) {
	timer := time.NewTimer(min(took, queue.SearchTime))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Step is what one step of a search found among messages with rising Seqs.
type Step struct {
	Matches []store.Match
	Looked  int
	// Last is the Seq behind which the next step begins, and More says that there may be something.
	Last int64
	More bool
}

// cut makes the step end with its n-th match.
func (s *Step) cut(n int) {
	s.Matches = s.Matches[:n]
	s.Looked, s.Last, s.More = s.Matches[n-1].Place, s.Matches[n-1].Seq, true
}

// skew is how much further than its age says a message may have been accepted: clocks are set.
const skew = time.Minute

// leastRows is the fewest messages that a step looks at when the database is too slow for more.
const leastRows = 100

// Step looks at the next messages behind a Seq, at most rows of them and queue.SearchRows. What is in flight is known to this
// process alone, so a step is as good as the moment: whoever acts on a match looks at it again. Fault: Unavailable when the
// database does not answer in time.
func (k *Looker) Step(ctx context.Context, q *backlog.Queue, f filter.Filter, after, upTo int64, rows int) (Step, error) {
	now := time.Now()
	s := store.Search{
		Filter: f, UpTo: upTo, Now: now.UnixMilli(), Database: k.book.Database(), Sources: k.sources(f),
		Rows: min(rows, queue.SearchRows), Bytes: queue.SearchBytes,
	}
	s.After = max(after, q.Standing(now).Floor-1)
	if oldest := f.Oldest(); oldest >= 0 {
		since := now.Add(-time.Duration(oldest)*time.Millisecond - skew)
		s.After = max(s.After, store.SeqAt(since)-1)
	}
	for _, flight := range q.InFlight() {
		s.Flying = append(s.Flying, flight.Seq)
	}
	ids, named := f.IDs()
	more := false
	switch {
	case named:
		heads, err := k.named(ctx, q, ids)
		if err != nil {
			return Step{}, err
		}
		s.Only = heads
	case f.Only(filter.InFlight):
		from, found := slices.BinarySearch(s.Flying, s.After)
		if found {
			from++
		}
		s.Only = s.Flying[from:]
	}
	if s.Only != nil && len(s.Only) > s.Rows {
		s.Only, more = s.Only[:s.Rows], true
	}
	for {
		unlock, err := k.Lock(ctx)
		if err != nil {
			return Step{}, err
		}
		found, err := k.store.Search(ctx, q.ID, &s)
		unlock()
		switch {
		case err != nil && fault.KindOf(err) == fault.Unavailable && s.Rows > leastRows && s.Only == nil && ctx.Err() == nil:
			s.Rows = max(s.Rows/4, leastRows)
			continue
		case err != nil:
			return Step{}, fmt.Errorf("search queue %s: %w", q.Name, err)
		}
		step := Step{Matches: found.Matches, Looked: found.Looked, Last: max(found.Last, s.After), More: found.More}
		if s.Only != nil {
			step.More = more || found.More && found.Last < last(s.Only)
			if more && !found.More {
				step.Last = last(s.Only) // those behind the last that was found are settled
			}
		}
		return step, nil
	}
}

func last(seqs []int64) int64 {
	if len(seqs) == 0 {
		return 0
	}
	return seqs[len(seqs)-1]
}

// named finds the Seqs of messages by their ids; the list is never nil.
func (k *Looker) named(ctx context.Context, q *backlog.Queue, texts []string) ([]int64, error) {
	seqs := []int64{}
	ids := make([]queue.ID, 0, len(texts))
	for _, text := range texts {
		if id, err := queue.ParseID(text); err == nil {
			ids = append(ids, id)
		}
	}
	unlock, err := k.Lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	heads, err := k.Find(ctx, q, ids)
	for i := range heads {
		seqs = append(seqs, heads[i].Seq)
	}
	return seqs, err
}

// sources are the numbers of the queues that a filter names.
func (k *Looker) sources(f filter.Filter) map[string]int32 {
	ids := map[string]int32{}
	for i := range f.Terms {
		if t := &f.Terms[i]; t.Field == filter.Source {
			if q, err := k.book.Named(t.Text); err == nil {
				ids[t.Text] = q.ID
			}
		}
	}
	return ids
}

// MatchIDs are the IDs of matches.
func (k *Looker) MatchIDs(matches []store.Match) []queue.ID {
	ids := make([]queue.ID, len(matches))
	for i := range matches {
		ids[i] = queue.NewID(k.book.Database(), matches[i].Accepted)
	}
	return ids
}

// searchKind tells the cursors of searches from those of other lists.
const searchKind = 0x46

// mark is a part of a cursor by which it belongs to its filter.
func mark(f filter.Filter) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(f.String()))
	return h.Sum32()
}

func cursorOf(at int64, f filter.Filter) string {
	raw := binary.BigEndian.AppendUint32([]byte{searchKind}, mark(f))
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint64(raw, uint64(at)))
}

func parseCursor(cursor string, f filter.Filter) (int64, error) {
	if cursor == "" {
		return 0, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(raw) != 1+4+8 || raw[0] != searchKind || binary.BigEndian.Uint32(raw[1:]) != mark(f) {
		return 0, fault.New(fault.Invalid, CodeCursor, "the cursor is not one of this filter").WithHint("begin without one")
	}
	return max(int64(binary.BigEndian.Uint64(raw[5:])), 0), nil
}

// Matches evaluates what may have changed of a message that is not under lease.
func Matches(f *filter.Filter, h *store.Head, now int64) bool {
	state := filter.Visible
	if h.VisibleAt > now {
		state = filter.Delayed
	}
	return f.Match(&filter.Subject{State: state, Attempts: int(h.Failures)}, now)
}
