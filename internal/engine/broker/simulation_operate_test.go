package broker_test

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/runlot/runlot/internal/core/filter"
	"github.com/runlot/runlot/internal/core/queue"
	"github.com/runlot/runlot/internal/engine/broker/operate"
	"github.com/runlot/runlot/internal/engine/broker/undo"
)

// operate does what an operator may do until ctx ends.
func (s *simulation) operate(ctx context.Context) {
	for ctx.Err() == nil {
		<-time.After(s.duration(800 * time.Millisecond))
		queueName := simQueues[s.intN(3)]
		patience, cancel := context.WithCancel(ctx)
		if s.chance(5) {
			cancel()
			patience, cancel = context.WithTimeout(ctx, s.duration(300*time.Millisecond))
		}
		switch s.intN(9) {
		case 0:
			s.pause(patience, queueName)
		case 1, 2:
			s.resume(patience, queueName)
		case 3:
			s.purge(patience, queueName)
		case 4, 5:
			s.redrive(patience, queueName)
		case 6:
			s.change(patience, queueName, true)
		case 7:
			s.change(patience, queueName, false)
		case 8:
			s.remove(patience, queueName)
		}
		cancel()
	}
}

func (s *simulation) pause(ctx context.Context, queueName string) {
	b, _ := s.current()
	if b.Pause(ctx, queueName) == nil {
		s.model.Paused(queueName)
	}
}

func (s *simulation) resume(ctx context.Context, queueName string) bool {
	s.model.Resuming(queueName)
	b, _ := s.current()
	return b.Resume(ctx, queueName) == nil
}

func (s *simulation) resumeAll() {
	for _, name := range simQueues {
		for !s.resume(context.Background(), name) {
			<-time.After(10 * time.Millisecond)
		}
	}
}

func (s *simulation) purge(ctx context.Context, queueName string) {
	b, generation := s.current()
	made := false
	note := s.model.Purging(queueName)
	_, err := b.Purge(ctx, queueName, func(operate.Purged) {
		if !made {
			note()
		}
		made = true
	})
	if err != nil && !made {
		s.model.PurgeUnknown(queueName, generation)
	}
}

// remove ends a queue and makes another of its name, which sees nothing of the first.
func (s *simulation) remove(ctx context.Context, queueName string) {
	b, generation := s.current()
	if s.intN(3) == 0 {
		time.AfterFunc(s.duration(6*time.Second), s.db.Hold(queueName))
	}
	s.model.Resuming(queueName)
	note := s.model.Purging(queueName)
	_, err := b.RemoveQueue(ctx, queueName, note)
	if err != nil {
		s.model.PurgeUnknown(queueName, generation)
	}
	<-time.After(s.duration(300 * time.Millisecond))
	for {
		b, _ := s.current()
		if b.Declare(context.Background(), []string{queueName}) == nil {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
}

func (s *simulation) redrive(ctx context.Context, queueName string) {
	b, _ := s.current()
	to := simQueues[s.intN(3)]
	options := operate.RedriveOptions{To: to}
	targets := []string{to}
	if queueName == "dead" && s.intN(2) == 0 {
		options.To, targets = "", []string{"a", "b"}
	}
	if s.intN(3) == 0 {
		options.IDs, _ = s.some(ctx, queueName)
	}
	note := s.model.Redriving(queueName, targets, len(options.IDs) == 0)
	if s.intN(2) == 0 {
		s.bulk(ctx, queueName, operate.BulkOptions{Kind: operate.BulkRedrive, To: options.To, IDs: options.IDs, Filter: s.filter()})
	} else {
		_, _ = b.Redrive(ctx, queueName, options)
	}
	// Others operate and consume at the same time, so nothing is sure to have moved.
	s.model.Redriven(note, false)
}

// some returns messages of a queue with their names.
func (s *simulation) some(ctx context.Context, queueName string) (ids []queue.ID, names []string) {
	b, _ := s.current()
	states := []operate.State{operate.Any, operate.Visible, operate.Delayed, operate.InFlight}
	page, err := b.Peek(ctx, queueName, operate.PeekOptions{State: states[s.intN(4)], Rows: 1 + s.intN(5)})
	if err != nil {
		return nil, nil
	}
	for _, m := range page.Messages {
		ids = append(ids, m.ID)
		names = append(names, string(m.Body))
	}
	return ids, names
}

// change deletes some messages or makes them visible.
func (s *simulation) change(ctx context.Context, queueName string, remove bool) {
	ids, names := s.some(ctx, queueName)
	if len(ids) == 0 {
		return
	}
	b, generation := s.current()
	if !remove {
		done := s.model.Hurrying(names)
		if s.intN(2) == 0 {
			s.bulk(ctx, queueName, operate.BulkOptions{Kind: operate.BulkRetryNow, IDs: ids})
		} else {
			action := undo.NewAction()
			if _, err := b.RetryNow(ctx, queueName, ids, action); err == nil && s.intN(2) == 0 {
				_, _ = b.Undo(ctx, queueName, action, nil)
			}
		}
		done()
		return
	}
	if s.intN(2) == 0 {
		// Which of them it deleted is not said.
		s.bulk(ctx, queueName, operate.BulkOptions{Kind: operate.BulkDelete, IDs: ids})
		s.model.Deleted(names, generation, errors.New("perhaps"))
		return
	}
	action := undo.NewAction()
	c, err := b.Delete(ctx, queueName, ids, action)
	var gone []string
	for i, id := range ids {
		if err != nil || !slices.Contains(c.InFlight, id) && !slices.Contains(c.Missing, id) {
			gone = append(gone, names[i])
		}
	}
	if err == nil && len(gone) > 0 && s.intN(3) == 0 {
		// They are where they were, or nobody knows.
		if done, err := b.Undo(ctx, queueName, action, nil); err == nil && int(done.Done) == len(gone) {
			return
		}
		err = errors.New("perhaps")
	}
	s.model.Deleted(gone, generation, err)
}

// filter is one that the simulation's messages may match.
func (s *simulation) filter() filter.Filter {
	texts := []string{"", "state:delayed", "-state:delayed attempts<2", "m1", "age>2s", "source:a"}
	f, err := filter.Parse(texts[s.intN(len(texts))])
	check(s.t, err)
	return f
}

// bulk takes steps until the end or a fault, now and then from an older place again, as after a crash.
func (s *simulation) bulk(ctx context.Context, queueName string, o operate.BulkOptions) {
	b, _ := s.current()
	run, err := b.Bulk(ctx, queueName, o)
	for err == nil && !run.Over() {
		before := run.Place()
		_, err = run.Step(ctx, 1+s.intN(4))
		if err == nil && s.chance(5) {
			o.At = before
			run, err = b.Bulk(ctx, queueName, o)
		}
	}
}
