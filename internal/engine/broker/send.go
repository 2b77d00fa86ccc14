package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/core/span"
	"github.com/runlot/runlot/internal/engine/broker/backlog"
	"github.com/runlot/runlot/internal/engine/broker/pace"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// call is one Send that waits for its commit.
type call struct {
	q      *backlog.Queue
	drafts []queue.Draft
	// size is the bytes of the bodies with their overhead.
	size int
	// operations is what writing the messages counts; 0 once it was counted.
	operations int64
	// done gets the outcome once.
	done chan error
	// gone is set when the caller no longer waits: what is not sent yet need not be.
	gone atomic.Bool
}

// fits says which calls a group has room for: rows messages and size bytes.
func fits(rows, size int) func(*call) bool {
	return func(c *call) bool {
		rows -= len(c.drafts)
		size -= c.size
		return rows >= 0 && size >= 0
	}
}

// sendMetricsAge is how old the age of a queue without a lane may be in the answer to a send.
const sendMetricsAge = time.Second

// Send accepts messages into a queue, all or none, and returns after their commit with the backlog that they are part
// of. The bodies belong to the broker from then on: nobody may write to them, and what they are cut from stays in memory
// with them. A nil delay is that of the queue; limits and defaults of the producer's dialect are the caller's business.
//
// Faults: Unavailable (code 10250) when there is no commit within queue.SendTimeout or the broker does not run; NotFound
// (10104) for a queue that was not declared; Limit (queue_ops_cap, database_full) at the bounds of the options; Limit and Invalid for what no store takes; what the store refuses. After an
// Unavailable or the end of ctx the messages may still have been accepted, all or none.
func (b *Broker) Send(ctx context.Context, queueName string, drafts []queue.Draft) (queue.Metrics, error) {
	q, err := b.book.Named(queueName)
	if err != nil {
		return queue.Metrics{}, err
	}
	c := &call{q: q, drafts: drafts, done: make(chan error, 1)}
	for i := range drafts {
		if err := checkDraft(i, &drafts[i]); err != nil {
			return queue.Metrics{}, err
		}
		c.size += len(drafts[i].Body) + queue.RowOverhead
		c.operations += queue.Operations(len(drafts[i].Body))
	}
	if len(drafts) == 0 || len(drafts) > b.bounds.GroupRows {
		return queue.Metrics{}, fault.New(fault.Limit, queue.CodeBatchCount,
			"batch message count of %d is outside 1 to %d", len(drafts), b.bounds.GroupRows)
	}
	if most := min(b.bounds.GroupBytes, b.bounds.GroupWaiting); c.size > most {
		return queue.Metrics{}, fault.New(fault.Limit, queue.CodeBatchSize, "batch size of %d bytes exceeds limit of %d bytes", c.size, most)
	}
	patience, cancel := context.WithTimeoutCause(ctx, queue.SendTimeout, errSendTimeout)
	defer cancel()
	if err := b.commitCall(patience, c); err != nil {
		if errors.Is(err, errSendTimeout) {
			err = fault.New(fault.Unavailable, queue.CodeOverloaded, "queue %q did not accept the messages within %s", queueName, span.Text(queue.SendTimeout)).
				WithHint("try again shortly").WithCause(err)
		}
		return queue.Metrics{}, err
	}
	return q.Metrics(ctx, sendMetricsAge), nil
}

// checkDraft refuses what no store takes, before it joins a group that it would spoil.
func checkDraft(i int, d *queue.Draft) error {
	if d.Format < queue.JSON || d.Format > queue.V8 {
		return fault.New(fault.Invalid, queue.CodeBodyInvalid, "message %d has no known content type", i).
			WithHint("send it as json, text, bytes or v8")
	}
	if most := queue.LimitsOf(queue.Runlot).MessageBytes; len(d.Body) > most {
		return fault.New(fault.Limit, queue.CodeMessageSize, "message %d: message length of %d bytes exceeds limit of %d", i, len(d.Body), most)
	}
	return nil
}

var errSendTimeout = errors.New("the commit took too long")

// commitCall asks for what the messages cost, waits for room, hands c to the flusher and waits for its outcome.
func (b *Broker) commitCall(ctx context.Context, c *call) error {
	if err := b.guard.Admit(c.operations); err != nil {
		return err
	}
	if err := b.waiting.Acquire(ctx, int64(c.size)); err != nil {
		b.guard.Release(c.operations)
		return context.Cause(ctx)
	}
	if err := b.sends.Add(c); err != nil {
		b.guard.Release(c.operations)
		b.waiting.Release(int64(c.size))
		return err
	}
	select {
	case err := <-c.done:
		return err
	case <-ctx.Done():
		c.gone.Store(true)
		return context.Cause(ctx)
	}
}

// answer tells the caller the outcome and makes room for others.
func (b *Broker) answer(calls []*call, err error) {
	for _, c := range calls {
		b.guard.Release(c.operations)
		c.done <- err
		b.waiting.Release(int64(c.size))
	}
}

