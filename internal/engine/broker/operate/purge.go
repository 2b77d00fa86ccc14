package operate

import (
	"context"
	"fmt"
	"time"

	"github.com/runlot/runlot/internal/engine/broker/backlog"
	"github.com/runlot/runlot/internal/engine/broker/store"
)

// Purged is what a purge has deleted so far: the messages of the queue, and among them those that SQL had enqueued and
// nobody had accepted yet.
type Purged struct {
	Messages int64
	Bytes    int64
	Inbox    int64
}

// Purge empties a queue: everything that it held when the purge began counts as gone at once and for every later owner,
// whether visible, delayed, retried, enqueued by SQL or in flight. What is in flight may finish; its settlement changes
// nothing, and it is not delivered again. What is sent after the first call of progress, or after the return, stays; a
// send at the same time as the beginning may fall on either side. Deliveries of other queues go on.
//
// A purge cannot be undone, nor what was done in the queue before it. Purge then deletes, step by step, and calls progress, which may be nil, before the first step and after each. From its
// first call on the purge is made, whatever error follows: when ctx or the broker ends, the deletion goes on without the
// caller, by the next owner if need be. With an error before, nothing was purged but a part of what SQL had enqueued;
// where that error is the end of the broker, it is not known. Calling it again is fine. What another call or the broker
// itself deletes is not counted.
func (o *Operator) Purge(ctx context.Context, queueName string, progress func(Purged)) (Purged, error) {
	var p Purged
	q, err := o.o.Book.Named(queueName)
	if err != nil {
		return p, err
	}
	if progress == nil {
		progress = func(Purged) {}
	}
	o.mu.Lock()
	o.purging[q.ID]++
	o.mu.Unlock()
	defer func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.purging[q.ID]--; o.purging[q.ID] > 0 {
			return
		}
		delete(o.purging, q.ID)
		if _, more := q.Purging(); more {
			select {
			case o.left <- struct{}{}:
			default: // one look is enough for all
			}
		}
	}()
	if err := o.beginPurge(ctx, q, &p); err != nil {
		return p, fmt.Errorf("purge queue %s: %w", q.Name, err)
	}
	progress(p)
	err = o.steps(ctx, func() (more bool, err error) {
		gone, more, err := o.purgeStep(ctx, q)
		if err == nil {
			p.Messages += gone.Messages
			p.Bytes += gone.Bytes
			progress(p)
		}
		return more, err
	})
	if err != nil {
		err = fmt.Errorf("purge queue %s: %w", q.Name, err)
	}
	return p, err
}

// beginPurge empties the inbox of what is for the queue and draws the line below which everything is gone. What SQL
// enqueues in bulk is deleted before settlements have to wait.
func (o *Operator) beginPurge(ctx context.Context, q *backlog.Queue, p *Purged) error {
	for done := false; !done; {
		unlock, err := o.o.Owner.LockAll(ctx)
		if err != nil {
			return err
		}
		done, err = o.clearInbox(q, p, inboxStep)
		unlock()
		if err != nil {
			return err
		}
	}
	unlock, err := o.o.Owner.LockAll(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := q.Gone(); err != nil {
		return err
	}
	if _, err := o.clearInbox(q, p, 0); err != nil {
		return err
	}
	// What was purged is not to come back.
	if err := o.undo.Forget(q); err != nil {
		return err
	}
	below := o.o.Owner.LastSeq() + 1
	if err := o.StorePurge(q, below); err != nil {
		return err
	}
	q.Purge(below, time.Now())
	o.o.Owner.Count(0, 1) // a purge is one operation, however much it deletes
	return nil
}

// inboxStep is the number of rows of the inbox after which a purge lets others have their turn.
const inboxStep = 10_000

// clearInbox deletes what is for the queue from the inbox, among at most about most rows; 0 is all. It reports whether it
// came to the end.
func (o *Operator) clearInbox(q *backlog.Queue, p *Purged, most int) (done bool, err error) {
	for after, looked := int64(0), 0; most == 0 || looked < most; looked += o.o.Rows {
		var c store.Cleared
		err := o.insist(func(ctx context.Context) (err error) {
			c, err = o.o.Store.ClearInbox(ctx, q.ID, after, o.o.Rows)
			return err
		})
		if err != nil {
			return false, err
		}
		p.Messages += c.Messages
		p.Bytes += c.Bytes
		p.Inbox += c.Messages
		if c.Done {
			return true, nil
		}
		after = c.Last
	}
	return false, nil
}

// purgeStep deletes the next messages of a queue that were purged, and reports whether there may be more.
func (o *Operator) purgeStep(ctx context.Context, q *backlog.Queue) (gone store.Count, more bool, err error) {
	unlock, err := o.o.Owner.LockSettles(ctx)
	if err != nil {
		return gone, false, err
	}
	defer unlock()
	p, ok := q.Purging()
	if !ok {
		return gone, false, nil
	}
	heads, err := o.o.Store.ListReady(ctx, q.ID, p.Ready, p.Below-1, o.o.Rows)
	if err != nil {
		return gone, false, err
	}
	if len(heads) > 0 {
		p.Ready = heads[len(heads)-1].Seq
	} else {
		if heads, err = o.o.Store.ListDue(ctx, q.ID, p.Due, backlog.EndOfTime, o.o.Rows); err != nil {
			return gone, false, err
		}
		if len(heads) > 0 {
			p.Due = heads[len(heads)-1].Due()
		}
	}
	if len(heads) == 0 {
		if err := o.StorePurge(q, 0); err != nil {
			return gone, false, err
		}
		q.PurgeDone()
		return gone, false, nil
	}
	var change store.Change
	for i := range heads {
		if h := &heads[i]; h.Seq < p.Below {
			change.Delete = append(change.Delete, store.Key{Queue: q.ID, Seq: h.Seq})
			gone.Messages++
			gone.Bytes += int64(h.Bytes)
		}
	}
	if err := o.commit(&change); err != nil {
		return store.Count{}, false, err
	}
	q.Purged(p, gone)
	return gone, true, nil
}
