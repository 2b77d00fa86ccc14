package dispatch

import (
	"context"
	"time"

	"github.com/runlot/runlot/internal/core/queue"
)

// call is one batch on its way through a handler to its settlement.
type call struct {
	batch      *queue.Batch
	runtime    Runtime
	version    string
	generation uint64
	round      uint64
	// claim is the batch's part of the budget; nil when it is the queue's first.
	claim *claim
}

// take is the one goroutine that takes batches from the lane. It holds at most one batch that is not running yet.
func (d *Dispatcher) take(taking, working context.Context) {
	defer close(d.taken)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		next, interrupt := context.WithCancel(taking)
		size, wait := d.consumer.BatchSize, d.consumer.BatchTimeout
		admitted := d.admit(taking, timer, false, func() {
			d.interrupt = interrupt
			if d.waker != nil {
				size, wait = 1, 0
			}
		})
		if !admitted {
			interrupt()
			return
		}
		batch, err := d.lane.Next(next, size, wait)
		interrupted := next.Err() != nil
		interrupt()
		switch {
		case err == nil:
		case taking.Err() != nil:
			return
		case interrupted:
			continue
		default:
			d.log.Warn("delivery ends: the queue's lane closed", "error", err)
			return
		}
		c := &call{batch: batch}
		if !d.reserve(taking, c) || !d.admit(taking, timer, true, func() { d.launch(c) }) {
			d.giveBack(c)
			if taking.Err() != nil {
				return
			}
			d.wakeApp()
			continue
		}
		d.calls.Go(func() { d.run(taking, working, c) })
	}
}

// admit waits until the dispatcher may take or, with launch, start a batch, calls then under the lock, and returns true;
// false when taking ends first, or when a batch is there and the app rests. While nothing but the number of calls is in the
// way, it lets automatic concurrency grow.
func (d *Dispatcher) admit(taking context.Context, timer *time.Timer, launch bool, then func()) bool {
	var busySince time.Time
	for taking.Err() == nil {
		d.mu.Lock()
		if launch && d.waker != nil {
			d.mu.Unlock()
			return false
		}
		wait, busy := d.obstacle()
		if wait == 0 {
			then()
			d.mu.Unlock()
			return true
		}
		d.mu.Unlock()
		switch now := time.Now(); {
		case !busy:
			busySince = time.Time{}
		case busySince.IsZero():
			busySince = now
		case d.grow(now.Sub(busySince)):
			busySince = now
			continue
		}
		timer.Reset(wait)
		select {
		case <-d.wake:
		case <-timer.C:
		case <-taking.Done():
		}
	}
	return false
}

// obstacle returns 0 when a batch may be taken or started, else after how long to look again, and whether the number of
// calls is all that is in the way. Anything that changes the answer earlier wakes.
func (d *Dispatcher) obstacle() (wait time.Duration, busy bool) {
	if !d.pausedUntil.IsZero() {
		if left := time.Until(d.pausedUntil); left > 0 {
			return left, false
		}
		d.pausedUntil = time.Time{}
	}
	switch {
	case d.runtime == nil && d.waker == nil:
		return time.Hour, false
	case d.running < d.concurrency.limit && d.unsettled >= max(queue.UnsettledMin, queue.UnsettledPerCall*d.concurrency.limit):
		return time.Hour, false
	case d.running >= d.concurrency.limit:
		return queue.GrowEvery, true
	}
	return 0, false
}

func (d *Dispatcher) grow(busy time.Duration) bool {
	ready := d.lane.Ready()
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.running >= d.concurrency.limit && d.concurrency.waited(busy, ready, &d.consumer)
}

// reserve gets the batch's part of the budget, or the queue's right to one batch without; false when taking ends first.
func (d *Dispatcher) reserve(taking context.Context, c *call) bool {
	select {
	case d.first <- struct{}{}:
		return true
	default:
	}
	c.claim = d.budget.request(batchBytes(c.batch))
	select {
	case <-c.claim.granted:
		return true
	case d.first <- struct{}{}:
		c.claim.release()
		c.claim = nil
		return true
	case <-taking.Done():
		return false
	}
}

func (d *Dispatcher) unreserve(c *call) {
	if c.claim != nil {
		c.claim.release()
		return
	}
	<-d.first
}

// launch counts the call and gives it the runtime of this moment.
func (d *Dispatcher) launch(c *call) {
	d.running++
	d.most = max(d.most, d.running)
	d.unsettled++
	d.bind(c)
}

func (d *Dispatcher) bind(c *call) {
	c.runtime, c.version, c.generation, c.round = d.runtime, d.version, d.generation, d.round
}
