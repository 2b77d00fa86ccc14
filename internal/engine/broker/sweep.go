package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/pace"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// sweepLoop does what has no hurry: it counts the messages once, records marks, and deletes what outlived its retention
// or is left of a purge.
func (b *Broker) sweepLoop() {
	var wait pace.Backoff
	for {
		err := b.countAll(b.work)
		if err == nil {
			break
		}
		if b.work.Err() == nil {
			b.log.Warn("cannot count the messages; trying again", "error", fault.Detail(err))
		}
		if wait.Wait(b.work) != nil {
			return
		}
	}
	b.book.SetExact()
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
			pause := b.Sweep()
			more, err := b.Scrap(b.work)
			if err != nil && b.work.Err() == nil {
				b.log.Warn("cannot delete what deleted queues have left", "error", fault.Detail(err))
			} else if more {
				pause = queue.ExpirePause
			}
			expiry.Reset(pause)
		case <-b.Left():
			expiry.Reset(0)
		}
	}
}

// lockGates waits until nothing is between the store and the lanes. The caller unlocks.
func (b *Broker) lockGates(ctx context.Context) (unlock func(), err error) {
	if err := b.settleGate.Lock(ctx); err != nil {
		return nil, err
	}
	if err := b.appendGate.Lock(ctx); err != nil {
		b.settleGate.Unlock()
		return nil, err
	}
	return func() {
		b.appendGate.Unlock()
		b.settleGate.Unlock()
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
		b.book.ResetCounts()
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
	b.book.AddCounts(counts)
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
	for _, q := range b.book.All() {
		if m, ok := q.Mark(now); ok {
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
