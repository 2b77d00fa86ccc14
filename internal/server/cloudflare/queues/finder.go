package queues

import "github.com/runlot/runlot/internal/server/cloudflare/wire"

// Place is where the queue with an id is, for a token that opens it.
func (f *Finder) Place(c *wire.Call, id string) (database, name string, err error) {
	c.SetPathValue("queue", id)
	t, err := f.s.target(c)
	if err != nil {
		return "", "", err
	}
	return t.database, t.name, nil
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
func (f *Finder) ID(database, name string) string { return place{database, name}.id() }
