package r2

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/runlot/runlot/internal/adapter/s3"
	"github.com/runlot/runlot/internal/adapter/sqlite/r2"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	core "github.com/runlot/runlot/internal/core/r2"
)

// Send sends messages to a queue of a database, and returns when they are stored.
type Send func(ctx context.Context, database, queueName string, drafts []queue.Draft) error

// teller sends events to queues, from the outboxes of the buckets, in one goroutine that runs from the first event on.
type teller struct {
	buckets *r2.Buckets
	store   *s3.Buckets // nil where there is none
	send    Send
	log     *slog.Logger
	wake    chan struct{}
	begin   sync.Once
	alive   context.Context //nolint:containedctx // the life of the goroutine, which no call's context is
	stop    context.CancelFunc
	done    sync.WaitGroup
}

func newTeller(send Send, log *slog.Logger) *teller {
	t := &teller{send: send, log: log, wake: make(chan struct{}, 1)}
	t.alive, t.stop = context.WithCancel(context.Background())
	return t
}

// Wake makes it look at every outbox.
func (t *teller) Wake() {
	t.begin.Do(func() { t.done.Go(t.run) })
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// Close ends it, in the middle of what it does. What was not told is told after the next start.
func (t *teller) Close() {
	t.begin.Do(func() {}) // nothing begins any more
	t.stop()
	t.done.Wait()
}

func (t *teller) run() {
	failures := 0
	again := time.NewTimer(time.Hour)
	again.Stop()
	for {
		select {
		case <-t.wake:
		case <-again.C:
		case <-t.alive.Done():
			return
		}
		open, err := t.all()
		if err == nil || t.alive.Err() != nil {
			failures = 0
			if open {
				again.Reset(queue.S3DoubtLook)
			}
			continue
		}
		if failures++; failures == 1 {
			t.log.Warn("events of an R2 bucket wait: their queue does not take them, or the store does not answer", "error", fault.Detail(err))
		}
		again.Reset(queue.Backoff{First: queue.R2RetryFirst, Max: queue.R2RetryMax}.Delay(failures))
	}
}

// all empties every outbox as far as the queues take what is in them, and says whether the store has left something open. The
// error is the last one of those that do not.
func (t *teller) all() (open bool, err error) {
	names, err := t.buckets.Names()
	if err != nil {
		return false, err
	}
	for _, bucket := range names {
		if t.store != nil {
			left, failed := t.store.Resolve(t.alive, bucket)
			if open = open || left; failed != nil {
				err = failed
			}
		}
		destinations, failed := t.buckets.Destinations(t.alive, bucket)
		for _, to := range destinations {
			if one := t.one(bucket, to); one != nil {
				failed = one
			}
		}
		if failed != nil {
			err = failed
		}
	}
	return open, err
}

// one sends what waits for one queue. A crash between the two commits sends it again.
func (t *teller) one(bucket string, to core.Destination) error {
	for {
		waiting, err := t.buckets.Outbox(t.alive, bucket, to, queue.R2Events)
		if err != nil || len(waiting) == 0 {
			return err
		}
		drafts, seqs := make([]queue.Draft, len(waiting)), make([]int64, len(waiting))
		for i := range waiting {
			drafts[i], seqs[i] = queue.Draft{Format: queue.JSON, Body: waiting[i].Body}, waiting[i].Seq
		}
		if err := t.send(t.alive, to.Database, to.Queue, drafts); err != nil {
			return err
		}
		if err := t.buckets.Told(t.alive, bucket, seqs); err != nil {
			return err
		}
	}
}
