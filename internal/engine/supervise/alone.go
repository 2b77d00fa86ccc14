package supervise

import (
	"context"
	"time"

	"github.com/runlot/runlot/internal/core/queue"
)

// leaving are the processes, and the starts under way, that have not ended yet.
type leaving struct {
	gone []<-chan struct{}
	// cut ends the draining of them at once.
	cut func()
}

// wait returns when all of them have ended, or ctx has.
func (l leaving) wait(ctx context.Context) error {
	for _, gone := range l.gone {
		select {
		case <-gone:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (s *Supervisor[V, P]) alone(version V) bool {
	return s.options.Alone != nil && s.options.Alone(version)
}

// makeRoom ends what runs, lets it drain for at most queue.AloneDrainTime and returns when nothing of the app is left.
// Until release, or the next version that is taken over, the loop starts nothing.
func (s *Supervisor[V, P]) makeRoom(ctx context.Context) error {
	answer := make(chan leaving, 1)
	select {
	case s.holding <- answer:
	case <-s.ended:
		return ErrStopped
	}
	left := <-answer
	patience := time.AfterFunc(queue.AloneDrainTime, left.cut)
	defer patience.Stop()
	return left.wait(ctx)
}

// release makes the loop run again what it ran before makeRoom.
func (s *Supervisor[V, P]) release() {
	select {
	case s.releasing <- struct{}{}:
	case <-s.ended:
	}
}

// hold ends the process that serves and starts none until it is released.
func (l *loop[V, P]) hold() leaving {
	l.held = true
	l.forgetTry()
	if l.live {
		l.live = false
		l.options.OnDown(ErrReplaced)
		l.drainInBackground(l.process)
	}
	if l.has {
		l.become(State[V]{Phase: Starting, Version: l.version, Restarts: l.restarts, Reason: l.reason})
	}
	return l.leaving()
}

// unhold goes back to what was before, unless another version was taken over.
func (l *loop[V, P]) unhold() {
	if !l.held {
		return
	}
	l.held = false
	switch {
	case !l.has:
	case l.parked:
		l.rest()
	default:
		l.startAgain()
	}
}

// leaving lists what has not ended, of what was ended.
func (l *loop[V, P]) leaving() leaving {
	var left leaving
	cuts := make([]context.CancelFunc, 0, len(l.drains))
	for _, d := range l.drains {
		left.gone, cuts = append(left.gone, d.done), append(cuts, d.cut)
	}
	left.gone = append(left.gone, l.abandoned...)
	left.cut = func() {
		for _, cut := range cuts {
			cut()
		}
	}
	return left
}
