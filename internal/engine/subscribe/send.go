package subscribe

import (
	"context"
	"errors"
	"time"

	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

// run sends until ctx ends.
func (e *Engine) run(ctx context.Context) {
	failures := 0
	again := time.NewTimer(0)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.wake:
		case <-again.C:
		}
		look, err := e.pass(ctx)
		if ctx.Err() != nil {
			return
		}
		switch {
		case err != nil:
			if failures++; failures == 1 {
				e.o.Log.Warn("events of subscriptions wait", "error", fault.Detail(err))
			}
			again.Reset(queue.Backoff{First: queue.EventRetryFirst, Max: queue.EventRetryMax}.Delay(failures))
			continue
		case failures > 0:
			e.o.Log.Info("events of subscriptions are sent again")
		}
		failures = 0
		if look {
			again.Reset(queue.DeathLook)
		} else {
			again.Reset(queue.EventLook)
		}
	}
}

// pass sends all that waits, as far as the queues take it. look says that dead letters are noted somewhere, which nothing may
// say of them. What fails holds up nothing else.
func (e *Engine) pass(ctx context.Context) (look bool, err error) {
	all, err := e.List(ctx)
	if err != nil {
		return false, err
	}
	var problems []error
	for database := range e.databases(all) {
		look = look || len(sources(database, all)) > 0
		if err := e.gather(ctx, database); err != nil {
			problems = append(problems, err)
		}
	}
	if n, err := e.o.Store.ExpireEvents(ctx, time.Now().Add(-queue.EventAge)); err != nil {
		problems = append(problems, err)
	} else if n > 0 {
		e.o.Log.Warn("events of subscriptions were given up: their queues did not take them in time", "events", n)
	}
	for i := range all {
		if s := &all[i]; e.o.Queues.Gone(ctx, s.Target) || s.Source.Type == Letters && e.o.Queues.Gone(ctx, s.Source.Queue) {
			e.drop(ctx, s)
		} else if err := e.send(ctx, s); err != nil {
			problems = append(problems, err)
		}
	}
	return look, errors.Join(problems...)
}

// drop deletes a subscription that has lost a queue: one of the same name that comes later is another.
func (e *Engine) drop(ctx context.Context, s *Subscription) {
	err := e.o.Store.DeleteSubscription(ctx, s.ID)
	if err != nil && fault.KindOf(err) != fault.NotFound {
		e.o.Log.Warn("an event subscription without its queue was not deleted", "subscription", s.ID, "error", fault.Detail(err))
		return
	}
	e.o.Log.Info("an event subscription is deleted with its queue", "subscription", s.ID, "name", s.Name)
}

// databases are those whose queues are asked about, or were. The first time they are all those in use: a process before this
// one may have left one watching for nobody.
func (e *Engine) databases(all []Subscription) map[string]bool {
	found := map[string]bool{}
	for i := range all {
		if all[i].Source.Type == Letters {
			found[all[i].Source.Queue.Database] = true
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.looked {
		e.looked = true
		for _, name := range e.o.Queues.Databases() {
			found[name] = true
		}
	}
	for name, is := range e.watched {
		if is {
			found[name] = true
		}
	}
	return found
}

// gather makes events of the notes of a database, and has it note what is asked for now.
func (e *Engine) gather(ctx context.Context, database string) error {
	if err := e.follow(ctx, database); err != nil {
		return err
	}
	for {
		more, err := e.round(ctx, database)
		if err != nil || !more {
			return err
		}
	}
}

// follow has a database note what is asked for now.
func (e *Engine) follow(ctx context.Context, database string) error {
	ctx, cancel := context.WithTimeout(ctx, queue.SendTimeout)
	defer cancel()
	done, err := e.turn(ctx)
	if err != nil {
		return err
	}
	defer done()
	all, err := e.List(ctx) // as it is in this turn
	if err != nil {
		return err
	}
	return e.watch(ctx, database, all)
}

// round makes events of the oldest notes of a database.
func (e *Engine) round(ctx context.Context, database string) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, queue.SendTimeout)
	defer cancel()
	deaths, err := e.o.Deaths.Deaths(ctx, database, queue.EventLetters)
	if err != nil || len(deaths) == 0 {
		return false, err
	}
	// The subscriptions come after the notes: one that was there when a message died is among them.
	all, err := e.List(ctx)
	if err != nil {
		return false, err
	}
	events, err := e.events(database, deaths, all)
	if err != nil {
		return false, err
	}
	if len(events) > 0 {
		if err := e.o.Store.RaiseEvents(ctx, events); err != nil {
			return false, err
		}
	}
	// A crash before this raises them again.
	numbers := make([]int64, len(deaths))
	for i := range deaths {
		numbers[i] = deaths[i].Number
	}
	return true, e.o.Deaths.Forget(ctx, database, numbers)
}

// events are what subscriptions are told of dead letters: one event for those that went from one queue to one other.
func (e *Engine) events(database string, deaths []Death, all []Subscription) ([]Event, error) {
	type way struct{ from, to string }
	var ways []way
	groups := map[way][]Death{}
	for i := range deaths {
		w := way{deaths[i].Queue, deaths[i].Target}
		if groups[w] == nil {
			ways = append(ways, w)
		}
		groups[w] = append(groups[w], deaths[i])
	}
	var list []Event
	for _, w := range ways {
		group := groups[w]
		payload, err := e.payload(database, group)
		if err != nil {
			return nil, err
		}
		for i := range all {
			if s := &all[i]; s.Enabled && s.Source.Type == Letters && s.Source.Queue == (Place{database, w.from}) {
				list = append(list, Event{Subscription: s.ID, Kind: DeadLettered, At: group[len(group)-1].Died, Payload: payload})
			}
		}
	}
	return list, nil
}

// send sends what waits for a subscription.
func (e *Engine) send(ctx context.Context, s *Subscription) error {
	for {
		waiting, err := e.o.Store.WaitingEvents(ctx, s.ID, queue.EventGroup)
		if err != nil || len(waiting) == 0 {
			return err
		}
		drafts, seqs := make([]queue.Draft, len(waiting)), make([]int64, len(waiting))
		for i := range waiting {
			if drafts[i], err = e.draft(s, &waiting[i]); err != nil {
				return err
			}
			seqs[i] = waiting[i].Seq
		}
		if err := e.deliver(ctx, s.Target, drafts); err != nil {
			return err
		}
		// A crash before this sends them again.
		if err := e.o.Store.EventsSent(ctx, seqs); err != nil {
			return err
		}
	}
}

func (e *Engine) deliver(ctx context.Context, to Place, drafts []queue.Draft) error {
	ctx, cancel := context.WithTimeout(ctx, queue.SendTimeout)
	defer cancel()
	return e.o.Queues.Send(ctx, to, drafts)
}
