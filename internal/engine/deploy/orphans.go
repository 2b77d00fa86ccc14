package deploy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

// Orphans are messages that lose their consumer: they stay, and are not delivered until an app consumes the queue again.
type Orphans struct {
	Queue string
	// Messages is how many wait; -1 when that is not known.
	Messages int64
	// Undeclared says that the queue had no consumer before either, and that no app names it any more.
	Undeclared bool
}

func consumes(m *app.Manifest, database, name string) bool {
	return m.Database == database && slices.ContainsFunc(m.Consumers, func(c queue.Consumer) bool { return c.Queue == name })
}

// feeds reports whether messages of an app come into a queue: what it sends, or its dead letters.
func feeds(m *app.Manifest, database, name string) bool {
	return m.Database == database && (slices.ContainsFunc(m.Producers, func(p app.Producer) bool { return p.Queue == name }) ||
		slices.ContainsFunc(m.Consumers, func(c queue.Consumer) bool { return c.DeadLetterQueue == name }))
}

func names(m *app.Manifest, database, name string) bool {
	return m.Database == database && slices.Contains(m.Queues(), name)
}

// others are the manifests of the other apps that run.
func (e *Engine) others(appName string) []*app.Manifest {
	return slices.DeleteFunc(slices.Clone(e.o.Runner.Running()), func(m *app.Manifest) bool { return m.Name == appName })
}

// countTime is how long the messages of orphans are counted, all together: a database that is away holds no deployment up.
const countTime = 5 * time.Second

// orphans are the queues of a live version that lose by it going: next is what comes in its place, nil for nothing.
func (e *Engine) orphans(ctx context.Context, live, next *app.Manifest) []Orphans {
	ctx, cancel := context.WithTimeout(ctx, countTime)
	defer cancel()
	if next == nil {
		next = &app.Manifest{}
	}
	left := append(e.others(live.Name), next)
	anybody := func(does func(m *app.Manifest, database, name string) bool, name string) bool {
		return slices.ContainsFunc(left, func(m *app.Manifest) bool { return does(m, live.Database, name) })
	}
	var list []Orphans
	for _, name := range live.Queues() {
		switch {
		case consumes(live, live.Database, name):
			if !anybody(consumes, name) {
				list = append(list, Orphans{Queue: name, Messages: e.o.Runner.Waiting(ctx, live.Database, name)})
			}
		case !anybody(names, name):
			if n := e.o.Runner.Waiting(ctx, live.Database, name); n != 0 {
				list = append(list, Orphans{Queue: name, Messages: n, Undeclared: true})
			}
		}
	}
	return list
}

// removed compares a version with the live one of its app.
func (e *Engine) removed(ctx context.Context, v *Version) ([]Orphans, error) {
	live, err := e.live(ctx, v.App)
	if err != nil || live == nil {
		return nil, err
	}
	return e.orphans(ctx, live.Manifest, v.Manifest), nil
}

// Delete stops an app and forgets it. Its messages stay in its database: those that nobody consumes then are returned. Unless
// it is forced, an app that others depend on is refused: one of two apps that alone send to, or consume, a queue of both.
// Faults: NotFound, Conflict (CodeAppNeeded).
func (e *Engine) Delete(ctx context.Context, appName, author string, force bool) ([]Orphans, error) {
	done, err := e.turn(ctx, appName)
	if err != nil {
		return nil, err
	}
	defer done()
	live, err := e.live(ctx, appName)
	if err != nil {
		return nil, err
	}
	if live != nil && !force {
		if err := e.needed(live.Manifest); err != nil {
			return nil, err
		}
	}
	if err := e.o.Store.DeleteApp(ctx, appName); err != nil {
		return nil, err
	}
	e.note(ctx, EventDeleted, appName, author, nil)
	if err := e.o.Runner.Remove(ctx, appName); err != nil || live == nil {
		return nil, err
	}
	return e.orphans(ctx, live.Manifest, nil), nil
}

// needed refuses the deletion of an app that others depend on.
func (e *Engine) needed(m *app.Manifest) error {
	others := e.others(m.Name)
	var reasons []string
	for _, name := range m.Queues() {
		consumed, fed := consumes(m, m.Database, name), feeds(m, m.Database, name)
		if slices.ContainsFunc(others, func(o *app.Manifest) bool { return feeds(o, m.Database, name) }) {
			fed = false // others feed it too
			for _, o := range others {
				if consumed && feeds(o, m.Database, name) {
					reasons = append(reasons, fmt.Sprintf("%s sends to the queue %s, which only %s consumes", o.Name, name, m.Name))
				}
			}
		}
		for _, o := range others {
			if fed && consumes(o, m.Database, name) {
				reasons = append(reasons, fmt.Sprintf("%s consumes the queue %s, to which only %s sends", o.Name, name, m.Name))
			}
		}
	}
	if reasons == nil {
		return nil
	}
	const most = 5
	if more := len(reasons) - most; more > 0 {
		reasons = append(reasons[:most], fmt.Sprintf("and %d more", more))
	}
	return fault.New(fault.Conflict, CodeAppNeeded, "other apps depend on %s: %s", m.Name, strings.Join(reasons, "; ")).
		WithHint("change or delete them first, or force it: `runlot delete %s --force`; messages stay in any case", m.Name)
}
