package queues

import (
	"github.com/runlot/runlot/internal/engine/access"
	"github.com/runlot/runlot/internal/server/cloudflare/wire"
)

// ID is the id of a queue in Cloudflare's calls.
func ID(database, name string) string { return place{database, name}.id() }

// Finder finds queues by their ids.
type Finder struct{ s *service }

// Find returns where the queue with an id is, if it exists and the token of the call opens it. Faults: NotFound
// (queue.CodeQueueNotFound), Invalid (access.CodeForbidden), Unavailable.
func (f *Finder) Find(c *wire.Call, id string) (database, name string, err error) {
	t, err := f.s.find(c, id)
	if err != nil {
		return "", "", err
	}
	return t.database, t.name, nil
}

// Opens reports whether a token opens a queue.
func (f *Finder) Opens(t *access.Token, database, name string) bool {
	return t.Opens(f.s.o.Queues.Manifests(), database, name)
}

// Shown is how a queue is called in answers.
func (f *Finder) Shown(c *wire.Call, database, name string) (string, error) {
	all, err := f.s.read(c.Context())
	if err != nil {
		return "", err
	}
	return all.shown(place{database, name}), nil
}

// ID is the id of a queue.
func (*Finder) ID(database, name string) string { return ID(database, name) }
