package model_test

import (
	"context"
	"slices"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/operate"
)

// step carries one step out.
func (r *run) step(s *step) {
	name := r.names[s.queue]
	ctx, cancel := context.WithTimeout(context.Background(), r.w.patience)
	defer cancel()
	switch s.verb {
	case send:
		r.send(ctx, name, s.delays)
	case enqueue:
		r.enqueue(name, s.delays)
	case pause:
		r.check(r.node.b.Pause(ctx, name))
		r.model.Paused(name)
	case resume:
		r.resume(name)
	case purge:
		made := r.model.Purging(name)
		_, err := r.node.b.Purge(ctx, name, nil)
		r.check(err)
		made()
	case cutPurge:
		r.cutPurge(ctx, name, s.n)
	case redrive:
		r.redrive(ctx, s, nil)
	case choose:
		ids, _ := r.some(ctx, name, s.n)
		if len(ids) > 0 {
			r.redrive(ctx, s, ids)
		}
	case remove:
		r.remove(ctx, name, s.n)
	case hurry:
		ids, names := r.some(ctx, name, s.n)
		done := r.model.Hurrying(names)
		_, err := r.node.b.RetryNow(ctx, name, ids, "")
		r.check(err)
		done()
	case sever, kill:
		r.crash(s.verb == kill, s.n > 3)
	case restart:
		r.end(ctx, r.node)
		r.serve(r.begin())
	case reload:
		r.mu.Lock()
		r.version++
		r.mu.Unlock()
		for _, d := range r.node.dispatchers {
			d.SetRuntime(r, s.String())
		}
	case retain:
		r.model.Retention(name, r.w.retention)
		r.check(r.node.b.OverrideRetention(ctx, name, r.w.retention))
	case rest:
		<-time.After(10 * time.Duration(s.n) * r.w.unit)
	}
}

func (r *run) body() string {
	r.sent++
	return `"m` + time.Duration(r.sent).String() + `"`
}

func (r *run) send(ctx context.Context, name string, delays []int) {
	drafts := make([]queue.Draft, len(delays))
	bodies := make([]string, len(delays))
	for i, n := range delays {
		bodies[i] = r.body()
		drafts[i] = queue.Draft{Format: queue.JSON, Body: []byte(bodies[i])}
		if n >= 0 {
			drafts[i].Delay = new(time.Duration(n) * r.w.unit)
		}
		r.model.Sending(name, bodies[i], time.Duration(n)*r.w.unit)
	}
	_, err := r.node.b.Send(ctx, name, drafts)
	r.check(err)
	if err == nil {
		r.model.Accepted(bodies...)
	}
}

func (r *run) enqueue(name string, delays []int) {
	for _, n := range delays {
		body, delay := r.body(), time.Duration(max(n, 0))*r.w.unit
		r.model.Enqueuing(name, body, delay)
		err := r.w.enqueue(name, body, delay)
		r.check(err)
		if err == nil {
			r.model.Accepted(body)
		}
	}
}

func (r *run) resume(name string) {
	r.model.Resuming(name)
	r.check(r.node.b.Resume(context.Background(), name))
}

// cutPurge purges, and loses the owner after some steps of it.
func (r *run) cutPurge(ctx context.Context, name string, steps int) {
	made := r.model.Purging(name)
	reached, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		n := 0
		_, _ = r.node.b.Purge(ctx, name, func(operate.Purged) {
			if n++; n == 1 {
				made()
			}
			if n == steps {
				close(reached)
				<-r.node.b.Done()
			}
		})
	}()
	select {
	case <-reached:
		r.w.sever(false)
	case <-ended:
		r.w.sever(false)
	}
	<-ended
	<-r.node.b.Done()
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	r.end(gone, r.node)
	r.serve(r.begin())
}

func (r *run) redrive(ctx context.Context, s *step, ids []queue.ID) {
	from := r.names[s.queue]
	options := operate.RedriveOptions{IDs: ids}
	to := r.names[:2]
	if s.to < 3 {
		options.To, to = r.names[s.to], r.names[s.to:s.to+1]
	}
	note := r.model.Redriving(from, to, ids == nil)
	done, err := r.node.b.Redrive(ctx, from, options)
	whole := err == nil && ids == nil && s.queue == 2
	if least := r.model.Redriven(note, whole); done.Moved < int64(least) {
		r.Errorf("a redrive of %s moved %d messages, and at least %d were there", from, done.Moved, least)
	}
	if fault.KindOf(err) != fault.Conflict {
		r.check(err)
	}
}

// some returns messages of a queue with their names.
func (r *run) some(ctx context.Context, name string, n int) (ids []queue.ID, names []string) {
	states := []operate.State{operate.Any, operate.Visible, operate.Delayed, operate.InFlight}
	page, err := r.node.b.Peek(ctx, name, operate.PeekOptions{State: states[n%len(states)], Rows: n})
	r.check(err)
	for _, m := range page.Messages {
		ids = append(ids, m.ID)
		names = append(names, string(m.Body))
	}
	return ids, names
}

func (r *run) remove(ctx context.Context, name string, n int) {
	ids, names := r.some(ctx, name, n)
	if len(ids) == 0 {
		return
	}
	c, err := r.node.b.Delete(ctx, name, ids, "")
	r.check(err)
	var gone []string
	for i, id := range ids {
		if err != nil || !slices.Contains(c.InFlight, id) && !slices.Contains(c.Missing, id) {
			gone = append(gone, names[i])
		}
	}
	r.model.Deleted(gone, r.node.generation, err)
}
