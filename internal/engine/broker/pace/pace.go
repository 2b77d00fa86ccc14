// Package pace is what the goroutines of a broker wait with: a kick that wakes one, a backoff between tries, and a gate.
package pace

import (
	"context"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

// Kick wakes those who wait on the channel, one a kick. It has a capacity of at least 1.
type Kick chan struct{}

// Poke wakes the one who waits, now or when it looks next. It never blocks.
func (k Kick) Poke() {
	select {
	case k <- struct{}{}:
	default:
	}
}

// Backoff is the wait between tries at a store that does not answer: queue.StoreRetryFirst at first, doubling up to
// queue.StoreRetryMax. The zero value is ready for use.
type Backoff struct{ next time.Duration }

// Wait pauses, longer each time. It fails with the cause of ctx when that ends first.
func (b *Backoff) Wait(ctx context.Context) error {
	timer := time.NewTimer(b.Step())
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Step returns how long to wait now, for a caller who waits in a way of its own.
func (b *Backoff) Step() time.Duration {
	d := max(b.next, queue.StoreRetryFirst)
	b.next = min(2*d, queue.StoreRetryMax)
	return d
}

// Gate is a lock that can be held over a call to the store: waiting for it ends with a context. It has a capacity of 1.
type Gate chan struct{}

// Lock takes the gate, or fails with the cause of ctx when that ends first.
func (g Gate) Lock(ctx context.Context) error {
	select {
	case g <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Unlock gives the gate to the next.
func (g Gate) Unlock() { <-g }

// Insist calls write until the store answers. over is why nothing more can be written after an error; nil while it can. The
// calls end with work.
func Insist(work context.Context, over func(error) error, write func(ctx context.Context) error) error {
	var wait Backoff
	for {
		err := write(work)
		switch {
		case err == nil:
			return nil
		case over(err) != nil:
			return over(err)
		case fault.KindOf(err) != fault.Unavailable:
			return err
		}
		if err := wait.Wait(work); err != nil {
			return err
		}
	}
}
