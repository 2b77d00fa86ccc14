package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// sweepLoop does what has no hurry: it counts the messages once, records marks, and deletes what outlived its retention.
func (b *Broker) sweepLoop() {
	var wait backoff
	for {
		err := b.countAll(b.work)
		if err == nil {
			break
		}
		if b.work.Err() == nil {
			b.log.Warn("cannot count the messages; trying again", "error", fault.Detail(err))
		}
		if wait.wait(b.work) != nil {
			return
		}
	}
	b.exact.Store(true)
	close(b.counted)
	marks := time.NewTicker(queue.MarksEvery)
	defer marks.Stop()
	expiry := time.NewTimer(0)
	defer expiry.Stop()
	for {
		select {
		case <-b.work.Done():
			return
		case <-marks.C:
			if err := b.saveMarks(b.work); err != nil && b.work.Err() == nil {
				b.log.Warn("cannot record how far the queues are settled", "error", fault.Detail(err))
			}
		case <-expiry.C:
			expiry.Reset(b.expireAll())
		}
	}
}

// lockGates waits until nothing is between the store and the lanes. The caller unlocks.
func (b *Broker) lockGates(ctx context.Context) (unlock func(), err error) {
	if err := b.settleGate.lock(ctx); err != nil {
		return nil, err
	}
	if err := b.appendGate.lock(ctx); err != nil {
		b.settleGate.unlock()
		return nil, err
	}
	return func() {
		b.appendGate.unlock()
		b.settleGate.unlock()
	}, nil
}

// countAll counts what the store held at a moment between two commits. What commits later is added and subtracted by
// itself, so the sum is exact.
func (b *Broker) countAll(ctx context.Context) (err error) {
	unlock, err := b.lockGates(ctx)
	if err != nil {
		return err
	}
	snapshot, err := b.store.Snapshot(ctx)
	if err == nil {
		for _, q := range b.all() {
			q.mu.Lock()
			q.count, q.bytes = 0, 0
			q.mu.Unlock()
		}
	}
	unlock()
	if err != nil {
		return fmt.Errorf("open a snapshot: %w", err)
	}
	defer func() { err = errors.Join(err, snapshot.Close(context.WithoutCancel(ctx))) }()
	counts, err := snapshot.Counts(ctx)
	if err != nil {
		return fmt.Errorf("count messages: %w", err)
	}
	for id, count := range counts {
		if q := b.numbered(id); q != nil {
			q.mu.Lock()
			q.count += count.Messages
			q.bytes += count.Bytes
			q.mu.Unlock()
		}
	}
	return nil
}

// saveMarks records the marks that moved. The gates keep it from overtaking a message that was given its time to be
// visible at and is not committed yet; whatever is written later gets none below the marks.
func (b *Broker) saveMarks(ctx context.Context) error {
	unlock, err := b.lockGates(ctx)
	if err != nil {
		return err
	}
	var moved []store.Mark
	now := time.Now()
	for _, q := range b.all() {
		if m, ok := q.mark(now); ok {
			b.highestDueMark = max(b.highestDueMark, m.DueMark)
			moved = append(moved, m)
		}
	}
	unlock()
	if len(moved) == 0 {
		return nil
	}
	if err := b.store.SaveMarks(ctx, moved); err != nil {
		return fmt.Errorf("save marks: %w", err)
	}
	return nil
}

// mark returns the marks of q when there is reason to record them: the ready side moved. The time of the due side moves
// with the clock, and is worth no write of its own.
func (q *backlog) mark(now time.Time) (store.Mark, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	ready, due := q.marks(now)
	if ready <= q.savedReady && !q.dueMoved {
		return store.Mark{}, false
	}
	q.savedReady, q.dueMoved = ready, false
	q.dueFloorMark = max(q.dueFloorMark, due)
	return store.Mark{Queue: q.id, ReadyMark: ready, DueMark: due}, true
}

// expireAll takes one step in every queue whose time has come, and returns the pause until the next round.
func (b *Broker) expireAll() time.Duration {
	pause := queue.ExpireEvery
	queues := b.all()
	slices.SortFunc(queues, func(x, y *backlog) int { return int(x.id - y.id) })
	for _, q := range queues {
		more, err := b.expire(q)
		if err != nil && b.work.Err() == nil {
			b.log.Warn("cannot delete what outlived its retention", "queue", q.name, "error", fault.Detail(err))
		}
		if more {
			pause = queue.ExpirePause
		}
	}
	return pause
}

// expire deletes up to ExpireRows messages of q that outlived their retention and reports whether there are more. It
// holds the settler's gate: each leased message is then either settled or known to be under lease.
func (b *Broker) expire(q *backlog) (more bool, err error) {
	if err := b.settleGate.lock(b.work); err != nil {
		return false, err
	}
	defer b.settleGate.unlock()
	now := time.Now()
	q.mu.Lock()
	idle := q.count <= 0 || now.Before(q.nextExpiry)
	after := q.expired
	before := min(store.SeqAt(now.Add(-q.retention)), q.newest+1)
	q.mu.Unlock()
	if idle || before <= after+1 {
		return false, nil
	}
	gone, err := b.store.Expire(b.work, q.id, after, before, b.bounds.ExpireRows)
	if err != nil {
		return false, fmt.Errorf("expire messages: %w", err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.expired = before - 1
	q.nextExpiry = now.Add(queue.ExpireEvery)
	if more = len(gone) >= b.bounds.ExpireRows; more {
		q.expired = gone[len(gone)-1].Seq
		q.nextExpiry = time.Time{}
	}
	if len(gone) == 0 {
		return false, nil
	}
	q.forget(gone)
	b.log.Info("messages outlived their retention", "queue", q.name, "messages", len(gone))
	return more, nil
}

// forget takes messages out of the books that the store deleted: all up to the last of them. mu is held.
func (q *backlog) forget(gone []store.Expired) {
	q.count -= int64(len(gone))
	for _, e := range gone {
		q.bytes -= int64(e.Bytes)
	}
	q.idle = idleAge{}
	last := gone[len(gone)-1].Seq
	for batch, l := range q.leases {
		for i := range batch.Messages {
			if batch.Messages[i].Seq > last {
				continue
			}
			if l.gone == nil {
				l.gone = make([]bool, len(batch.Messages))
			}
			l.gone[i] = true
		}
	}
	if q.win != nil {
		q.win.expire(last)
		q.pump(time.Now())
	}
}
