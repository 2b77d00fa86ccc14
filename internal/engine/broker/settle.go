package broker

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/core/span"
	"github.com/runlot/runlot/internal/engine/broker/backlog"
	"github.com/runlot/runlot/internal/engine/broker/pace"
	"github.com/runlot/runlot/internal/engine/broker/store"
	"github.com/runlot/runlot/internal/engine/broker/usage"
)

// settlement is a batch whose decisions wait to be carried out.
type settlement struct {
	q         *backlog.Queue
	lease     *backlog.Lease
	decisions []queue.Decision
	deadName  string
	// dead is the queue of that name, once it is found.
	dead *backlog.Queue
	done func(error)
	// err is why nothing is to be carried out, and done is only to be told.
	err error
}

// settleList holds the settlements that wait for the settler. It is bounded by the leases, which are bounded by the handlers
// that run: a batch is settled once.
type settleList = pace.List[*settlement]

// within says which settlements a group has room for: rows decisions.
func within(rows int) func(*settlement) bool {
	return func(s *settlement) bool {
		rows -= len(s.decisions)
		return rows >= 0
	}
}

// settler is what the settle goroutine keeps between groups.
type settler struct {
	b      *Broker
	group  []*settlement
	change store.Change
	moved  []store.Row
	// refused are settlements that the store did not take for a reason of their own; they are tried again at retryAt.
	refused []*settlement
	retryAt time.Time
}

// settleLoop commits settlements group by group; while one commits, the next gathers by itself.
func (b *Broker) settleLoop() {
	s := &settler{b: b}
	again := time.NewTimer(0)
	defer again.Stop()
	stopping := b.stopping
	for b.work.Err() == nil {
		s.group = b.settles.Take(s.group[:0], within(b.bounds.SettleRows))
		if len(s.group) > 0 {
			s.settle(s.group)
			clear(s.group)
			continue
		}
		if len(s.refused) > 0 && !time.Now().Before(s.retryAt) {
			refused := s.refused
			s.refused = nil
			s.settleEach(refused)
		}
		if stopping == nil && len(s.refused) == 0 {
			return
		}
		if len(s.refused) > 0 {
			again.Reset(time.Until(s.retryAt))
		}
		select {
		case <-b.settles.Kick:
		case <-again.C:
		case <-stopping:
			// One more round finds what was added before the list closed.
			stopping = nil
		case <-b.work.Done():
		}
	}
	err := context.Cause(b.work)
	for _, one := range append(s.refused, b.settles.Take(nil, within(math.MaxInt))...) {
		s.giveUp(one, err)
	}
}

// giveUp tells that a settlement will not be carried out any more, because the broker ends.
func (s *settler) giveUp(one *settlement, err error) {
	s.b.unsettled += len(one.decisions)
	one.done(err)
}

// settle carries a group out. When the store refuses it as a whole, its members are carried out one by one.
func (s *settler) settle(group []*settlement) {
	work := group[:0]
	for _, one := range group {
		if one.err != nil {
			one.done(one.err)
			continue
		}
		work = append(work, one)
	}
	if len(work) == 0 {
		return
	}
	err := s.commit(work)
	switch {
	case err == nil:
	case s.b.over(err) != nil:
		for _, one := range work {
			s.giveUp(one, err)
		}
	default:
		s.settleEach(work)
	}
}

func (s *settler) settleEach(group []*settlement) {
	for i, one := range group {
		err := s.commit(group[i : i+1])
		switch {
		case err == nil:
		case s.b.over(err) != nil:
			s.giveUp(one, err)
		default:
			s.b.log.Error("a batch cannot be settled; trying again", "queue", one.q.Name, "error", fault.Detail(err), "after", span.Text(queue.StoreRetryMax))
			s.refused = append(s.refused, one)
			s.retryAt = time.Now().Add(queue.StoreRetryMax)
		}
	}
}

