// Package claims knows which apps use which queues: a queue has one consumer, and while somebody uses it, it is not deleted.
package claims

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/runlot/runlot/internal/core/app"
	"github.com/runlot/runlot/internal/core/fault"
	"github.com/runlot/runlot/internal/core/queue"
)

// CodeQueueUsed is the code of the fault, of kind Conflict, for a queue that cannot be deleted because somebody uses it.
const CodeQueueUsed = "queue_used"

// App is who uses queues.
type App interface {
	comparable
	// Name is what it is called.
	Name() string
}

// place is where a queue is.
type place struct{ database, queue string }

// Claims are those of the apps of a node. Its methods may be called from several goroutines.
type Claims[A App] struct {
	mu      sync.Mutex
	holders map[place]A         // who consumes a queue; guarded by mu
	coming  map[A]*app.Manifest // what is being made live; guarded by mu
	ending  map[place]struct{}  // the queues that are being deleted; guarded by mu
}

// New returns claims of nobody.
func New[A App]() *Claims[A] {
	return &Claims[A]{holders: map[place]A{}, coming: map[A]*app.Manifest{}, ending: map[place]struct{}{}}
}

// Claimable refuses a manifest that consumes a queue which an app that is not the same consumes already. Fault: Conflict
// (consumer_exists).
func (c *Claims[A]) Claimable(m *app.Manifest, same func(A) bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.claimable(m, same)
}

func (c *Claims[A]) claimable(m *app.Manifest, same func(A) bool) error {
	for i := range m.Consumers {
		name := m.Consumers[i].Queue
		if other, held := c.holders[place{m.Database, name}]; held && !same(other) {
			return fault.New(fault.Conflict, "consumer_exists", "%s cannot consume the queue %s of database %s: %s consumes it already",
				m.Name, name, m.Database, other.Name()).
				WithHint("a queue has one consumer; remove it from one of the two apps")
		}
	}
	return nil
}

// Claim takes the queues of a manifest that an app is about to run, until Release: it becomes the consumer of those that the
// manifest consumes, and none of them is deleted. With an error nothing is claimed. Faults: those of Claimable; Unavailable
// while one of them is being deleted.
func (c *Claims[A]) Claim(a A, m *app.Manifest) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.claimable(m, func(holder A) bool { return holder == a }); err != nil {
		return err
	}
	for _, name := range m.Queues() {
		if _, ending := c.ending[place{m.Database, name}]; ending {
			return fault.New(fault.Unavailable, queue.CodeOverloaded, "the queue %s of database %s is being deleted", name, m.Database).WithHint("try again shortly")
		}
	}
	for i := range m.Consumers {
		c.holders[place{m.Database, m.Consumers[i].Queue}] = a
	}
	c.coming[a] = m
	return nil
}

// Release ends what Claim began, and gives up the queues that an app holds and that what it runs does not consume; nil is
// nothing.
func (c *Claims[A]) Release(a A, runs *app.Manifest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.coming, a)
	for p, holder := range c.holders {
		keeps := runs != nil && runs.Database == p.database && slices.ContainsFunc(runs.Consumers, func(one queue.Consumer) bool { return one.Queue == p.queue })
		if holder == a && !keeps {
			delete(c.holders, p)
		}
	}
}

// Remove takes a queue that is to be deleted: until done is called, nobody can claim it. Live are the manifests that run, as
// of the time that it is called. Fault: Conflict (CodeQueueUsed), naming who uses the queue and how.
func (c *Claims[A]) Remove(database, queueName string, live func() []*app.Manifest) (done func(), err error) {
	p := place{database, queueName}
	c.mu.Lock()
	_, ending := c.ending[p]
	coming := make([]*app.Manifest, 0, len(c.coming))
	for _, m := range c.coming {
		coming = append(coming, m)
	}
	if !ending {
		c.ending[p] = struct{}{}
	}
	c.mu.Unlock()
	if ending {
		return nil, fault.New(fault.Conflict, CodeQueueUsed, "the queue %s is being deleted already", queueName)
	}
	done = func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.ending, p)
	}
	// What was coming and is no more runs by now, if it does.
	if uses := Uses(append(coming, live()...), database, queueName); len(uses) > 0 {
		done()
		return nil, fault.New(fault.Conflict, CodeQueueUsed, "the queue %s cannot be deleted: %s", queueName, strings.Join(uses, "; ")).
			WithHint("deploy those apps without it, or delete them; `runlot queue purge %s` empties it", queueName)
	}
	return done, nil
}

// Uses says, for a person, which apps name a queue and how, each once.
func Uses(apps []*app.Manifest, database, queueName string) []string {
	var uses []string
	add := func(format string, args ...any) {
		if text := fmt.Sprintf(format, args...); !slices.Contains(uses, text) {
			uses = append(uses, text)
		}
	}
	for _, m := range apps {
		if !m.Names(database, queueName) {
			continue
		}
		for i := range m.Producers {
			if m.Producers[i].Queue == queueName {
				add("%s sends to it as env.%s", m.Name, m.Producers[i].Binding)
			}
		}
		for i := range m.Consumers {
			if m.Consumers[i].Queue == queueName {
				add("%s consumes it", m.Name)
			}
			if m.Consumers[i].DeadLetterQueue == queueName {
				add("%s leaves the dead letters of %s there", m.Name, m.Consumers[i].Queue)
			}
		}
	}
	return uses
}
