package s3

import (
	"context"
	"errors"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/core/r2"
)

// change makes a change of an object, alone, and notes it before and after. prepare says what it will be; nil is none. do
// returns the event of a change that was made.
func (b *Buckets) change(ctx context.Context, bucket, key string, prepare func() (*r2.Intent, error), do func() (*r2.Event, error)) error {
	unlock, err := b.keys.lock(ctx, b.name(bucket, key))
	if err != nil {
		return err
	}
	defer unlock()
	if err := b.clear(ctx, bucket, key); err != nil {
		return err
	}
	intent, err := prepare()
	if err != nil || intent == nil {
		return err
	}
	list := []r2.Intent{*intent}
	if err := b.o.Journal.Intend(ctx, bucket, list); err != nil {
		return err
	}
	one := list[0]
	event, err := do()
	if one.ID == 0 {
		return err
	}
	if err != nil && !refused(err) {
		b.doubt(bucket, &one)
		return err
	}
	// What is done is done, also for a caller who has gone away.
	if settleErr := b.o.Journal.Settle(context.WithoutCancel(ctx), bucket, one.ID, event); settleErr != nil {
		b.o.Log.ErrorContext(ctx, "the event of an R2 bucket is told later: it cannot be written", "bucket", bucket, "key", key, "error", fault.Detail(settleErr))
		b.doubt(bucket, &one)
	}
	return err
}

// doubt keeps an intent of which it is not known what became of it.
func (b *Buckets) doubt(bucket string, one *r2.Intent) {
	b.mu.Lock()
	b.doubts[bucket][one.ID] = *one
	b.mu.Unlock()
	b.o.Doubtful()
}

// known returns the doubts about a bucket, of one key or of all. At the first call, those are what an earlier process left.
func (b *Buckets) known(ctx context.Context, bucket, key string) ([]r2.Intent, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.doubts[bucket] == nil {
		left, err := b.o.Journal.Intents(ctx, bucket)
		if err != nil {
			return nil, err
		}
		all := make(map[int64]r2.Intent, len(left))
		for _, one := range left {
			all[one.ID] = one
		}
		b.doubts[bucket] = all
	}
	var list []r2.Intent
	for _, one := range b.doubts[bucket] {
		if key == "" || one.Key == key {
			list = append(list, one)
		}
	}
	return list, nil
}

// clear settles the doubts about an object as far as that is possible, before it changes again. The caller holds its lock.
func (b *Buckets) clear(ctx context.Context, bucket, key string) error {
	list, err := b.known(ctx, bucket, key)
	for i := range list {
		_, one := b.find(ctx, bucket, &list[i])
		err = errors.Join(err, one)
	}
	return err
}

// Resolve finds out what became of changes that the store did not confirm, and reports whether some are still open.
func (b *Buckets) Resolve(ctx context.Context, bucket string) (open bool, err error) {
	list, err := b.known(ctx, bucket, "")
	for i := range list {
		unlock, lockErr := b.keys.lock(ctx, b.name(bucket, list[i].Key))
		if lockErr != nil {
			return true, errors.Join(err, lockErr)
		}
		done, one := b.find(ctx, bucket, &list[i])
		unlock()
		open = open || !done
		err = errors.Join(err, one)
	}
	return open, err
}

// find looks whether a change was made, settles its intent if that can be said, and reports whether it could.
func (b *Buckets) find(ctx context.Context, bucket string, one *r2.Intent) (done bool, err error) {
	info, mark, err := b.look(ctx, bucket, one.Key)
	if err != nil {
		return false, err
	}
	var event *r2.Event
	switch {
	case one.Action == r2.DeleteObject && (info == nil || info.Version != one.Mark):
		event = &r2.Event{Action: one.Action, Bucket: bucket, Key: one.Key, Time: one.At}
	case one.Action != r2.DeleteObject && info != nil && mark == one.Mark:
		event = eventOf(one.Action, bucket, info)
	case time.Since(one.At) < queue.S3DoubtTime:
		return false, nil // what was sent may still arrive
	}
	if err := b.o.Journal.Settle(ctx, bucket, one.ID, event); err != nil {
		return false, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.doubts[bucket], one.ID)
	return true, nil
}