// commit writes the decisions of a group in one transaction, again and again while the store does not answer, tells the
// lanes and calls done. When it fails, nothing is changed and nobody was told.
func (s *settler) commit(group []*settlement) error {
	b := s.b
	moves, err := s.findDeadLetterQueues(group)
	if err != nil {
		return err
	}
	if err := b.settleGate.Lock(b.work); err != nil {
		return err
	}
	defer b.settleGate.Unlock()
	if moves > 0 {
		if err := b.appendGate.Lock(b.work); err != nil {
			return err
		}
		defer b.appendGate.Unlock()
	}
	var wait pace.Backoff
	for {
		var err error
		if moves > 0 { // one of the targets may have ended before the gates were taken
			_, err = s.findDeadLetterQueues(group)
		}
		if err == nil {
			err = s.fill(group, moves)
		}
		if err == nil && len(s.change.Delete)+len(s.change.Retry)+len(s.change.Move) > 0 {
			err = b.store.Apply(b.work, &s.change)
		}
		switch {
		case err == nil:
			s.tell(group)
			return nil
		case b.over(err) != nil:
			return b.over(err)
		case !unavailable(err):
			return fmt.Errorf("settle: %w", err)
		}
		if err := wait.Wait(b.work); err != nil {
			return err
		}
	}
}

// findDeadLetterQueues resolves the targets of moves, but for those that are known and there, and counts the moves.
func (s *settler) findDeadLetterQueues(group []*settlement) (moves int, err error) {
	for _, one := range group {
		n := 0
		for i := range one.decisions {
			if one.decisions[i].Verdict == queue.DeadLetter {
				n++
			}
		}
		moves += n
		if n == 0 || one.dead != nil && one.dead.Gone() == nil {
			continue
		}
		if one.dead, err = s.b.book.Named(one.deadName); err == nil {
			continue
		}
		if err := s.declare(one.deadName); err != nil {
			return 0, err
		}
		if one.dead, err = s.b.book.Named(one.deadName); err != nil {
			return 0, err
		}
	}
	return moves, nil
}

func (s *settler) declare(name string) error {
	var wait pace.Backoff
	for {
		err := s.b.Declare(s.b.work, []string{name})
		if !unavailable(err) {
			return err
		}
		if err := wait.Wait(s.b.work); err != nil {
			return err
		}
	}
}

// fill makes the change of a group, as decided now. The gates are held, so no message expires until the group is told.
func (s *settler) fill(group []*settlement, moves int) error {
	now := time.Now()
	var seq int64
	if moves > 0 {
		var err error
		if seq, err = s.b.assign(s.b.work, now, moves); err != nil {
			return err
		}
	}
	c := &s.change
	c.Delete, c.Retry, c.Move = c.Delete[:0], c.Retry[:0], c.Move[:0]
	var count usage.Count
	for _, one := range group {
		floor := one.q.DueFloor()
		for i := range one.decisions {
			if one.lease.Expired(i) {
				continue
			}
			d := &one.decisions[i]
			key := store.Key{Queue: one.q.ID, Seq: d.Seq}
			switch d.Verdict {
			case queue.Retry:
				c.Retry = append(c.Retry, store.Retry{
					Key: key, Failures: int16(d.Failures), Losses: int16(d.Losses),
					VisibleAt: max(visibleAfter(now, d.Delay), floor), Cause: store.Cause{Outcome: d.Outcome, Reason: storable(d.Reason)},
				})
			case queue.DeadLetter:
				to := store.Key{Queue: one.dead.ID, Seq: seq}
				c.Move = append(c.Move, store.Move{From: key, To: to, Source: one.q.ID, Reason: storable(d.Reason)})
				seq++
				count.Written += queue.Operations(one.lease.Size(i))
			case queue.Ack, queue.Drop:
				c.Delete = append(c.Delete, key)
				count.Deleted += queue.Operations(one.lease.Size(i))
			}
		}
	}
	c.Usage = s.b.guard.Settling(count)
	return nil
}

// storable is what every store can keep of a reason.
func storable(reason string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(reason[:min(len(reason), queue.ReasonBytes)], "\x00", ""), "")
}

// tell brings the books up to what was committed and calls done.
func (s *settler) tell(group []*settlement) {
	s.b.guard.Settled(s.change.Usage)
	now := time.Now()
	retries, moves := s.change.Retry, s.change.Move
	for _, one := range group {
		s.moved = s.moved[:0]
		retries, moves = one.q.Settled(one.lease, one.decisions, retries, moves, &s.moved, now)
		if len(s.moved) > 0 {
			one.dead.Publish(s.moved, now)
			clear(s.moved)
		}
	}
	for _, one := range group {
		one.done(nil)
	}
}