// flusher is what the flush goroutine keeps between groups.
type flusher struct {
	b         *Broker
	group     []*call
	rows      []store.Row
	usage     store.Usage
	nextDrain time.Time
	drainWait pace.Backoff
}

// flushLoop commits sends group by group, and what SQL enqueued between them, so that all new messages commit in the
// order of their Seqs. No timer gathers a group: while one commits, the next gathers by itself.
func (b *Broker) flushLoop() {
	f := &flusher{b: b}
	inbox := time.NewTimer(0)
	defer inbox.Stop()
	stopping := b.stopping
	for b.work.Err() == nil {
		f.group = b.sends.Take(f.group[:0], fits(b.bounds.GroupRows, b.bounds.GroupBytes))
		if len(f.group) > 0 {
			f.flush()
		}
		if !time.Now().Before(f.nextDrain) {
			f.nextDrain = time.Now().Add(f.drain())
		}
		if !b.sends.Empty() {
			continue
		}
		if stopping == nil {
			return
		}
		inbox.Reset(time.Until(f.nextDrain))
		select {
		case <-b.sends.Kick:
		case <-inbox.C:
		case <-stopping:
			// One more round finds what was added before the list closed.
			stopping = nil
		case <-b.work.Done():
		}
	}
	b.answer(b.sends.Take(nil, fits(math.MaxInt, math.MaxInt)), context.Cause(b.work))
}

// flush commits the group. When the store refuses it as a whole, its calls are committed one by one, so that a bad one
// does not take the others down.
func (f *flusher) flush() {
	defer clear(f.group)
	if err := f.b.appendGate.Lock(f.b.work); err != nil {
		f.b.answer(f.group, err)
		return
	}
	defer f.b.appendGate.Unlock()
	rest, err := f.commit(f.group)
	if len(rest) > 1 && f.b.over(err) == nil {
		for i := range rest {
			one, err := f.commit(rest[i : i+1])
			f.b.answer(one, err)
		}
		return
	}
	f.b.answer(rest, err)
}

// commit appends the messages of calls, again and again while the store does not answer and somebody waits, tells the
// lanes and answers the callers. With an error it returns those who have no answer: nothing of theirs is committed.
func (f *flusher) commit(calls []*call) ([]*call, error) {
	b := f.b
	var wait pace.Backoff
	for {
		calls = f.dropGone(calls)
		if len(calls) == 0 {
			return nil, nil
		}
		operations, size := cost(calls)
		err := f.stamp(calls)
		if err == nil {
			f.usage = b.guard.Sending(operations)
			err = b.store.Append(b.work, f.rows, &f.usage)
		}
		switch {
		case err == nil:
			b.guard.Sent(&f.usage, operations, size)
			now := time.Now()
			rows := f.rows
			for _, c := range calls {
				c.operations = 0
				c.q.Publish(rows[:len(c.drafts)], now)
				rows = rows[len(c.drafts):]
			}
			clear(f.rows)
			b.answer(calls, nil)
			return nil, nil
		case b.over(err) != nil:
			return calls, b.over(err)
		case !unavailable(err):
			return calls, fmt.Errorf("append messages: %w", err)
		}
		if err := wait.Wait(b.work); err != nil {
			return calls, err
		}
	}
}

// dropGone answers the calls whose callers left, and those to a queue that ended, and returns the others, in the same memory.
func (f *flusher) dropGone(calls []*call) []*call {
	kept := calls[:0]
	for i, c := range calls {
		if c.gone.Load() {
			f.b.answer(calls[i:i+1], nil)
			continue
		}
		if err := c.q.Gone(); err != nil {
			f.b.answer(calls[i:i+1], err)
			continue
		}
		kept = append(kept, c)
	}
	return kept
}

// stamp makes the rows of calls, as accepted now.
func (f *flusher) stamp(calls []*call) error {
	n := 0
	for _, c := range calls {
		n += len(c.drafts)
	}
	now := time.Now()
	seq, err := f.b.assign(f.b.work, now, n)
	if err != nil {
		return err
	}
	f.rows = f.rows[:0]
	sent := now.UnixMilli()
	for _, c := range calls {
		floor, usual := int64(-1), c.q.DeliveryDelay()
		for i := range c.drafts {
			d := &c.drafts[i]
			row := store.Row{Queue: c.q.ID, Seq: seq, Format: d.Format, SentAt: sent, Body: d.Body, Trace: d.Trace}
			asked := cmp.Or(d.Delay, usual)
			if asked != nil && *asked > 0 {
				if floor < 0 {
					floor = c.q.DueFloor()
				}
				delay, _ := queue.ClampDelay(*asked)
				row.VisibleAt = max(visibleAfter(now, delay), floor)
			}
			f.rows = append(f.rows, row)
			seq++
		}
	}
	return nil
}

// visibleAfter is the first whole millisecond at which the delay has passed.
func visibleAfter(now time.Time, delay time.Duration) int64 {
	return now.Add(delay + time.Millisecond - time.Nanosecond).UnixMilli()
}

