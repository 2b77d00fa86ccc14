package series

import (
	"context"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

// writeLoop writes minutes as they end, and prunes.
func (r *Recorder) writeLoop() {
	prune := time.NewTimer(queue.SeriesPruneEvery)
	defer prune.Stop()
	// Where nothing was pruned yet, what is there may be of long ago.
	stale := true
	for {
		select {
		case <-r.wake:
		case <-prune.C:
			stale = true
		case <-r.stopping:
			r.finish()
			return
		}
		if stale && r.prune() {
			stale = false
			prune.Reset(queue.SeriesPruneEvery)
		}
		r.flush()
	}
}

// finish takes a last point and writes what is left.
func (r *Recorder) finish() {
	now := time.Now()
	r.mu.Lock()
	r.take(now.Truncate(queue.SeriesStep), nil, false)
	r.close(now.Add(time.Hour))
	r.mu.Unlock()
	r.flush()
	r.mu.Lock()
	defer r.mu.Unlock()
	if left := len(r.pending) + r.missed; left > 0 {
		r.log.Warn("minutes of the series of the queues were not written before the stop", "rows", left)
	}
}

// flush writes what waits. What cannot be written waits for the next minute, or the next store.
func (r *Recorder) flush() {
	for {
		r.mu.Lock()
		n := min(len(r.pending), queue.SeriesRows)
		rows := r.pending[:n:n]
		r.pending = r.pending[n:]
		r.mu.Unlock()
		if n == 0 {
			return
		}
		err := r.use(func(ctx context.Context, s Store) error { return s.Write(ctx, rows) })
		if err == nil {
			r.tellMissed()
			continue
		}
		r.mu.Lock()
		if fault.KindOf(err) == fault.Unavailable {
			r.pending = append(rows, r.pending...)
			r.trim()
		} else {
			// What is wrong with more than the connection fails at the next try as well.
			r.missed += n
		}
		r.mu.Unlock()
		if r.work.Err() == nil {
			r.log.Debug("the series of the queues cannot be written", "rows", n, "error", fault.Detail(err))
		}
		return
	}
}

// tellMissed says how many rows were given up, once the store takes some again.
func (r *Recorder) tellMissed() {
	r.mu.Lock()
	missed := r.missed
	r.missed = 0
	r.mu.Unlock()
	if missed > 0 {
		r.log.Warn("minutes of the series of the queues were lost while their database was away", "rows", missed)
	}
}

var errNoStore = fault.New(fault.Unavailable, "series_unavailable", "the history of the queues is not there now").
	WithHint("its database does not answer")

// use calls the store for a write, within bounds.
func (r *Recorder) use(call func(ctx context.Context, s Store) error) error {
	r.busy.Lock()
	defer r.busy.Unlock()
	r.mu.Lock()
	s, life := r.store, r.life
	r.mu.Unlock()
	if s == nil {
		return errNoStore
	}
	ctx, cancel := context.WithTimeout(r.work, queue.RecordTime)
	defer cancel()
	detach := context.AfterFunc(life, cancel)
	defer detach()
	return call(ctx, s)
}

// prune gives the space of old days back, and reports whether the store was there to ask.
func (r *Recorder) prune() bool {
	var days int
	err := r.use(func(ctx context.Context, s Store) (err error) {
		days, err = s.Prune(ctx, time.Now())
		return err
	})
	if err == nil && days > 0 {
		r.log.Debug("old days of the series of the queues are gone", "days", days)
	}
	return err == nil
}
