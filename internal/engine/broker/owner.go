package broker

import (
	"context"
	"time"
)

// owner is what an operator may do with the broker.
type owner struct{ b *Broker }

// LockSettles implements operate.Owner.
func (o owner) LockSettles(ctx context.Context) (unlock func(), err error) {
	if err := o.b.settleGate.Lock(ctx); err != nil {
		return nil, err
	}
	return o.running(o.b.settleGate.Unlock)
}

// LockAll implements operate.Owner.
func (o owner) LockAll(ctx context.Context) (unlock func(), err error) {
	if unlock, err = o.b.lockGates(ctx); err != nil {
		return nil, err
	}
	return o.running(unlock)
}

// running unlocks again when the broker does not run.
func (o owner) running(unlock func()) (func(), error) {
	if err := o.Refusal(); err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// Assign implements operate.Owner.
func (o owner) Assign(n int) (int64, error) { return o.b.assign(o.b.work, time.Now(), n) }

// LastSeq implements operate.Owner.
func (o owner) LastSeq() int64 { return o.b.lastSeq }

// Refusal implements operate.Owner.
func (o owner) Refusal() error { return o.b.settles.Refusal() }

// Work implements operate.Owner.
func (o owner) Work() context.Context { return o.b.work }

// Count implements operate.Owner.
func (o owner) Count(written, deleted int64) { o.b.guard.Operated(written, deleted) }

// Over implements operate.Owner.
func (o owner) Over(err error) error { return o.b.over(err) }