// drain takes over one group of what SQL enqueued and returns the pause until the next.
func (f *flusher) drain() time.Duration {
	b := f.b
	if err := b.appendGate.Lock(b.work); err != nil {
		return queue.InboxEvery
	}
	defer b.appendGate.Unlock()
	rows, err := f.drainOnce()
	if err != nil {
		pause := max(f.drainWait.Step(), queue.InboxEvery)
		if b.work.Err() == nil {
			b.log.Warn("cannot take over what SQL enqueued; trying again", "error", fault.Detail(err), "after", span.Text(pause))
		}
		return pause
	}
	f.drainWait = pace.Backoff{}
	full := len(rows) >= b.bounds.InboxRows || bodies(rows) >= queue.ReadBytes/2
	now := time.Now()
	b.guard.Drained(rows)
	for len(rows) > 0 {
		n := 1
		for n < len(rows) && rows[n].Queue == rows[0].Queue {
			n++
		}
		b.learn(rows[0].Queue).Publish(rows[:n], now)
		rows = rows[n:]
	}
	if full {
		return 0
	}
	return queue.InboxEvery
}

// bodies is the sum of the body bytes of rows.
func bodies(rows []store.Row) int {
	n := 0
	for i := range rows {
		n += len(rows[i].Body)
	}
	return n
}

// drainOnce moves one group out of the inbox. Its messages get no time to be visible at that lies before a recorded
// mark, even when the clock was set back.
func (f *flusher) drainOnce() ([]store.Row, error) {
	b := f.b
	now := time.Now()
	first := max(b.lastSeq+1, store.SeqAt(now))
	if err := b.reserve(b.work, now, first+int64(b.bounds.InboxRows), queue.SeqReserveIdle); err != nil {
		return nil, err
	}
	if floor := time.UnixMilli(b.highestDueMark); now.Before(floor) {
		now = floor
	}
	rows, err := b.store.Drain(b.work, first, now, b.bounds.InboxRows)
	if err != nil {
		return nil, fmt.Errorf("drain the inbox: %w", err)
	}
	if len(rows) > 0 {
		b.lastSeq = rows[len(rows)-1].Seq
	}
	return rows, nil
}

// learn finds a queue by its number, loading those that others declared when it is new. The queue has messages that no
// lane knows of yet, so there is no going on without it: learn tries until the broker ends.
func (b *Broker) learn(id int32) *backlog.Queue {
	var wait pace.Backoff
	for {
		if q := b.book.Numbered(id); q != nil {
			return q
		}
		infos, err := b.store.Queues(b.work)
		if err == nil {
			b.book.Know(infos)
			if q := b.book.Numbered(id); q != nil {
				return q
			}
			err = fmt.Errorf("queue %d has messages and is not listed", id)
		}
		b.log.Warn("cannot load the queues that SQL declared; trying again", "error", fault.Detail(err))
		if err := wait.Wait(b.work); err != nil {
			// A queue of nobody: the broker is ending, and the next owner reads the messages from the store.
			return b.book.Unlisted(id)
		}
	}
}

// assign returns the first of n Seqs in a row, all reserved. appendGate is held.
func (b *Broker) assign(ctx context.Context, now time.Time, n int) (int64, error) {
	first := max(b.lastSeq+1, store.SeqAt(now))
	limit := first + int64(n)
	if err := b.reserve(ctx, now, limit, queue.SeqReserve); err != nil {
		return 0, err
	}
	b.lastSeq = limit - 1
	if b.reserved.Load()-limit < queue.SeqReserve.Milliseconds()/2<<store.SeqBits {
		b.reserveKick.Poke()
	}
	return first, nil
}

// reserve makes sure that Seqs below limit are reserved, and when they are not, reserves ahead of it.
func (b *Broker) reserve(ctx context.Context, now time.Time, limit int64, ahead time.Duration) error {
	if b.reserved.Load() >= limit {
		return nil
	}
	if err := b.reserveGate.Lock(ctx); err != nil {
		return err
	}
	defer b.reserveGate.Unlock()
	if b.reserved.Load() >= limit {
		return nil
	}
	limit = max(limit, store.SeqAt(now)) + ahead.Milliseconds()<<store.SeqBits
	if err := b.store.Reserve(ctx, limit); err != nil {
		return fmt.Errorf("reserve sequence numbers: %w", err)
	}
	b.reserved.Store(limit)
	return nil
}

// reserveLoop reserves ahead while messages are sent, so that sends rarely wait for it. A failure is left to the next
// send, which needs the reservation and knows how to wait.
func (b *Broker) reserveLoop() {
	for {
		select {
		case <-b.reserveKick:
			if err := b.reserve(b.work, time.Now(), b.reserved.Load()+1, queue.SeqReserve); err != nil && b.work.Err() == nil {
				b.log.Warn("cannot reserve sequence numbers ahead", "error", fault.Detail(err))
			}
		case <-b.work.Done():
			return
		}
	}
}
